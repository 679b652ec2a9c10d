"""Remove invisible characters from texts and compose letters (NFC). Every text is cleaned when it
is read, before ids and hashes are computed.

A soft hyphen or a direction mark inside a word splits it for the model, the lexicon and the
normalizer, and the author cannot see it. Joiners stay in emoji and in scripts that need them, and
zero-width spaces in scripts without other spaces.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from tts_cli.text.tables import script

# Soft hyphen, directions, word joiner, invisible operators, byte order marks, notes.
_NEVER_SEEN = (
    "\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0001"
)
_ZERO_SPACE = "\u200b"
_JOINERS = "\u200c\u200d\u034f\u180e"
_TAGS = "\U000e0020-\U000e007f"  # spell a region after a black flag
_LOOKS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # how the character before looks
_LIGATURES = {  # and presentation forms in typeset texts
    0xFB00 + place: letters
    for place, letters in enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"))
}
_UNSPACED, _JOINING = script("southeast_asian", "tai"), script("joining")
_PICTURES = "\u2190-\u2bff\U0001f000-\U0001faff"

_ANY = re.compile(
    f"[{_NEVER_SEEN}{_ZERO_SPACE}{_JOINERS}{_TAGS}{_LOOKS}{''.join(map(chr, _LIGATURES))}]"
)
_ALWAYS = re.compile(f"[{_NEVER_SEEN}]+")


@cache
def _without_meaning() -> re.Pattern[str]:
    """Return the pattern of joiners and spaces without meaning in their place."""
    return re.compile(
        f"(?<![{_UNSPACED}{_ZERO_SPACE}]){_ZERO_SPACE}+(?![{_UNSPACED}{_ZERO_SPACE}])"
        f"|(?<![{_JOINING}{_JOINERS}])(?<![{_PICTURES}{_LOOKS}](?=\u200d[{_PICTURES}]))"
        f"[{_JOINERS}]+(?![{_JOINING}{_JOINERS}])"
        f"|(?<![\U0001f3f4{_TAGS}])[{_TAGS}]+"
        f"|(?<=[A-Za-z\u00c0-\u052f])[{_LOOKS}]+"
    )


def clean_unicode(text: str) -> str:
    """Return a text without meaningless invisible characters, with composed letters; idempotent."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    while _ANY.search(text):  # a removal may join others, rarely more than once
        less = _without_meaning().sub("", _ALWAYS.sub("", text)).translate(_LIGATURES)
        less = unicodedata.normalize("NFC", less)
        if less == text:
            break
        text = less
    return text
