"""In-memory SQLite tables for lookups during a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tts_cli.errors import SetupError

if TYPE_CHECKING:
    import sqlite3


def memory_database(create: str) -> sqlite3.Connection:
    """Open an empty database in memory that several threads may use, one at a time. Raises
    SetupError if this Python was built without SQLite.

    Args:
        create: the statement that creates its table.
    """
    try:
        import sqlite3
    except ImportError as error:
        raise SetupError(
            "this Python has no module sqlite3",
            "install the SQLite package of your system, or another Python",
        ) from error
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    database.execute(create)
    return database
