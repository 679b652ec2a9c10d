"""Patterns of lists and Markdown take bounded time for any line."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tts_cli import sources
from tts_cli.plain import read_table

LENGTH = 3000  # quadratic patterns take seconds for it, cubic ones hours
MAX_S = 2.0  # a hundred times what the slowest takes on an idle machine
STARTS = (
    *' \t[(<"_*{',
    *("{~~~>", "{{", "{%", "{--", "{==", "{>>", "[a](", "[@a;", "{a.", "[a]{.", " ^a", "[[a|"),
    *("｜", "漢（", "漢(a", "a:", "a=", "a ", "1:", "a[0:0", ":::a", "{#", "{% highlight "),
)


def patterns(value: Any) -> Iterator[tuple[str, str]]:
    """All patterns of a table and their keys, at any depth."""
    if isinstance(value, list):
        for one in value:
            yield from patterns(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in ("line", "pattern", "skip") and isinstance(one, str):
                yield key, one
            else:
                yield from patterns(one)


@pytest.mark.parametrize("name", ["lists", "markdown"])
def test_no_line_takes_long(name: str) -> None:
    table = read_table(Path(sources.__file__).parent / f"data/{name}.toml")
    found = list(patterns(table))
    assert len(found) > 20
    for key, pattern in found:
        form = re.compile(pattern)
        started_s = time.perf_counter()
        for start in STARTS:
            line = f"x{start * (LENGTH // len(start))}y"
            if key == "pattern":
                form.sub("", line)
            else:
                form.fullmatch(line)
        assert time.perf_counter() - started_s < MAX_S, pattern
