"""Whatever happened to a journal: what it says is what a dict of its whole lines would say.

Lines are told apart by id, status and hashes only, so the tests do not hang on the other fields.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from properties import JSON, holds_for
from store_bench import is_done

from tts_cli.core import Status
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import JOURNAL_NAME
from tts_cli.store.journal import Journal

pytestmark = pytest.mark.slow

Said = dict[str, tuple[str, str, str]]  # id -> status, request hash, delivery hash

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # nothing waits for a disk there
KNOWN = ("a", "part/b", "ü", "日本語", "takes/a/1", "e\u0301/x.y-1")
HASHES = ("", "h1", "h2")
ENTRIES = st.tuples(
    st.sampled_from(KNOWN),
    st.sampled_from(["ok", "failed"]),
    st.sampled_from(HASHES),
    st.sampled_from(HASHES),
    st.one_of(st.none(), st.text(max_size=10), st.text(st.characters(exclude_categories=[]))),
)
APPENDS = st.lists(st.lists(ENTRIES, min_size=1, max_size=3), max_size=8)
# Lines of nobody: bytes, JSON of any shape, and records of ids that no other line has.
BYTES = st.binary(max_size=40).map(lambda raw: b"?" + raw.replace(b"\n", b""))
SHAPES = JSON.filter(lambda value: not isinstance(value, dict)).map(
    lambda v: json.dumps(v).encode()
)
STRANGERS = st.fixed_dictionaries(
    {"id": st.sampled_from(["stranger", "../../x", "", "#7", "x\n", "\ud800", 5, None, ["a"]])},
    optional={
        name: JSON | st.sampled_from(["ok", "failed", "f" * 64, -1, 2**70, 1e300])
        for name in ("status", "request_hash", "delivery_hash", "bytes", "frames", "sha256", "take")
    },
).map(lambda values: json.dumps(values).encode())
GARBAGE = st.lists(st.tuples(st.integers(0, 30), BYTES | SHAPES | STRANGERS), max_size=6)


def records_of(group: list[tuple[Any, ...]]) -> list[JournalEntry]:
    return [
        JournalEntry(
            row_id, Status(status), error=error, request_hash=request, delivery_hash=delivery
        )
        for row_id, status, request, delivery, error in group
    ]


def learn(said: Said, group: list[tuple[Any, ...]]) -> None:
    for row_id, status, request, delivery, _ in group:
        said[row_id] = (status, request, delivery)


def assert_says(journal: Journal, said: Said) -> None:
    """Statuses and what a rerun may skip."""
    for row_id in KNOWN:
        status, request, delivery = said.get(row_id, (None, None, None))
        assert journal.row(row_id).status == status
        skips = [
            (one, two) for one in HASHES for two in HASHES if is_done(journal, row_id, one, two)
        ]
        assert skips == ([(request, delivery)] if status == "ok" else [])


def is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def num_takes(journal: Journal) -> int:
    return len(list(journal.takes(has_extras=True)))


@contextmanager
def folder_with(content: bytes = b"") -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as scratch:
        if content:
            Path(scratch, JOURNAL_NAME).write_bytes(content)
        yield Path(scratch)


def lines_of(appends: list[list[tuple[Any, ...]]]) -> bytes:
    """The bytes that these appends write."""
    with folder_with() as out:
        with Journal(out) as journal:
            for group in appends:
                journal.append(*records_of(group))
        return (out / JOURNAL_NAME).read_bytes()


@holds_for(APPENDS, st.integers(0, 8))
def test_what_is_appended_is_said(appends: list[list[tuple[Any, ...]]], reopen: int) -> None:
    """At once, and by whoever opens it later, amid them or at the end."""
    said: Said = {}
    with folder_with() as out:
        journal = Journal(out)
        for number, group in enumerate(appends):
            if number == reopen:
                journal.close()
                journal = Journal(out)
            journal.append(*records_of(group))
            learn(said, group)
            assert_says(journal, said)
        journal.close()
        assert num_takes(journal) == len(said)
        for is_read_only in (True, False):
            with Journal(out, is_read_only) as journal:
                assert_says(journal, said)
                assert (num_takes(journal), journal.num_garbage) == (len(said), 0)


@holds_for(APPENDS, APPENDS, st.floats(0, 1))
def test_a_crash_loses_no_whole_line(
    before: list[list[tuple[Any, ...]]], after: list[list[tuple[Any, ...]]], share: float
) -> None:
    """The file is cut at any byte; a torn line was never committed."""
    content = lines_of(before)
    content = content[: round(share * len(content))]
    entries = [entry for group in before for entry in group]
    num_whole = content.count(b"\n")
    said: Said = {}
    learn(said, entries[:num_whole])
    with folder_with(content) as out:
        for _ in range(2):
            with Journal(out) as journal:
                if num_whole < len(entries):
                    torn, status, request, delivery, _ = entries[num_whole]
                    if is_whole(content[content.rfind(b"\n") + 1 :]):
                        said[torn] = (status, request, delivery)  # only its newline was missing
                assert_says(journal, said)
                assert journal.num_garbage == 0
                for group in after:
                    journal.append(*records_of(group))
                    learn(said, group)
                assert_says(journal, said)
            num_whole = len(entries)
        found = (out / JOURNAL_NAME).read_bytes()
        assert found.startswith(content[: content.rfind(b"\n") + 1])
        assert all(isinstance(json.loads(line), dict) for line in found.splitlines())


@holds_for(APPENDS, GARBAGE)
def test_garbage_changes_nothing(
    appends: list[list[tuple[Any, ...]]], garbage: list[tuple[int, bytes]]
) -> None:
    """Lines of any bytes between those that count."""
    said: Said = {}
    lines = lines_of(appends).splitlines(keepends=True)
    for place, line in garbage:
        lines.insert(place, line + b"\n")
    for group in appends:
        learn(said, group)
    with folder_with(b"".join(lines)) as out:
        for is_read_only in (True, False):
            with Journal(out, is_read_only, has_sums=True) as journal:
                assert_says(journal, said)
                assert 0 <= journal.num_garbage <= len(garbage)
        assert (out / JOURNAL_NAME).read_bytes() == b"".join(lines)


@holds_for(st.binary(max_size=200), APPENDS)
def test_any_file_at_all(content: bytes, appends: list[list[tuple[Any, ...]]]) -> None:
    """Read, repaired, and taken for what is appended; its whole lines stay."""
    said: Said = {}
    with folder_with(content) as out:
        with Journal(out) as journal:
            for group in appends:
                journal.append(*records_of(group))
                learn(said, group)
        with Journal(out) as journal:
            assert_says(journal, said)
        found = (out / JOURNAL_NAME).read_bytes()
        assert found.startswith(content[: content.rfind(b"\n") + 1])
