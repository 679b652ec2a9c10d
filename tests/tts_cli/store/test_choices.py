"""Takes that are pinned, and rows that are removed and come back."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from spoken_folders import record, tone, with_file, write_folder
from store_bench import CODES, StoreBench, digest

from tts_cli.config import RunConfig
from tts_cli.core import Role, Status
from tts_cli.errors import DiskFull, RowError
from tts_cli.store.store import LIST_NAME, Store, takes_bytes


@pytest.fixture
def taken(bench: StoreBench) -> StoreBench:
    """A row with three takes, of which the first is current."""
    bench.keep(1)
    for take in (2, 3):
        bench.keep(take, take, Role.EXTRA)
    return bench


def choices(bench: StoreBench) -> dict[str, Any]:
    """What takes.json says."""
    found = json.loads((bench.out / LIST_NAME).read_text())
    assert found["schema"] == 1
    return dict(found["choices"])


class TestPin:
    def test_another_take(self, taken: StoreBench) -> None:
        before = taken.audio()
        assert taken.pin(3)
        assert taken.values() == {"a.wav": 3, "takes/a/1.wav": 1, "takes/a/2.wav": 2}
        assert taken.row() == (3, True, False, False, 3)
        assert choices(taken)["a"] == {
            "take": 3,
            "seed": 0,
            "sha256": digest(taken.files()["a.wav"]),
            "held": True,
        }
        assert taken.audio() == before
        assert not taken.pin(3)
        assert len({(taken.out / name).stat().st_ino for name in taken.files()}) == 6

    @pytest.mark.parametrize("damage", [b"", b"cut", None])
    def test_a_take_whose_file_is_lost(self, taken: StoreBench, damage: bytes | None) -> None:
        path = taken.out / "takes/a/2.wav"
        path.unlink() if damage is None else path.write_bytes(damage)
        before = taken.files()
        with pytest.raises(RowError, match="the file of take 2 is missing or damaged"):
            taken.pin(2)
        assert taken.files() == before
        assert taken.row() == (1, False, False, False, 1)

    @pytest.mark.parametrize(("row_id", "take"), [("a", 7), ("b", 1), ("../a", 1), ("", 1)])
    def test_what_is_not_there(self, taken: StoreBench, row_id: str, take: int) -> None:
        before = taken.files()
        with pytest.raises(RowError):
            taken.pin(take, row_id)
        assert taken.files() == before

    def test_on_a_full_disk(self, taken: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
        before, row = taken.files(), taken.row()

        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with taken.opened() as store, monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(DiskFull):
                store.pin("a", 2)
        assert taken.files() == before
        assert taken.row() == row


class TestRemoved:
    def test_rows_leave_and_come_back(self, taken: StoreBench) -> None:
        taken.keep(4, row_id="sub/b")
        taken.keep(5, row_id="stays")
        for name in ("a.srt", "a.words.json", "sub/b.vtt"):
            (taken.out / name).write_text(name)
        before = taken.files()
        assert taken.remove("a", "sub/b") == []
        moved = {"a.wav": "takes/a/1.wav", "a" + CODES: "takes/a/1" + CODES}
        moved |= {f"a.{end}": f"takes/a/1.{end}" for end in ("srt", "words.json")}
        moved |= {f"sub/b{end}": f"takes/sub/b/1{end}" for end in (".wav", ".vtt", CODES)}
        assert taken.files() == {moved.get(name, name): data for name, data in before.items()}
        assert taken.row() == (1, False, False, True, 1)
        journal = Store.read_only(taken.out).journal
        assert [journal.row(row_id).status for row_id in ("a", "sub/b", "stays")] == [
            None,
            None,
            "ok",
        ]
        assert journal.totals().ok == 1
        assert {take.id for take in journal.removed_rows()} == {"a", "sub/b"}
        assert {take.id for take in journal.takes(has_extras=True)} == {"stays"}
        taken.restore("a", "sub/b")
        assert taken.files() == before
        assert taken.row() == (1, False, False, False, 1)
        second = Store.read_only(taken.out).journal.row("a").number(2)
        assert second is not None
        assert second.status is Status.OK

    def test_a_row_with_another_text_is_a_new_take(self, taken: StoreBench) -> None:
        taken.remove()
        with taken.opened() as store:
            number = store.journal.row("a").take_to_write()
        assert number == 4
        taken.keep(9, take=number)
        values = {"a.wav": 9, **{f"takes/a/{n}.wav": n for n in (1, 2, 3)}}
        assert taken.values() == values
        taken.remove()
        assert taken.values() == {"takes/a/4.wav": 9, **{f"takes/a/{n}.wav": n for n in (1, 2, 3)}}
        taken.restore()
        assert taken.values() == values

    def test_a_failed_row(self, bench: StoreBench) -> None:
        """It has no file that could come back; a take from before is kept."""
        bench.keep(1)
        bench.fail(2, take=2)
        bench.remove()
        assert bench.values()["takes/a/1.wav"] == 1
        assert not (bench.out / "a.wav").exists()
        journal = Store.read_only(bench.out).journal
        assert journal.row("a").status is None
        with bench.opened() as store:
            (found,) = journal.removed_rows()
            assert store.can_restore(found) is (found.take == 1)

    def test_subtitles_of_another_row_stay(self, bench: StoreBench) -> None:
        """`a.words.vtt` could be of row `a`, and is of row `a.words`."""
        for row_id in ("a", "a.words"):
            bench.keep(1, row_id=row_id)
        (bench.out / "a.words.vtt").write_text("subtitles")
        bench.remove("a")
        assert "a.words.vtt" in bench.files()
        bench.remove("a.words")
        assert bench.files()["takes/a.words/1.vtt"] == b"subtitles"
        bench.restore("a", "a.words")
        assert bench.files()["a.words.vtt"] == b"subtitles"

    def test_what_can_come_back(self, bench: StoreBench) -> None:
        for row_id in "abc":
            bench.keep(1, row_id=row_id)
        with bench.opened() as store:
            assert not [one.id for one in store.journal.takes() if store.can_restore(one)]
            store.remove("abc")
            assert not store.has_files("a")
            assert all(map(store.can_restore, store.journal.removed_rows()))
            (bench.out / "a.wav").write_bytes(b"a user's own")
            (bench.out / "takes/b/1.wav").write_bytes(b"RIFF")
            (bench.out / "takes/c/1.wav").unlink()
            assert not any(map(store.can_restore, store.journal.removed_rows()))
        assert bench.files()["a.wav"] == b"a user's own"

    @pytest.mark.parametrize("row_id", ["#7", "#../mine:1"])
    def test_ids_that_name_no_file(self, tmp_path: Path, row_id: str) -> None:
        (tmp_path / "mine.wav").write_bytes(b"mine")
        bad = record(row_id, status="failed", error="is bad", path="../mine.wav")
        out = write_folder(tmp_path / "out", [bad], audio={})
        with Store(out, RunConfig()) as store:
            assert store.remove([row_id]) == []
            assert store.journal.row(row_id).status is None
        assert (tmp_path / "mine.wav").read_bytes() == b"mine"

    def test_links_are_not_followed(self, bench: StoreBench, tmp_path: Path) -> None:
        for row_id in "abc":
            bench.keep(1, row_id=row_id)
        (tmp_path / "mine.wav").write_bytes(b"mine")
        (tmp_path / "outside").mkdir()
        (bench.out / "a.wav").unlink()
        (bench.out / "a.wav").symlink_to(tmp_path / "mine.wav")
        (bench.out / "b.wav").unlink()
        (bench.out / "b.wav").mkdir()
        stayed = bench.remove("a", "b", "c")
        assert [row_id for row_id, _ in stayed] == ["a", "b"]
        assert all("is not a regular file" in why for _, why in stayed)
        assert (bench.out / "a.wav").is_symlink()
        assert (tmp_path / "mine.wav").read_bytes() == b"mine"
        assert bench.value("takes/c/1.wav") == 1
        assert bench.row("c")[3]

    def test_a_row_that_cannot_be_moved_stays(self, bench: StoreBench, tmp_path: Path) -> None:
        bench.keep(1)
        (tmp_path / "outside").mkdir()
        (bench.out / "takes").symlink_to(tmp_path / "outside")
        before = bench.files()
        ((row_id, why),) = bench.remove()
        assert (row_id, "is a link that leads out of the output folder" in why) == ("a", True)
        assert list((tmp_path / "outside").iterdir()) == []
        assert bench.files() == before
        assert bench.row() == (1, False, False, False, 1)

    def test_many_rows_share_a_sync(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = [f"r{number:03d}" for number in range(300)]
        lines = [record(row_id, **with_file(tone(0.01))) for row_id in ids]
        out = write_folder(tmp_path / "out", lines, audio={f"{one}.wav": tone(0.01) for one in ids})
        real, syncs = os.fsync, []
        with Store(out, RunConfig()) as store:
            journal = os.stat(store.journal.path).st_ino

            def fsync(handle: int) -> None:
                syncs.append(os.fstat(handle).st_ino == journal)
                real(handle)

            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", fsync)
                assert store.remove(ids) == []
        assert syncs.count(True) == 2
        assert len(list(out.glob("takes/*/1.wav"))) == 300


class TestClean:
    def test_drops_alternatives_and_removed_rows(self, taken: StoreBench) -> None:
        taken.keep(4, row_id="b")
        taken.reencode("b", format="flac")
        taken.keep(5, row_id="gone")
        taken.remove("gone")
        mine = taken.edit("a.wav", 9)
        taken.pin(2)
        with taken.opened() as store:
            store.clean(None)
        files = taken.files()
        assert taken.values() == {
            **{"a.wav": 2, "b.flac": 4, "takes/b/1.source.wav": 4, "takes/a/4.wav": 9}
        }
        assert files["takes/a/4.wav"] == mine
        assert taken.row() == (2, True, False, False, 2)
        assert taken.pin(4)
        with pytest.raises(RowError):
            taken.pin(3)
        with taken.opened() as store:
            assert store.journal.row("gone").take_to_write() == 2, "its number is not used again"
            assert store.journal.row("a").take_to_write() == 5

    def test_younger_files_stay(self, taken: StoreBench) -> None:
        before = taken.files()
        with taken.opened() as store:
            store.clean(time.time() - 3600)
        assert taken.files() == before
        os.utime(taken.out / "takes/a/2.wav", (0, 0))
        os.utime(taken.out / f"takes/a/2{CODES}", (0, 0))
        with taken.opened() as store:
            store.clean(time.time() - 3600)
        assert taken.values() == {"a.wav": 1, "takes/a/3.wav": 3}


def test_the_room_of_takes(taken: StoreBench) -> None:
    names = [f"takes/a/{take}{end}" for take in (2, 3) for end in (".wav", CODES)]
    wanted = sum(len(taken.files()[name]) for name in names)
    assert takes_bytes(taken.out) == wanted
    taken.reencode(format="flac")
    assert takes_bytes(taken.out) == wanted, "sources are no alternatives"


def test_the_list_of_choices_is_the_journals(taken: StoreBench) -> None:
    """It is written anew where it differs, and left alone where it does not."""
    assert set(choices(taken)) == {"a"}
    (taken.out / LIST_NAME).write_text("{}")
    taken.keep(4, row_id="b")
    assert set(choices(taken)) == {"a"}
    stamp = (taken.out / LIST_NAME).stat().st_mtime_ns
    taken.keep(5, row_id="c")
    assert (taken.out / LIST_NAME).stat().st_mtime_ns == stamp
