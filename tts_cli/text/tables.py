"""Tables of words and signs: the TOML files of `data`."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def load_table(name: str) -> dict[str, Any]:
    """Return the contents of a file of `data`, which callers must not change."""
    table: dict[str, Any] = tomllib.loads(
        (Path(__file__).parent / f"data/{name}.toml").read_text("utf-8")
    )
    return table


def script(*names: str) -> str:
    """Return the characters of scripts, see `scripts.toml`, for a class of a pattern."""
    return "".join(load_table("scripts")[name] for name in names)
