"""What an output folder promises, at its door."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from tasks import task_of
from tts_cli.store.recode import Order
from tts_cli.store.takes import LIST_NAME, facts_of

from models.base import SpeechRequest
from tts_cli.audio.file import is_whole_audio
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Place, Role, Spoken, Status, Task
from tts_cli.errors import DiskFull, FolderLocked, UsageError
from tts_cli.store.files import JOURNAL_NAME
from tts_cli.store.lock import LOCK_NAME
from tts_cli.store.merge import Origins
from tts_cli.store.run_file import REPORT_NAME
from tts_cli.store.sources import Kept, find_kept
from tts_cli.store.store import Store
from tts_cli.store.take import Take


def listing(out: Path) -> dict[str, tuple[int, int]]:
    """Everything in a folder, with sizes and times."""
    found = {path: path.stat() for path in (out, *out.rglob("*"))}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


def broken(_: int) -> None:
    """An fsync of a disk that is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """A folder that a run was killed in: a lock, a part, a torn line, a take not put in place."""
    out = tmp_path / "out"
    with Store.at(out, RunConfig()) as folder:
        folder.begin()
        (out / "a.wav").write_bytes(b"first")
        (out / "takes/a").mkdir(parents=True)
        (out / "takes/a/1.wav").write_bytes(b"first")
        (out / "takes/a/2.wav").write_bytes(b"second")
        for take, role in ((1, Role.OWN), (2, Role.HELD)):
            path = f"takes/a/{take}.wav"
            line = Take("a", Status.OK, take=take, role=role, bytes=5 + take // 2, path=path)
            folder.journal.append(line)
    (out / LIST_NAME).unlink()
    with (out / JOURNAL_NAME).open("ab") as journal:
        journal.write(b'{"id": "torn", "sta')
    (out / LOCK_NAME).touch()  # flock tells that nobody holds it
    return out


@pytest.mark.parametrize("mode", [0o755, 0o555])
def test_looking_writes_nothing(spoken: Path, mode: int) -> None:
    spoken.chmod(mode)
    try:
        before = listing(spoken)
        folder = Store.look(spoken)
        assert folder.journal.top("a") == 2
        assert [take.id for take in folder.journal.takes()] == ["a"]
        assert folder.runs.totals(folder.journal.rows()).ok == 1
        assert not Store.at(spoken, RunConfig()).is_new  # nor does one that is not entered
        assert listing(spoken) == before
    finally:
        spoken.chmod(0o755)


def test_one_that_is_written_to_is_mended(spoken: Path) -> None:
    with Store.at(spoken, RunConfig()) as folder:
        assert (spoken / LOCK_NAME).exists()
        assert folder.journal.status("torn") is Status.FAILED
        assert (spoken / "a.wav").read_bytes() == b"second"
        with pytest.raises(FolderLocked), Store.at(spoken, RunConfig()):
            raise AssertionError("it was held")
    assert not (spoken / LOCK_NAME).exists()
    assert (spoken / LIST_NAME).exists()


def test_a_new_one_is_looked_at_until_it_begins(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with Store.at(out, RunConfig()) as folder:
        assert folder.is_new
        assert len(folder.journal) == 0
        assert not out.parent.exists()
        folder.hold()
        assert os.listdir(out) == [LOCK_NAME]
        folder.begin()
        folder.begin()
        folder.journal.append(Take("a", Status.OK))
        assert folder.is_new
    assert sorted(os.listdir(out)) == [JOURNAL_NAME]
    assert Store.look(out).journal.status("a") is Status.OK


def test_another_run_has_spoken_meanwhile(tmp_path: Path) -> None:
    with Store.at(tmp_path, RunConfig()) as folder:
        with Store.at(tmp_path, RunConfig()) as other:
            other.begin()
        with pytest.raises(FolderLocked, match="in the meantime"):
            folder.begin()
        assert not (tmp_path / LOCK_NAME).exists()


def test_the_lock_is_given_back_after_an_exception(spoken: Path) -> None:
    with pytest.raises(ZeroDivisionError), Store.at(spoken, RunConfig()):
        raise ZeroDivisionError
    assert not (spoken / LOCK_NAME).exists()
    assert (spoken / LIST_NAME).exists()


def test_one_that_cannot_be_mended_is_given_back(
    spoken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "_mend", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), Store.at(spoken, RunConfig()):
        raise AssertionError("it was opened")
    assert not (spoken / LOCK_NAME).exists()


def test_nothing_was_spoken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no timings\.jsonl"):
        Store.look(tmp_path)
    assert Store(None, RunConfig()).journal.status("a") is None


def test_a_held_one_can_forget_its_lines(spoken: Path) -> None:
    with Store.at(spoken, RunConfig()) as folder:
        folder.rest()
        assert (spoken / LOCK_NAME).exists()
        folder.begin()
        folder.journal.append(Take("b", Status.OK))
    assert Store.look(spoken).journal.status("b") is Status.OK


def test_a_run_is_told_at_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line counts; a report that cannot be written costs a warning, not the run."""
    with Store.at(tmp_path, RunConfig()) as folder:
        folder.begin()
        folder.note_run({"run_id": "r", "totals": None})
        folder.journal.append(Take("a", Status.OK, audio_s=2.0))
        whole = folder.end_run({"run_id": "r", "totals": {"wall_s": 1.5}})
        assert json.loads((tmp_path / REPORT_NAME).read_text()) == whole
        assert (whole["folder"]["ok"], whole["folder"]["wall_s"]) == (1, 1.5)
        assert [line["run_id"] for line in folder.runs.lines()] == ["r", "r"]
        folder.journal.append(Take("b", Status.FAILED))
        folder.renew_totals()
        assert json.loads((tmp_path / REPORT_NAME).read_text())["folder"]["failed"] == 1
        before = (tmp_path / REPORT_NAME).read_bytes()
        monkeypatch.setattr("os.fsync", broken)
        assert folder.end_run({"run_id": "s", "totals": {"wall_s": 1.0}})["folder"]["failed"] == 1
        with pytest.raises(DiskFull):
            folder.note_run({"run_id": "t"})
    assert (tmp_path / REPORT_NAME).read_bytes() == before


def said(row_id: str, place: Place | None = None, level: float = 0.1) -> tuple[Task, Spoken]:
    """A row that was spoken."""
    task = task_of(row_id, SpeechRequest("Hello."), request_hash=f"{row_id} {level}")
    task = replace(task, place=place or task.place)
    return task, Spoken(Finish.EOS, samples=np.full(2400, level, np.float32), frames=5)


def test_a_line_is_synced_when_its_files_are_whole_and_before_its_name(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, bool]] = []
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        real = folder.journal.append

        def append(*records: Any) -> None:
            take = tmp_path / "takes/a/1.wav"
            whole = take.exists() and is_whole_audio(take)
            seen.append((whole, (tmp_path / "a.wav").exists()))
            real(*records)

        monkeypatch.setattr(folder.journal, "append", append)
        kept = folder.keep(*said("a", Place(1, Role.OWN, True)))
    assert seen == [(True, False)]
    assert (kept.path, kept.is_ok) == ("takes/a/1.wav", True)
    assert facts_of(tmp_path / "a.wav") == (kept.bytes, kept.sha256)


def test_a_line_is_written_when_the_names_of_its_files_are_durable(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = {name: getattr(os, name) for name in ("fsync", "write", "replace")}, []

    def watch(name: str, what: Any, *more: Any) -> Any:
        found = os.stat(what)
        kind = "journal" if found.st_ino == (tmp_path / JOURNAL_NAME).stat().st_ino else "audio"
        seen.append(f"{name} {'folder' if stat.S_ISDIR(found.st_mode) else kind}")
        return real[name](what, *more)

    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        folder.keep(*said("x/first"))
        for name in real:
            monkeypatch.setattr(os, name, partial(watch, name))
        folder.keep(*said("x/a"))
        monkeypatch.undo()
    steps = ["write audio", "fsync audio", "replace audio"]
    assert seen == [*steps, "fsync folder", "write journal", "fsync journal"]


def test_many_threads_wait_for_few_syncs(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one waits for the disk, the lines of all others gather for the next."""
    real, syncs = os.fsync, []
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        journal = os.fstat(folder.journal._handle or 0).st_ino

        def slow(handle: int) -> None:
            if os.fstat(handle).st_ino == journal:
                syncs.append(handle)
                time.sleep(0.2)
            real(handle)

        monkeypatch.setattr("os.fsync", slow)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda number: folder.keep(*said(f"r{number}")), range(16)))
    assert len(syncs) < 12
    assert Store.look(tmp_path).journal.rows().ok == 16


def test_no_take_is_overwritten_and_no_number_used_twice(tmp_path: Path, make_info: Any) -> None:
    """The same number given again, by a plan that knows no better, costs no audio."""
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        kept = [folder.keep(*said("a", level=level)) for level in (0.1, 0.2, 0.3)]
        again = folder.keep(*said("a", level=0.3))
        lines = {take.take: take for take in folder.journal.takes(has_extras=True)}
    sums = {facts_of(path) for path in tmp_path.rglob("*.wav")}
    assert sums == {(take.bytes, take.sha256) for take in kept}
    assert again.sha256 == kept[-1].sha256
    assert {take.sha256 for take in lines.values()} == {take.sha256 for take in kept}


def test_another_take_is_chosen(tmp_path: Path, make_info: Any) -> None:
    """It is the row's file at once, and in every later run; the other one stays."""
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        kept = [
            folder.keep(*said("a", Place(1, Role.OWN, True))),
            folder.keep(*said("a", Place(2, Role.EXTRA, True), level=0.2)),
        ]
        assert folder.choose("a", 2)
        assert not folder.choose("a", 2)
    assert facts_of(tmp_path / "a.wav") == (kept[1].bytes, kept[1].sha256)
    assert facts_of(tmp_path / "takes/a/1.wav") == (kept[0].bytes, kept[0].sha256)
    file = Store.look(tmp_path).journal.file("a")
    assert file is not None
    assert (file.take, file.is_held) == (2, True)


def test_a_file_made_anew_spares_what_it_is_made_of(tmp_path: Path, make_info: Any) -> None:
    """It stays under another name, and what somebody edited becomes a take of its own."""
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        first = folder.keep(*said("a"))
    info = make_info()
    with Store.at(tmp_path, RunConfig(subtype="PCM_24"), info) as folder:
        order = Order(first, find_kept(tmp_path, first, info.sample_rate_hz))
        assert folder.remake([order]).count == 1
        last = folder.journal.take("a", 1)
    assert last is not None
    assert (last.request_hash, last.seed) == (first.request_hash, first.seed)
    assert facts_of(tmp_path / "a.wav") == (last.bytes, last.sha256)
    assert facts_of(tmp_path / "a.wav.original") == (first.bytes, first.sha256)
    samples, rate_hz = soundfile.read(tmp_path / "a.wav", dtype="float32")
    soundfile.write(tmp_path / "a.wav", samples * 0.5, rate_hz, "PCM_24")
    edited = facts_of(tmp_path / "a.wav")
    with Store.at(tmp_path, RunConfig(subtype="FLOAT"), info) as folder:
        order = Order(last, find_kept(tmp_path, last, rate_hz))
        assert folder.remake([order]).failed == []
    assert edited in {facts_of(path) for path in tmp_path.rglob("*.wav*")}


def test_codes_are_decoded_by_who_asks(tmp_path: Path, make_info: Any) -> None:
    """Into another folder too, that has no model to ask; this one stays as it is."""
    info, here, there = make_info(), tmp_path / "here", tmp_path / "there"
    with Store.at(here, RunConfig(), info) as folder:
        folder.begin()
        row = folder.keep(*said("a"))
    before = listing(here)
    kept = Kept("codes", here / "a.codes.safetensors", 0, None)
    with Store.at(there, RunConfig()) as folder:
        folder.begin()
        folder.speech_is(info.sample_rate_hz, "")
        assert [row_id for row_id, _ in folder.remake([Order(row, kept)]).failed] == ["a"]
        made = folder.remake([Order(row, kept)], lambda *_: np.zeros(1200, np.float32), here)
        assert (made.count, made.failed) == (1, [])
    assert Store.look(there).journal.status("a") is Status.OK
    assert listing(here) == before


def test_a_merge_that_cannot_be_written_leaves_the_old_journal(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs = [tmp_path / "all", tmp_path / "part"]
    for out, row_id in zip(outs, "ab", strict=True):
        with Store.at(out, RunConfig(), make_info()) as folder:
            folder.begin()
            folder.keep(*said(row_id))
    origins = Origins(outs)
    with Store.at(outs[0], RunConfig()) as folder:
        for index, out in enumerate(outs):
            origins.add(index, Store.look(out).journal)
        folder.rest()
        before = (outs[0] / JOURNAL_NAME).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", broken)
            with pytest.raises(DiskFull):
                folder.merge(origins, [{}, {}], [None, None])
        assert (outs[0] / JOURNAL_NAME).read_bytes() == before
        sums = folder.merge(origins, [{}, {}], [None, None])
    assert sums.ok == 2
    assert {take.id for take in Store.look(outs[0]).journal.takes()} == {"a", "b"}


def test_a_row_that_is_gone_comes_back(tmp_path: Path, make_info: Any) -> None:
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        kept = folder.keep(*said("a"))
        assert folder.mark(gone=["a"]) == []
        assert not (tmp_path / "a.wav").exists()
        assert (tmp_path / "removed/a.wav").exists()
        assert not folder.has_files("a")
        assert folder.can_come_back(kept)
        assert Store.look(tmp_path).journal.status("a") is None
        assert folder.mark(back=["a"]) == []
        assert folder.has_files("a")
        assert not folder.can_come_back(kept)
    assert facts_of(tmp_path / "a.wav") == (kept.bytes, kept.sha256)
    assert Store.look(tmp_path).journal.status("a") is Status.OK


def test_what_cannot_be_recorded_leaves_no_file(
    tmp_path: Path, make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.at(tmp_path, RunConfig(), make_info()) as folder:
        folder.begin()
        folder.keep(*said("a"))

        def full(*_: Any) -> None:
            raise DiskFull("the disk is full")

        monkeypatch.setattr(folder.journal, "append", full)
        for row in (said("b"), said("c", Place(2, Role.EXTRA, True))):
            with pytest.raises(DiskFull):
                folder.keep(*row)
    assert [path.name for path in tmp_path.rglob("*.wav")] == ["a.wav"]
    assert not (tmp_path / LOCK_NAME).exists()
