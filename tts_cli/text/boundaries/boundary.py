"""What lies between two parts of a text."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Boundary(IntEnum):
    """The kinds, the strongest first."""

    PARAGRAPH = 0
    SENTENCE = 1
    CLAUSE = 2
    WORD = 3

    @property
    def label(self) -> str:
        """As options and the journal name it."""
        return self.name.lower()


class Cut(NamedTuple):
    """A place where a text may be cut: right behind what is before it, spaces come after."""

    place: int  # index into the text
    boundary: Boundary
    is_weak: bool = False  # of two places of one kind the other one is better
