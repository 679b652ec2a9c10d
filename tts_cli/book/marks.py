"""The two marks an author may put into a book: pauses, which rows of manifests have too
(`text/pauses.py`), and voices. `{voice=clara}` at the beginning or the end of a paragraph gives
that paragraph to another voice.
"""

from __future__ import annotations

import re

from tts_cli.errors import ManifestError
from tts_cli.text.pauses import pause_problem

_VOICE = re.compile(r"\{voice=([^{}\s=](?:[^{}=\n]{0,198}[^{}\s=])?)\}")
_ALMOST_VOICE = re.compile(r"\{\s*voice\b[^{}\n]{0,60}\}", re.IGNORECASE)


def require_pauses(text: str, place: str) -> None:
    """Raise ManifestError if a pause in a paragraph is longer than a minute."""
    if problem := pause_problem(text):
        raise ManifestError(f"{place}: {problem}")


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
