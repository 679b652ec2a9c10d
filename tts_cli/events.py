"""Count the events of a run: everything that is reported is counted here.

For each kind of event `Events` stores the count, the first names, the facts of the first event, and
sums and maxima of numbers. Events of a kind can be grouped, for example by their problem. Memory
does not grow with the number of events.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

MAX_NAMES = 5
MAX_EVENT_NAMES = 8
OTHERS = "..."  # the group of events beyond `MAX_GROUPS` groups
MAX_GROUPS = 20  # groups per kind; further events are only counted


class Event(Enum):
    """The kinds of events. Notes on the rows of a manifest are reported in this order."""

    # The manifest
    INVALID = auto()  # an invalid row, selected or not; grouped by problem
    VALID = auto()
    SELECTED = auto()  # a valid row that the run selects; chars
    WORDLESS_SELECTED = auto()  # a selected row without a letter or digit

    # The plan
    PENDING = auto()  # a row to synthesize or to write as silence; grouped by reason; audio_s
    SILENT = auto()  # a pending row or take that needs no model
    EXTRA_TAKES = auto()  # a row that gets further takes; takes, audio_s
    SPLIT = auto()  # a pending row that is split; pieces
    REENCODE = auto()  # a row whose file is converted; grouped by source; audio_s
    DONE = auto()  # a row without anything to do
    FAILING = auto()  # a row to record as failed; is_valid: the manifest has no problem
    EARLY = auto()  # a changed row of a version that was never published
    REREAD = auto()  # a changed row whose text is cleaned differently now
    UNFIXED = auto()  # a changed row whose voice was not fixed before
    OLDER = auto()  # a done row that this version or model would synthesize differently
    REFUSED = auto()  # a done row that settings given now would change
    SERVED = auto()  # a row with takes of an interrupted run that count; takes
    ONE_TAKE = auto()  # a row with greedy sampling, so that every take would be the same
    PINNED = auto()  # a row whose pinned take fits
    UNPINNED = auto()  # a row whose pinned take does not fit any more
    FROM_OTHER = auto()  # a row that replaces another text, of another manifest
    FOREIGN_FILE = auto()  # an existing file that a new row would replace
    NOT_CONVERTIBLE = auto()  # a row that is pending because its file cannot be converted
    CONVERTED = auto()  # a file that was converted
    NOT_CONVERTED = auto()  # a file that is still missing after the conversion failed

    # Results, see `app.totals.add_result`; a row has one of SYNTHESIZED, FAILED, RECORDED_INVALID
    SYNTHESIZED = auto()
    TAKE = auto()  # a further take that is ok
    FAILED = auto()  # a row or a further take
    RECORDED_INVALID = auto()  # an invalid row of the manifest, recorded as failed
    RETAKE = auto()  # a take that is ok, of a row that `--verify` had synthesized again
    FAILED_RETAKE = auto()
    FIXED = auto()  # a failed row that has such a take now

    # Files that are derived from rows or converted
    DERIVED = auto()  # a file that was written
    NOT_DERIVED = auto()  # a row without it
    EDITED_FILE = auto()  # a file that was not written, because a user edited it
    NOT_APPROVED = auto()  # a row that is not converted, because a review did not approve it
    NOT_IN_SOURCE = auto()  # a row of the target that the source folder never had
    REMOVED_FROM_SOURCE = auto()  # a row that the source folder no longer has
    OWN_PACE = auto()  # a converted row whose own speed or length the flags do not change
    OLDER_FORMAT = auto()  # a file in a format other than the recorded one

    # Takes that are transcribed, rated or aligned
    MEASURED = auto()  # audio_s, words
    MEASURED_BEFORE = auto()  # a take with the result of an earlier run
    OTHER_LANGUAGE = auto()  # a take in a language that the recognizer or aligner lacks
    WITHOUT_WORDS = auto()
    WITHOUT_AUDIO = auto()
    CHANGED_FILE = auto()  # a file whose hash differs from the journal's
    GUESSED = auto()  # an aligned word that no dictionary has

    # Notes on rows that are named
    HOPELESS = auto()  # the row is certain to fail, alone
    RECORDING = auto()
    FOREIGN = auto()
    GARBLED = auto()  # text that was decoded in a wrong encoding
    MARKUP = auto()
    PAUSES = auto()
    UNHEARD = auto()
    CUE = auto()
    # Notes on rows that are counted
    SPEAKER_NAMES = auto()
    WORDLESS = auto()
    OWN_CAP = auto()
    UNREAD = auto()
    FIGURE = auto()
    INSTRUCT = auto()
    WHOLE = auto()
    LIMIT = auto()
    NO_INSTRUCT = auto()


@dataclass
class Count:
    """A number of events with the first names.

    Attributes:
        is_sorted: the first names in alphabetical order, not in the order of the events.
        facts: facts of the first event.
        sums: sum of each number.
        largest: maximum of each number, and the name of its event.
    """

    is_sorted: bool = False
    most: int = MAX_NAMES
    count: int = 0
    first: list[str] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    largest: dict[str, tuple[float, str]] = field(default_factory=dict)

    def add(self, name: str = "") -> None:
        self.count += 1
        if not name:
            return
        if self.is_sorted:
            insort(self.first, name)
            del self.first[self.most :]
        elif len(self.first) < self.most:
            self.first.append(name)

    def add_number(self, fact: str, total: float, value: float, name: str) -> None:
        """Add to the sum of a number, and compare the value of one event with the largest."""
        self.sums[fact] = self.sums.get(fact, 0) + total
        if fact not in self.largest or value > self.largest[fact][0]:
            self.largest[fact] = (value, name)

    def merge(self, other: Count) -> None:
        """Merge another count, whose events are later than those of this one."""
        self.facts = self.facts or other.facts
        self.count += other.count
        names = self.first + other.first
        self.first = (sorted(names) if self.is_sorted else names)[: self.most]
        for fact, (value, name) in other.largest.items():
            self.add_number(fact, other.sums[fact], value, name)

    def __str__(self) -> str:
        names = self.first[:MAX_NAMES]
        return ", ".join(names) + ", ..." * (self.count > len(names))

    def and_more(self) -> str:
        """Return the first names, and the number of the others."""
        more = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {more} more" if more else "")


class Events:
    """The events of a run. Any thread may add to it."""

    def __init__(self) -> None:
        self._kinds: dict[Event, dict[str, Count]] = {}
        self._mutex = threading.Lock()  # guards the counts

    def add(
        self,
        kind: Event,
        name: str = "",
        *,
        group: str = "",
        facts: Mapping[str, Any] | None = None,
        numbers: Mapping[str, float] | None = None,
        **more: float,
    ) -> None:
        """Count an event of a row. `facts` are stored if it is the first of its group."""
        with self._mutex:
            groups = self._kinds.setdefault(kind, {})
            found = groups.get(group)
            if found is None:
                key = group if len(groups) < MAX_GROUPS else OTHERS
                found = groups.setdefault(key, Count(most=MAX_EVENT_NAMES))
                found.facts = found.facts or facts or {}
            found.add(name)
            for fact, value in {**(numbers or {}), **more}.items():
                found.add_number(fact, value, value, name)

    def groups(self, kind: Event) -> Mapping[str, Count]:
        """Return the first groups of a kind in their order. Further events are in `OTHERS`."""
        with self._mutex:
            return dict(self._kinds.get(kind, {}))

    def of(self, kind: Event, group: str | None = None) -> Count:
        total = Count(most=MAX_EVENT_NAMES)
        with self._mutex:
            for name, found in self._kinds.get(kind, {}).items():
                if group in (None, name):
                    total.merge(found)
        return total

    def num(self, kind: Event, group: str | None = None) -> int:
        return self.of(kind, group).count

    def total(self, kind: Event, fact: str) -> float:
        return self.of(kind).sums.get(fact, 0)

    def __str__(self) -> str:
        return ", ".join(f"{kind.name.lower()} {self.num(kind)}" for kind in self._kinds)
