"""Markup that other tools understand, and a model would read aloud.

A warning is all that comes of it: what stands in a manifest goes to the model. So the table is
short and strict, and what people write anyway (`a < b`, `5 * 3 * 2`, `AT&T`, `snake_case`, `#1`) is
none of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models.pace import Pace

MAX_SHOWN_CHARS = 40

_SSML = (
    "speak|break|say-as|phoneme|prosody|emphasis|voice|audio|lang|mark|sub|p|s|w|par|seq|media|"
    "lexicon|mstts:[a-z-]+|amazon:[a-z-]+"
)
_HTML = "a|b|i|u|em|strong|br|hr|div|span|font|small|sup|code|pre|h[1-6]|ul|ol|li|img|table|tr|td"
_CUES = (
    "pause|break|silence|beat|breaths?|breathing|laugh(?:s|ing|ter)?|sighs?|sighing|gasps?|coughs?|"
    "whisper(?:s|ing|ed)?|shout(?:s|ing|ed)?|music|sfx|sound"
)
_ENTITIES = (
    "amp|lt|gt|quot|apos|nbsp|shy|hellip|mdash|ndash|lsquo|rsquo|ldquo|rdquo|laquo|raquo|copy|deg|"
    "#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}"
)
# A sign that all of a kind have and most texts have not, what it is called, and how it looks.
# Every pattern stops at the next sign of its own kind, so that none takes more than linear time.
_KINDS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "<",
        "a tag",
        # Attributes have an equals sign, which "x<s and y>2" has not.
        re.compile(rf"</?(?:{_SSML}|{_HTML})(?:\s*/?|\s+[\w:-]{{1,40}}\s*=[^<>]*)>", re.IGNORECASE),
    ),
    ("<", "a tag", re.compile(r"<\|[^<>|]{1,80}\|>|<!--|<!\[CDATA\[|<\?xml\b")),
    ("[", "a stage direction", re.compile(rf"\[\s*/?(?:{_CUES})\b[^\[\]]*\]", re.IGNORECASE)),
    ("](", "a Markdown link", re.compile(r"\[[^\[\]\n]+\]\([^()\s]+\)")),
    ("://", "a web address", re.compile(r"\b(?:https?|ftp)://\S")),
    ("www.", "a web address", re.compile(r"\bwww\.[\w-]+\.\w")),
    ("@", "an e-mail address", re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.[^\W\d]")),
    # Neighbours that are ASCII letters make a password or a formula; Chinese has no spaces.
    (
        "**",
        "Markdown",
        re.compile(r"(?<![A-Za-z0-9*])\*\*(?=[^\s*])[^*\n]*[^\s*]\*\*(?![A-Za-z0-9*])"),
    ),
    ("__", "Markdown", re.compile(r"(?<!\w)__(?=[^\W_])[^_\n]*[^\s_]__(?!\w)")),
    ("`", "Markdown", re.compile(r"```|(?<![`\w])`(?=[^`\s])[^`\n]*[^`\s]`(?![`\w])")),
    ("# ", "a Markdown heading", re.compile(r"^ {0,3}#{1,6} +[^\W\d]", re.MULTILINE)),
    ("&", "an HTML entity", re.compile(rf"&(?:{_ENTITIES});")),
)


def markup_in(text: str, pace: Pace | None = None) -> str | None:
    """The first kind of markup in a text that the checkpoint does not read as such, with the place
    it stands at, or None.
    """
    for sign, kind, pattern in _KINDS:
        if sign not in text:
            continue
        spoken = text if pace is None else pace.without_markup(text)
        if found := pattern.search(spoken):
            return f"{kind} ({_shown(spoken, found.start())})"
    return None


def _shown(text: str, start: int) -> str:
    """The place, in one line."""
    place = text[start : start + MAX_SHOWN_CHARS + 1].split("\n")[0]
    return repr(place) if len(place) <= MAX_SHOWN_CHARS else f"{place[:MAX_SHOWN_CHARS]!r}..."
