"""A second run does what is left and nothing else, whatever ended the first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
from workbench import THREE, UP_TO_A_SECOND, Workbench

from tts_cli.cli import messages as msg
from tts_cli.store.files import AudioWriter
from tts_cli.store.lock import LOCK_NAME

ROWS, FLAGS = THREE, UP_TO_A_SECOND
NOTHING = msg.nothing_to_do(3) + "\n"


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


class TestNothingToDo:
    def test_no_weights_are_read(self, done: Workbench, no_model: None) -> None:
        journal = (done.out().path / "timings.jsonl").read_bytes()
        report = done.out().report
        result = done.synth(ROWS, *FLAGS)
        assert (result.code, result.out, result.err) == (0, NOTHING, "")
        assert (done.out().path / "timings.jsonl").read_bytes() == journal
        assert done.out().report == report
        assert not (done.out().path / LOCK_NAME).exists()

    def test_nothing_has_failed(self, done: Workbench, no_model: None) -> None:
        result = done.synth(ROWS, *FLAGS, "--retry-failed").expect(0)
        assert result.out == msg.NOTHING_TO_DO.format(reason=msg.NONE_FAILED) + "\n"

    def test_bad_rows_alone_need_no_model(self, done: Workbench, no_model: None) -> None:
        """They were recorded again by every run, after loading the model for it."""
        rows = [*ROWS, {"id": "bad", "text": " "}]
        for _ in range(2):
            result = done.synth(rows, *FLAGS, "--skip-invalid").expect(1)
            assert result.out == f"{msg.nothing_to_do(3)}; {msg.INVALID_COUNT.format(count=1)}\n"
            assert [line["id"] for line in done.out().lines].count("bad") == 1
        bad = done.out().records["bad"]
        assert (bad["error"], bad["text"]) == ("text: is blank", " ")
        assert [run["run_id"] for run in done.out().runs][1:] == [bad["run_id"]]
        shown = done.synth(rows, *FLAGS, "--skip-invalid", "--json").json
        assert (shown["exit_code"], shown["run_id"]) == (1, None)
        assert (shown["totals"]["failed"], shown["totals"]["skipped"]) == (1, 3)
        assert (shown["folder"]["failed"], shown["folder"]["runs"]) == (1, 1)


class TestRedone:
    """Rows that are missing, changed or asked for are spoken again, and only those."""

    @pytest.mark.parametrize("damage", ["deleted", "emptied"])
    def test_a_lost_file(self, done: Workbench, damage: str) -> None:
        before = done.out().files
        path = done.out().path / "sub" / "b.wav"
        path.unlink() if damage == "deleted" else path.write_bytes(b"")
        assert done.synth(ROWS, *FLAGS).summary == msg.synthesized(1, 3, done=2)
        assert done.out().files == before
        assert [line["id"] for line in done.out().lines].count("sub/b") == 2

    @pytest.mark.parametrize(
        "change", [{"text": "Hello you."}, {"voice": "emil"}, {"max_frames": 399}]
    )
    def test_a_changed_row(self, done: Workbench, change: dict[str, Any]) -> None:
        before = done.out().files
        rows = [{**ROWS[0], **change}, *ROWS[1:]]
        result = done.synth(rows, *FLAGS)
        assert result.summary == msg.synthesized(1, 3, done=2)
        after = done.out().files
        # A longer or shorter cap alone leaves the audio as it was. What was replaced is a take.
        is_same = after.pop("a.wav") == before["a.wav"]
        assert is_same is ("max_frames" in change)
        if not is_same:
            assert after.pop("takes/a/1.wav") == before["a.wav"]
        del before["a.wav"]
        assert after == before
        assert done.synth(rows, *FLAGS).out == NOTHING

    def test_only_failed_rows(self, done: Workbench) -> None:
        cut = {"id": "cut", "text": "Hello.", "max_frames": 1}
        done.synth([*ROWS, cut], *FLAGS).expect(1)
        rows = [{"id": "new", "text": "Hi."}, {**ROWS[0], "text": "Changed."}, *ROWS[1:], cut]
        result = done.synth(rows, *FLAGS, "--retry-failed", "--accept-truncated").expect(0)
        assert result.summary == (
            msg.synthesized(1, 5) + ", " + msg.SKIPPED_NOT_FAILED.format(count=4)
        )
        assert done.out().status() == {"a": "ok", "sub/b": "ok", "c": "ok", "cut": "ok"}
        # Its audio has moved from truncated/ to where it belongs.
        assert list(done.out().files) == ["a.wav", "c.wav", "cut.wav", "sub/b.wav"]


class TestFilesOfRecordedRows:
    """A file that is cut, zeroed or edited by somebody after its row was recorded."""

    def test_cut_ones_are_spoken_again(self, done: Workbench) -> None:
        """A row was done for ever once a line said so, even if its WAV was half gone."""
        before = done.out().files
        names = [name for name in before if name.endswith(".wav")]
        path = done.out().path
        (path / names[0]).write_bytes(before[names[0]][:-100])
        (path / names[1]).write_bytes(b"\0" * 100)
        result = done.synth(ROWS, *FLAGS)
        assert result.summary == msg.synthesized(2, 3, done=1)
        assert msg.DAMAGED % "" in result.err
        # No entry explains what was there, so it might be a user's.
        assert "2 changed files are kept in takes/: " in result.err
        after = done.out().files
        for name, data in zip(names[:2], (before[names[0]][:-100], b"\0" * 100), strict=True):
            assert after.pop(f"takes/{name.removesuffix('.wav')}/2.wav") == data
        assert after == before
        assert done.synth(ROWS, *FLAGS).out == NOTHING

    def test_edited_ones_stay(self, done: Workbench) -> None:
        name = next(name for name in done.out().files if name.endswith(".wav"))
        samples, rate_hz = soundfile.read(done.out().path / name, dtype="int16")
        soundfile.write(done.out().path / name, samples[:-100], rate_hz)
        assert done.synth(ROWS, *FLAGS).out == NOTHING

    def test_zeroed_ones_are_found_by_reading(self, done: Workbench) -> None:
        before = done.out().files
        name = next(name for name in before if name.endswith(".wav"))
        changed = before[name][:60] + bytes(len(before[name]) - 60)
        (done.out().path / name).write_bytes(changed)
        assert done.synth(ROWS, *FLAGS).out == NOTHING
        done.synth(ROWS, *FLAGS, "--verify-files").expect(0)
        found = done.out().files
        assert {name: found[name] for name in before} == before
        # Whether the disk or somebody did that nobody can tell, so it is a take now.
        row_id = name.removesuffix(".wav")
        assert found[f"takes/{row_id}/2.wav"] == changed
        assert done.synth(ROWS, *FLAGS, "--verify-files").out == NOTHING
        assert done.synth(ROWS, *FLAGS, "--verify-files").out == NOTHING


def test_an_own_file_of_the_user_is_not_replaced(bench: Workbench) -> None:
    path = bench.out().path / "row.wav"
    path.parent.mkdir()
    path.write_bytes(b"my own recording")
    rows = [{"id": "row", "text": "Hm."}]
    bench.synth(rows, *FLAGS).expect(
        2, "row.wav: in the folder, but not in timings.jsonl, so not from an earlier run"
    )
    assert path.read_bytes() == b"my own recording"
    bench.synth(rows, *FLAGS, "--overwrite").expect(0)
    assert path.read_bytes().startswith(b"RIFF")


def test_a_folder_that_goes_away(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other row was spoken and failed when the disk was unmounted or the folder renamed."""
    rows = [{"id": f"row{number:02d}", "text": "Hm."} for number in range(24)]
    real = AudioWriter.make
    moved = bench.folder / "moved"

    def make(self: AudioWriter, row_id: str, *args: Any, **named: Any) -> Any:
        if row_id == "row02":
            bench.out().path.rename(moved)
        return real(self, row_id, *args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(AudioWriter, "make", make)
        result = bench.synth(rows, *FLAGS, "--max-batch", 2)
    assert result.code == 4
    assert "Error: the output folder no longer exists: " in result.err
    assert not bench.out().path.exists()
    moved.rename(bench.out().path)
    assert set(bench.out().status().values()) <= {"ok"}
    bench.synth(rows, *FLAGS).expect(0)
    assert len(bench.out().status()) == 24


def test_paths_that_are_too_long(bench: Workbench) -> None:
    name = "/".join(["x" * 190] * 5)
    deep = "/".join(["d" * 200] * 16)
    for out, row_id in ((deep, name), ("n" * 300, "row")):
        result = bench.synth([{"id": row_id, "text": "Hm."}], *FLAGS, out=out).expect(2)
        assert (
            "too long" in result.err or "its path in --out is longer than 4096 bytes" in result.err
        )


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_journal_that_is_no_plain_file(bench: Workbench, make: Callable[[Path], None]) -> None:
    """A pipe of that name was waited for, for ever; a link led anywhere."""
    bench.out().path.mkdir()
    make(bench.out().path / "timings.jsonl")
    bench.synth([{"text": "Hm."}], *FLAGS).expect(
        3, "timings.jsonl: is not a regular file; move it out of the folder"
    )
