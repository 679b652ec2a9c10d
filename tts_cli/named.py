"""Format counts, names and values for messages, and find the name a user meant."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any

from tts_cli.errors import without_user_info

MAX_DEPTH = 64  # nesting of JSON; Python's pickle and json fail at a few hundred
_MAX_NAME_CHARS = 200  # of a mistyped name that is compared with valid ones
# Terminal controls (C0 except tab and newline, C1), lone surrogates, which cannot be encoded,
# Unicode line separators, and characters that change the direction of text.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 row", "2 rows". Give both forms if a verb follows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shown(value: object, limit: int = 60) -> str:
    """Return a value for a message: short, and without control characters."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        value = without_user_info(value)
        return repr(value) if len(value) <= limit else repr(value[:limit]) + "..."
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def is_too_deep(value: object, max_depth: int = MAX_DEPTH) -> bool:
    """Whether lists and objects of a JSON value are nested more than `max_depth` deep."""
    if not isinstance(value, (list, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return max_depth == 0 or any(is_too_deep(one, max_depth - 1) for one in inner)


def printable(text: str) -> str:
    """Return a text without terminal controls, bidirectional controls and passwords in URLs."""
    return _UNPRINTABLE.sub("?", without_user_info(text))


def first_few(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names, and "..." if there are others."""
    return ", ".join(names[:limit]) + ", ..." * (len(names) > limit)


def capped(lines: Sequence[str], limit: int, more: str) -> list[str]:
    """Return the first lines, and `more` with the number of the others, if any."""
    num_more = len(lines) - limit
    return [*lines[:limit], *([more.format(num_more)] if num_more > 0 else [])]


def shortened(text: str, max_chars: int) -> str:
    """Return a text in one line, cut to a maximum length."""
    return cut(" ".join(text.split()), max_chars)


def cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."


def nearest(name: str, valid: list[str]) -> str | None:
    """Return the valid name closest to a mistyped one, or None if none is close."""
    by_folded = {entry.casefold(): entry for entry in valid}
    close = difflib.get_close_matches(name[:_MAX_NAME_CHARS].casefold(), list(by_folded), n=1)
    return by_folded[close[0]] if close else None


def shown_value(value: Any) -> str:
    return cut(
        "none" if value is None else value if isinstance(value, str) else json.dumps(value), 60
    )


def shown_size(num_bytes: float) -> str:
    """Return a size in the unit that shows its first digits: "1.2 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        digits = 0 if unit == "bytes" else 1
        if round(num_bytes, digits) < 1000:
            name = "byte" if unit == "bytes" and round(num_bytes) == 1 else unit
            return f"{num_bytes:.{digits}f} {name}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"
