"""What a data set holds, counted while it is written: 4 bytes a row, and a few names.

Which split a row is in: by a hash of its text, so that the same text never stands in two of
them, and rows that are added move no other.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tts_cli.errors import UsageError
from tts_cli.export.row import ExportRow

MAX_NAMES = 10_000  # voices that are counted apart
OTHERS = "(others)"
NONE = "(none)"


@dataclass
class Sums:
    """Rows and seconds by name."""

    rows: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, name: str | None, seconds: float) -> None:
        """Count one row."""
        name = NONE if name is None else name
        if name not in self.rows and len(self.rows) >= MAX_NAMES:
            name = OTHERS
        self.rows[name] += 1
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def as_dict(self) -> dict[str, dict[str, float]]:
        """The largest first."""
        names = sorted(self.rows, key=lambda name: (-self.rows[name], name))
        return {
            name: {"rows": self.rows[name], "hours": hours(self.seconds[name])} for name in names
        }


@dataclass
class Statistics:
    """Of the rows that were written, and why others were not."""

    splits: Sums = field(default_factory=Sums)
    voices: Sums = field(default_factory=Sums)
    languages: Sums = field(default_factory=Sums)
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> rows
    texts_differ: int = 0  # rows whose text was spoken in other words than written
    _lengths_s: array[float] = field(default_factory=lambda: array("f"))

    def add(self, row: ExportRow, split: str) -> None:
        """Count a row that was written."""
        self.splits.add(split, row.duration_s)
        self.voices.add(row.voice, row.duration_s)
        self.languages.add(row.language, row.duration_s)
        self.texts_differ += row.text != row.spoken_text
        self._lengths_s.append(row.duration_s)

    @property
    def rows(self) -> int:
        """That were written."""
        return len(self._lengths_s)

    @property
    def seconds(self) -> float:
        """Of audio, all splits."""
        return sum(self.splits.seconds.values())

    def lengths_s(self) -> dict[str, float]:
        """Shortest, percentiles and longest; empty without rows."""
        if not self.rows:
            return {}
        values = np.frombuffer(self._lengths_s, np.float32)
        found = np.percentile(values, (0, 5, 50, 95, 100))
        names = ("min", "p5", "p50", "p95", "max")
        return {name: round(float(value), 3) for name, value in zip(names, found, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """As `export.json` and `--json` have it."""
        return {
            "rows": self.rows,
            "hours": hours(self.seconds),
            "length_s": self.lengths_s(),
            "splits": self.splits.as_dict(),
            "voices": self.voices.as_dict(),
            "languages": self.languages.as_dict(),
            "spoken_otherwise": self.texts_differ,
            "left_out": dict(sorted(self.left_out.items())),
        }


def hours(seconds: float) -> float:
    """Rounded to a third of a second."""
    return round(seconds / 3600, 4)


DEFAULT = "train"
MAX_SPLITS = 16
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_SLACK = 1e-6


class Splits:
    """Names and shares, as `--split train=0.95,valid=0.05` has them.

    Raises:
        UsageError: a name or share makes no sense, or the shares are not 1 together.
    """

    def __init__(self, text: str = DEFAULT) -> None:
        pairs = list(_pairs(text))
        self.names = tuple(name for name, _ in pairs)
        shares = [share for _, share in pairs]
        folded = {name.casefold() for name in self.names}
        if len(folded) < len(pairs) or not 1 <= len(pairs) <= MAX_SPLITS:
            raise UsageError(f"--split {text!r}: must be 1 to {MAX_SPLITS} different names")
        if not all(0 < share <= 1 for share in shares) or abs(math.fsum(shares) - 1) > _SLACK:
            raise UsageError(
                f"--split {text!r}: the shares must be positive and add up to 1",
                remedy="for example train=0.9,valid=0.05,test=0.05",
            )
        self._ends = [math.fsum(shares[: place + 1]) for place in range(len(shares) - 1)]

    def split_of(self, text: str) -> str:
        """The split of a text. Letter case, white space and Unicode's forms make no other text."""
        folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        digest = hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        for name, end in zip(self.names, self._ends, strict=False):
            if place < end:
                return name
        return self.names[-1]


def _pairs(text: str) -> Iterator[tuple[str, float]]:
    parts = text.split(",")
    for part in parts:
        name, equals, share = part.strip().partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--split {text!r}: {name!r} is not a valid name: use a letter, then letters, "
                "digits or '_'"
            )
        try:
            yield name, float(share) if equals or len(parts) > 1 else 1.0
        except ValueError:
            raise UsageError(f"--split {text!r}: {part!r} is not of the form NAME=SHARE") from None
