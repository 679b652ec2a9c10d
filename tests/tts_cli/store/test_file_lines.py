"""The lines of rows' files, read back."""

from __future__ import annotations

from pathlib import Path

from tts_cli.core import Role, Status
from tts_cli.store.entry import JournalEntry
from tts_cli.store.journal import Journal


def test_the_last_line_of_each_rows_file(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert list(journal.takes()) == []
        journal.append(JournalEntry("a", Status.FAILED), JournalEntry("b", Status.OK, text="Größe"))
        journal.append(
            JournalEntry("a", Status.OK, 2, Role.EXTRA), JournalEntry("a", Status.OK, frames=7)
        )
        journal.append(JournalEntry("c", Status.OK), JournalEntry("c", Status.OK, 2, Role.HELD))
        journal.append(JournalEntry("d", Status.OK), JournalEntry("d", Status.FAILED, 2))
    with open(tmp_path / "timings.jsonl", "a") as file:
        file.write("nonsense\n[]\n" + '{"id": "torn", "status": "ok"')
    journal = Journal(tmp_path, is_read_only=True)
    found = list(journal.takes())
    assert [(take.id, take.take) for take in found] == [("b", 1), ("a", 1), ("c", 2), ("d", 1)]
    assert (found[0].text, found[1].frames) == ("Größe", 7)
    assert len(list(journal.takes(has_extras=True))) == 7
    one = journal.take("c", 2)
    assert one is not None
    assert (one.role, journal.take("c", 3)) == (Role.HELD, None)


def test_the_last_line_of_a_row_counts(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(
            JournalEntry("a", Status.OK, text="one"), JournalEntry("b", Status.OK, text="\u96e8")
        )
        journal.append(
            JournalEntry("a", Status.OK, text="two"), JournalEntry("c", Status.OK, text="three")
        )
        journal.append(JournalEntry("c", Status.FAILED, error="no"))
    with open(journal.path, "ab") as file:
        file.write(b'garbage\n[1]\n{"id": 3}\n')
        line = '{"id": "b", "status": "ok", "take": 2, "role": "extra", "request_hash": ""}'
        file.write(f'{line}\n{{"id": "torn'.encode())
    lines = Journal(tmp_path, is_read_only=True)
    found = {row_id: lines.ok_take(row_id) for row_id in ("a", "b", "c", "torn", "none")}
    assert {key: take and take.text for key, take in found.items()} == {
        "a": "two", "b": "\u96e8", "c": None, "torn": None, "none": None,
    }  # fmt: skip
