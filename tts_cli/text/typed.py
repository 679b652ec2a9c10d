"""Clean typography for a voice that was trained on plain typed text: marks, emoji and capitals.

This runs after the lexicon and the rules, and does not change their edits (`'90s`, `5'6"`, ranges).
Curly marks become straight, and emoji are removed. A dash, bullet or arrow between words becomes a
comma: on 19 such sentences the sample voice (clara) has 2.8 % wrong words with a comma, 5.5 % with
a hyphen between spaces and 7.2 % with the printed dash.

Three or more words in capitals in a row, as in headings and shouts, become lower case, except
acronyms, words without a vowel, Roman numerals, and units after a number. At least two of the words
must be none of these, so that a list of acronyms stays.
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
MAX_SPACES = 3  # removed on each side of a sign


def typed(text: str, protected: Sequence[tuple[int, int]] = ()) -> list[Edit]:
    """Return the edits that turn a text into typed text; none for a text without words."""
    is_printed = not text.isascii() and _SIGNS.search(text) is not None
    left = mask(text, protected)
    edits = truecase(left)
    if is_printed and _IS_WORD.search(left):
        edits += _signs(left)
    return edits


def as_typed(text: str) -> str:
    """Replace printed marks by typed ones of the same length."""
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
    """Return the replacement of a dash or emoji with the spaces around it: nothing at the start of
    a line, one space next to another mark, else a comma.
    """
    first = start - _length(text[max(done, start - MAX_SPACES) : start][::-1])
    last = end + _length(text[end : end + MAX_SPACES])
    if _BEGINNING.search(text, max(0, first - 4), first):
        return Edit(first, last, "")
    if text[first - 1] in ",;:.!?\u2026" or text[last : last + 1] in tuple(",;:.!?\u2026"):
        said = ""
    is_last = _ENDS.match(text, last) or (last == end and text[last] in _QUOTES)
    return Edit(first, last, said if is_last else f"{said} ")


def _length(text: str) -> int:
    return len(text) - len(text.lstrip(_BLANKS))


ACRONYMS = frozenset(load_table("names")["acronyms"].split())
MIN_WORDS = 3  # in a row
MIN_SMALL = 2  # of those, words that become lower case
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
    """Return the edits that put words in capitals into lower case. MASK is not a word."""
    if _LOUD.search(text) is None:
        return []
    return [edit for run in _runs(text) for edit in _lowered(run, text)]


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield runs of adjacent words in capitals; a token with a digit is not a word."""
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
    """Return the edits of one run, unless it is a list of acronyms."""
    words = [token for token in run if len(token.group()) > 1 or token.group() in "AI"]
    kept = {token.start() for token in run if _stays(token, text)}
    num_small = sum(token.start() not in kept and len(token.group()) > 1 for token in run)
    if len(words) < MIN_WORDS or num_small < MIN_SMALL:
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
    word = re.split(f"[{_MARKS}]", token.group())[0]
    if len(word) == 1 and word not in "AIO":
        return True
    start, end = token.span()
    if len(word) == 1:  # of U.S.A., or an initial
        beside = text[start - 1 : start] + text[end : end + 1]
        return token.group() != "I" and "." in beside
    if word in BEHIND_NUMBERS and _BEHIND_NUMBER.search(text[max(0, start - 2) : start]):
        return True
    bare = unicodedata.normalize("NFD", word)
    return word in ACRONYMS or _VOWELS.isdisjoint(bare) or _ROMAN.fullmatch(word) is not None
