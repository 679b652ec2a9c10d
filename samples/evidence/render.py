"""Figures of the pages and fields of files: JSON files and code have them, pages show them.

    python samples/evidence/render.py

writes what stands between `<!-- FILE:NAME -->` and `<!-- / -->` in the README and in all pages of
samples/ anew: a table, where and how it was measured (`FILE:NAME.source`), or a few words. A file
has `sources`, `tables` (each with its `source`, `columns` and `rows`) and `words`. The tables of
`fields` are no file: see `field_tables.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import field_tables  # noqa: E402

ROOT = HERE.parents[1]
MARK = re.compile(r"(<!-- (\w+):([\w.]+) -->)(.*?)(<!-- / -->)", re.DOTALL)


def pages() -> Iterator[Path]:
    """Pages that may have marks."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "samples").rglob("*.md"))


def evidence() -> dict[str, dict[str, Any]]:
    """All files of figures, by their names; `fields` are the code's."""
    files = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(HERE.glob("*.json"))
    }
    return {**files, "fields": field_tables.tables()}


def render(page: str, found: dict[str, dict[str, Any]]) -> str:
    """A page with the figures of now. Raises KeyError for a mark that no file has."""
    return MARK.sub(lambda mark: f"{mark[1]}{_between(found[mark[2]], mark[3])}{mark[5]}", page)


def _between(file: dict[str, Any], name: str) -> str:
    name, _, part = name.partition(".")
    if part:
        lines = [f"- {key}: {said}" for key, said in file[part + "s"][name].items()]
        return "\n" + "\n".join(lines) + "\n"
    if name in file["words"]:
        return str(file["words"][name])
    table = file["tables"][name]
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    return "\n" + "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    figures = evidence()
    for path in pages():
        text = path.read_text(encoding="utf-8")
        path.write_text(render(text, figures), encoding="utf-8")
