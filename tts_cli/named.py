"""Names and values in messages: how many there are, the first of them, the one that was meant."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any

from tts_cli.errors import without_user_info

MAX_DEPTH = 64  # of lists and objects in JSON; Python's pickle and json fail at some hundred
_MOST_CHARS = 200  # of a name, compared with others
# Controls of terminals (C0 but tab and line end, C1), halves of surrogate pairs, which cannot be
# encoded, line ends of Unicode, and signs that change the direction of the text after them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def counted(count: int, one: str, many: str = "") -> str:
    """A number and what it is of: 1 row, 2 rows; with a verb both are given."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shown(value: object, limit: int = 60) -> str:
    """A value as a message may show it: short, and with no control characters."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        value = without_user_info(value)
        return repr(value) if len(value) <= limit else repr(value[:limit]) + "..."
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def is_too_deep(value: object, most: int = MAX_DEPTH) -> bool:
    """Whether lists and objects of a JSON value are nested more than `most` deep."""
    if not isinstance(value, (list, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return most == 0 or any(is_too_deep(one, most - 1) for one in inner)


def printable(text: str) -> str:
    """Return a text without terminal controls, bidirectional controls and passwords in URLs."""
    return _UNPRINTABLE.sub("?", without_user_info(text))


def some_of(names: Sequence[str], most: int = 3) -> str:
    """The first of some names."""
    return ", ".join(names[:most]) + ", ..." * (len(names) > most)


def shortened(text: str, most: int) -> str:
    """As many characters of a text as there is room for, in one line."""
    return cut(" ".join(text.split()), most)


def cut(text: str, most: int) -> str:
    """As many characters of a text as there is room for."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def nearest(name: str, valid: list[str]) -> str | None:
    """The valid name closest to a mistyped one, if any is close."""
    by_folded = {entry.casefold(): entry for entry in valid}
    close = difflib.get_close_matches(name[:_MOST_CHARS].casefold(), list(by_folded), n=1)
    return by_folded[close[0]] if close else None


def shown_value(value: Any) -> str:
    """A setting of a report, in a message."""
    return cut(
        "none" if value is None else value if isinstance(value, str) else json.dumps(value), 60
    )


def shown_size(num_bytes: float) -> str:
    """Bytes in the unit that shows their first digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        digits = 0 if unit == "bytes" else 1
        if round(num_bytes, digits) < 1000:
            name = "byte" if unit == "bytes" and round(num_bytes) == 1 else unit
            return f"{num_bytes:.{digits}f} {name}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"
