"""Rows that a warning names: the first in full, then a count, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tts_cli.manifest.row import Row

MAX_SHOWN = 20


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
        self._shown: list[tuple[str, str]] = []  # manifest, if there are several, and the rest

    def add(self, row: Row, problem: object) -> None:
        """Take in a row."""
        self.count += 1
        if len(self._shown) < MAX_SHOWN:
            said = f"{row.line}: id '{row.id}': {problem}{self._ending}"
            self._shown.append((row.file, said))

    def lines(self, manifest: str) -> list[str]:
        """The warnings."""
        lines = [f"{file or manifest}:{said}" for file, said in self._shown]
        if self.count > len(lines):
            lines.append(f"{manifest}: {self.count - len(lines)} more {self._more}")
        return lines
