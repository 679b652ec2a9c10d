"""Files of a folder that belong to no row of a manifest."""

from __future__ import annotations

import json
from pathlib import Path

from made_voices import keep

from tts_cli.store.journal import Journal
from tts_cli.store.orphans import audio_files, find_orphans


def test_what_was_made_of_rows_is_no_row(tmp_path: Path) -> None:
    for name in ("01-one.wav", "sub/01-one.wav", "01-one.flac"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"audio")
    book = {"files": [], "chapters": [{"path": "01-one.wav"}, {"path": None}]}
    (tmp_path / "book.json").write_text(json.dumps(book))
    with Journal(tmp_path) as journal:
        found = {row_id for row_id, _ in audio_files(tmp_path)}
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
