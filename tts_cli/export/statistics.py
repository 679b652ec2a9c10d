"""Figures about a data set, and the split of a row.

A hash of its text decides the split of a row, so that no text is in two splits, and new rows do not
move existing ones.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections import Counter
from itertools import accumulate
from typing import Any

import numpy as np

from tts_cli.errors import UsageError
from tts_cli.export.row import ExportRow

NONE = "(none)"
_MAX_SPLITS = 16
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_SLACK = 1e-6  # of the sum of shares


class Statistics:
    """Sums over the rows of an export; 4 bytes per row. `left_out`: number of rows by reason."""

    def __init__(self, left_out: Counter[str]) -> None:
        self.left_out = left_out
        self._rows: Counter[tuple[str, str]] = Counter()  # by kind and name
        self._seconds: Counter[tuple[str, str]] = Counter()
        self._num_changed_texts = 0
        self._lengths_s: array[float] = array("f")

    def add(self, row: ExportRow, split: str) -> None:
        values = row.values
        names = {"splits": split, "voices": values["voice"], "languages": values["language"]}
        for kind, name in names.items():
            self._rows[kind, name or NONE] += 1
            self._seconds[kind, name or NONE] += values["duration"]
        self._num_changed_texts += values["text"] != values["spoken_text"]
        self._lengths_s.append(values["duration"])

    def as_dict(self) -> dict[str, Any]:
        """Return the figures, as in `export.json`. Names with most rows come first."""
        lengths_s = np.array(self._lengths_s)
        found = np.percentile(lengths_s, (0, 5, 50, 95, 100)) if len(lengths_s) else ()
        names = ("min", "p5", "p50", "p95", "max")[: len(found)]
        sums: dict[str, dict[str, dict[str, float]]] = {"splits": {}, "voices": {}, "languages": {}}
        for (kind, name), rows in sorted(self._rows.items(), key=lambda one: (-one[1], one[0])):
            sums[kind][name] = {"rows": rows, "hours": _hours(self._seconds[kind, name])}
        return {
            "rows": len(lengths_s),
            "hours": _hours(float(lengths_s.sum(dtype=np.float64))),
            "length_s": {
                name: round(float(one), 3) for name, one in zip(names, found, strict=True)
            },
            **sums,
            "spoken_otherwise": self._num_changed_texts,
            "left_out": dict(sorted(self.left_out.items())),
        }


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 4)


class Splits:
    """Names and shares of splits, such as `train=0.95,valid=0.05`. Raises UsageError: a name or
    share is invalid, or the sum of the shares is not 1.
    """

    def __init__(self, text: str) -> None:
        shares: dict[str, float] = {}
        for part in text.split(","):
            name, equals, share = part.strip().partition("=")
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"--split {text!r}: {name!r} is not a valid name: use a letter, then letters, "
                    "digits or '_'"
                )
            if name.casefold() in map(str.casefold, shares) or len(shares) == _MAX_SPLITS:
                raise UsageError(f"--split {text!r}: must be 1 to {_MAX_SPLITS} different names")
            try:
                shares[name] = float(share if equals or "," in text else 1)
            except ValueError:
                problem = f"--split {text!r}: {part!r} is not of the form NAME=SHARE"
                raise UsageError(problem) from None
        self.names = tuple(shares)
        self._ends = list(accumulate(shares.values()))
        if not all(0 < one <= 1 for one in shares.values()) or abs(self._ends[-1] - 1) > _SLACK:
            raise UsageError(
                f"--split {text!r}: the shares must be positive and add up to 1",
                remedy="for example train=0.9,valid=0.05,test=0.05",
            )

    def split_of(self, text: str) -> str:
        """Return the split of a text. Letter case, white space and Unicode's form do not matter."""
        folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        digest = hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        for name, end in zip(self.names, self._ends[:-1], strict=False):
            if place < end:
                return name
        return self.names[-1]
