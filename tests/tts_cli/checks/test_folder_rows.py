"""Which rows a folder has, which take of them counts, and where their audio is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import hostile_journals
import pytest
from spoken_folders import record, run, tone, write_folder

from tts_cli.checks.folder_rows import FolderRow, read_folder
from tts_cli.checks.page.build import build_page
from tts_cli.checks.page.content import content_of
from tts_cli.errors import SetupError, UsageError


def rows_of(out: Path) -> dict[str, FolderRow]:
    return {row.id: row for row in read_folder(out).rows}


def test_the_last_line_counts(tmp_path: Path) -> None:
    write_folder(tmp_path, [record("a", status="failed", error="x"), record("a", text="new")])
    row = rows_of(tmp_path)["a"]
    assert (row.take.status, row.take.text, row.file.path) == ("ok", "new", "a.wav")


def test_lines_of_earlier_versions_and_of_nobody(tmp_path: Path) -> None:
    write_folder(tmp_path, [record("new")])
    with (tmp_path / "timings.jsonl").open("ab") as journal:
        journal.write(b'{"id": "old", "status": "ok", "request_hash": "", "path": "new.wav"}\n')
        journal.write(b"no json\n\n[1]\n" + b"[" * 100_000 + b"\n")
        journal.write(b'{"id": "torn", "status"')
    folder = read_folder(tmp_path)
    assert [row.id for row in folder.rows] == ["new", "old"]
    assert folder.num_garbage == 3
    assert folder.rows[1].file.path == "new.wav"


def test_a_failed_row_keeps_the_audio_of_its_earlier_line(tmp_path: Path) -> None:
    lines = [record("a"), record("a", status="failed", error="x", path=None)]
    write_folder(tmp_path, lines, audio={"a.wav": tone(0.1)})
    file = rows_of(tmp_path)["a"].file
    assert (file.take.error, file.path, file.is_older) == ("x", "a.wav", True)


def test_audio_that_is_gone_or_no_file(tmp_path: Path) -> None:
    write_folder(tmp_path, [record("gone"), record("folder"), record("pipe")], audio={})
    (tmp_path / "folder.wav").mkdir()
    os.mkfifo(tmp_path / "pipe.wav")
    assert [row.file.path for row in read_folder(tmp_path).rows] == [None, None, None]


def test_the_take_that_was_made_the_rows_file_last_counts(tmp_path: Path) -> None:
    lines = [
        record("a", role="own", seed=1, path="a.wav"),
        record("a", take=2, role="extra", seed=2, path="takes/a/2.wav"),
        record("a", take=2, role="held", seed=2, path="takes/a/2.wav"),
        record("a", take=3, role="extra", seed=3, path="takes/a/3.wav"),
    ]
    audio = {f"takes/a/{take}.wav": tone(0.1) for take in (1, 2, 3)}
    write_folder(tmp_path, lines, audio={**audio, "a.wav": tone(0.1)})
    row = rows_of(tmp_path)["a"]
    assert row.chosen == 1
    assert [file.path for file in row.files] == list(audio)


def test_stages_of_every_attempt_count_once(tmp_path: Path) -> None:
    lines = [record("a", started="1"), record("a", started="2"), record("a", started="2")]
    write_folder(tmp_path, lines)
    assert read_folder(tmp_path).stages_s == {lines[0]["run_id"]: [0.02, 0.2, 0.08, 0.004]}


def test_folders_without_a_journal(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder; give the output folder of a run"):
        read_folder(tmp_path / "none")
    with pytest.raises(UsageError, match=r"has no timings\.jsonl"):
        read_folder(tmp_path)
    (tmp_path / "timings.jsonl").mkdir()
    with pytest.raises(SetupError, match="is not a regular file; move it out of the folder"):
        read_folder(tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_folders_that_somebody_has_changed(tmp_path: Path, seed: int) -> None:
    """Whatever stands there, the page is made, or a message says what is wrong."""
    out = write_folder(tmp_path / "out", [record(name) for name in "abcdef"])
    (out / "takes.json").write_text('{"schema": 1, "choices": {"a": {"take": 1}}}')
    what = hostile_journals.change(out, seed)
    with contextlib.suppress(UsageError, SetupError):
        page = build_page(content_of(read_folder(out), None))
        assert page.startswith(b"<!doctype html>"), what


def test_a_folder_without_runs(tmp_path: Path) -> None:
    write_folder(tmp_path, [record("a")], runs=[])
    (tmp_path / "run.json").write_text("torn {")
    folder = read_folder(tmp_path)
    assert (folder.runs, folder.last_run) == ([], {})
    assert run()["run_id"] in folder.stages_s
