"""Commits: the order of their steps, what becomes of content that loses its name, and undo."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from folder_calls import Failer, watch
from store_bench import CODES, StoreBench, digest, killed_at, result

from tts_cli.core import Role, Status
from tts_cli.errors import DiskFull, RowError, StoppedEarly, TtsCliError
from tts_cli.store.files import JOURNAL_NAME
from tts_cli.store.mark import MARK_NAME


class TestOrder:
    def test_an_entry_is_written_when_its_files_are_staged_and_before_they_have_their_names(
        self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.keep(1)
        seen: list[dict[str, bytes]] = []
        with bench.opened() as store:
            real = store.journal.append

            def append(*entries: Any, **named: Any) -> None:
                seen.append(bench.files())
                real(*entries, **named)

            monkeypatch.setattr(store.journal, "append", append)
            entry = store.results.commit([result("a", 2, take=2)])[0]
        before, after = seen[0], bench.files()
        assert {digest(data) for name, data in before.items() if name.endswith(".part")} == {
            entry.sha256,
            entry.codes_sha256,
        }
        assert digest(before["a.wav"]) != entry.sha256
        assert "takes/a/1.wav" not in before
        assert after["takes/a/1.wav"] == before["a.wav"]
        assert after["takes/a/1" + CODES] == before["a" + CODES]
        assert digest(after["a.wav"]) == entry.sha256
        assert digest(after["a" + CODES]) == entry.codes_sha256
        assert not [name for name in after if name.endswith(".part")]

    def test_system_calls(self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Staged files and their names are durable before the entry; the names come after it."""
        real = {name: getattr(os, name) for name in ("fsync", "write", "replace")}
        seen: list[str] = []

        def called(name: str, what: Any, *more: Any) -> Any:
            found = os.stat(what)
            is_journal = found.st_ino == (bench.out / JOURNAL_NAME).stat().st_ino
            kind = "folder" if stat.S_ISDIR(found.st_mode) else "journal" if is_journal else "audio"
            seen.append(f"{name} {kind}")
            return real[name](what, *more)

        with bench.opened(save_codes=False) as store:
            store.results.commit([result("x/first")])
            for name in real:
                monkeypatch.setattr(os, name, partial(called, name))
            store.results.commit([result("x/a")])
            monkeypatch.undo()
        assert seen == [
            *("write audio", "fsync audio", "fsync folder"),
            *("write journal", "fsync journal", "replace audio"),
        ]

    def test_the_mark_is_there_before_the_first_change_and_not_after_the_last(
        self, bench: StoreBench
    ) -> None:
        with bench.opened() as store:
            assert not (bench.out / MARK_NAME).exists()
            store.results.commit([result("a")])
            assert (bench.out / MARK_NAME).read_text() == '{"journal_bytes": 0}'
            store.results.commit([result("b")])
            assert (bench.out / MARK_NAME).read_text() == '{"journal_bytes": 0}'
        assert not (bench.out / MARK_NAME).exists()


class TestRotation:
    """Content that loses its name gets another one."""

    def test_a_source(self, bench: StoreBench) -> None:
        first = bench.keep(1)
        entry = bench.reencode(format="flac")
        assert bench.values() == {"a.flac": 1, "takes/a/1.source.wav": 1}
        assert entry.source == {
            "kind": "audio",
            "path": "takes/a/1.source.wav",
            "bytes": first.bytes,
            "sha256": first.sha256,
        }
        assert (entry.take, entry.codes_sha256) == (1, first.codes_sha256)
        assert digest(bench.files()["takes/a/1.source.wav"]) == first.sha256

    def test_a_rendition_of_a_pinned_take_is_kept(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.pin(1)
        flac = bench.reencode(format="flac")
        bench.reencode(format="opus")
        kept = f"takes/a/1.{str(flac.sha256)[:8]}.flac"
        assert set(bench.files()) == {"a.opus", "a" + CODES, "takes/a/1.source.wav", kept}
        assert digest(bench.files()[kept]) == flac.sha256

    def test_a_file_that_a_user_edited(
        self, bench: StoreBench, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.keep(1)
        edited = bench.edit("a.wav", 9)
        bench.keep(2, take=2)
        assert bench.value("a.wav") == 2
        assert bench.files()["takes/a/3.wav"] == edited
        assert (3, "ok", "extra", "user") in bench.facts()
        (entry,) = (one for one in bench.entries if one.origin == "user")
        assert (entry.sha256, entry.bytes) == (digest(edited), len(edited))
        assert (entry.path, entry.text) == ("takes/a/3.wav", "Text 1.")
        assert "1 changed file is kept in takes/: a" in caplog.text
        assert bench.pin(3)
        assert bench.files()["a.wav"] == edited

    def test_a_file_that_a_user_edited_leaves_room_for_the_takes_of_the_run(
        self, bench: StoreBench
    ) -> None:
        bench.keep(1)
        edited = bench.edit("a.wav", 9)
        with bench.opened(takes=2) as store:
            store.results.commit([result("a", 2, take=2)])
            assert bench.files()["takes/a/5.wav"] == edited
            for take in (3, 4):
                store.results.commit([result("a", take, take, Role.EXTRA)])
        values = {"a.wav": 2, "takes/a/3.wav": 3, "takes/a/4.wav": 4, "takes/a/5.wav": 9}
        assert bench.values() == values
        assert bench.files()["takes/a/5.wav"] == edited

    @pytest.mark.parametrize("content", [b"RIFF", b"x" * 5000])
    def test_a_file_that_is_no_audio_any_more(self, bench: StoreBench, content: bytes) -> None:
        bench.keep(1)
        (bench.out / "a.wav").write_bytes(content)
        bench.keep(2, take=2)
        assert bench.files()["takes/a/3.wav"] == content
        assert (3, "failed", "extra", "user") in bench.facts()
        assert [take.error for take in bench.entries if take.take == 3] == [
            "the file is not whole audio"
        ]

    def test_other_rows_stay(self, bench: StoreBench) -> None:
        for row_id in ("a", "a.b", "sub/a", "takes2"):
            bench.keep(1, row_id=row_id)
        before = bench.files()
        bench.keep(2, take=2)
        after = bench.files()
        assert {name for name in before if after[name] != before[name]} == {"a.wav", "a" + CODES}

    def test_without_links(self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        bench.keep(1)
        bench.keep(2, take=2)
        bench.pin(1)
        assert bench.values() == {"a.wav": 1, "takes/a/2.wav": 2}


class TestUndo:
    @pytest.mark.parametrize("step", ["write", "fsync"])
    def test_an_entry_that_cannot_be_written(
        self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        bench.keep(1)
        edited = bench.edit("a.wav", 9)
        before, lines = bench.files(), (bench.out / JOURNAL_NAME).read_bytes()
        real = getattr(os, step)
        with bench.opened() as store:
            journal = (bench.out / JOURNAL_NAME).stat().st_ino

            def fails(handle: int, *data: Any) -> Any:
                if os.fstat(handle).st_ino == journal:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(handle, *data)

            with monkeypatch.context() as patch:
                patch.setattr(os, step, fails)
                for row in (result("a", 2, take=2), result("b"), result("c", 1, 2, Role.EXTRA)):
                    with pytest.raises(DiskFull):
                        store.results.commit([row])
            assert bench.files().keys() - before.keys() == {MARK_NAME, ".tts-cli.lock"}
            assert (bench.out / JOURNAL_NAME).read_bytes() == lines
            with pytest.raises(DiskFull):  # no fsync is tried again by the same command
                store.results.commit([result("a", 2, take=2)])
            assert (bench.out / JOURNAL_NAME).read_bytes() == lines
        assert bench.files() == before
        bench.keep(2, take=2)
        assert (bench.value("a.wav"), bench.files()["takes/a/3.wav"]) == (2, edited)

    def test_a_row_that_cannot_be_written_is_recorded(self, bench: StoreBench) -> None:
        (bench.out / "a.wav").mkdir(parents=True)
        entry = bench.keep(1)
        assert (entry.status, entry.path) == (Status.FAILED, None)
        assert "is a folder" in str(entry.error)
        assert bench.facts() == [(1, "failed", "own", None)]
        assert bench.files() == {}

    def test_a_row_whose_earlier_codes_have_no_free_name_is_recorded(
        self, bench: StoreBench
    ) -> None:
        bench.keep(1)
        before = bench.files()
        (bench.out / "takes/a").mkdir(parents=True)
        (bench.out / f"takes/a/1{CODES}").write_bytes(b"of a user")
        entry = bench.keep(2, take=2)
        assert "is in the way" in str(entry.error)
        assert bench.facts()[1:] == [(2, "failed", "own", None)]
        assert bench.files() == {**before, f"takes/a/1{CODES}": b"of a user"}

    def test_names_that_cannot_be_given(
        self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The entry is committed, so the run stops, and the next command finishes it."""
        bench.keep(1)
        with bench.opened() as store, monkeypatch.context() as patch:

            def refuse(part: Any, path: Any) -> None:
                if str(path).endswith("a.wav"):
                    raise PermissionError(errno.EACCES, "Permission denied")
                os.rename(part, path)

            patch.setattr(os, "replace", refuse)
            with pytest.raises(StoppedEarly, match="is committed, but its files cannot get"):
                store.results.commit([result("a", 2, take=2)])
        assert (bench.out / MARK_NAME).exists()
        bench.recover()
        assert not (bench.out / MARK_NAME).exists()
        assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1}

    def test_links_are_not_followed(self, bench: StoreBench, tmp_path: Path) -> None:
        (tmp_path / "victim").write_bytes(b"precious")
        (tmp_path / "outside").mkdir()
        bench.keep(1)
        (bench.out / "b.wav").symlink_to(tmp_path / "victim")
        (bench.out / "takes").symlink_to(tmp_path / "outside")
        assert "is a link; remove it" in str(bench.keep(1, row_id="b").error)
        assert "a link that leads out" in str(bench.keep(2, take=2).error)
        assert bench.value("a.wav") == 1
        with pytest.raises(RowError), bench.opened() as store:
            store.pin("a", 2)
        assert list((tmp_path / "outside").iterdir()) == []
        assert (tmp_path / "victim").read_bytes() == b"precious"


def prepare(bench: StoreBench, name: str) -> None:
    """A row with three takes, of which the second is current, and a row that was removed."""
    bench.keep(1)
    bench.keep(2, take=2)
    bench.keep(3, take=3, role=Role.EXTRA)
    bench.keep(4, row_id="gone")
    bench.remove("gone")
    if name == EDITED:
        bench.edit("a.wav", 9)
        (bench.out / "a.codes.safetensors").unlink()


EDITED = "a take in place of an edited one"
ACTIONS: dict[str, Callable[[StoreBench], object]] = {
    "a new row": lambda bench: bench.keep(7, row_id="sub/b"),
    "a new take": lambda bench: bench.keep(5, take=4),
    EDITED: lambda bench: bench.keep(5, take=4),
    "an alternative": lambda bench: bench.keep(5, take=4, role=Role.EXTRA),
    "a failure": lambda bench: bench.fail(5, take=4),
    "another format": lambda bench: bench.reencode(format="flac"),
    "another subtype": lambda bench: bench.reencode(subtype="PCM_24"),
    "a pin": lambda bench: bench.pin(1),
    "a removal": lambda bench: bench.remove("a"),
    "a restored row": lambda bench: bench.restore("gone"),
}
ROWS = ("a", "sub/b", "gone")


@pytest.fixture
def goal(bench: StoreBench, make_info: Any, tmp_path: Path) -> Callable[[str], StoreBench]:
    """Makes the folder as an action leaves it that nothing disturbs."""

    def make(name: str) -> StoreBench:
        prepare(bench, name)
        other = StoreBench(tmp_path / "goal", make_info())
        shutil.copytree(bench.out, other.out)
        ACTIONS[name](other)
        return other

    return make


def require_before_or_after(
    bench: StoreBench, old: list[Any], goal: StoreBench, *, may_fail: bool = False
) -> None:
    """Check the rows of a folder.

    Args:
        old: the rows before.
        may_fail: a row that cannot be written may be recorded as failed; its file stays.
    """
    for row_id, before in zip(ROWS, old, strict=True):
        allowed = [before, goal.row(row_id)]
        if may_fail:
            take, is_held, _, *rest = before or (1, False, False, False, "no file")
            allowed.append((take, is_held, True, *rest))
        assert bench.row(row_id) in allowed, row_id


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
@pytest.mark.slow
def test_killed_at_every_change(
    bench: StoreBench, goal: Callable[[str], StoreBench], name: str, step: int, tmp_path: Path
) -> None:
    """The next command finds each row as it was or as it was to be, and no audio is lost; the same
    command again gives what it gives undisturbed.
    """
    wanted = goal(name)
    first, old = tmp_path / "first", [bench.row(row_id) for row_id in ROWS]
    bench.out.rename(first)
    moment, is_killed = 1 - step + list(ACTIONS).index(name) % step, True
    while is_killed:
        moment += step
        shutil.rmtree(bench.out, ignore_errors=True)
        shutil.copytree(first, bench.out)
        audio = bench.audio()
        is_killed = killed_at(moment, bench.out, lambda: ACTIONS[name](bench))
        bench.recover()
        require_before_or_after(bench, old, wanted)
        assert audio <= bench.audio(), moment
        assert not [one for one in bench.files() if one.startswith(".")], moment
        settled = bench.files()
        bench.recover()
        assert bench.files() == settled, moment
    assert moment > 5
    assert [bench.row(row_id) for row_id in ROWS] == [wanted.row(row_id) for row_id in ROWS]
    assert bench.files().keys() == wanted.files().keys()


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.slow
def test_every_call_that_fails(
    bench: StoreBench,
    goal: Callable[[str], StoreBench],
    name: str,
    code: int,
    step: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The n-th call of each kind fails, until there is no n-th."""
    step = 1 if name == "another format" else step
    wanted = goal(name)
    first, old = tmp_path / "first", [bench.row(row_id) for row_id in ROWS]
    bench.out.rename(first)
    for kind in ("open", "write", "fsync", "rename", "link", "unlink", "mkdir"):
        at, has_failed = 1 - step + code % min(step, 2), True
        while has_failed:
            at += step
            shutil.rmtree(bench.out, ignore_errors=True)
            shutil.copytree(first, bench.out)
            audio = bench.audio()
            failer = Failer(kind, at, code, is_sticky=False)
            with monkeypatch.context() as patch:
                watch(str(bench.out), failer, patch.setattr)
                with contextlib.suppress(TtsCliError, OSError, AssertionError):
                    ACTIONS[name](bench)
            has_failed = bool(failer.result()["failed"])
            bench.recover()
            require_before_or_after(bench, old, wanted, may_fail=code == errno.EACCES)
            assert audio <= bench.audio(), (kind, at)
            assert not [one for one in bench.files() if one.startswith(".")], (kind, at)
