"""What an output folder promises, at its door."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_bench import StoreBench, result

from tts_cli.config import RunConfig
from tts_cli.core import Role, Status
from tts_cli.errors import DiskFull, FolderLocked
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import JOURNAL_NAME, AudioWriter
from tts_cli.store.lock import LOCK_NAME
from tts_cli.store.mark import MARK_NAME
from tts_cli.store.merge import Merger, Origins
from tts_cli.store.reencode import ReencodeJob
from tts_cli.store.run_file import REPORT_NAME
from tts_cli.store.sources import AudioSource, find_source
from tts_cli.store.store import LIST_NAME, Store


def listing(out: Path) -> dict[str, tuple[int, int]]:
    """Everything in a folder, with sizes and times."""
    found = {path: path.stat() for path in (out, *out.rglob("*"))}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


def broken(_: int) -> None:
    """An fsync of a disk that is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def spoken(bench: StoreBench) -> Path:
    """A folder that a run was killed in: its lock and mark, a staged file and a torn line."""
    bench.keep(1)
    bench.keep(2, take=2, role=Role.EXTRA)
    bench.mark()
    bench.stage("b.wav", b"never committed")
    (bench.out / LIST_NAME).unlink()
    with (bench.out / JOURNAL_NAME).open("ab") as journal:
        journal.write(b'{"id": "torn", "sta')
    (bench.out / LOCK_NAME).touch()  # flock tells that nobody holds it
    return bench.out


@pytest.mark.parametrize("mode", [0o755, 0o555])
def test_looking_writes_nothing(spoken: Path, mode: int) -> None:
    spoken.chmod(mode)
    try:
        before = listing(spoken)
        folder = Store.read_only(spoken)
        assert folder.journal.row("a").top == 2
        assert [take.id for take in folder.journal.takes()] == ["a"]
        assert folder.runs.totals(folder.journal.totals()).ok == 1
        assert not Store(spoken, RunConfig()).is_new  # nor does one that is not entered
        assert listing(spoken) == before
    finally:
        spoken.chmod(0o755)


def test_one_that_is_written_to_is_mended(spoken: Path) -> None:
    with Store(spoken, RunConfig()) as folder:
        assert (spoken / LOCK_NAME).exists()
        assert folder.journal.row("torn").status is None
        assert not list(spoken.glob(".*.part"))
        with pytest.raises(FolderLocked), Store(spoken, RunConfig()):
            raise AssertionError("it was held")
    assert not (spoken / LOCK_NAME).exists()
    assert not (spoken / MARK_NAME).exists()
    assert (spoken / LIST_NAME).exists()


def test_a_new_one_is_looked_at_until_it_begins(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with Store(out, RunConfig()) as folder:
        assert folder.is_new
        assert list(folder.journal.takes()) == []
        assert not out.parent.exists()
        folder.lock()
        assert os.listdir(out) == [LOCK_NAME]
        folder.open()
        folder.open()
        folder.journal.append(JournalEntry("a", Status.OK))
        assert folder.is_new
    assert sorted(os.listdir(out)) == [JOURNAL_NAME]
    assert Store.read_only(out).journal.row("a").status is Status.OK


def test_another_run_has_spoken_meanwhile(tmp_path: Path) -> None:
    with Store(tmp_path, RunConfig()) as folder:
        with Store(tmp_path, RunConfig()) as other:
            other.open()
        with pytest.raises(FolderLocked, match="in the meantime"):
            folder.open()
        assert not (tmp_path / LOCK_NAME).exists()


def test_the_lock_is_given_back_after_an_exception(spoken: Path) -> None:
    with pytest.raises(ZeroDivisionError), Store(spoken, RunConfig()):
        raise ZeroDivisionError
    assert not (spoken / LOCK_NAME).exists()
    assert (spoken / LIST_NAME).exists()


def test_one_that_cannot_be_mended_is_given_back(
    spoken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tts_cli.store.store.recover", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), Store(spoken, RunConfig()):
        raise AssertionError("it was opened")
    assert not (spoken / LOCK_NAME).exists()


def test_a_held_one_can_forget_its_lines(spoken: Path) -> None:
    with Store(spoken, RunConfig()) as folder:
        folder.unload()
        assert (spoken / LOCK_NAME).exists()
        folder.open()
        folder.journal.append(JournalEntry("b", Status.OK))
    assert Store.read_only(spoken).journal.row("b").status is Status.OK


def test_a_run_is_told_at_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line counts; a report that cannot be written costs a warning, not the run."""
    with Store(tmp_path, RunConfig()) as folder:
        folder.open()
        folder.start_run({"run_id": "r", "totals": None})
        folder.journal.append(JournalEntry("a", Status.OK, audio_s=2.0))
        whole = folder.end_run({"run_id": "r", "totals": {"wall_s": 1.5}})
        assert json.loads((tmp_path / REPORT_NAME).read_text()) == whole
        assert (whole["folder"]["ok"], whole["folder"]["wall_s"]) == (1, 1.5)
        assert [line["run_id"] for line in folder.runs.lines()] == ["r", "r"]
        folder.journal.append(JournalEntry("b", Status.FAILED))
        folder.update_totals()
        assert json.loads((tmp_path / REPORT_NAME).read_text())["folder"]["failed"] == 1
        before = (tmp_path / REPORT_NAME).read_bytes()
        monkeypatch.setattr("os.fsync", broken)
        assert folder.end_run({"run_id": "s", "totals": {"wall_s": 1.0}})["folder"]["failed"] == 1
        with pytest.raises(DiskFull):
            folder.start_run({"run_id": "t"})
    assert (tmp_path / REPORT_NAME).read_bytes() == before


def test_no_take_is_overwritten_and_no_number_used_twice(bench: StoreBench) -> None:
    """The same number given again, by a plan that knows no better, costs no audio."""
    kept = [bench.keep(value) for value in (1, 2, 3)]
    again = bench.keep(3)
    assert again.sha256 == kept[-1].sha256
    assert bench.audio() == {take.sha256 for take in kept}
    lines = Store.read_only(bench.out).journal.takes(has_extras=True)
    assert {take.sha256 for take in lines} == bench.audio()


def test_codes_are_decoded_by_the_caller(bench: StoreBench, tmp_path: Path) -> None:
    """Into another folder, too, that has no model to ask; this one stays as it is."""
    entry, there = bench.keep(1), tmp_path / "there"
    before = listing(bench.out)
    source = AudioSource("codes", bench.out / "a.codes.safetensors", 0, None)
    with Store(there, RunConfig()) as store:
        store.open()
        store.set_speech_format(bench.info.sample_rate_hz, "")
        jobs = [ReencodeJob(entry, source)]
        assert [row_id for row_id, _ in store.reencode(jobs).failed] == ["a"]
        made = store.reencode(jobs, lambda *_: np.zeros(1200, np.float32), bench.out)
        assert (made.count, made.failed) == (1, [])
    assert Store.read_only(there).journal.row("a").status is Status.OK
    assert listing(bench.out) == before


def test_a_source_that_has_changed_is_not_used(bench: StoreBench) -> None:
    entry = bench.keep(1)
    data = bytearray((bench.out / "a.wav").read_bytes())
    data[60] ^= 1
    (bench.out / "a.wav").write_bytes(data)
    source = find_source(bench.out, entry, bench.info.sample_rate_hz)
    with bench.opened(format="flac") as store:
        made = store.reencode([ReencodeJob(entry, source)])
    assert [(row_id, "has changed since the run" in why) for row_id, why in made.failed] == [
        ("a", True)
    ]
    assert not (bench.out / "a.flac").exists()


def test_a_file_that_a_user_edited_is_converted_as_it_is(bench: StoreBench) -> None:
    """It becomes a take, and the source of the new file."""
    bench.keep(1)
    mine = bench.edit("a.wav", 9)
    entry = bench.reencode(format="flac")
    assert (entry.take, entry.origin) == (2, "user")
    assert bench.files()["takes/a/2.source.wav"] == mine
    assert bench.samples_of("a.flac") == (9, 2000)


def test_a_group_of_rows_is_one_commit(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of it that cannot be written fails alone."""
    out, fsync = tmp_path / "out", os.fsync
    with Store(out, RunConfig(), make_info()) as folder:
        folder.open()
        folder.results.commit([result("first")])
        (out / "c.wav").mkdir()
        journal, synced = folder.journal._handle, []
        monkeypatch.setattr(os, "fsync", lambda handle: synced.append(handle) or fsync(handle))
        rows = [result(row_id, number) for number, row_id in enumerate("abcd")]
        entries = folder.results.commit(rows[:2] + rows[3:])
        assert synced.count(journal) == 1
        assert [entry.id for entry in entries] == ["a", "b", "d"]
        entries = folder.results.commit([result("e", 4), rows[2], result("f", 5)])
        assert [entry.is_ok for entry in entries] == [True, False, True]
        assert "c.wav" in str(entries[1].error)
    found = Store.read_only(out).journal
    assert [found.file(row_id).take for row_id in "abdef"] == [1] * 5
    assert found.row("c").has_failed
    assert {path.name for path in out.glob("*.wav")} == {
        *(f"{row_id}.wav" for row_id in ("first", *"abdef")),
        "c.wav",
    }
    assert not list(out.glob(".*part*"))


def test_encoding_counts_once(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`write_ms` had the time of encoding twice."""
    make = AudioWriter.make

    def slow(*args: Any, **named: Any) -> Any:
        time.sleep(0.5)
        return make(*args, **named)

    monkeypatch.setattr(AudioWriter, "make", slow)
    with Store(tmp_path / "out", RunConfig(), make_info()) as folder:
        folder.open()
        (entry,) = folder.results.commit([result("a")])
    assert 500 <= entry.write_ms < 900


def test_a_disk_that_is_full_within_a_group(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the group is committed, and no staged file stays."""
    with Store(tmp_path, RunConfig(), make_info()) as folder:
        folder.open()
        writer, calls = folder.writer, []
        stage = writer._stage

        def full(name: str, *args: Any) -> str:
            calls.append(name)
            if name.startswith("c"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return stage(name, *args)

        monkeypatch.setattr(writer, "_stage", full)
        with pytest.raises(DiskFull):
            folder.results.commit([result(row_id) for row_id in "abc"])
        assert len(calls) == 3
        assert not [path for path in tmp_path.iterdir() if "wav" in path.name]
        assert folder.journal.totals().ok == 0


def test_the_commit_of_a_new_row_asks_the_index_nothing(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question costs the writer threads a wait for each other."""
    rows = [result(f"r{number}") for number in range(3)]
    with Store(tmp_path / "out", RunConfig(), make_info()) as folder:
        folder.open()
        asked: list[str] = []
        index = folder.journal._index
        ask = index._of_key
        monkeypatch.setattr(index, "_of_key", lambda key: asked.append("") or ask(key))
        for task, spoken in rows:
            place = replace(task.place, is_new=True)
            folder.results.commit([(replace(task, place=place), spoken)])
        assert not asked
        folder.results.commit([result("r0", 2, take=2)])  # not new: its file becomes a take
        assert asked
        assert folder.journal.row("r0").numbers == [1, 2]
        assert (tmp_path / "out" / "takes" / "r0" / "1.wav").exists()


def test_a_merge_that_cannot_be_written_leaves_the_old_journal(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs = [tmp_path / "all", tmp_path / "part"]
    for out, row_id in zip(outs, "ab", strict=True):
        with Store(out, RunConfig(), make_info()) as folder:
            folder.open()
            folder.results.commit([result(row_id)])
    origins = Origins(outs)
    with Store(outs[0], RunConfig()) as folder:
        for index, out in enumerate(outs):
            origins.add(index, Store.read_only(out).journal)
        folder.unload()
        before = (outs[0] / JOURNAL_NAME).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", broken)
            with pytest.raises(DiskFull):
                folder.merge(Merger(origins, has_links=False), origins, [{}, {}], [None, None])
        assert (outs[0] / JOURNAL_NAME).read_bytes() == before
        sums = folder.merge(Merger(origins, has_links=False), origins, [{}, {}], [None, None])
    assert sums.ok == 2
    assert {take.id for take in Store.read_only(outs[0]).journal.takes()} == {"a", "b"}
