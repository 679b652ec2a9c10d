"""Made voices in a folder that anybody may have written to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_voices import NAME, SAYS, STORED, VOICE, keep, names

from models.base import ModelInfo
from tts_cli.audio.file import encode_codes
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.voices.voice_store import VoiceStore


@pytest.fixture
def infos(make_info: Callable[..., ModelInfo]) -> list[ModelInfo]:
    """Two checkpoints that clone."""
    return [
        make_info(identity=identity, num_codebooks=4, sample_rate_hz=8000, can_clone=True)
        for identity in "ab"
    ]


def test_one_is_kept_whole(tmp_path: Path, infos: list[ModelInfo]) -> None:
    made, (info, other) = VoiceStore(out=tmp_path), infos
    assert made.made(VOICE) is None
    assert made.find(VOICE, info) is None
    assert not (tmp_path / ".voices").exists()
    folder = keep(tmp_path, language="auto", words="\ud800 \u2603")
    assert len(names(tmp_path)) == 4
    found = made.require_made(VOICE)
    assert (found.path, found.text) == (folder / f"{NAME}.wav", SAYS)
    assert found.facts["words"] == "\ud800 \u2603"
    assert found.codes().shape == (5, 4)
    made.keep_for(info, VOICE, stored := replace(STORED, identity="a"))
    assert made.require(VOICE, info).digest == stored.digest, "that there was none is forgotten"
    assert made.find(VOICE, other) is None
    with pytest.raises(RowError, match="is missing"):
        made.require(VOICE, other)


def linked(path: Path) -> None:
    path.rename(path.parents[2] / "away")
    path.symlink_to("../../away")


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("suffix", [".json", ".wav", ".codes.safetensors"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(b"[]"),
        lambda path: path.write_bytes(b"1" * 10_000),
        lambda path: path.write_bytes(b" " * ((4 << 20) + 1)),
        linked,
        as_folder,
    ],
)
def test_files_that_are_not_what_was_written(
    tmp_path: Path, suffix: str, damage: Callable[[Path], object]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    path = keep(out) / f"{NAME}{suffix}"
    damage(path)
    with pytest.raises(RowError, match=NAME + suffix):
        VoiceStore(out=out).made(VOICE)


@pytest.mark.parametrize(
    "facts",
    [
        {"text": ""},
        {"text": 5},
        {"text": ["a"]},
        {"text": None},
        {"text": "a" * 1_000_000},
        {"files": None},
        {"files": []},
        {"files": {}},
        {"files": {".wav": None, ".codes.safetensors": None}},
    ],
)
def test_what_is_told_of_one(tmp_path: Path, facts: dict[str, Any]) -> None:
    path = keep(tmp_path) / f"{NAME}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))
    with pytest.raises(RowError, match=rf"{NAME}\.(json|wav): has changed since it was written"):
        VoiceStore(out=tmp_path).made(VOICE)


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros(9, np.int16),
        np.zeros((0, 4), np.int16),
        np.array(3, np.int16),
        np.zeros((9, 4), np.float32),
        np.zeros((9, 4), np.int64),
    ],
)
def test_codes_that_are_none(tmp_path: Path, codes: np.ndarray[Any, Any]) -> None:
    """Whoever wrote them wrote their sum too."""
    from safetensors.numpy import save

    VoiceStore(out=tmp_path).keep(VOICE, {"text": SAYS}, b"wav", save({"codes": codes}))
    with pytest.raises(RowError, match=r"codes[.]safetensors: has changed since it was written"):
        VoiceStore(out=tmp_path).require_made(VOICE).codes()
    VoiceStore(out=tmp_path).keep(VOICE, {"text": SAYS}, b"wav", save({"other": codes}))
    with pytest.raises(RowError, match=r"codes[.]safetensors"):
        VoiceStore(out=tmp_path).require_made(VOICE).codes()


def test_another_checkpoints_file_under_its_name(tmp_path: Path, infos: list[ModelInfo]) -> None:
    first, second = sorted(keep(tmp_path, models="ab").glob("*.voice.safetensors"))
    first.write_bytes(second.read_bytes())
    problems = []
    for info in infos:
        try:
            assert VoiceStore(out=tmp_path).require(VOICE, info).identity == info.identity
        except RowError as error:
            problems.append(str(error))
    assert len(problems) == 1
    assert f"{first} was made with another checkpoint" in problems[0]


def test_they_are_brought_once(tmp_path: Path, infos: list[ModelInfo]) -> None:
    """What is there stays; what a killed run left is replaced."""
    source, out = tmp_path / "source", tmp_path / "out"
    keep(source)
    both = VoiceStore(out=out, source=source)
    assert both.require_made(VOICE).text == SAYS
    assert both.find(VOICE, infos[0]) is not None
    (out / ".voices").mkdir(parents=True)
    (out / ".voices" / f"{NAME}.wav").write_bytes(b"of a run that was killed")
    both.bring([VOICE, ".voices/nobody-000000000000"])
    assert names(out) == names(source)
    keep(source, hz=330.0)
    before = names(out)
    both = VoiceStore(out=out, source=source)
    both.bring([VOICE])
    assert names(out) == before
    with pytest.raises(
        UsageError, match=rf"{source}.*a different voice than {out}.*made-voices out"
    ):
        both.made(VOICE)


def test_what_is_in_the_way(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".voices").symlink_to(elsewhere)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".voices").write_text("")
    (tmp_path / "c" / ".voices" / f"{NAME}.wav").mkdir(parents=True)
    for name in "abc":
        with pytest.raises(SetupError):
            VoiceStore(out=tmp_path / name).keep(
                VOICE, {"text": SAYS}, b"", encode_codes(STORED.codes)
            )
    assert not list(elsewhere.iterdir())
    assert [path.name for path in (tmp_path / "c" / ".voices").iterdir()] == [f"{NAME}.wav"]
