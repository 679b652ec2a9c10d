"""timings.jsonl: what survives crashes, and what a rerun may skip."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from store_bench import is_done

from tts_cli.core import Role, Status
from tts_cli.errors import DiskFull, SetupError
from tts_cli.named import counted
from tts_cli.sources.row import MAX_TEXT_CHARS
from tts_cli.store.entry import CopiedLine, JournalEntry
from tts_cli.store.journal import Journal

OK = JournalEntry(
    id="a",
    status=Status.OK,
    request_hash="h1",
    delivery_hash="wav",
    audio_s=1.0,
    rtf=0.1234567,
    latency_ms=1.23456,
)


def text_of(folder: Path) -> str:
    return (folder / "timings.jsonl").read_text()


def test_what_the_file_of_a_row_is(tmp_path: Path) -> None:
    """The last line that is ok and no extra take tells; a failure behind it leaves the file."""
    second = replace(OK, take=2, request_hash="h2", audio_s=2.0)
    steps: list[tuple[JournalEntry | CopiedLine, Any, tuple[int, int]]] = [
        (replace(OK, take=3, role=Role.EXTRA), None, (0, 0)),  # it came before the row's own
        (OK, (1, False, False), (1, 0)),
        (replace(second, status=Status.FAILED), (1, False, True), (0, 1)),
        (second, (2, False, False), (1, 0)),
        (CopiedLine(OK, asdict(OK)).changed(role=Role.HELD), (1, True, False), (1, 0)),
        (replace(OK, take=4, role=Role.EXTRA, status=Status.FAILED), (1, True, False), (1, 0)),
        (replace(OK, id="b"), (1, True, False), (2, 0)),
        (replace(second, role=Role.HELD), (2, True, False), (2, 0)),
        (replace(second, status=Status.FAILED), (2, False, True), (1, 1)),
    ]
    for record, file, sums in steps:
        with Journal(tmp_path) as journal:
            journal.append(record)
        for found in (journal, Journal(tmp_path, is_read_only=True)):
            now = found.file("a")
            assert (None if now is None else (now.take, now.is_held, now.has_failed)) == file
            assert (found.totals().ok, found.totals().failed) == sums
    assert [found.row(name).top for name in ("a", "b", "c")] == [4, 1, 0]
    assert [take.take for take in found.chosen()] == [2]
    take = found.take("a", 1)
    assert take is not None
    assert (take.role, take.id) == (Role.HELD, "a")
    assert found.take("a", 5) is None


@pytest.mark.parametrize("keep", range(1, len(OK.to_line()) - 1, 9))
def test_a_torn_last_line_is_cut_off(tmp_path: Path, keep: int) -> None:
    whole = replace(OK, id="first").to_line()
    (tmp_path / "timings.jsonl").write_text(whole + OK.to_line()[:keep])
    with Journal(tmp_path) as journal:
        assert is_done(journal, "first", "h1", "wav")
        assert journal.row("a").status is None, "it was never committed"
        assert text_of(tmp_path) == whole
        journal.append(OK)
    assert text_of(tmp_path) == whole + OK.to_line()


def test_a_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    (tmp_path / "timings.jsonl").write_text(OK.to_line().rstrip("\n"))
    with Journal(tmp_path) as journal:
        assert is_done(journal, "a", "h1", "wav")
        journal.append(replace(OK, id="b"))
    assert len(text_of(tmp_path).splitlines()) == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\0\n",
        b"\xff\xfe\n",
        b"not json\n",
        b"[]\n5\nnull\n",
        b"[" * 100_000 + b"\n",
        b'{"id": 5, "status": "ok", "request_hash": "h1"}\n',
        b'{"id": "a", "status": "fine", "request_hash": "h1"}\n',
        b'{"id": "a", "status": "ok"}\n',
        b'{"id": "a", "status": ["ok"], "request_hash": "h1"}\n',
        b'{"id": "a", "status": "ok", "request_hash": "h1", "delivery_hash": 5}\n',
        b'{"id": "a", "status": "ok", "request_hash": "h1", "schema": 2}\n',
        b'{"id": "a", "status": "ok", "request_hash": "h1", "schema": "2"}\n',
        b'{"id": "a", "status": "ok", "request_hash": "h1", "take": -1}\n',
        OK.to_line().encode()[:-2] + b"\n",
        replace(OK, request_hash="12").to_line().encode().replace(b'"a"', b'"a\\x"'),
        b"x" * (3 << 20) + b"\n",
    ],
)
def test_garbage_lines_are_counted_and_kept(
    tmp_path: Path, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "timings.jsonl"
    path.write_bytes(garbage + b"\n" + OK.to_line().encode())
    with Journal(tmp_path) as journal:
        assert is_done(journal, "a", "h1", "wav")
        assert journal.num_garbage == garbage.count(b"\n")
    lines = counted(garbage.count(b"\n"), "invalid line", "invalid lines")
    assert f": ignored {lines}\n" in caplog.text
    assert path.read_bytes().startswith(garbage)


def test_a_long_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "timings.jsonl"
    path.write_bytes(OK.to_line().encode() + b"x" * (3 << 20))
    with Journal(tmp_path) as journal:
        assert is_done(journal, "a", "h1", "wav")
    assert text_of(tmp_path) == OK.to_line()


@pytest.mark.parametrize("torn", [b'{"id": "a\\x", "sta', b'{"id": "a\xff", "sta', b'{"id": "'])
def test_a_torn_line_whose_id_makes_no_sense(tmp_path: Path, torn: bytes) -> None:
    """Reading such an id as JSON would end in a traceback."""
    (tmp_path / "timings.jsonl").write_bytes(OK.to_line().encode() + torn)
    with Journal(tmp_path) as journal:
        assert len(list(journal.takes(has_extras=True))) == 1
    assert text_of(tmp_path) == OK.to_line()


def test_looking_changes_nothing(tmp_path: Path) -> None:
    assert list(Journal(tmp_path, is_read_only=True).takes()) == []
    assert not list(tmp_path.iterdir())
    path = tmp_path / "timings.jsonl"
    path.write_text(OK.to_line() + '{"torn')
    assert is_done(Journal(tmp_path, is_read_only=True), "a", "h1", "wav")
    assert text_of(tmp_path) == OK.to_line() + '{"torn'


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real_write = os.write

    def fail(handle: int, *data: bytes) -> int:
        if data:  # half a line reaches the disk before it is full
            real_write(handle, bytes(data[0])[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(tmp_path) as journal:
        journal.append(OK)
        monkeypatch.setattr(os, step, fail)
        with pytest.raises(DiskFull, match=r"timings\.jsonl"):
            journal.append(replace(OK, id="b"))
        monkeypatch.undo()
        assert journal.row("b").status is None
        with pytest.raises(DiskFull, match=r"timings\.jsonl"):  # no fsync is tried again
            journal.append(replace(OK, id="c"))
        assert journal.row("c").status is None
    with Journal(tmp_path) as journal:
        journal.append(replace(OK, id="d"))
    assert [json.loads(line)["id"] for line in text_of(tmp_path).splitlines()] == ["a", "d"]


@pytest.mark.parametrize("is_full", [False, True])
def test_threads_that_wait_for_the_disk_share_its_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    real_fsync, waiting, syncs = os.fsync, threading.Barrier(2), []
    failed: list[str] = []

    with Journal(tmp_path) as journal:

        def fsync(handle: int) -> None:
            syncs.append(len(journal._pending))
            if len(syncs) == 1:
                waiting.wait(5)  # for the others to stand in line
                while len(journal._pending) < 6:
                    time.sleep(0.001)
            elif is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real_fsync(handle)

        def work(name: str) -> None:
            try:
                journal.append(replace(OK, id=name))
            except DiskFull:
                failed.append(name)

        monkeypatch.setattr(os, "fsync", fsync)
        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(6)]
        threads[0].start()
        waiting.wait(5)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        assert syncs == [1, 5]
        assert sorted(failed) == (["1", "2", "3", "4", "5"] if is_full else [])
        assert len(list(journal.takes(has_extras=True))) == (1 if is_full else 6)
        assert not journal._pending
    lines = text_of(tmp_path).splitlines()
    found = sorted(json.loads(line)["id"] for line in lines)
    assert found == (["0"] if is_full else list("012345"))


def test_a_line_that_makes_no_sense_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written, the other lines of its turn stayed in the queue and were written twice."""
    real_fsync, is_writing, has_queue = os.fsync, threading.Event(), threading.Event()
    failed: list[str] = []

    with Journal(tmp_path) as journal:

        def fsync(handle: int) -> None:
            is_writing.set()
            has_queue.wait(5)
            real_fsync(handle)

        def work(name: str) -> None:
            try:
                journal.append(replace(OK, id=name))
            except AssertionError:
                failed.append(name)

        monkeypatch.setattr(os, "fsync", fsync)
        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "../b", "c", "d")]
        threads[0].start()
        is_writing.wait(5)
        for thread in threads[1:]:
            before = len(journal._pending)
            thread.start()
            while thread.is_alive() and len(journal._pending) == before:
                time.sleep(0.001)
        has_queue.set()
        for thread in threads:
            thread.join()
        assert (failed, len(list(journal.takes()))) == (["../b"], 3)
    found = [json.loads(line)["id"] for line in text_of(tmp_path).splitlines()]
    assert found == ["a", "c", "d"]


def test_an_interrupted_append_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C amid the write of `pick`: the next line was glued to half of the first. The entry is
    not written later either, because its staged files are removed.
    """
    real_write = os.write

    def interrupt(handle: int, data: bytes) -> int:
        real_write(handle, bytes(data)[:20])
        raise KeyboardInterrupt

    with Journal(tmp_path) as journal:
        monkeypatch.setattr(os, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            journal.append(OK)
        monkeypatch.undo()
        assert text_of(tmp_path) == ""
        journal.append(replace(OK, id="b"))
    assert [json.loads(line)["id"] for line in text_of(tmp_path).splitlines()] == ["b"]


def test_a_journal_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "timings.jsonl").mkdir()
    with pytest.raises(SetupError, match="is not a regular file; move it out of the folder"):
        Journal(tmp_path)


def test_the_longest_row_fits_a_line(tmp_path: Path) -> None:
    """A line is read up to a bound; text and spoken text take twelve bytes a character at most."""
    text = "\U0001f600" * MAX_TEXT_CHARS
    record = replace(OK, text=text, spoken_text=text, instruct=text, error="x" * 10_000)
    with Journal(tmp_path) as journal:
        journal.append(record)
    found = Journal(tmp_path, is_read_only=True)
    assert (found.row("a").status, found.num_garbage) == ("ok", 0)


@pytest.mark.parametrize(
    "more", [b'"id": "../a"}', b'"status": "fine"}', b'"id": ["a"]}', b'"id"}', b"[}"]
)
def test_a_line_is_known_by_its_end_too(tmp_path: Path, more: bytes) -> None:
    """JSON has the last of two fields of one name, and `pick` wrote where that one led."""
    line = replace(OK, request_hash="12", delivery_hash="34").to_line().encode()
    (tmp_path / "timings.jsonl").write_bytes(line[:-2] + b", " + more + b"\n")
    journal = Journal(tmp_path, is_read_only=True)
    assert (journal.num_garbage, journal.row("a").status) == (1, None)
    assert (journal.take("a", 1), journal.line("a", 1), list(journal.takes())) == (None, None, [])
