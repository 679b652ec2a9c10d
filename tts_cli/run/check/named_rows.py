"""Rows that a message names: equal problems in one line, and of these the first in full, then a
count, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tts_cli.manifest.row import BadRow, Row

MAX_SHOWN = 20  # problems told of one kind
MAX_NAMED = 8  # rows that a problem names


@dataclass
class _Problem:
    """What some rows have in common."""

    file: str  # of the first one, as the next two; "" where a run has but one manifest
    said: str  # behind the manifest's name: line, id, what is wrong
    count: int = 1
    others: list[str] = field(default_factory=list)  # as a message names them


class NamedRows:
    """Rows of one manifest with one kind of problem.

    Args:
        ending: what follows the problem of each row, such as `; the row will fail`.
        more: what the others are called, such as `rows that do not fit`.
    """

    def __init__(self, more: str, ending: str = "") -> None:
        self.count = 0
        self._more = more
        self._ending = ending
        self._found: dict[str, _Problem] = {}  # the first ones, by what makes them equal

    def add(self, row: Row | BadRow, problem: object, kind: str | None = None) -> None:
        """Take in a row.

        Args:
            kind: what rows are told together by; None: the problem as it is said.
        """
        self.count += 1
        key = str(problem) if kind is None else kind
        found = self._found.get(key)
        if found is None:
            if len(self._found) < MAX_SHOWN:
                named = "" if row.id is None else f"id '{row.id}': "
                said = f"{row.line}: {named}{problem}{self._ending}"
                self._found[key] = _Problem(row.file, said)
            return
        found.count += 1
        if len(found.others) < MAX_NAMED - 1:
            found.others.append(f"line {row.line}" if row.id is None else f"'{row.id}'")

    def lines(self, manifest: str) -> list[str]:
        """What is said of them."""
        lines = []
        for found in self._found.values():
            said = f"{found.file or manifest}:{found.said}"
            if found.others:
                rows = "1 more row" if found.count == 2 else f"{found.count - 1} more rows"
                more = ", ..." * (found.count > len(found.others) + 1)
                said += f"; {rows} alike: {', '.join(found.others)}{more}"
            lines.append(said)
        rest = self.count - sum(found.count for found in self._found.values())
        return [*lines, f"{manifest}: {rest} more {self._more}"] if rest else lines
