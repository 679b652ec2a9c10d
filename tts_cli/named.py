"""Names for a message: how many there are, and the first of them."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_NAMED = 5


@dataclass
class Named:
    """So many of a kind, of which a message names a few."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.first) < MAX_NAMED:
            self.first.append(name)

    def __str__(self) -> str:
        return ", ".join(self.first) + ", ..." * (self.count > len(self.first))

    def and_more(self) -> str:
        """The first ones, and the number of the others."""
        more = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {more} more" if more else "")
