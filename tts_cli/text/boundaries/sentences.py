"""Where paragraphs and sentences end, in any of the models' languages.

A blank line ends a paragraph, and so does a form feed. A sentence ends behind `.`, `!`, `?` or an
ellipsis, with the quotation marks and brackets that close there, where a space and no small letter
follow, and the dot is no abbreviation's; where a small letter follows it may be cut like a clause.
Chinese and Japanese marks need no space. The end of a line ends a sentence before an entry of a
list; lines may be broken anywhere else.

Rules rather than a package: syntok, the best one met, knows English, German and Spanish only, reads
no 。, and cuts "Jan. | 3rd" and "3. | Oktober".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tts_cli.text.boundaries.abbreviations import is_abbreviation
from tts_cli.text.boundaries.boundary import Boundary, Cut
from tts_cli.text.boundaries.characters import CLOSERS, OPENERS, is_cjk, is_space

WIDE = "。！？｡।؟"  # these end sentences without a space behind them
_SPACE = re.compile(r"\s+")
_NEW_PARAGRAPH = re.compile(r"[\f\x1c-\x1e\u2029]")
_ENTRY = re.compile(r"\s*(?:[-*•‣–—]\s|\(?\d{1,3}[.)]\s|\(?[a-z]\)\s)")
# Some marks close in one language and open in another: these close where no letter follows.
_EITHER = "“«»‹›"
_CLOSED = "".join(mark for mark in CLOSERS if mark not in _EITHER)
_NO_LETTER = r"(?![^\s.,;:!?…，、；：。！？”’)])"
_MARKS = re.compile(
    rf"[.!?…．{WIDE}]+"
    rf"(?:[{re.escape(_CLOSED)}]|[{_EITHER}]{_NO_LETTER}|[ \u00a0\u202f][»›]{_NO_LETTER})*"
)
# Behind a quotation these go on with the sentence that it stands in.
_SAYS = re.compile(r"と|って|、|，|,|；|：|の|が|を|は(?!い)|.{0,5}?(?:说|說|道|问|問|喊|答)")
_I = re.compile(r"I\b")
_BREATH = 40  # characters of a line that may be one of a poem or a heading


def sentence_cuts(text: str, skipped: dict[int, int]) -> Iterator[Cut]:
    """Ends of paragraphs and sentences, and of what might be a sentence as weak ends of clauses;
    in no order. The end of the text is none.

    Args:
        skipped: start to end of what is not spoken, such as tags: they are looked past.
    """
    for found in _SPACE.finditer(text):
        start, end, space = found.start(), found.end(), found.group()
        if start == 0 or end == len(text):
            continue
        if space.count("\n") > 1 or _NEW_PARAGRAPH.search(space):
            yield Cut(start, Boundary.PARAGRAPH)
        elif "\n" in space and (boundary := _line_end(text, start, end)) is not None:
            yield Cut(start, boundary, is_weak=True)
    for found in _MARKS.finditer(text):
        place = found.end()
        while place in skipped:
            place = skipped[place]
        boundary = _end_of(text, found.group(), found.start(), place, skipped)
        if boundary is not None:
            yield Cut(place, boundary, is_weak=boundary is Boundary.CLAUSE)


def _line_end(text: str, end: int, after: int) -> Boundary | None:
    """What the end of a line ends that ends with no mark."""
    if _ENTRY.match(text, after, after + 16):
        return Boundary.SENTENCE
    is_short = text.rfind("\n", max(0, end - _BREATH - 1), end) >= 0 or end <= _BREATH
    if is_short and not text[after : after + 1].islower():
        return Boundary.CLAUSE
    return None


def _end_of(
    text: str, marks: str, start: int, place: int, skipped: dict[int, int]
) -> Boundary | None:
    """What ends behind a run of marks and closing ones at `start`, if anything."""
    if place >= len(text):
        return None
    has_space = is_space(text[place])
    after = _first_letter(text, place, skipped)
    if any(mark in WIDE for mark in marks):
        is_quoted = marks[-1] in '」』”’"'
        goes_on = not has_space and (
            text[place] in "、，,；：" or (is_quoted and _SAYS.match(text, place, place + 8))
        )
        return Boundary.CLAUSE if goes_on else Boundary.SENTENCE
    core = marks.rstrip(CLOSERS + " \u00a0\u202f")
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
        return Boundary.CLAUSE  # English writes it with a capital letter wherever it stands
    return Boundary.SENTENCE


def _first_letter(text: str, place: int, skipped: dict[int, int]) -> int:
    """Index of what a reader would say first behind `place`, past spaces, tags and opening marks;
    len(text) if nothing.
    """
    while place < len(text):
        if place in skipped:
            place = skipped[place]
        elif text[place].isspace() or text[place] in OPENERS:
            place += 1
        else:
            break
    return place
