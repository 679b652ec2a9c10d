"""What a recogniser is to `check`: takes go in, words come out, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

POCKETSPHINX = "pocketsphinx"


class Asked(NamedTuple):
    """A take to be heard. Its text is not among what is told."""

    place: int  # in the list of what is to be heard
    path: Path
    language: str | None  # code, such as `en`; None: not known
    gaps_s: tuple[tuple[float, float], ...] = ()  # pauses between its parts


class Answer(NamedTuple):
    """What was heard in one."""

    place: int
    text: str = ""
    sha256: str = ""  # of the file that was heard
    problem: str | None = None  # why nothing could be heard


@dataclass(frozen=True)
class Identity:
    """Which recogniser: answers of another one are not its own."""

    name: str  # with version, and the sum of its weights
    languages: tuple[str, ...] = ()  # codes that it hears; empty: any
    spellings: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Recogniser(Protocol):
    """A recogniser with its weights in memory, to be closed."""

    identity: Identity

    def hear(self, asked: Iterable[Asked]) -> Iterator[Answer]:
        """Every take, as it is heard; a file that cannot be read answers with its problem."""
        ...

    def close(self) -> None:
        """Give back processes and memory."""
        ...
