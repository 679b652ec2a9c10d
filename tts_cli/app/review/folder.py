"""A folder under review: its rows as the page shows them, and the decisions about them.

The folder is read without a lock. Its lock is held for one decision at a time, so that a run can
start between two of them; while it runs, decisions are refused.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tts_cli.app.pick import Choice, choose_takes
from tts_cli.atomic import read_own
from tts_cli.checks.folder_rows import read_folder
from tts_cli.checks.page.content import audio_url, content_of
from tts_cli.checks.reviews import (
    Decision,
    append_decisions,
    read_decisions,
)
from tts_cli.checks.waveform import outlines
from tts_cli.config import RunConfig
from tts_cli.errors import FolderLocked, UsageError
from tts_cli.export.selection import manifest_ids
from tts_cli.sources.ids import is_recorded_id
from tts_cli.store.entry import iso_time
from tts_cli.store.files import CHECKS_NAME, JOURNAL_NAME, REVIEWS_NAME, PlainFiles
from tts_cli.store.lock import running_owner
from tts_cli.store.orphans import BOOK_NAME
from tts_cli.store.store import Store
from tts_cli.versions import versions

log = logging.getLogger(__name__)

PATIENCE_S = 1.0  # that a decision waits for another command that holds the lock for a moment
MAX_DECISIONS = 1000  # in a request
MAX_OUTLINES = 200
MAX_BOOK_BYTES = 1 << 28

TakeKey = tuple[str, int]  # id of a row, number of a take


class Decide(msgspec.Struct):
    """A request to record decisions; their reviewer and time are not the client's."""

    decisions: Annotated[list[Decision], Meta(max_length=MAX_DECISIONS)]


class Outlines(msgspec.Struct):
    """A request for waveforms."""

    takes: Annotated[list[TakeKey], Meta(max_length=MAX_OUTLINES)]


class Pick(msgspec.Struct):
    """A request to make a take the row's current one."""

    id: str
    take: int


class ReviewFolder:
    """A folder under review. Any thread may call its methods.

    Args:
        reviewer: name in the decisions.
    """

    def __init__(self, out: Path, config: RunConfig, reviewer: str) -> None:
        self.out, self.reviewer = out, reviewer
        self._config = config
        self._deciding = threading.Lock()  # held while a decision is recorded; guards `_is_own`
        self._reading = threading.Lock()  # held while the folder is read; guards `_content`
        self._content: dict[str, Any] = {}
        self._mutex = threading.Lock()  # guards the other fields
        self._decisions: list[Decision] = []
        self._read = ""  # stamp of reviews.jsonl when it was read
        self._files: dict[TakeKey, Path] = {}
        self._outlines: dict[tuple[Path | None, str], str | None] = {}  # by file and its stamp
        self._is_own = False  # whether this process holds the lock, for a retake

    def content(self) -> dict[str, Any]:
        """Return the data of the page. Raises UsageError, SetupError."""
        with self._reading:  # a second browser gets what the first one had
            stamp = self.stamp()
            if self._content.get("server", {}).get("stamp") != stamp:
                self._content = self._read_content(stamp)
            return self._content

    def _read_content(self, stamp: str) -> dict[str, Any]:
        folder = read_folder(self.out)
        content = content_of(folder, versions()["tts-cli"], has_outlines=False)
        plain = PlainFiles(self.out)
        files = {
            (row.id, file.take.take): self.out / file.path
            for row in folder.rows
            for file in row.files
            if file.path is not None and plain.size(self.out / file.path) is not None
        }
        with self._mutex:
            self._files = files
        content["decisions"] = []
        places = {row_id: place for place, row_id in enumerate(manifest_ids(self.out))}
        chapters = dict(self._chapters())
        for row in content["rows"]:
            row["order"] = places.get(row["id"], len(places))
            if row["id"] in chapters:
                row["order"], row["chapter"] = chapters[row["id"]]
            for take in row["takes"]:
                if take.pop("url", None) is not None and (row["id"], take["take"]) in files:
                    version = take.get("sha256", "")[:16]
                    take["url"] = f"audio/{take['take']}/{audio_url(row['id'])}?{version}"
        return {**content, "server": {"stamp": stamp, "reviewer": self.reviewer}}

    def _chapters(self) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield the place and the chapter of each row of a book, as `book.json` has them."""
        raw = read_own(self.out / BOOK_NAME, MAX_BOOK_BYTES)
        try:
            found: list[Any] = json.loads(raw or b"{}").get("chapters", [])
            place = 0
            for number, chapter in enumerate(found, 1):
                title = str(chapter.get("title") or f"Chapter {number}")
                for sentence in chapter["sentences"]:
                    place += 1
                    yield str(sentence["id"]), (place, title)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            log.warning("%s cannot be read: the page shows no chapters", self.out / BOOK_NAME)

    def stamp(self) -> str:
        """Return a text that changes with the journal and the checks."""
        return " ".join(_stamp(self.out / name) for name in (JOURNAL_NAME, CHECKS_NAME))

    def changes(self, after: int) -> dict[str, Any]:
        """Return the decisions since a revision, and the state of the folder."""
        with self._mutex:
            revision = self._refresh()
            found = self._decisions[after:] if 0 <= after <= revision else self._decisions
            is_own = self._is_own
        return {
            "revision": revision,
            "decisions": list(map(msgspec.to_builtins, found)),
            "busy": None if is_own else running_owner(self.out),
            "stamp": self.stamp(),
        }

    def _refresh(self) -> int:
        """Read decisions that others added. Return the number of decisions."""
        stamp = _stamp(self.out / REVIEWS_NAME)
        if stamp != self._read:
            self._decisions, self._read = list(read_decisions(self.out)), stamp
        return len(self._decisions)

    def decide(self, request: Decide) -> int:
        """Record decisions durably. Return their number.

        Raises:
            UsageError: a row has an id that no folder has.
            FolderLocked: a run is in progress.
            DiskFull, StoppedEarly: they may not be recorded.
        """
        about = {"reviewer": self.reviewer, "time": iso_time(datetime.now(timezone.utc))}
        found = [msgspec.structs.replace(one, **about) for one in request.decisions]
        if wrong := [one.id for one in found if not is_recorded_id(one.id)]:
            raise UsageError(f"{wrong[0]!r} is not the id of a row")
        with self.owned():
            append_decisions(self.out, found)
        return len(found)

    def pick(self, request: Pick) -> None:
        """Make a take the row's current one. Raises as `choose_takes`."""
        with self.owned() as store:
            if store is None:
                raise FolderLocked("a retake is in progress", remedy="wait until it is finished")
            store.open()
            choose_takes(store, [Choice(request.id, request.take)])

    @contextmanager
    def owned(self) -> Iterator[Store | None]:
        """Own the lock of the folder inside the block; None: a retake of this process has it."""
        with self._deciding, ExitStack() as stack:
            yield None if self._is_own else self._locked(stack)

    def _locked(self, stack: ExitStack) -> Store:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return stack.enter_context(Store.locked(self.out, self._config))
            except FolderLocked:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(0.05)

    @contextmanager
    def retaking(self) -> Iterator[None]:
        """Let decisions pass inside the block, although the retake owns the lock."""
        with self._deciding:
            self._is_own = True
        try:
            yield
        finally:
            self._is_own = False

    def audio(self, row_id: str, take: int) -> Path | None:
        """Return the file of a take, or None. No link is followed out of the folder."""
        with self._mutex:
            path = self._files.get((row_id, take))
        return path if path and PlainFiles(self.out).size(path) is not None else None

    def outlines(self, request: Outlines) -> list[str | None]:
        """Return the waveforms of takes; those of unchanged files are remembered."""
        paths = [self.audio(*key) for key in request.takes]
        wanted = [(path, "" if path is None else _stamp(path)) for path in paths]
        with self._mutex:
            missing = [one for one in dict.fromkeys(wanted) if one not in self._outlines]
        drawn = dict(zip(missing, outlines([path for path, _ in missing]), strict=True))
        with self._mutex:
            self._outlines.update(drawn)
            return [self._outlines[one] for one in wanted]


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_size}.{found.st_mtime_ns}"
