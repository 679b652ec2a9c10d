"""Tables of words and signs: the TOML files of `data`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tts_cli.plain import read_table


def load_table(name: str) -> dict[str, Any]:
    """Return the contents of a file of `data`, which callers must not change."""
    return read_table(Path(__file__).parent / f"data/{name}.toml")


def script(*names: str) -> str:
    """Return the characters of scripts, see `scripts.toml`, for a class of a pattern."""
    return "".join(load_table("scripts")[name] for name in names)
