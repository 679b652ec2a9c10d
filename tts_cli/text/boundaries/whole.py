"""What must stay in one piece: markup, addresses, and quotations that fit into a part."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"[!-~]+")  # candidates: runs of ASCII without a space


def spans_of(pattern: str | None, text: str) -> list[tuple[int, int]]:
    """Start and end of what a regular expression matches."""
    if pattern is None:
        return []
    return [found.span() for found in re.finditer(pattern, text) if found.group()]


def addresses(text: str) -> list[tuple[int, int]]:
    """Start and end of web and e-mail addresses, with the punctuation that touches them."""
    return [
        found.span()
        for found in _ADDRESS.finditer(text)
        if "://" in found.group() or "@" in found.group() or found.group().startswith("www.")
    ]


def inside(length: int, spans: list[tuple[int, int]]) -> bytearray:
    """(length + 1,) flags: 1 where a cut would fall inside of a span, not at its edges."""
    depth = [0] * (length + 2)
    for start, end in spans:
        if end - start > 1:
            depth[start + 1] += 1
            depth[end] -= 1
    flags, level = bytearray(length + 1), 0
    for place in range(length + 1):
        level += depth[place]
        flags[place] = level > 0
    return flags
