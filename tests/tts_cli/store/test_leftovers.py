"""Files that a dead run had written but not recorded, told from a user's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

from made_voices import keep

from tts_cli.core import Status
from tts_cli.store.journal import Journal
from tts_cli.store.mend import audio_files, find_orphans, unrecorded_rows
from tts_cli.store.take import Take


def test_only_what_is_newer_than_the_dead_run(tmp_path: Path) -> None:
    names = ["new.wav", "sub/new.flac", "old.wav", "recorded.wav", "notes.txt", "truncated/x.wav"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"audio")
        os.utime(tmp_path / name, ns=(0, 1000 if name == "old.wav" else 2000))
    with Journal(tmp_path) as journal:
        journal.append(Take("recorded", Status.OK))
        journal.append(*unrecorded_rows(tmp_path, 2000, journal))
        names = ["new", "sub/new", "old", "recorded", "notes", "truncated/x"]
        found = {name: journal.status(name) for name in names}
    assert found == {
        "new": "failed", "sub/new": "failed", "old": None, "recorded": "ok", "notes": None,
        "truncated/x": None,
    }  # fmt: skip


def test_what_was_made_of_rows_is_no_row(tmp_path: Path) -> None:
    for name in ("01-one.wav", "sub/01-one.wav", "01-one.flac"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"audio")
    book = {"files": [], "chapters": [{"path": "01-one.wav"}, {"path": None}]}
    (tmp_path / "book.json").write_text(json.dumps(book))
    with Journal(tmp_path) as journal:
        found = {record.id for record in unrecorded_rows(tmp_path, 0, journal)}
        assert found == {"sub/01-one", "01-one"}
        assert set(find_orphans(tmp_path, journal, lambda _: False).first) == found
    book["files"] = [{"path": "01-one.flac"}]
    (tmp_path / "book.json").write_text(json.dumps(book))
    assert [row_id for row_id, _ in audio_files(tmp_path)] == ["sub/01-one"]


def test_made_voices_are_no_rows(tmp_path: Path) -> None:
    keep(tmp_path)
    (tmp_path / "mine.wav").write_bytes(b"audio")
    assert [row_id for row_id, _ in audio_files(tmp_path)] == ["mine"]
    with Journal(tmp_path) as journal:
        assert find_orphans(tmp_path, journal, lambda _: False).first == ["mine"]
