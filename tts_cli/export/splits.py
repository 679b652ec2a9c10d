"""Which split a row is in: by a hash of its text, so that the same text never stands in two of
them, and rows that are added move no other.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterator

from tts_cli.errors import UsageError

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
                f"--split {text!r}: the shares must be above 0, and 1 together",
                remedy="as in train=0.9,valid=0.05,test=0.05",
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
                f"--split {text!r}: {name!r} is no name: a letter, then letters, digits or '_'"
            )
        try:
            yield name, float(share) if equals or len(parts) > 1 else 1.0
        except ValueError:
            raise UsageError(f"--split {text!r}: {part!r} is not of the form NAME=SHARE") from None
