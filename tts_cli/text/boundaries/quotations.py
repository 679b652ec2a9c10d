"""Quotations and what stands in brackets, by their marks.

Marks are paired within a paragraph; one without its partner is no quotation. A straight mark opens
where nothing or a space is before it. An apostrophe closes a single quotation only behind another
mark, since it mostly stands in words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

PAIRS = {
    "“": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "‘": "’",
    "「": "」",
    "『": "』",
    "（": "）",
    "《": "》",
    "(": ")",
    '"': '"',
}
_MARKS = re.compile("[" + re.escape("".join(PAIRS) + "".join(PAIRS.values())) + r"]|\n\s*\n")
_BEFORE_APOSTROPHE = ".,!?…;:—"


def quotations(text: str) -> Iterator[tuple[int, int]]:
    """Start and end (behind the closing mark) of every quotation, inner ones before outer ones."""
    waiting: list[tuple[str, int]] = []  # opening marks with their places
    closers: Counter[str] = Counter()  # how many of those that wait are closed by a mark
    for found in _MARKS.finditer(text):
        mark, place = found.group(), found.start()
        if len(mark) > 1 or mark == "\n":
            waiting.clear()
            closers.clear()
        elif closers[mark] and _may_close(text, mark, place):
            while True:
                opening, start = waiting.pop()
                closers.subtract(PAIRS[opening])
                if mark in PAIRS[opening]:
                    break
            yield start, place + 1
        elif mark in PAIRS and _may_open(text, mark, place):
            waiting.append((mark, place))
            closers.update(PAIRS[mark])


def _may_close(text: str, mark: str, place: int) -> bool:
    if mark == "’":
        return text[place - 1] in _BEFORE_APOSTROPHE
    return True


def _may_open(text: str, mark: str, place: int) -> bool:
    if mark == '"':
        return place == 0 or not text[place - 1].isalnum()
    return True
