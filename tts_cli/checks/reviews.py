"""`reviews.jsonl`: the decisions of reviewers about the takes of a folder, and their comments.

The file only grows: one line per decision, synced before the reviewer sees it confirmed. The last
line about an audio file counts. A decision is about the audio with its SHA-256 and no other: if the
row's file has changed since, the row is undecided again.

The file may be of any version, and others may have edited it: invalid lines are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec

from tts_cli.atomic import iter_file_lines, open_to_append, sync_folder, write_all
from tts_cli.errors import SetupError, StoppedEarly, writing
from tts_cli.sources.ids import is_recorded_id
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import REVIEWS_NAME

SCHEMA = 1
MAX_COMMENT = 10_000  # characters

Number = Annotated[int, msgspec.Meta(ge=1, lt=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=2**32)]
Short = Annotated[str, msgspec.Meta(max_length=200)]


class State(Enum):
    APPROVED = "approved"
    REJECTED = "rejected"
    RETAKE = "retake"  # another take is requested
    OPEN = "open"  # undoes an earlier decision
    COMMENT = "comment"  # a remark without a decision


class Decision(msgspec.Struct, frozen=True):
    id: str  # id of the row
    take: Number  # [1, 2, ...] number of the take, as in `timings.jsonl`
    # [hex] SHA-256 of the audio file; null: the journal of an earlier version does not have it
    sha256: Short | None
    # [`approved`, `rejected`, `retake`, `open`, `comment`] the decision
    state: State
    # [text] text for the people who work on the row; empty: a comment at this time is removed
    comment: Annotated[str, msgspec.Meta(max_length=MAX_COMMENT)] = ""
    # [s] moment in the audio that the comment is about; null: all of it
    at_s: Seconds | None = None
    reviewer: Short = ""  # [text] name of the reviewer; empty: not given
    time: Short = ""  # [time] time of the decision
    schema: int = SCHEMA  # [1] version of the line's format

    def __post_init__(self) -> None:
        if not is_recorded_id(self.id):
            raise ValueError(f"{self.id!r} is not the id of a row")


class Reviews:
    """The last state of each audio file of a folder, and its comments. Raises SetupError."""

    def __init__(self, out: Path) -> None:
        self._states: dict[tuple[str, str | None], Decision] = {}
        self._comments: dict[tuple[str, str | None, float | None, str], Decision] = {}
        for one in read_decisions(out):
            if one.state is not State.COMMENT:
                self._states.pop((one.id, one.sha256), None)  # so that the last one is at the end
                self._states[one.id, one.sha256] = one
            if one.comment or one.state is State.COMMENT:
                self._comments[one.id, one.sha256, one.at_s, one.reviewer] = one

    def state(self, take: JournalEntry) -> State:
        found = self._states.get((take.id, take.sha256))
        return State.OPEN if found is None else found.state

    def is_approved(self, take: JournalEntry) -> bool:
        return self.state(take) is State.APPROVED

    def states(self) -> list[Decision]:
        """Return the last state of each audio file, also of files that have changed since."""
        return list(self._states.values())

    def comments(self) -> list[Decision]:
        """Return the comments that were not removed, by row and time in the audio."""
        found = [one for one in self._comments.values() if one.comment]
        return sorted(found, key=lambda one: (one.id, one.take, one.at_s or 0.0))


def read_decisions(out: Path) -> Iterator[Decision]:
    """Yield the valid lines of a folder, or of a file of decisions. Raises SetupError."""
    path = out / REVIEWS_NAME if out.is_dir() else out
    try:
        for raw in iter_file_lines(path):
            try:
                found = msgspec.json.decode(raw, type=Decision)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue
            yield found
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror or error}", "check its permissions") from error


def append_decisions(out: Path, decisions: Iterable[Decision]) -> None:
    """Append lines durably; the caller owns the lock of the folder.

    Raises:
        DiskFull, StoppedEarly: the lines may be missing. A torn one is ignored when it is read.
    """
    path = out / REVIEWS_NAME
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in decisions)
    with writing(path, StoppedEarly, remedy="check the folder's permissions"):
        with open(open_to_append(path), "ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            is_torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            write_all(file.fileno(), b"\n" * is_torn + lines)
        if size == 0:
            sync_folder(out)
