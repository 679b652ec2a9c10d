"""Find the boundaries at which a text may be cut: paragraphs, sentences, clauses and words, in any
language of the models.

- A paragraph ends at a blank line or a form feed.
- A sentence ends after `.`, `!`, `?` or an ellipsis and the closing marks, if a space follows and
  no lower-case letter, and the dot is not that of an abbreviation. Chinese and Japanese marks need
  no space. A line break ends a sentence only before a list item.
- A clause ends after `;`, `:`, a dash or a comma with a space after it, and at quotation marks.
- Words end at spaces, except between a number and its unit, an abbreviation and its name, and
  before French punctuation. Chinese and Japanese may be cut between most characters, best between
  kana and an ideograph or katakana.

Markup, addresses, and quotations that fit into a piece are never cut. A straight quotation mark
opens after a space. An apostrophe closes a single quotation only after another mark, because it is
usually part of a word.

Packages do worse: syntok, the best one tried, only knows English, German and Spanish, ignores 。,
and cuts "Jan. | 3rd" and "3. | Oktober".
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tts_cli.text.tables import load_table, script


class Boundary(IntEnum):
    """Kinds of boundaries, the strongest first."""

    PARAGRAPH = 0
    SENTENCE = 1
    CLAUSE = 2
    WORD = 3

    @property
    def label(self) -> str:
        """The name in options and in the journal."""
        return self.name.lower()


class Cut(NamedTuple):
    """A position at which a text may be cut. Spaces follow it."""

    place: int  # index into the text
    boundary: Boundary
    is_weak: bool = False  # a strong cut of the same kind is better


OPENERS = "\"'“‘„‚«»‹›([{「『（【《〈¿¡*_—–-"  # may precede the first letter of a sentence
CLOSERS = "\"'”’“‘«»‹›)]}」』）】》〉*_"  # may follow the last mark of a sentence
NO_BREAK = "\u00a0\u202f\u2007\u2060\ufeff"  # spaces and joiners that prevent a cut
CURRENCY = "$€£¥₽₩₹#№§"

_CJK = re.compile(f"[{script('kana', 'ideographs', 'more_ideographs', 'cjk_signs')}]")


def is_cjk(char: str) -> bool:
    """Return whether a character is Chinese or Japanese, which have no spaces between words."""
    return char >= "\u2e80" and _CJK.match(char) is not None


def is_hiragana(char: str) -> bool:
    """Return whether a character is of the kana that end Japanese words."""
    return "\u3041" <= char <= "\u309f"


def is_katakana(char: str) -> bool:
    """Return whether a character is of the kana for foreign words, including the long mark."""
    return "\u30a0" <= char <= "\u30ff" or "\uff66" <= char <= "\uff9d"


def is_space(char: str) -> bool:
    """Return whether a text may be cut at a character: white space except no-break spaces."""
    return char.isspace() and char not in NO_BREAK


WIDE_CLAUSE_MARKS = "；：，、﹔﹕﹐︰"
WEAK = ",，、،﹐"
_CLAUSE_MARKS = re.compile(rf"[;:,،؛{WIDE_CLAUSE_MARKS}][{re.escape(CLOSERS)}]*")
_DASHES = re.compile(r"-{2,}|[—―]+|(?<=\s)[-–](?=\s)")


def clause_cuts(text: str) -> Iterator[Cut]:
    """Return the ends of clauses, unordered."""
    for found in _CLAUSE_MARKS.finditer(text):
        mark, start, place = found.group()[0], found.start(), found.end()
        if place >= len(text):
            continue
        is_wide = mark in WIDE_CLAUSE_MARKS or (
            start and is_cjk(text[start - 1]) and is_cjk(text[place])
        )
        if not is_wide and not is_space(text[place]):
            continue
        if not _is_in_number(text, start, place):
            yield Cut(place, Boundary.CLAUSE, is_weak=mark in WEAK)
    for found in _DASHES.finditer(text):
        start, place = found.start(), found.end()
        if start and place < len(text) and not _is_in_number(text, start, place):
            yield Cut(place, Boundary.CLAUSE)


def edge_cuts(text: str, quotations: list[tuple[int, int]]) -> Iterator[Cut]:
    """Return the edges of quotations with a space outside, as weak ends of clauses."""
    for start, end in quotations:
        if start and text[start - 1].isspace():
            yield Cut(_behind_word(text, start), Boundary.CLAUSE, is_weak=True)
        if end < len(text) and is_space(text[end]):
            yield Cut(end, Boundary.CLAUSE, is_weak=True)


def _behind_word(text: str, place: int) -> int:
    return len(text[max(0, place - 8) : place].rstrip()) + max(0, place - 8)


def _is_in_number(text: str, start: int, place: int) -> bool:
    """Return whether digits are on both sides of a mark, as in "Jan. 3, 2020" or 1990—1995."""
    after = place
    while after < len(text) and after < place + 2 and text[after].isspace():
        after += 1
    return text[start - 1 : start].isdigit() and text[after : after + 1].isdigit()


PAIRS = {
    one[0]: one[1:]
    for one in ("“”", "„“”", "«»", "»«", "‹›", "‘’", "「」", "『』", "（）", "《》", "()", '""')
}
_QUOTES = re.compile("[" + re.escape("".join(PAIRS) + "".join(PAIRS.values())) + r"]|\n\s*\n")
_BEFORE_APOSTROPHE = ".,!?…;:—"


def quotations(text: str) -> Iterator[tuple[int, int]]:
    """Return start and end (after the closing mark) of each quotation, inner ones first."""
    waiting: list[tuple[str, int]] = []  # opening marks with their places
    closers: Counter[str] = Counter()  # number of opening marks by the mark that closes them
    for found in _QUOTES.finditer(text):
        mark, place = found.group(), found.start()
        if len(mark) > 1 or mark == "\n":
            waiting.clear()
            closers.clear()
        elif closers[mark] and _may_close(text, mark, place):
            while True:
                opening, start = waiting.pop()
                closers.subtract(PAIRS[opening])
                if mark in PAIRS[opening]:
                    break
            yield start, place + 1
        elif mark in PAIRS and _may_open(text, mark, place):
            waiting.append((mark, place))
            closers.update(PAIRS[mark])


def _may_close(text: str, mark: str, place: int) -> bool:
    if mark == "’":
        return text[place - 1] in _BEFORE_APOSTROPHE
    return True


def _may_open(text: str, mark: str, place: int) -> bool:
    if mark == '"':
        return place == 0 or not text[place - 1].isalnum()
    return True


WIDE_END_MARKS = "。！？｡।؟"  # these end sentences without a space after them
_SPACE = re.compile(r"\s+")
_NEW_PARAGRAPH = re.compile(r"[\f\x1c-\x1e\u2029]")
_ENTRY = re.compile(r"\s*(?:[-*•‣–—]\s|\(?\d{1,3}[.)]\s|\(?[a-z]\)\s)")
# Some marks close in one language and open in another. They close if no letter follows.
_EITHER = "“«»‹›"
_CLOSED = "".join(mark for mark in CLOSERS if mark not in _EITHER)
_NO_LETTER = r"(?![^\s.,;:!?…，、；：。！？”’)])"
_SENTENCE_MARKS = re.compile(
    rf"[.!?…．{WIDE_END_MARKS}]+(?:[ \u00a0\u202f]\.+(?!\w))*"  # also the ellipsis ". . ."
    rf"(?:[{re.escape(_CLOSED)}]|[{_EITHER}]{_NO_LETTER}|[ \u00a0\u202f][»›]{_NO_LETTER})*"
)
# After a quotation these continue the sentence that contains it.
_SAYS = re.compile(r"と|って|、|，|,|；|：|の|が|を|は(?!い)|.{0,5}?(?:说|說|道|问|問|喊|答)")
_I = re.compile(r"I\b")
_BREATH = 40  # characters of a line that may be one of a poem or a heading


def sentence_cuts(text: str, skipped: dict[int, int]) -> Iterator[Cut]:
    """Return the ends of paragraphs and sentences, unordered and without the end of the text.
    Uncertain ends of sentences are weak ends of clauses. `skipped` spans, such as tags, are not
    synthesized.
    """
    for found in _SPACE.finditer(text):
        start, end, space = found.start(), found.end(), found.group()
        if start == 0 or end == len(text):
            continue
        if space.count("\n") > 1 or _NEW_PARAGRAPH.search(space):
            yield Cut(start, Boundary.PARAGRAPH)
        elif "\n" in space and (boundary := _line_end(text, start, end)) is not None:
            yield Cut(start, boundary, is_weak=True)
    for found in _SENTENCE_MARKS.finditer(text):
        place = found.end()
        while place in skipped:
            place = skipped[place]
        boundary = _end_of(text, found.group(), found.start(), place, skipped)
        if boundary is not None:
            yield Cut(place, boundary, is_weak=boundary is Boundary.CLAUSE)


def _line_end(text: str, end: int, after: int) -> Boundary | None:
    """Return the boundary at the end of a line that has no end mark, or None."""
    if _ENTRY.match(text, after, after + 16):
        return Boundary.SENTENCE
    is_short = text.rfind("\n", max(0, end - _BREATH - 1), end) >= 0 or end <= _BREATH
    if is_short and not text[after : after + 1].islower():
        return Boundary.CLAUSE
    return None


def _end_of(
    text: str, marks: str, start: int, place: int, skipped: dict[int, int]
) -> Boundary | None:
    if place >= len(text):
        return None
    has_space = is_space(text[place])
    after = _first_letter(text, place, skipped)
    if any(mark in WIDE_END_MARKS for mark in marks):
        is_quoted = marks[-1] in '」』”’"'
        goes_on = not has_space and (
            text[place] in "、，,；：" or (is_quoted and _SAYS.match(text, place, place + 8))
        )
        return Boundary.CLAUSE if goes_on else Boundary.SENTENCE
    core = _SPACE.sub("", marks).rstrip(CLOSERS)
    if not has_space:
        is_inside_cjk = start and is_cjk(text[start - 1]) and is_cjk(text[place])
        if not is_inside_cjk or text[place].isdigit():
            return None
        return Boundary.CLAUSE if "…" in core or ".." in core else Boundary.SENTENCE
    if core == "." and is_abbreviation(text, start, after):
        return None
    if after < len(text) and text[after].islower() and text[after - 1] not in "¿¡":
        return Boundary.CLAUSE
    if ("…" in core or ".." in core) and _I.match(text, after):
        return Boundary.CLAUSE  # English always writes it with a capital letter
    return Boundary.SENTENCE


def _first_letter(text: str, place: int, skipped: dict[int, int]) -> int:
    """Return the index of the first character from `place` on that is read aloud, or len(text)."""
    while place < len(text):
        if place in skipped:
            place = skipped[place]
        elif text[place].isspace() or text[place] in OPENERS:
            place += 1
        else:
            break
    return place


_ADDRESS = re.compile(r"[!-~]+")  # candidates: runs of ASCII without a space


def spans_of(pattern: str | None, text: str) -> list[tuple[int, int]]:
    if pattern is None:
        return []
    return [found.span() for found in re.finditer(pattern, text) if found.group()]


def addresses(text: str) -> list[tuple[int, int]]:
    """Return the spans of web and e-mail addresses, including adjacent punctuation."""
    return [
        found.span()
        for found in _ADDRESS.finditer(text)
        if "://" in found.group() or "@" in found.group() or found.group().startswith("www.")
    ]


def inside(length: int, spans: list[tuple[int, int]]) -> bytearray:
    """Return (length + 1,) flags: 1 for a cut inside a span, 0 outside and at its edges."""
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


GOOD, POOR, BAD, NEVER = 0, 1, 2, 3
_LEANS_BACK = (
    "。．，、；：！？!?,.;:…‥・ー～%％)」』）】》〉]}”’»›"
    "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ々ゝゞ"
)
_LEANS_FORWARD = "([{「『（【《〈“‘„«‹¿¡" + CURRENCY
_JOINERS = "\u200d\u2060\ufeff"


def quality(text: str, place: int) -> int:
    """Rate a cut before `place` (0 < place < len(text)): GOOD to NEVER."""
    before, after = text[place - 1], text[place]
    if is_space(after):
        return NEVER if before.isspace() else _at_space(text, place)
    if before.isspace():
        return NEVER  # a cut is before the spaces
    if unicodedata.combining(after) or before in _JOINERS or after in _JOINERS:
        return NEVER
    if "\ufe00" <= after <= "\ufe0f" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return NEVER  # a variation selector of the character before it
    if not (is_cjk(before) and is_cjk(after)) or after in _LEANS_BACK or before in _LEANS_FORWARD:
        return BAD
    if is_katakana(before) and is_katakana(after):
        return BAD
    if is_hiragana(before) and not is_hiragana(after):
        return GOOD
    return POOR


def _at_space(text: str, place: int) -> int:
    before = text[place - 1]
    after = text[place : place + 8].lstrip()[:1]
    if not after or after in _LEANS_BACK or before in _LEANS_FORWARD:
        return BAD
    if before == "." or before.isdigit() or after.isdigit():
        return POOR
    return GOOD


_TABLES = {name: frozenset(words.split()) for name, words in load_table("abbreviations").items()}
TITLES, COUNTED, ENDINGS = _TABLES["titles"], _TABLES["counted"], _TABLES["endings"]
STARTERS = _TABLES["starters"]
_LOOK_BACK = 24  # characters before a dot that may belong to its abbreviation
# The word before the dot; single letters with dots and perhaps spaces between: "U.S", "z. B".
_BEFORE = re.compile(r"(?:(?<!\w)(?:\w\.[ \u00a0\u202f]?|\w{2,4}\.))*(?<!\w)\w+(?:-\w+)*$")
_NUMBER = re.compile(r"\d+(\.\d+)*")
_UNIT = re.compile(r"\d\s?$")
_NEXT_WORD = re.compile(r"\w+")
_ROMAN = re.compile(r"[IVXLCDM]+\b")


def word_before(text: str, dot: int) -> str:
    """Return the word before the dot at `dot`, without spaces: `z.B` for "z. B."; may be empty."""
    found = _BEFORE.search(text[max(0, dot - _LOOK_BACK) : dot])
    return "" if found is None else re.sub(r"\s", "", found.group())


def is_abbreviation(text: str, dot: int, after: int) -> bool:
    """Return whether the dot at `dot` is that of an abbreviation or initial inside a sentence. The
    next letter or digit is at `after`, or that is len(text).
    """
    word = word_before(text, dot)
    found = _NEXT_WORD.match(text, after, after + _LOOK_BACK)
    if not word or found is None:
        return False
    follower = found.group()
    if _NUMBER.fullmatch(word):
        return _is_ordinal(text, dot - len(word), word, follower)
    start = dot - len(word)
    if len(word) == 1 and word.islower() and _UNIT.search(text, max(0, start - 2), start):
        return len(follower) == 1 and text[found.end() : found.end() + 1] == "."
    if text[start - 1 : start] == "°":
        return False
    return _is_shortened(word, follower, text[found.end() : found.end() + 1])


def _is_shortened(word: str, follower: str, behind: str) -> bool:
    """Return whether a word with a dot is a known abbreviation, or letters with dots. `behind` is
    the character after the next word.
    """
    key, last = word.lower(), word.lower().rpartition(".")[2]
    is_acronym = all(len(part) == 1 and part.isalpha() for part in key.split("."))
    if not is_acronym and key not in TITLES and key not in ENDINGS:
        key = last
    if key in TITLES or key.endswith("str"):  # German streets, in one word with their names
        return True
    if follower[0].isdigit() or (_ROMAN.fullmatch(follower) and follower != "I"):
        return key in COUNTED or key in ENDINGS or is_acronym
    if is_acronym and (word == "I" or (len(follower) == 1 and behind == ".")):
        return word != "I"
    return (key in ENDINGS or is_acronym) and follower.lower() not in STARTERS


def _is_ordinal(text: str, start: int, digits: str, follower: str) -> bool:
    """Return whether a number with a dot is a German ordinal or the number of a list item."""
    before = text[max(0, start - _LOOK_BACK) : start].rstrip(" \t")
    if not before or before[-1] in "!?\n":
        return True
    if before[-1] == ".":
        word = word_before(before, len(before) - 1)
        return not word or bool(_NUMBER.fullmatch(word)) or not _is_shortened(word, digits, ".")
    if len(digits) > 2:
        return False
    found = re.search(r"\w+$", before)
    is_german = found is not None and found.group().lower() in _TABLES["before_ordinals"]
    return follower.lower() in _TABLES["after_ordinals"] or (
        is_german and follower.lower() not in STARTERS
    )
