"""Tables of cases in files next to the tests that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tts_cli.plain import read_table


def cases(test: str, name: str = "cases.toml") -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        test: `__file__` of the tests.
    """
    return read_table(Path(test).with_name(name))


def lines_of(test: str, name: str) -> list[list[str]]:
    """Return the cells of the lines of a TSV file; lines that begin with `# ` are comments."""
    text = Path(test).with_name(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("# ")]
