"""Plain text: paragraphs between blank lines, with or without hard wraps, and headings by rules.

Hard wraps are recognised by the lines' lengths: where most lines that another one follows are about
as long as the longest, the lines of a block are one paragraph; elsewhere each line is one. In
wrapped text a line that is indented alone begins a paragraph.

A heading is a line underlined by `===` or `---`, or one that `titles` knows by its words. In
wrapped text it begins a block, elsewhere it may stand anywhere; what is right below it may be its
title. A
number, alone or with a title, is a heading only in a series: three or more that rise by one, with
text behind each, and only where no chapter was found by a word; so numbered stanzas, lists and the
parts of a chapter stay inside. Headings that follow each other with nothing between are a list of
contents, and no chapters. Parts are read in front of the chapter behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tts_cli.book.block import Block, Heading, SceneBreak, Text, is_scene_break
from tts_cli.book.titles import title_of

MAX_WRAP_CHARS = 100  # a hard wrap is at most this wide
MAX_HEADING_CHARS = 80

_UNDERLINE = re.compile(r"\s*(={3,}|-{3,})\s*")
_EMPHASIS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_]{0,2000}?[^\s_])_(?![\w_])")
_PICTURE = re.compile(r"\[Illustration(?::[^\[\]]{0,1000})?\]", re.IGNORECASE)
_NO_TITLE_END = re.compile(r"[.!?…,;:][\"”’»)]*$")
_END = re.compile(r"[.!?…。！？][\"'”’»」』)]*$")
_MOST_ENDED = 0.7  # of wrapped lines end as sentences do
_LEAST_SERIES = 3
_LEAST_CONTENTS = 3  # entries of a list
_MAX_ENTRY_CHARS = 200
_TITLE_WIDTH = 0.6  # of a wrapped line; a longer one is text


class _Line(NamedTuple):
    number: int  # from 1
    text: str  # no spaces at its end


class _Numeral(NamedTuple):
    """A line that is a heading if it stands in a series."""

    heading: Heading
    value: int
    style: tuple[bool, bool]  # Roman, with a title
    text: Text  # what it is else


_Found = Block | _Numeral


def blocks(text: str, name: str) -> Iterator[Block]:
    """The blocks of a text in order.

    Args:
        text: with line ends as newlines.
        name: of the file, for messages.
    """
    groups = list(_groups(_PICTURE.sub(_newlines, text)))
    width = _wrap_width(groups)
    found = [block for group in groups for block in _read(group, width, name)]
    yield from _settled(_without_contents(found))


def _newlines(found: re.Match[str]) -> str:
    return "\n" * found.group().count("\n")


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


def _wrap_width(groups: list[list[_Line]]) -> int:
    """How wide the lines are where they end as the page did; 0: they do not."""
    followed = [len(line.text) for group in groups for line in group[:-1]]
    if not followed:
        return 0
    widest = max(followed)
    full = sum(length > 0.7 * widest for length in followed)
    ended = sum(_END.search(line.text) is not None for group in groups for line in group[:-1])
    if ended > _MOST_ENDED * len(followed):
        return 0
    return widest if widest <= MAX_WRAP_CHARS and 2 * full >= len(followed) else 0


def _read(group: list[_Line], width: int, name: str) -> Iterator[_Found]:
    """One group of lines: headings, breaks and paragraphs."""
    lines: list[_Line] = []
    place = 0
    while place < len(group):
        is_inside = bool(lines and width)
        found = None
        if not is_inside or _stands_out(group[place].text.strip(), width):
            found = _heading(group, place, width, name)
        if found is None:
            lines.append(group[place])
            place += 1
            continue
        yield from _texts(lines, width, name)
        lines = []
        heading, num_lines = found
        yield heading
        place += num_lines
    yield from _texts(lines, width, name)


def _stands_out(line: str, width: int) -> bool:
    """Whether a line in the middle of a wrapped paragraph is a heading all the same."""
    title = title_of(line)
    is_short = 2 * len(line) < width or not line.isascii()
    return title is not None and title.is_numbered and is_short


def _heading(
    group: list[_Line], place: int, width: int, name: str
) -> tuple[Heading | _Numeral, int] | None:
    """The heading that begins at a line, and its lines."""
    line, where = group[place].text.strip(), f"{name}:{group[place].number}"
    if len(line) > MAX_HEADING_CHARS:
        return None
    below = group[place + 1].text.strip() if place + 1 < len(group) else ""
    if found := _UNDERLINE.fullmatch(below):
        return Heading(line, 1 if found[1][0] == "=" else 2, where), 2
    title = title_of(line, is_loose=len(group) == 1)
    if title is None:
        return None
    if title.value is not None:
        if width and len(group) > 1:
            return None
        heading = Heading(line, 2, where)
        style = (not line.lstrip("([").startswith(tuple("0123456789")), title.has_title)
        return _Numeral(heading, title.value, style, Text(line, where)), 1
    text, num_lines = title.text, 1
    if not title.has_title and title.is_numbered and _is_title(group, place + 1, width):
        text, num_lines = f"{text.rstrip('.:')}. {below}", 2
    return Heading(text, 1 if title.is_part else 2, where), num_lines


def _is_title(group: list[_Line], place: int, width: int) -> bool:
    """Whether the line below a heading is its title."""
    if place >= len(group):
        return False
    line = group[place].text.strip()
    if len(line) > MAX_HEADING_CHARS or title_of(line) or line[0].islower():
        return False
    is_last = place == len(group) - 1
    if line.isupper() or not _NO_TITLE_END.search(line):
        return is_last or line.isupper() or not width or len(line) < _TITLE_WIDTH * width
    return False


def _texts(lines: list[_Line], width: int, name: str) -> Iterator[Block]:
    for paragraph in _paragraphs(lines, bool(width)) if lines else ():
        text = _EMPHASIS.sub(r"\1", _joined(paragraph))
        is_break = is_scene_break(text)
        yield SceneBreak() if is_break else Text(text, f"{name}:{paragraph[0].number}")


def _without_contents(found: list[_Found]) -> list[_Found]:
    """Headings that are a list of contents in front of the book, as text: three chapters or more
    with nothing behind them, or with a few words where the same heading comes again.
    """
    keys = [_key(block) for block in found]
    entries: list[int] = []
    for place, block in enumerate(found):
        if not isinstance(block, Heading) or block.level == 1:
            continue
        num_chars = _chars_behind(found, place)
        is_again = keys[place] in keys[place + 1 :]
        if num_chars > (_MAX_ENTRY_CHARS if is_again else 0):
            break
        entries.append(place)
    end = entries[-1] + 1 if len(entries) >= _LEAST_CONTENTS else 0
    return [
        Text(block.text, block.place) if isinstance(block, Heading) else block
        for block in found[:end]
    ] + found[end:]


def _chars_behind(found: list[_Found], place: int) -> int:
    """Characters between a heading and the next one."""
    count = 0
    for block in found[place + 1 :]:
        if isinstance(block, (Heading, _Numeral)) or count > _MAX_ENTRY_CHARS:
            break
        count += len(block.text) if isinstance(block, Text) else 0
    return count


def _key(block: _Found) -> str:
    """What a heading has in common with its entry in a list: `chapter ii`."""
    if not isinstance(block, Heading):
        return ""
    return " ".join(re.findall(r"\w+", block.text.casefold())[:2])


def _settled(found: list[_Found]) -> Iterator[Block]:
    """Numbers as what they are."""
    chapters = [one for one in found if isinstance(one, Heading) and one.level == 2]
    titles = [title_of(one.text, is_loose=True) for one in chapters]
    numbers = [title.number for title in titles if title is not None and title.is_numbered]
    chosen = _continued(found, numbers) if numbers else _series(found)
    for place, block in enumerate(found):
        if isinstance(block, _Numeral):
            yield block.heading if place in chosen else block.text
        elif isinstance(block, Heading) and block.level == 1 and (chosen or numbers):
            title = title_of(block.text, is_loose=True)
            yield block._replace(level=2 if title and title.is_part else 1)
        else:
            yield block


def _continued(found: list[_Found], numbers: list[int | None]) -> set[int]:
    """The places of titled numbers that go on where chapters by word end: in one collection the
    sixth is ADVENTURE VI. THE TWISTED LIP, the seventh VII. THE BLUE CARBUNCLE.
    """
    last = numbers[-1] or 0
    chosen: set[int] = set()
    for style in sorted({block.style for block in found if isinstance(block, _Numeral)}):
        run: list[int] = []
        for place, value in _with_text(found, style):
            if style[1] and value == last + len(run) + 1:
                run.append(place)
        chosen |= set(run) if len(run) >= _LEAST_SERIES else set()
    return chosen


def _series(found: list[_Found]) -> set[int]:
    """The places of numbers that head chapters: of one style, each with text behind, rising by one,
    from one on or from where the part before ended.
    """
    best: set[int] = set()
    for style in sorted({block.style for block in found if isinstance(block, _Numeral)}):
        runs: list[list[int]] = []
        last = 0  # value of the number that was taken last
        for place, value in _with_text(found, style):
            if value != last + 1 or not runs:
                if value > 1:
                    continue
                runs.append([])
            runs[-1].append(place)
            last = value
        chosen = {place for run in runs if len(run) > 1 for place in run}
        if len(chosen) >= max(_LEAST_SERIES, len(best) + 1):
            best = chosen
    return best


def _with_text(found: list[_Found], style: tuple[bool, bool]) -> Iterator[tuple[int, int]]:
    """Place and value of the numbers of a style that have text behind them."""
    before: tuple[int, int] | None = None
    for place, block in enumerate(found):
        if isinstance(block, _Numeral) and block.style == style:
            before = (place, block.value)
        elif before is not None and isinstance(block, (Text, _Numeral)):
            yield before
            before = None


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
