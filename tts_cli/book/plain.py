"""Plain text: paragraphs between blank lines, with or without hard wraps, and headings by rules.

Hard wraps are recognised by the lines' lengths: where most lines that another one follows are about
as long as the longest, the lines of a block are one paragraph; elsewhere each line is one. In
wrapped text a line that is indented alone begins a paragraph.

A heading is a block of its own: a line underlined by `===` or `---`, a word such as CHAPTER, PART,
KAPITEL or CHAPITRE with a number, alone or with a short title, a word such as PROLOGUE alone, or a
number alone. Parts and books stand above chapters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tts_cli.book.block import Block, Heading, SceneBreak, Text, is_scene_break

MAX_WRAP_CHARS = 100  # a hard wrap is at most this wide
MAX_HEADING_CHARS = 80

_NUMBER = (
    r"(?:[0-9]{1,4}|[IVXLCDM]{1,9}|(?i:(?:twenty|thirty|forty|fifty)[- ])?(?i:one|two|three|four|"
    r"five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    r"nineteen|twenty|thirty|forty|fifty))(?![\w])"
)
_CHAPTER = (
    r"(?i:chapter|letter|section|act|scene|canto|kapitel|chapitre|cap[ií]tulo|capitolo|глава)"
)
_PART = r"(?i:part|book|volume|teil|buch|partie|livre|parte|libro|livro|часть|книга)"
_TITLE = r"(?:\s*[.:)–—-]\s*[^\n]{0,60}|\s+[^\n]{0,60}[^\s.!?,;:])?"
_NUMBERED = re.compile(rf"(?:(?P<part>{_PART})|{_CHAPTER})\s+{_NUMBER}{_TITLE}")
_CJK = re.compile(r"第[0-9０-９一二三四五六七八九十百千〇零]{1,7}[章回節节話话部卷][^\n。]{0,40}")
_ALONE = re.compile(
    r"(?i:prologue|epilogue|introduction|preface|foreword|afterword|prolog|epilog|vorwort|nachwort|"
    r"einleitung|avant-propos|pr[óo]logo|ep[íi]logo|prologo|epilogo|пролог|эпилог|序章|終章|终章)[.:]?"
)
_BARE_NUMBER = re.compile(r"(?:[0-9]{1,3}|[IVXLC]{1,8})\.?")
_UNDERLINE = re.compile(r"\s*(={3,}|-{3,})\s*")


class _Line(NamedTuple):
    number: int  # from 1
    text: str  # no spaces at its end


def blocks(text: str, name: str) -> Iterator[Block]:
    """The blocks of a text in order.

    Args:
        text: with line ends as newlines.
        name: of the file, for messages.
    """
    groups = list(_groups(text))
    is_wrapped = _is_wrapped(groups)
    for group in groups:
        yield from _read(group, is_wrapped, name)


def _groups(text: str) -> Iterator[list[_Line]]:
    """Lines between blank ones."""
    group: list[_Line] = []
    for number, text_of_line in enumerate(text.replace("\f", "\n\n").split("\n"), 1):
        line = _Line(number, text_of_line.rstrip())
        if line.text:
            group.append(line)
        elif group:
            yield group
            group = []
    if group:
        yield group


def _is_wrapped(groups: list[list[_Line]]) -> bool:
    """Whether lines end where the page did."""
    followed = [len(line.text) for group in groups for line in group[:-1]]
    if not followed:
        return False
    widest = max(followed)
    full = sum(length > 0.7 * widest for length in followed)
    return widest <= MAX_WRAP_CHARS and 2 * full >= len(followed)


def _read(group: list[_Line], is_wrapped: bool, name: str) -> Iterator[Block]:
    """One group of lines: a heading, a break, or paragraphs."""
    place = f"{name}:{group[0].number}"
    if heading := _heading(group, place):
        yield heading
        return
    found = _UNDERLINE.fullmatch(group[1].text) if len(group) > 1 else None
    if found and len(group[0].text) <= MAX_HEADING_CHARS:
        yield Heading(group[0].text, 1 if found[1][0] == "=" else 2, place)
        if group[2:]:
            yield from _read(group[2:], is_wrapped, name)
        return
    for lines in _paragraphs(group, is_wrapped):
        text = _joined(lines)
        is_break = is_scene_break(text)
        yield SceneBreak() if is_break else Text(text, f"{name}:{lines[0].number}")


def _heading(group: list[_Line], place: str) -> Heading | None:
    """A group that is a heading by its words; a second line may hold the title."""
    first = group[0].text.strip()
    if len(group) > 2 or len(first) > MAX_HEADING_CHARS:
        return None
    if len(group) == 2:
        title = group[1].text.strip()
        found = _NUMBERED.fullmatch(first)
        if found is None or len(title) > MAX_HEADING_CHARS or _UNDERLINE.fullmatch(title):
            return None
        first = f"{first.rstrip('.:')}. {title}"
    else:
        found = _NUMBERED.fullmatch(first)
        is_alone = _ALONE.fullmatch(first) or _BARE_NUMBER.fullmatch(first) or _CJK.fullmatch(first)
        if found is None and not is_alone:
            return None
    is_part = found is not None and found["part"] is not None
    return Heading(first, 1 if is_part else 2, place)


def _paragraphs(group: list[_Line], is_wrapped: bool) -> Iterator[list[_Line]]:
    """A group's lines by paragraph."""
    if not is_wrapped:
        yield from ([line] for line in group)
        return
    indented = [line.text[:1].isspace() for line in group]
    has_indents = 2 * sum(indented) <= len(group)
    lines: list[_Line] = []
    for line, is_indented in zip(group, indented, strict=True):
        if lines and ((has_indents and is_indented) or is_scene_break(line.text)):
            yield lines
            lines = []
        lines.append(line)
        if is_scene_break(line.text):
            yield lines
            lines = []
    if lines:
        yield lines


def _joined(lines: list[_Line]) -> str:
    """Lines as one text: a hyphen at a line's end is the word's own, as in "well-/known"."""
    text = ""
    for line in lines:
        piece = line.text.strip()
        is_split_word = text[-1:] == "-" and text[-2:-1].isalpha() and piece[:1].islower()
        text += piece if is_split_word or not text else f" {piece}"
    return text
