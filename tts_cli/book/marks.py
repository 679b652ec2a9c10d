"""The two marks an author may put into a text: pauses and voices.

`[pause 500ms]` or `[pause 1.5 s]`, anywhere, stands for exactly that much silence, also in place of
the pause between sentences or paragraphs. It needs a number and a unit: bracketed words alone are
style tags of Fish Speech. `{voice=clara}` at the beginning or the end of a paragraph gives that
paragraph to another voice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tts_cli.errors import ManifestError

MAX_PAUSE_S = 60.0

_PAUSE = re.compile(r"\[pause[ \t]+([0-9]{1,9}(?:\.[0-9]{1,9})?)[ \t]?(ms|s)\]", re.IGNORECASE)
_VOICE = re.compile(r"\{voice=([^{}\s=](?:[^{}=\n]{0,198}[^{}\s=])?)\}")
_ALMOST_VOICE = re.compile(r"\{\s*voice\b[^{}\n]{0,60}\}", re.IGNORECASE)


@dataclass(frozen=True)
class Stretch:
    """Text between two pauses."""

    start: int  # index of its first character in the paragraph, and behind its last
    end: int
    pause_after_s: float | None  # None: no mark follows


def stretches(text: str, place: str) -> Iterator[Stretch]:
    """What lies between the pauses of a text, edges without spaces; may be empty before a pause.

    Raises:
        ManifestError: a pause is longer than a minute.
    """
    start = 0
    for found in _PAUSE.finditer(text):
        pause_s = float(found[1]) / (1000 if found[2].lower() == "ms" else 1)
        if pause_s > MAX_PAUSE_S:
            raise ManifestError(
                f"{place}: {found.group()} is longer than {MAX_PAUSE_S:g} s", remedy="shorten it"
            )
        yield _trimmed(text, start, found.start(), pause_s)
        start = found.end()
    yield _trimmed(text, start, len(text), None)


def _trimmed(text: str, start: int, end: int, pause_after_s: float | None) -> Stretch:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return Stretch(start, end, pause_after_s)


def take_voice(text: str) -> tuple[str, str | None]:
    """A paragraph's text without the mark of its voice, and that voice."""
    found = _VOICE.match(text) or _VOICE.search(text, max(0, len(text) - 210))
    if found is None or (found.start() and found.end() < len(text)):
        return text, None
    return (text[: found.start()] + text[found.end() :]).strip(), found[1]


def misspelt(text: str) -> str | None:
    """What looks like the mark of a voice in a text that `take_voice` left, or None."""
    found = _ALMOST_VOICE.search(text)
    return None if found is None else found.group()
