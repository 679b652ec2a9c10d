"""A page of Markdown as its readers have it: sentences and their words; and signs of a notebook.

Code, headings and comments are left out. A stop ends a sentence if a capital, a digit, a sign or
code follows. The end of a paragraph, of an item of a list and of a table's cell ends one too. What
stands in backticks is one word, and of a link its text counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_ITEM = re.compile(r"\s{0,3}(?:[-*]|\d+\.) ")
_STOP = re.compile(r"""(?<=[.!?])["')*]*\s+(?=[^a-z])|(?<=[.!?][)"*])\s+(?=[^a-z])""")


@dataclass(frozen=True)
class Sentence:
    text: str
    is_cell: bool  # of a table

    @property
    def words(self) -> int:
        return len(re.findall(r"\S*\w\S*", self.text))


def sentences(page: str) -> list[Sentence]:
    """All of a page, in its order."""
    return [
        Sentence(part.strip(), is_cell)
        for text, is_cell in _pieces(page)
        for part in _STOP.split(_plain(text))
        if re.search(r"\w", part)
    ]


def mean_words(page: str) -> float:
    """Words of a sentence outside of tables."""
    counts = [sentence.words for sentence in sentences(page) if not sentence.is_cell]
    return sum(counts) / max(len(counts), 1)


def without_code(page: str) -> str:
    """A page without blocks of code and comments; what stands in backticks stays."""
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    page = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^    .*$", "", page, flags=re.MULTILINE)


def _pieces(page: str) -> Iterator[tuple[str, bool]]:
    """Paragraphs, items and cells; True for cells."""
    paragraph: list[str] = []
    for line in [*without_code(page).splitlines(), ""]:
        is_row, is_item = line.startswith("|"), _ITEM.match(line) is not None
        if paragraph and (is_row or is_item or not line.strip() or line.startswith("#")):
            yield " ".join(paragraph), False
            paragraph = []
        if is_row:
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from ((cell, True) for cell in cells if not re.fullmatch(r"[\s:-]*", cell))
        elif line.strip() and not line.startswith(("#", "!", "<img")):
            paragraph.append(_ITEM.sub("", line).strip())


def _plain(text: str) -> str:
    text = re.sub(r"``.+?``|`[^`]*`", "Code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*|<[^>]*>", "", text)
