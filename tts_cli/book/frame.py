"""What Project Gutenberg puts around a book: a header, and a licence of 18,000 characters behind
it. It is no part of the book, and not read.

Source: the marks in its texts of 1994 to 2025; `pg-header` and `pg-footer` in its EPUBs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

IDS = frozenset(("pg-header", "pg-footer", "pg-start-separator", "pg-end-separator"))  # in HTML
_NAME = r"(?:THE |THIS )?PROJECT GUTENBERG"
_START = re.compile(
    rf"^[ \t]*\*{{3}} ?START OF {_NAME}[^*]{{0,400}}\*{{3}}[ \t]*$"
    r"|^[ \t]*\*?END\*? ?(?:THE )?SMALL PRINT[^\n]{0,200}\*END\*?[ \t]*$"
    r"|^[ \t]*\*END\*THE SMALL PRINT[^\n]{0,200}$",
    re.MULTILINE | re.IGNORECASE,
)
_END = re.compile(
    rf"^[ \t]*\*{{3}} ?END OF {_NAME}[^*]{{0,400}}\*{{3}}[ \t]*$"
    rf"|^[ \t]*END OF {_NAME}(?:'s|\u2019s)? [^\n]{{0,200}}$",
    re.MULTILINE | re.IGNORECASE,
)


class Unframed(NamedTuple):
    """A text without its frame."""

    text: str  # what is left out is empty lines, so that others keep their number
    num_left_out: int  # characters


def without_frame(text: str) -> Unframed:
    """The book between the two marks; one mark alone cuts its side only."""
    start = 0
    for found in _START.finditer(text, 0, max(len(text) // 2, 40_000)):
        start = found.end()  # an old text has two of them
    end = _END.search(text, start)
    stop = end.start() if end else len(text)
    before, book, behind = text[:start], text[start:stop], text[stop:]
    num_left_out = len(before.strip()) + len(behind.strip())
    return Unframed("\n" * before.count("\n") + book, num_left_out)


def frame_warning(name: str, num_left_out: int) -> str:
    """What is said of it."""
    what = "what Project Gutenberg put around the book"
    return f"{name}: {what} is not read, {num_left_out:,} characters"
