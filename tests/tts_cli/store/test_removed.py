"""`DIR/removed/`: rows go out of a folder and come back with all that is theirs, killed or not."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from spoken_folders import record, tone, with_file, write_folder
from tts_cli.store.removed import Removed

from tts_cli.app.encode import KeptSpeech
from tts_cli.errors import DiskFull
from tts_cli.export.selection import Filters, Selection
from tts_cli.listen.folder_rows import read_folder
from tts_cli.plan.checks import suspects_of
from tts_cli.store.journal import Journal
from tts_cli.store.take import Take

SOUNDS = {
    "a.wav": tone(0.1),
    "sub/b.wav": tone(0.2),
    "takes/sub/b/1.wav": tone(0.2),
    "takes/sub/b/2.wav": tone(0.3),
    "c.wav": tone(0.4),
    "c.codes.safetensors": b"codes of c",
    "c.wav.original": tone(0.5),
    "c.srt": b"1\n",
    "truncated/d.wav": tone(0.6),
    "c.txt": b"a user's own",
    "c/e.wav": tone(0.7),
}
GOING = ["a", "sub/b", "c", "d"]
OWN = {"c.txt", "c/e.wav"}  # of nobody, and of a row that stays


def line(row_id: str, path: str, **changes: Any) -> dict[str, Any]:
    return record(row_id, path=path, **with_file(SOUNDS[path]), **changes)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder of five rows, one of which has takes and one failed."""
    rows = [
        line("a", "a.wav"),
        line("sub/b", "takes/sub/b/1.wav"),
        line("c", "c.wav"),
        line("sub/b", "takes/sub/b/2.wav", take=2, role="extra"),
        line("d", "truncated/d.wav", status="failed", error="it reached its cap"),
        line("c/e", "c/e.wav"),
    ]
    folder = write_folder(tmp_path / "out", rows, audio=SOUNDS)
    (folder / "sub/b.wav").unlink()
    os.link(folder / "takes/sub/b/1.wav", folder / "sub/b.wav")
    return folder


def files(out: Path) -> dict[str, bytes]:
    """Every file that is no journal or report."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in ("timings.jsonl", "runs.jsonl", "run.json")
    }


def take_out(out: Path, *row_ids: str) -> list[tuple[str, str]]:
    with Journal(out) as journal:
        return Removed(out, journal).take_out(row_ids)


def bring_back(out: Path, *row_ids: str) -> None:
    with Journal(out) as journal:
        removed = Removed(out, journal)
        for row_id in row_ids:
            found = removed.file_of(row_id)
            assert found is not None
            assert removed.holds(found)
        removed.bring_back(row_ids)


def shown(out: Path) -> list[set[str]]:
    """The rows that each reader of a folder shows."""
    journal = Journal(out, is_read_only=True)
    selection = Selection(out, Filters(has_extra_takes=True))
    return [
        {row.id for row in read_folder(out).rows},
        {found.id for found in journal.takes(has_extras=True)},
        {found.id for found in KeptSpeech(out).records()},
        {row.id for row in selection.rows(Counter())} | {"d"},
        {found.id for found in journal.chosen()} | {"c/e"},
    ]


def test_all_that_is_a_rows_goes_and_comes_back(out: Path) -> None:
    before = files(out)
    assert take_out(out, *GOING) == []
    moved = {name if name in OWN else f"removed/{name}": data for name, data in before.items()}
    assert files(out) == moved
    assert not (out / "takes").exists(), "empty folders stay"
    with Journal(out) as journal:
        counted = journal.rows()
        assert (counted.ok, counted.failed) == (1, 0)
        assert [journal.status(row_id) for row_id in GOING] == [None] * 4
        assert journal.status("sub/b", 2) == "gone"
    bring_back(out, "sub/b", "a", "c")
    assert files(out) == {
        name.replace("truncated/d", "removed/truncated/d"): data for name, data in before.items()
    }
    with Journal(out) as journal:
        assert [journal.status(row_id) for row_id in ("a", "sub/b", "c")] == ["ok"] * 3
        found = journal.take("sub/b", 2)
        assert found is not None
        assert (found.status, found.role, found.path) == (
            *("ok", "extra"),
            "takes/sub/b/2.wav",
        )


def test_no_reader_shows_them(out: Path) -> None:
    take_out(out, *GOING)
    assert shown(out) == [{"c/e"}, {"c/e"}, {"c/e"}, {"c/e", "d"}, {"c/e"}]
    assert suspects_of(out) == set()
    assert read_folder(out).num_garbage == 0


def test_a_failed_row_does_not_come_back(out: Path) -> None:
    take_out(out, "d")
    with Journal(out) as journal:
        removed = Removed(out, journal)
        found = removed.file_of("d")
        assert found is not None
        assert not removed.holds(found)


def test_a_row_whose_place_is_taken_or_whose_audio_is_cut_does_not_come_back(out: Path) -> None:
    take_out(out, "a", "c")
    (out / "a.wav").write_bytes(b"a user's own")
    (out / "removed/c.wav").write_bytes(b"RIFF")
    with Journal(out) as journal:
        removed = Removed(out, journal)
        found = [removed.file_of(row_id) for row_id in ("a", "c")]
        assert [take and removed.holds(take) for take in found] == [False, False]


def test_nothing_there_is_overwritten(out: Path) -> None:
    """Neither by a row that leaves a second time, nor where somebody has put a file."""
    (out / "removed").mkdir()
    (out / "removed/c.srt").write_bytes(b"a user's own")
    take_out(out, "a", "c")
    first = files(out)
    assert first["removed/c~2.wav"] == SOUNDS["c.wav"]
    assert first["removed/c.srt"] == b"a user's own"
    other = tone(0.9)
    (out / "a.wav").write_bytes(other)
    with Journal(out) as journal:
        new = Take.of(record("a", take=2, path="a.wav", **with_file(other)))
        assert new is not None
        journal.append(new)
        assert (journal.status("a"), journal.top("a")) == ("ok", 2)
    take_out(out, "a")
    second = files(out)
    assert {name: second.get(name) for name in first} == first
    assert second["removed/a~2.wav"] == other
    bring_back(out, "a", "c")
    third = files(out)
    assert (third["a.wav"], third["removed/a.wav"]) == (other, SOUNDS["a.wav"])
    assert (third["c.wav"], third["removed/c.srt"]) == (SOUNDS["c.wav"], b"a user's own")


@pytest.mark.parametrize("row_id", ["#7", "#../mine:1", "removed/x"])
def test_ids_that_name_no_file(tmp_path: Path, row_id: str) -> None:
    (tmp_path / "mine.wav").write_bytes(b"mine")
    bad = record(row_id, status="failed", error="is bad", path="../mine.wav")
    folder = write_folder(tmp_path / "out", [bad], audio={})
    assert take_out(folder, row_id) == []
    assert (tmp_path / "mine.wav").read_bytes() == b"mine"
    assert files(folder) == {}
    with Journal(folder) as journal:
        assert journal.status(row_id) is None
        assert journal.num_garbage == 0


def test_links_are_not_followed(out: Path, tmp_path: Path) -> None:
    music = tmp_path / "music/a"
    music.mkdir(parents=True)
    (music / "1.wav").write_bytes(b"mine")
    os.rename(out / "takes", out / "kept")
    (out / "takes").symlink_to(tmp_path / "music")
    (out / "c.wav").unlink()
    (out / "c.wav").symlink_to(music / "1.wav")
    assert take_out(out, "a", "c") == []
    assert (music / "1.wav").read_bytes() == b"mine"
    assert (out / "c.wav").is_symlink()


def test_a_row_that_cannot_be_moved_stays_as_it_is(out: Path) -> None:
    (out / "removed").symlink_to(out.parent)
    before = files(out)
    stayed = take_out(out, "a", "sub/b")
    assert [row_id for row_id, _ in stayed] == ["a", "sub/b"]
    assert "is a link that leads out of the output folder" in stayed[0][1]
    assert files(out) == before
    with Journal(out) as journal:
        assert [journal.status(row_id) for row_id in ("a", "sub/b")] == ["ok", "ok"]
        file = journal.file("sub/b")
        assert file is not None
        assert (file.take, file.has_failed) == (1, False)


def test_a_full_disk_leaves_the_others(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = files(out)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DiskFull):
        take_out(out, "a")
    assert files(out) == before


class Died(BaseException):
    """kill -9: nothing catches it."""


CALLS = ("write", "rename", "unlink", "mkdir", "rmdir", "fsync")


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, moment: int) -> Iterator[list[int]]:
    """Die in front of a call that changes the folder, the `moment`th from 0; the list has how many
    there were.
    """
    calls = [0]

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if calls[0] >= moment:
                raise Died
            calls[0] += 1
            return real(*args, **named)

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, deadly(getattr(os, name)))
        yield calls


def sums(out: Path) -> set[str]:
    """Of all files, wherever they lie."""
    return {hashlib.sha256(data).hexdigest() for data in files(out).values()}


def require_sound(out: Path, before: dict[str, bytes]) -> set[str]:
    """Rows that are gone have no file in sight and all others have theirs; returns the first."""
    with Journal(out) as journal:
        Removed(out, journal).mend()
        gone = {row_id for row_id in GOING if journal.gone(row_id)}
    found = files(out)
    assert {hashlib.sha256(data).hexdigest() for data in before.values()} <= sums(out)
    for name, data in before.items():
        row_id = next((one for one in GOING if name not in OWN and f"/{one}" in f"/{name}"), None)
        at = f"removed/{name}" if row_id in gone else name
        assert found.get(at) == data, (name, gone)
        assert at == name or name not in found
    return gone


@pytest.mark.slow
def test_killed_at_any_call(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going out and coming back; then the same once more, and then the other way."""
    before = files(out)
    deaths = [0, 0]
    for is_back in (False, True):
        for moment in range(1000):
            copy = tmp_path / f"copy-{is_back}-{moment}"
            shutil.copytree(out, copy)
            (copy / "sub/b.wav").unlink()
            os.link(copy / "takes/sub/b/1.wav", copy / "sub/b.wav")
            if is_back:
                take_out(copy, *GOING)
            try:
                with dying(monkeypatch, moment):
                    if is_back:
                        bring_back(copy, "a", "sub/b", "c")
                    else:
                        take_out(copy, *GOING)
            except Died:
                deaths[is_back] += 1
            else:
                break
            gone = require_sound(copy, before)
            with Journal(copy) as journal:
                removed = Removed(copy, journal)
                again = [one for one in GOING if one not in gone]
                files_of = {one: removed.file_of(one) for one in sorted(gone)}
                back = [one for one, take in files_of.items() if take and removed.holds(take)]
                assert set(back) == gone - {"d"}
            if moment % 2:
                take_out(copy, *again)
                assert require_sound(copy, before) == set(GOING)
            else:
                bring_back(copy, *back)
                assert require_sound(copy, before) == gone & {"d"}
            shutil.rmtree(copy)
    assert min(deaths) > 15, deaths
