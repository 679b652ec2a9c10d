"""Tables of words and signs: the TOML files of `data`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tts_cli.plain import read_table


def load_table(name: str) -> dict[str, Any]:
    """Return the contents of a file of `data`. Callers must not change them."""
    return read_table(Path(__file__).parent / f"data/{name}.toml")


def script(*names: str) -> str:
    """Return the characters of scripts for a pattern's class, see `scripts.toml`."""
    return "".join(load_table("scripts")[name] for name in names)
