"""A folder under review: its rows as the page shows them, and the decisions about them.

The folder is read without a lock. Its lock is held for one decision at a time, so that a run can
start between two of them; while it runs, decisions are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import msgspec

from tts_cli.app.pick import Choice, choose_takes
from tts_cli.checks.folder_rows import read_folder
from tts_cli.checks.page.content import content_of
from tts_cli.checks.reviews import Decision, append_decisions, read_decisions
from tts_cli.checks.waveform import outlines
from tts_cli.config import RunConfig
from tts_cli.errors import FolderLocked
from tts_cli.export.selection import manifest_ids
from tts_cli.store.entry import iso_time
from tts_cli.store.files import CHECKS_NAME, JOURNAL_NAME, REVIEWS_NAME, PlainFiles
from tts_cli.store.lock import running_owner
from tts_cli.store.store import Store
from tts_cli.versions import versions

TakeKey = tuple[str, int]  # id of a row, number of a take
Outlines = Annotated[list[TakeKey], msgspec.Meta(max_length=200)]


@dataclass
class ReviewFolder:
    """A folder under review. Any thread may call its methods."""

    out: Path
    reviewer: str  # name in the decisions
    _deciding: Lock = field(default_factory=Lock)  # held while deciding; guards `_is_own`
    _is_own: bool = False  # whether this process holds the lock of the folder, for a retake
    _reading: Lock = field(default_factory=Lock)  # held while reading; guards the other fields
    _content: dict[str, Any] = field(default_factory=dict)
    _files: dict[TakeKey, Path] = field(default_factory=dict)
    _decisions: list[Decision] = field(default_factory=list)
    _read: str = ""  # stamp of reviews.jsonl when it was read

    def content(self, _: None = None) -> dict[str, Any]:
        """Return the data of the page. Raises UsageError, SetupError."""
        with self._reading:  # a second browser gets what the first one had
            stamp = self._stamp(JOURNAL_NAME, CHECKS_NAME)
            if self._content.get("server", {}).get("stamp") != stamp:
                self._content = self._read_content(stamp)
            return self._content

    def _read_content(self, stamp: str) -> dict[str, Any]:
        folder = read_folder(self.out)
        content = content_of(folder, versions()["tts-cli"], is_served=True)
        plain = PlainFiles(self.out)
        self._files = {
            (row.id, file.take.take): self.out / file.path
            for row in folder.rows
            for file in row.files
            if file.path is not None and plain.size(self.out / file.path) is not None
        }
        places = {row_id: place for place, row_id in enumerate(manifest_ids(self.out))}
        for row in content["rows"]:
            row.setdefault("order", places.get(row["id"], len(places)))
            for take in row["takes"]:
                if (row["id"], take["take"]) not in self._files:
                    take.pop("url", None)
        return {**content, "server": {"stamp": stamp, "reviewer": self.reviewer}}

    def changes(self, after: int) -> dict[str, Any]:
        with self._reading:
            stamp = self._stamp(REVIEWS_NAME)
            if stamp != self._read:
                self._decisions, self._read = list(read_decisions(self.out)), stamp
            known = self._decisions
        found = known[after:] if 0 <= after <= len(known) else known
        return {
            "revision": len(known),
            "decisions": found,
            "busy": None if self._is_own else running_owner(self.out),
            "stamp": self._stamp(JOURNAL_NAME, CHECKS_NAME),
        }

    def _stamp(self, *names: str) -> str:
        """Return a text that changes when one of these append-only files grows."""
        return " ".join(str(PlainFiles(self.out).size(self.out / name)) for name in names)

    def decide(self, decision: Decision) -> None:
        """Record a decision durably. Its reviewer and time are set here.

        Raises FolderLocked during a run, and DiskFull or StoppedEarly if it may not be recorded.
        """
        about = {"reviewer": self.reviewer, "time": iso_time(datetime.now(timezone.utc))}
        with self._owned():
            append_decisions(self.out, [msgspec.structs.replace(decision, **about)])

    def pick(self, key: TakeKey) -> None:
        with self._owned() as store:
            if store is None:
                raise FolderLocked("a retake is in progress", remedy="wait until it is finished")
            store.open()
            choose_takes(store, [Choice(*key)])

    @contextmanager
    def _owned(self) -> Iterator[Store | None]:
        """Own the lock of the folder inside the block. None: a retake of this process owns it."""
        with self._deciding:
            if self._is_own:
                yield None
            else:
                with Store.locked(self.out, RunConfig()) as store:
                    yield store

    @contextmanager
    def retaking(self) -> Iterator[None]:
        """Allow decisions inside the block, although the retake owns the lock."""
        with self._deciding:
            self._is_own = True
        try:
            yield
        finally:
            self._is_own = False

    def audio(self, key: TakeKey) -> Path | None:
        """Return the file of a take, or None. No link is followed out of the folder."""
        path = self._files.get(key)
        return path if path and PlainFiles(self.out).size(path) is not None else None

    def outlines(self, keys: Outlines) -> list[str | None]:
        return outlines(list(map(self.audio, keys)))
