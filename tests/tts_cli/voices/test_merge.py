"""Made voices of several folders become those of one; the others are told, or stay."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from made_voices import NAME, VOICE, keep, names

from tts_cli.errors import SetupError, StoppedEarly, UsageError
from tts_cli.events import Count
from tts_cli.voices.voice_store import VoiceMerge, VoiceStore


def merge(*folders: Path, preferred: int = 0, is_target_preferred: bool = False) -> Count:
    """Merge into the first one. Returns what was left."""
    left = Count()
    voices = VoiceMerge(
        folders, lambda index: index <= preferred if index else is_target_preferred, left
    )
    voices.require_no_conflicts()
    voices.run()
    return left


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """A target and two sources, empty."""
    folders = [tmp_path / name for name in ("all", "one", "two")]
    for folder in folders:
        folder.mkdir()
    return folders


def test_another_voice_under_one_name_is_told(three: list[Path]) -> None:
    out, one, two = three
    keep(one)
    keep(two, hz=300.0)
    with pytest.raises(UsageError) as caught:
        merge(out, one, two)
    assert "1 generated voice is different in another folder; nothing was written" in str(
        caught.value
    )
    assert f"{one}/.voices/{NAME}.wav, {two}/.voices/{NAME}.wav" in str(caught.value)
    assert caught.value.remedy is not None
    assert "--voices-only" in caught.value.remedy
    assert "--made-voices DIR" in caught.value.remedy
    assert not list(out.iterdir())


def test_a_voice_comes_whole_from_who_is_preferred(
    three: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    out, one, two = three
    keep(one)
    keep(two, hz=300.0, models="b")
    merge(out, one, two, preferred=1)
    assert names(out) == names(one)
    assert "synthesizes the rows of the other one again" in caplog.text
    merge(out, one, two, preferred=1)  # as after a merge that was killed before the journal
    with pytest.raises(UsageError, match=r"--prefer .*all keeps the existing voice"):
        merge(out, two, preferred=1)
    merge(out, two, is_target_preferred=True)
    assert names(out) == names(one)


@pytest.mark.parametrize("moment", range(4))
def test_killed_and_run_again(
    three: list[Path], moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, one, _ = three
    keep(one)
    copy, count = VoiceStore.copy, iter(range(4))

    def killed(self: VoiceStore, path: Path) -> None:
        if next(count) == moment:
            raise KeyboardInterrupt
        copy(self, path)

    monkeypatch.setattr(VoiceStore, "copy", killed)
    with pytest.raises(KeyboardInterrupt):
        merge(out, one)
    monkeypatch.undo()
    assert VoiceStore(out=out).made(VOICE) is None  # what tells of the others is the last
    merge(out, one)
    assert names(out) == names(one)


def test_what_a_killed_run_has_left_is_no_voice(three: list[Path]) -> None:
    """It said something else before it died."""
    out, one, _ = three
    keep(one)
    (keep(out, hz=300.0, models="") / f"{NAME}.json").unlink()
    merge(out, one)
    assert names(out) == names(one)


def test_damaged_files_stay_where_they_are(
    three: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    out, one, two = three
    (keep(one, models="a") / f"{NAME}.wav").write_bytes(b"RIFF")
    for path in keep(two, ".voices/ann-ba9876543210", models="b").glob("*.voice.*"):
        path.write_bytes(b"x")
    merge(out, one, two)
    assert "damaged files of generated voices: " in caplog.text
    kinds = sorted(name.split(".", 1)[1] for name in names(out))
    assert len(kinds) == 4
    assert kinds[1:] == ["codes.safetensors", "json", "wav"]
    # One that is whole elsewhere comes from there, and mends the target's.
    keep(two)
    (out / ".voices" / f"{NAME}.json").write_text("{")
    merge(out, two)
    assert VoiceStore(out=out).made(VOICE) is not None


def test_strangers_folders(three: list[Path], tmp_path: Path) -> None:
    """Links, pipes, folders, huge files, names of all kinds, and what earlier versions kept."""
    out, one, two = three
    folder = keep(one)
    secret = tmp_path / "secret.wav"
    secret.write_bytes(b"secret")
    (folder / "ann-ba9876543210.wav").symlink_to(secret)
    (folder / "ann-ba9876543210.json").write_text('{"text": "x", "files": []}')
    os.mkfifo(folder / "bob-ba9876543210.json")
    (folder / "eve-ba9876543210.json").mkdir()
    (folder / "deep-ba9876543210.json").write_text("[" * 100_000)
    (folder / "\udcff-ba9876543210.json").write_text("{}")
    (folder / "timings.jsonl").write_text("{}\n")
    (folder / "old.flac").write_bytes(b"x")
    with open(folder / "big-ba9876543210.0123abcd.voice.safetensors", "wb") as file:
        file.truncate(1 << 33)
    (two / ".voices").symlink_to(folder)
    left = merge(out, one, two)
    assert len(names(out)) == 4
    assert all(name.startswith(NAME) for name in names(out))
    assert {".voices/old.flac", ".voices/timings.jsonl"} <= set(left.first)
    # Links in the target are no way out.
    shutil.rmtree(out / ".voices")
    (out / ".voices").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError, match="is not a folder"):
        merge(out, one)
    (out / ".voices").unlink()
    (out / ".voices" / f"{NAME}.wav").mkdir(parents=True)
    with pytest.raises(StoppedEarly, match="cannot copy"):
        merge(out, one)
    assert not (tmp_path / "elsewhere").exists()
