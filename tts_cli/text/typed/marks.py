"""Printed marks, pictures and capitals, for a voice that learnt typed texts alone.

This comes behind lexicon and rules, and takes nothing that they took: `'90s`, `5'6"` and ranges are
read by then. Curly marks become straight ones, emoji are left out, three words or more in capitals
are written small. A dash, a bullet or an arrow between words becomes the comma whose pause it has:
of 19 sentences with one the sample voice, clara, gets 2.8 % of the words wrong with a comma, 5.5
with a hyphen between spaces and 7.2 with the dash as printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tts_cli.text.reading import ODD_SPACES, TAKEN, Change, without
from tts_cli.text.typed.capitals import small
from tts_cli.text.words import PICTURES

_TYPED = {
    mark: typed
    for marks, typed in (
        ("\u2018\u2019\u201a\u201b\u2039\u203a\u02bc\u2032\u00b4\uff07", "'"),
        ("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\u301f\uff02", '"'),
        ("\u2026", "..."),
        ("\u2025", ".."),
        ("\u203c", "!!"),
        ("\u2049", "!?"),
        ("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
    )
    for mark in marks
}
_TABLE = str.maketrans(_TYPED)
_DASHES = "\u2012-\u2015\u2e3a\u2e3b"
_SPACE = f"[ {ODD_SPACES}]"
_BLANKS = "".join(filter(re.compile(_SPACE).match, map(chr, range(0x3000))))
_PICTURE = f"[{PICTURES}]"
_LOOK = "[\ufe00-\ufe0f\u20e3\U000e0020-\U000e007f]"  # how the character before it looks
_SIGNS = re.compile(
    rf"(?P<picture>{_PICTURE}(?:{_PICTURE}|{_LOOK}|\u200d|{_SPACE}(?={_PICTURE}))*)"
    rf"|(?P<look>{_LOOK}+)"
    rf"|(?P<dash>[\u2014\u2015\u2e3a\u2e3b][{_DASHES}]*|[\u2022\u2023\u25e6\u2192\u21d2]"
    rf"|(?<=[^\W\d])[\u2012\u2013]+(?=[^\W\d])"
    rf"|(?:(?<={_SPACE})|(?<=\n)|^)[\u2012\u2013]+(?=\s|$))"
    rf"|(?P<mark>\u00ab[{ODD_SPACES}]|[{ODD_SPACES}]\u00bb|[{''.join(_TYPED)}])"
)
_IS_WORD = re.compile(rf"[^\W_]|{TAKEN}")
# Where a line begins, or what a quotation mark or bracket opens.
_BEGINNING = re.compile("(?:^|\n)$|(?:^|[\\s([{])[\"'\u2018\u201c\u201e\u00ab\u2039([{]{1,3}$")
_ENDS = re.compile(r"$|\n|[.,;:!?)\]}\u2026]")
_QUOTES = "\"'\u2019\u201d\u00bb\u203a"  # close what is before them, without a space
MOST_SPACES = 3  # that go with a sign on either side


def typed(text: str, taken: Sequence[tuple[int, int]] = ()) -> list[Change]:
    """What of a text would be otherwise if it had been typed. One without a word is left alone.

    Args:
        taken: places (start, end) nobody shall change: markup, and what is read already.
    """
    is_printed = not text.isascii() and _SIGNS.search(text) is not None
    left = without(text, taken)
    changes = small(left)
    if is_printed and _IS_WORD.search(left):
        changes += _signs(left)
    return changes


def as_typed(text: str) -> str:
    """A text whose marks are typed ones, one for one."""
    return text if text.isascii() else text.translate(_TABLE)


def _signs(text: str) -> Iterator[Change]:
    done = 0  # the first character that may still be changed
    for found in _SIGNS.finditer(text):
        start, end = max(done, found.start()), found.end()
        if found["mark"]:
            change = Change(start, end, _TYPED[found["mark"].strip(ODD_SPACES)])
        elif found["look"]:
            change = Change(start, end, "")
        else:
            change = _between(text, start, end, done, "" if found["picture"] else ",")
        done = change.end
        yield change


def _between(text: str, start: int, end: int, done: int, said: str) -> Change:
    """A dash or a picture, with the spaces around it. A word behind it is parted by one space;
    what begins a line is not said at all, nor is a comma beside another mark.
    """
    first = start - _length(text[max(done, start - MOST_SPACES) : start][::-1])
    last = end + _length(text[end : end + MOST_SPACES])
    if _BEGINNING.search(text, max(0, first - 4), first):
        return Change(first, last, "")
    if text[first - 1] in ",;:.!?\u2026" or text[last : last + 1] in tuple(",;:.!?\u2026"):
        said = ""
    is_last = _ENDS.match(text, last) or (last == end and text[last] in _QUOTES)
    return Change(first, last, said if is_last else f"{said} ")


def _length(text: str) -> int:
    """How many spaces a text begins with."""
    return len(text) - len(text.lstrip(_BLANKS))
