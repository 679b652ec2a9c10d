"""`voices --out`: the made voices of a folder, whatever has become of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from made_voices import NAME, SAYS, VOICE, keep

from tts_cli.app.voices import generated_voices_in
from tts_cli.cli.voices import show_made_voices


def listed(out: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    show_made_voices(*generated_voices_in(out), is_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(out / ".voices")
    voices: list[dict[str, Any]] = found["made_voices"]
    return voices


def test_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, models="ab")
    keep(tmp_path, ".voices/voice-ba9876543210", of={"character": None, "description": None})
    first, second = listed(tmp_path, capsys)
    assert first == {
        "voice": VOICE,
        "name": NAME,
        "of": "Ann",
        "audio_s": 0.5,
        "says": SAYS,
        "wav": str(tmp_path / ".voices" / f"{NAME}.wav"),
        "checkpoints": ["fish_speech 4b dual_ar"],
        "problem": None,
    }
    assert second["of"] == "all rows without a voice"
    show_made_voices(*generated_voices_in(tmp_path), is_json=False)
    said = capsys.readouterr().out
    assert f"{tmp_path}/.voices/{NAME}.wav" in said
    assert SAYS in said


def test_damaged_ones_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = keep(tmp_path)
    (folder / f"{NAME}.wav").write_bytes(b"RIFF")
    (voice,) = listed(tmp_path, capsys)
    assert f"{NAME}.wav: has changed since it was written" in voice["problem"]
    assert (voice["of"], voice["checkpoints"]) == (None, ["fish_speech 4b dual_ar"])
    (folder / f"{NAME}.wav").unlink()
    assert f"{NAME}.wav: does not exist" in listed(tmp_path, capsys)[0]["problem"]
    (folder / f"{NAME}.json").unlink()
    assert f"{VOICE}.json does not exist" in listed(tmp_path, capsys)[0]["problem"]
    show_made_voices(*generated_voices_in(tmp_path), is_json=False)
    assert f"{VOICE}.json does not exist" in capsys.readouterr().out


@pytest.mark.parametrize(
    "facts",
    [
        {"of": None},
        {"of": ["x"], "audio_s": "long"},
        {"of": {"character": 7, "description": {}}, "audio_s": 10**400},
        {"of": {"character": "\x1b[2J\ud800"}, "audio_s": float("nan")},
    ],
    ids=["none", "kinds", "inner", "texts"],
)
def test_facts_of_a_stranger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], facts: dict[str, Any]
) -> None:
    keep(tmp_path, **facts)
    show_made_voices(*generated_voices_in(tmp_path), is_json=False)
    assert "\x1b" not in capsys.readouterr().out
    (voice,) = listed(tmp_path, capsys)
    assert voice["problem"] is None


def test_files_of_a_stranger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = keep(tmp_path)
    (folder / "ann-ba9876543210.json").write_text("[" * 100_000)
    (folder / "bob-ba9876543210.json").write_text('{"text": "x", "files": {".wav": []}}')
    os.mkfifo(folder / "eve-ba9876543210.json")
    (folder / "eve-ba9876543210.wav").mkdir()
    (folder / "\udcff-ba9876543210.json").write_text("{}")
    with open(folder / "big-ba9876543210.0123abcd.voice.safetensors", "wb") as file:
        file.truncate(1 << 33)
    found = {voice["name"]: voice["problem"] for voice in listed(tmp_path, capsys)}
    assert found.keys() == {NAME, "ann-ba9876543210", "bob-ba9876543210", "big-ba9876543210"}
    assert [name for name, problem in found.items() if problem is None] == [NAME]
    assert "bytes; the maximum is 4,194,304" in found["big-ba9876543210"]
