"""Recovery: each case that a killed command can leave, built by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from store_bench import CODES, StoreBench

from tts_cli.core import Role
from tts_cli.errors import SetupError
from tts_cli.store.files import JOURNAL_NAME
from tts_cli.store.journal import Journal
from tts_cli.store.mark import MARK_NAME, FolderMark, require_journal
from tts_cli.store.recover import recover


def size_of(bench: StoreBench) -> int:
    """Bytes of the journal."""
    return (bench.out / JOURNAL_NAME).stat().st_size


def recovered(bench: StoreBench, since: int = 0) -> int:
    """Recover the folder; returns how many files got or lost their names."""
    with Journal(bench.out) as journal:
        return recover(bench.out, journal, since)


class TestStagedFiles:
    def test_of_which_one_has_its_name_already(
        self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.keep(1)
        bench.killed_after_commit(monkeypatch, lambda: bench.keep(2, take=2))
        (part,) = (Path(one) for one in bench.out.glob(".a.wav.*.part"))
        (bench.out / "takes/a").mkdir(parents=True, exist_ok=True)
        (bench.out / "a.wav").rename(bench.out / "takes/a/1.wav")
        part.rename(bench.out / "a.wav")
        assert recovered(bench) == 2
        assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1}

    def test_without_an_entry_are_removed(self, bench: StoreBench) -> None:
        bench.keep(1)
        before = bench.files()
        bench.stage("a.wav", b"another take")
        bench.stage("sub/b.wav", b"a new row")
        bench.stage("takes/a/7.wav", b"an alternative")
        bench.stage("takes.json", b"a list")
        bench.stage("../out/..wav", b"no id")
        assert recovered(bench) == 0
        assert bench.files() == before
        assert bench.facts() == [(1, "ok", "own", None)]

    def test_of_an_entry_that_another_one_replaced_are_removed(self, bench: StoreBench) -> None:
        first = bench.keep(1)
        data = bench.files()["a.wav"]
        bench.keep(2, take=2)
        bench.stage("a.wav", data, first.sha256)
        recovered(bench)
        assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1}

    def test_in_whose_way_is_a_users_file(
        self, bench: StoreBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.keep(1)
        bench.killed_after_commit(monkeypatch, lambda: bench.keep(2, take=2))
        mine = bench.edit("a.wav", 9)
        recovered(bench, since=0)
        assert bench.value("a.wav") == 2
        assert bench.files()["takes/a/3.wav"] == mine
        assert bench.facts()[-1] == (3, "ok", "extra", "user")


class TestNames:
    """Names that still have the content from before the last entry."""

    def test_of_another_format(self, bench: StoreBench) -> None:
        """Killed between the name of the new take and the end of the old one's."""
        bench.keep(1)
        since, old = size_of(bench), bench.files()["a.wav"]
        bench.keep(2, take=2, format="flac")
        (bench.out / "a.wav").write_bytes(old)
        assert recovered(bench, since) == 1
        assert bench.values() == {"a.flac": 2, "takes/a/1.wav": 1}

    def test_of_another_format_whose_take_has_no_other_name(self, bench: StoreBench) -> None:
        bench.keep(1)
        since = size_of(bench)
        bench.keep(2, take=2, format="flac")
        (bench.out / "takes/a/1.wav").rename(bench.out / "a.wav")
        recovered(bench, since)
        assert bench.values() == {"a.flac": 2, "takes/a/1.wav": 1}

    def test_of_a_source(self, bench: StoreBench) -> None:
        bench.keep(1)
        since, old = size_of(bench), bench.files()["a.wav"]
        bench.reencode(format="flac")
        (bench.out / "a.wav").write_bytes(old)
        assert recovered(bench, since) == 1
        assert bench.values() == {"a.flac": 1, "takes/a/1.source.wav": 1}
        (bench.out / "takes/a/1.source.wav").rename(bench.out / "a.wav")
        assert recovered(bench, since) == 1
        assert bench.values() == {"a.flac": 1, "takes/a/1.source.wav": 1}

    def test_of_a_rendition_that_can_be_made_again(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.reencode(format="flac")
        since, flac = size_of(bench), bench.files()["a.flac"]
        bench.reencode(format="opus")
        (bench.out / "a.flac").write_bytes(flac)
        assert recovered(bench, since) == 1
        assert set(bench.files()) == {"a.opus", "a" + CODES, "takes/a/1.source.wav"}

    def test_of_a_user(self, bench: StoreBench) -> None:
        """A file of another format that no entry explains stays where it is."""
        bench.keep(1)
        since = size_of(bench)
        bench.keep(2, take=2, format="flac")
        mine = bench.edit("a.wav", 9)
        recovered(bench, since)
        assert bench.files()["a.wav"] == mine
        assert bench.value("a.flac") == 2


class TestTakes:
    """Files in takes/ that no entry puts there."""

    def test_with_entries_stay(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.keep(2, take=2, role=Role.EXTRA)
        bench.reencode(subtype="PCM_24")
        bench.keep(3, row_id="b")
        bench.remove("b")
        before = bench.files()
        assert recovered(bench) == 0
        assert bench.files() == before

    def test_links_are_not_followed(self, bench: StoreBench, tmp_path: Path) -> None:
        victim = tmp_path / "victim.wav"
        bench.keep(1)
        shutil.copyfile(bench.out / "a.wav", victim)
        (bench.out / "takes/a").mkdir(parents=True)
        (bench.out / "takes/a/5.wav").symlink_to(victim)
        recovered(bench)
        assert victim.exists()
        assert (bench.out / "takes/a/5.wav").is_symlink()
        assert bench.facts() == [(1, "ok", "own", None)]


def test_recovering_twice_changes_nothing_more(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.keep(1)
    bench.edit("a.wav", 9)
    bench.killed_after_commit(monkeypatch, lambda: bench.keep(2, take=2, format="flac"))
    assert recovered(bench) > 0
    before, lines = bench.files(), (bench.out / JOURNAL_NAME).read_bytes()
    assert recovered(bench) == 0
    assert bench.files() == before
    assert (bench.out / JOURNAL_NAME).read_bytes() == lines


def test_a_reader_finds_what_is_committed(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only reads sees the entry, and changes nothing."""
    bench.keep(1)
    bench.killed_after_commit(monkeypatch, lambda: bench.keep(2, take=2))
    before = bench.files()
    assert bench.row() == (2, False, False, False, "no file")
    assert bench.files() == before


def test_what_recovery_did_is_reported(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.killed_after_commit(monkeypatch, lambda: bench.keep(1))
    bench.recover()
    assert "finished what an interrupted command had begun: 2 files" in caplog.text


class TestMark:
    def test_is_set_once(self, tmp_path: Path) -> None:
        mark = FolderMark(tmp_path)
        mark.set(100)
        mark.set(200)
        assert FolderMark(tmp_path).left_at() == 100
        mark.remove()
        assert FolderMark(tmp_path).left_at() is None

    def test_of_a_killed_command_stays_until_the_end(self, tmp_path: Path) -> None:
        FolderMark(tmp_path).set(100)
        mark = FolderMark(tmp_path)
        mark.keep()
        mark.set(200)
        assert FolderMark(tmp_path).left_at() == 100
        mark.remove()
        assert FolderMark(tmp_path).left_at() is None

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[]", b"5", b'{"journal_bytes": "x"}', b'{"journal_bytes": -1}']
    )
    def test_that_makes_no_sense_is_of_an_empty_journal(
        self, tmp_path: Path, content: bytes
    ) -> None:
        (tmp_path / MARK_NAME).write_bytes(content)
        assert FolderMark(tmp_path).left_at() == 0

    def test_that_is_no_plain_file(self, tmp_path: Path) -> None:
        (tmp_path / MARK_NAME).mkdir()
        with pytest.raises(SetupError, match="is not a regular file"):
            FolderMark(tmp_path).left_at()


class TestLostJournal:
    """Without the lines that a killed command knew, nobody can tell which files are whose."""

    @pytest.mark.parametrize("is_missing", [True, False])
    def test_stops(self, bench: StoreBench, is_missing: bool) -> None:
        bench.keep(1)
        bench.keep(2, row_id="b")
        path = bench.out / JOURNAL_NAME
        whole = path.read_bytes()
        bench.mark(len(whole))
        bench.stage("a.wav", b"staged")
        path.unlink() if is_missing else path.write_bytes(whole.splitlines(True)[0])
        before = bench.files()
        problem = "is missing" if is_missing else "has [0-9,]+ of at least [0-9,]+ bytes"
        with pytest.raises(SetupError, match=problem) as caught:
            bench.recover()
        assert caught.value.exit_code == 3
        assert f"delete {bench.out / MARK_NAME}" in str(caught.value.remedy)
        assert bench.files() == before
        path.write_bytes(whole)
        bench.recover()
        assert bench.values() == {"a.wav": 1, "b.wav": 2}

    def test_goes_on_without_the_mark(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.mark(size_of(bench))
        (bench.out / JOURNAL_NAME).unlink()
        (bench.out / MARK_NAME).unlink()
        bench.keep(2)
        assert bench.values() == {"a.wav": 2, "takes/a/2.wav": 1}

    @pytest.mark.parametrize("size", [10, 11])
    def test_one_that_has_grown_is_fine(self, tmp_path: Path, size: int) -> None:
        (tmp_path / JOURNAL_NAME).write_bytes(b"x" * size)
        require_journal(tmp_path / JOURNAL_NAME, 10)

    def test_with_a_torn_line(self, bench: StoreBench) -> None:
        """The line that a killed command was writing is no lost one."""
        bench.keep(1)
        bench.mark(size_of(bench))
        with open(bench.out / JOURNAL_NAME, "ab") as file:
            file.write(b'{"id": "b", "status": "o')
        bench.recover()
        assert bench.entries[-1].id == "a"
        assert bench.values() == {"a.wav": 1}


def test_only_rows_changed_since_the_mark_are_looked_at(bench: StoreBench) -> None:
    """A file of another format next to an older row stays, whatever it is."""
    bench.keep(1)
    bench.reencode(format="flac")
    source = bench.files()["takes/a/1.source.wav"]
    (bench.out / "a.wav").write_bytes(source)
    recovered(bench, size_of(bench))
    assert bench.files()["a.wav"] == source


def test_a_group_of_rows_that_was_half_finished(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are removed with one fsync are finished one by one."""
    for row_id in "abc":
        bench.keep(1, row_id=row_id)
    since = size_of(bench)
    bench.killed_after_commit(monkeypatch, lambda: bench.remove("a", "b", "c"))
    (bench.out / "takes/b").mkdir(parents=True, exist_ok=True)
    for end in (".wav", CODES):
        (bench.out / f"b{end}").rename(bench.out / f"takes/b/1{end}")
    assert recovered(bench, since) == 4
    assert bench.values() == {f"takes/{row_id}/1.wav": 1 for row_id in "abc"}
