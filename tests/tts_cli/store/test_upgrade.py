"""Folders of earlier versions: the frozen ones of tests/goldens, and small ones built by hand."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from store_bench import CODES, StoreBench, digest, killed_at

from tts_cli.config import RunConfig
from tts_cli.core import Status
from tts_cli.sources.ids import id_problem
from tts_cli.store.entry import SCHEMA
from tts_cli.store.files import AUDIO_SUFFIXES, JOURNAL_NAME
from tts_cli.store.journal import Journal
from tts_cli.store.store import Store
from tts_cli.store.upgrade import OLD_JOURNAL

ARCHIVE = Path(__file__).parents[2] / "goldens" / "folders.tar.xz"
with tarfile.open(ARCHIVE) as _archive:
    _FILES = {name for name in _archive.getnames() if name.endswith(f"/out/{JOURNAL_NAME}")}
NAMES = sorted(name.split("/")[0] for name in _FILES)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All frozen folders."""
    place = tmp_path_factory.mktemp("frozen")
    with tarfile.open(ARCHIVE) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="tar")
        else:
            archive.extractall(place)
    return place


def audio(out: Path) -> set[str]:
    """Digests of all audio of a folder, whatever its name; staged files were never committed."""
    return {
        digest(path.read_bytes())
        for path in out.rglob("*")
        if path.is_file()
        and any(suffix in path.name for suffix in AUDIO_SUFFIXES)
        and not path.name.endswith(".part")
    }


def takes(out: Path) -> dict[str, Any]:
    """What a reader finds: each take, the row's current one, and the rows that were removed."""
    journal = Journal(out, is_read_only=True)
    found: dict[str, Any] = {}
    for take in journal.takes(has_extras=True):
        facts = (take.status, take.role, take.sha256, take.seed, take.text, take.request_hash)
        found[f"{take.id} {take.take}"] = facts
        file = journal.file(take.id)
        found[take.id] = file and (file.take, file.is_held, file.has_failed)
    found["removed"] = {take.id for take in journal.removed_rows()}
    return found


def present(out: Path) -> set[tuple[str, int]]:
    """The takes whose file is where its entry says, and is what was recorded."""
    return {
        (take.id, take.take)
        for take in Journal(out, is_read_only=True).takes(has_extras=True)
        if take.path is not None
        and (out / take.path).is_file()
        and digest((out / take.path).read_bytes()) == take.sha256
    }


def open_and_close(out: Path) -> None:
    with Store(out, RunConfig(take_over=True)):
        pass


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_folder(name: str, frozen: Path, tmp_path: Path) -> None:
    """It says what it said, nothing is lost, and it is in the new layout afterwards."""
    out = tmp_path / "out"
    shutil.copytree(frozen / name / "out", out, symlinks=True)
    lines = (out / JOURNAL_NAME).read_bytes()
    before, sounds, there = takes(out), audio(out), present(out)
    open_and_close(out)

    after = takes(out)
    if name == "torn":  # its row has a file, and is due
        assert after.pop("c") == (1, False, True)
        assert after.pop("c 1")[0] is Status.FAILED
    if not name.startswith("killed"):  # which the command may finish
        assert after == before
    for key, facts in before.items():
        if key == "removed":
            assert after[key] >= facts
        elif facts[0] is Status.OK:
            assert after[key][2:] == facts[2:], key
    assert sounds <= audio(out)
    assert there <= present(out)

    names = [path.relative_to(out).as_posix() for path in out.rglob("*")]
    assert not (out / "removed").exists()
    assert not [one for one in names if one.endswith((".original", ".tts-cli.part"))]
    inodes = Counter((out / one).stat().st_ino for one in names if one.endswith(AUDIO_SUFFIXES))
    assert set(inodes.values()) <= {1}, "two names of one file"
    for take in Journal(out, is_read_only=True).takes():
        if id_problem(take.id) is None and take.is_ok and take.path in names:
            home = out / f"takes/{take.id}/{take.take}{Path(take.path).suffix}"
            assert not home.exists() or name == "edited_takes", "the row's own file was edited"

    whole = lines[: lines.rfind(b"\n") + 1]
    assert (out / JOURNAL_NAME).read_bytes().startswith(whole)
    has_old = any(f'"schema": {SCHEMA}, '.encode() not in line for line in whole.splitlines())
    assert (out / OLD_JOURNAL).exists() == has_old
    settled = {one: (out / one).read_bytes() for one in names if (out / one).is_file()}
    open_and_close(out)
    again = {one: (out / one).read_bytes() for one in settled if (out / one).is_file()}
    assert again == settled


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *(("takes", 4), ("pruned", 5), ("edited_takes", 3)),
        *(
            pytest.param(name, 1, marks=pytest.mark.long)
            for name in ("takes", "pruned", "edited_takes", "picked", "leveled", "encoded")
        ),
    ],
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
@pytest.mark.slow
def test_a_conversion_that_is_killed_goes_on(
    name: str, step: int, frozen: Path, tmp_path: Path
) -> None:
    first, out, whole = frozen / name / "out", tmp_path / "out", tmp_path / "whole"
    shutil.copytree(first, whole, symlinks=True)
    open_and_close(whole)
    moment, is_killed = 1 - step, True
    while is_killed:
        moment += step
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(first, out, symlinks=True)
        is_killed = killed_at(moment, out, lambda: open_and_close(out))
        open_and_close(out)
        assert takes(out) == takes(whole), moment
        assert audio(out) == audio(whole), moment
        assert present(out) == present(whole), moment


def old_line(bench: StoreBench, take: int, **changes: Any) -> None:
    """Add a line of schema 3 that is the last one of a take of row `a`, with some changes."""
    lines = map(json.loads, (bench.out / JOURNAL_NAME).read_text().splitlines())
    (*_, values) = (line for line in lines if (line["id"], line["take"]) == ("a", take))
    del values["codes_sha256"], values["origin"]
    line = json.dumps({**values, "schema": 3, **changes})
    with open(bench.out / JOURNAL_NAME, "a") as file:
        file.write(line + "\n")


class TestLayouts:
    """Parts of a folder as schema 3 had them."""

    def test_the_current_take_had_two_names(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.keep(2, take=2)
        for end in (".wav", CODES):
            (bench.out / f"takes/a/2{end}").hardlink_to(bench.out / f"a{end}")
        old_line(bench, 2, path="takes/a/2.wav")
        bench.recover()
        assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1}
        assert set(bench.files()) - {OLD_JOURNAL} == {
            *("a.wav", "a" + CODES),
            *("takes/a/1.wav", "takes/a/1" + CODES),
        }
        assert bench.row() == (2, False, False, False, 2)

    def test_an_edited_file_of_a_row_with_takes(self, bench: StoreBench) -> None:
        """The edited one stays the row's file, and the take that it was made from stays."""
        bench.keep(1)
        bench.keep(2, take=2)
        (bench.out / "takes/a/2.wav").hardlink_to(bench.out / "a.wav")
        mine = bench.edit("a.wav", 9)
        old_line(bench, 2, path="takes/a/2.wav")
        bench.recover()
        assert bench.files()["a.wav"] == mine
        assert digest(bench.files()["takes/a/2.wav"]) == bench.entries[1].sha256

    def test_sources(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.reencode(subtype="PCM_24")
        (bench.out / "takes/a/1.source.wav").rename(bench.out / "a.wav.original")
        source = bench.entries[-1].source
        assert source is not None
        old_line(bench, 1, source={**source, "path": "a.wav.original"}, theirs=5)
        before = (bench.out / JOURNAL_NAME).read_bytes()
        bench.recover()
        assert (bench.out / OLD_JOURNAL).read_bytes() == before
        assert bench.values() == {"a.wav": 1, "takes/a/1.source.wav": 1}
        line = json.loads((bench.out / JOURNAL_NAME).read_text().splitlines()[-1])
        assert (line["source"], line["theirs"]) == (source, 5)
        assert bench.reencode(format="flac").source == source

    def test_removed_rows(self, bench: StoreBench) -> None:
        """Removed twice, with a suffix `~2`, a source and subtitles."""
        for row_id in ("a", "sub/b"):
            bench.keep(1, row_id=row_id)
        (bench.out / "removed/sub").mkdir(parents=True)
        for end in (".wav", CODES):
            (bench.out / f"a{end}").rename(bench.out / f"removed/a~2{end}")
        (bench.out / "removed/a~2.srt").write_text("subtitles")
        (bench.out / "removed/a.wav").write_bytes(b"mine")
        old_line(bench, 1, status="gone", path="removed/a~2.wav")
        bench.recover()
        assert bench.row() == (1, False, False, True, 1)
        files = bench.files()
        assert bench.value("takes/a/1.wav") == 1
        assert files["takes/a/1.srt"] == b"subtitles"
        assert files["removed/a.wav"] == b"mine", "no line is about it"
        bench.restore("a")
        assert bench.row() == (1, False, False, False, 1)
        assert bench.files()["a.srt"] == b"subtitles"

    def test_it_is_done_once(self, bench: StoreBench, caplog: pytest.LogCaptureFixture) -> None:
        bench.keep(1)
        lines = (bench.out / JOURNAL_NAME).read_bytes()
        old_line(bench, 1)
        both = (bench.out / JOURNAL_NAME).read_bytes()
        assert both.startswith(lines)
        (bench.out / "a.wav.original").write_bytes(b"something")
        bench.recover()
        assert (bench.out / OLD_JOURNAL).read_bytes() == both
        assert "1 file has a new name: see timings.jsonl and takes/" in caplog.text
        (bench.out / "a.wav.original").write_bytes(b"mine")
        bench.recover()
        assert bench.files()["a.wav.original"] == b"mine"

    def test_no_reader_converts(self, bench: StoreBench) -> None:
        bench.keep(1)
        bench.keep(2, take=2)
        for end in (".wav", CODES):
            (bench.out / f"takes/a/2{end}").hardlink_to(bench.out / f"a{end}")
        old_line(bench, 2, path="takes/a/2.wav")
        before = bench.files()
        assert bench.row() == (2, False, False, False, 2)
        paths = [str(one.path) for one in Store.read_only(bench.out).journal.takes(has_extras=True)]
        assert all((bench.out / path).is_file() for path in paths)
        assert bench.files() == before
