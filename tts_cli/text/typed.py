"""Printed marks, pictures and capitals, for a voice that learnt typed texts alone.

This comes behind lexicon and rules, and takes nothing that they took: `'90s`, `5'6"` and ranges are
read by then. Curly marks become straight ones, emoji are left out, three words or more in capitals
are written small. A dash, a bullet or an arrow between words becomes the comma whose pause it has:
of 19 sentences with one the sample voice, clara, gets 2.8 % of the words wrong with a comma, 5.5
with a hyphen between spaces and 7.2 with the dash as printed.

Words in capitals: words in capitals that are not acronyms, as in headings and shouts.

Three words or more in a row are written small, whatever stands between them, but for what is said
letter by letter or looks otherwise when it is small: acronyms, words without a vowel, Roman
numerals, units behind a number. A single acronym list stays what it is: two of the words at least
must be none of these.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from tts_cli.text.normalized_text import MASK, ODD_SPACES, Edit, mask
from tts_cli.text.tables import load_table, script
from tts_cli.text.words import PICTURES

_TYPED = {mark: typed for typed, marks in load_table("names")["typed"].items() for mark in marks}
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
_IS_WORD = re.compile(rf"[^\W_]|{MASK}")
# Where a line begins, or what a quotation mark or bracket opens.
_BEGINNING = re.compile("(?:^|\n)$|(?:^|[\\s([{])[\"'\u2018\u201c\u201e\u00ab\u2039([{]{1,3}$")
_ENDS = re.compile(r"$|\n|[.,;:!?)\]}\u2026]")
_QUOTES = "\"'\u2019\u201d\u00bb\u203a"  # close what is before them, without a space
MOST_SPACES = 3  # that go with a sign on either side


def typed(text: str, protected: Sequence[tuple[int, int]] = ()) -> list[Edit]:
    """What of a text would be otherwise if it had been typed. One without a word is left alone.

    Args:
        protected: spans (start, end) that no rule may edit: markup, and what is read already.
    """
    is_printed = not text.isascii() and _SIGNS.search(text) is not None
    left = mask(text, protected)
    edits = truecase(left)
    if is_printed and _IS_WORD.search(left):
        edits += _signs(left)
    return edits


def as_typed(text: str) -> str:
    """A text whose marks are typed ones, one for one."""
    return text if text.isascii() else text.translate(_TABLE)


def _signs(text: str) -> Iterator[Edit]:
    done = 0  # the first character that may still be changed
    for found in _SIGNS.finditer(text):
        start, end = max(done, found.start()), found.end()
        if found["mark"]:
            edit = Edit(start, end, _TYPED[found["mark"].strip(ODD_SPACES)])
        elif found["look"]:
            edit = Edit(start, end, "")
        else:
            edit = _between(text, start, end, done, "" if found["picture"] else ",")
        done = edit.end
        yield edit


def _between(text: str, start: int, end: int, done: int, said: str) -> Edit:
    """A dash or a picture, with the spaces around it. A word behind it is parted by one space;
    what begins a line is not said at all, nor is a comma beside another mark.
    """
    first = start - _length(text[max(done, start - MOST_SPACES) : start][::-1])
    last = end + _length(text[end : end + MOST_SPACES])
    if _BEGINNING.search(text, max(0, first - 4), first):
        return Edit(first, last, "")
    if text[first - 1] in ",;:.!?\u2026" or text[last : last + 1] in tuple(",;:.!?\u2026"):
        said = ""
    is_last = _ENDS.match(text, last) or (last == end and text[last] in _QUOTES)
    return Edit(first, last, said if is_last else f"{said} ")


def _length(text: str) -> int:
    """How many spaces a text begins with."""
    return len(text) - len(text.lstrip(_BLANKS))


ACRONYMS = frozenset(load_table("names")["acronyms"].split())
LEAST_WORDS = 3  # in a row
LEAST_SMALL = 2  # of those, that are written small
# Units that are words or look like one.
BEHIND_NUMBERS = frozenset(load_table("names")["loud_units"].split())

_VOWELS = frozenset("AEIOUYÆŒØАЕЁИОУЫЭЮЯІЄΑΕΗΙΟΥΩ")
_CAPITAL = script("latin_capitals", "other_capitals")
_MARKS = "'\u2018\u2019\u02bc"
_LOUD = re.compile(rf"[{_CAPITAL}]{{2}}\W+[{_CAPITAL}]")
_TOKEN = re.compile(rf"[^\W_]+(?:[{_MARKS}][^\W_]+)*")
_MAC = re.compile(r"(?:Ma?c)(?=[A-Z]{2})")  # McDONALD
_LETTERS = re.compile(r"[^\W_]+")
_ROMAN = re.compile(r"C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_SENTENCE_BEGIN = re.compile(
    "(?:^|\n|[.!?\u2026][\"'\u201d\u2019\u00bb)\\]]{0,3}\\s)\\s{0,3}[\"'\u201c\u2018\u00ab(\\[]{0,3}$"
)
_BEHIND_NUMBER = re.compile(rf"[0-9{MASK}] ?$")


def truecase(text: str) -> list[Edit]:
    """The words of a text that are written small, MASK in it being none."""
    if _LOUD.search(text) is None:
        return []
    return [edit for run in _runs(text) for edit in _lowered(run, text)]


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Words in capitals with none other between them; what has a figure is no word."""
    run: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        loud = _MAC.sub("", word).replace("\u00df", "SS")  # neither has capitals alone
        if loud.isupper() and not any(map(str.isdigit, word)):
            run.append(token)
        elif not any(map(str.isdigit, word)):
            yield run
            run = []
    yield run


def _lowered(run: list[re.Match[str]], text: str) -> Iterator[Edit]:
    """The edits of one run, if it is one of words."""
    words = [token for token in run if len(token.group()) > 1 or token.group() in "AI"]
    kept = {token.start() for token in run if _stays(token, text)}
    num_small = sum(token.start() not in kept and len(token.group()) > 1 for token in run)
    if len(words) < LEAST_WORDS or num_small < LEAST_SMALL:
        return
    for token in run:
        for piece in _LETTERS.finditer(text, *token.span()):
            letters = piece.group()
            if piece.start() > token.start():
                said = letters.lower()  # of an acronym as well: NASA's
            elif token.start() in kept or letters == "I":
                continue
            elif mac := _MAC.match(letters):
                said = mac.group() + letters[mac.end() :].capitalize()
            else:
                before = text[max(0, piece.start() - 8) : piece.start()]
                said = letters.capitalize() if _SENTENCE_BEGIN.search(before) else letters.lower()
            if said != letters:
                yield Edit(piece.start(), piece.end(), said.replace("i\u0307", "i"))


def _stays(token: re.Match[str], text: str) -> bool:
    """Whether a word is one that is not written small."""
    word = re.split(f"[{_MARKS}]", token.group())[0]
    if len(word) == 1 and word not in "AIO":
        return True
    start, end = token.span()
    if len(word) == 1:  # of U.S.A., or somebody's name
        beside = text[start - 1 : start] + text[end : end + 1]
        return token.group() != "I" and "." in beside
    if word in BEHIND_NUMBERS and _BEHIND_NUMBER.search(text[max(0, start - 2) : start]):
        return True
    bare = unicodedata.normalize("NFD", word)
    return word in ACRONYMS or _VOWELS.isdisjoint(bare) or _ROMAN.fullmatch(word) is not None
