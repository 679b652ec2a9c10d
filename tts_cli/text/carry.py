"""Tags that stay in force from one part of a text to the next."""

from __future__ import annotations

import re
from collections.abc import Iterator


def with_tags_in_force(parts: list[str], kinds: tuple[str, ...]) -> Iterator[str]:
    """The parts, each behind the tags that are in force where it begins.

    Args:
        kinds: regular expressions of tags, the outer kind first. The last tag of a kind is in
            force until the next one of that kind or of an outer one.
    """
    in_force = [""] * len(kinds)
    for text in parts:
        outermost = _first_kind(text, kinds)
        yield "".join(in_force[:outermost]) + text
        for _, kind, tag in sorted(_tags(text, kinds)):
            in_force[kind:] = [tag] + [""] * (len(kinds) - kind - 1)


def _tags(text: str, kinds: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """Place, kind and text of every tag."""
    for kind, pattern in enumerate(kinds):
        for found in re.finditer(pattern, text):
            yield found.start(), kind, found.group()


def _first_kind(text: str, kinds: tuple[str, ...]) -> int:
    """The outermost kind of the tags that a text begins with; len(kinds) if there are none."""
    outermost, place = len(kinds), 0
    while place < len(text):
        found = [
            (kind, re.compile(pattern).match(text, place)) for kind, pattern in enumerate(kinds)
        ]
        tags = [(kind, match.end()) for kind, match in found if match and match.end() > place]
        if tags:
            outermost, place = min(outermost, tags[0][0]), tags[0][1]
        elif text[place].isspace():
            place += 1
        else:
            break
    return outermost
