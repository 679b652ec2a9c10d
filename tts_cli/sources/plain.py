"""Read plain text as a book: paragraphs between blank lines, with or without hard wraps, and
headings by rules.

Text is hard-wrapped if most lines with a line after them are about as long as the longest. Then an
indented line begins a new paragraph. In other texts each line is a paragraph.

A heading is a line that is underlined by `===` or `---` and does not end like a sentence, or a line
that `titles` recognizes by its words. In wrapped text it is the first line after a blank one. The
next line may be its title. A number is only a heading in a series of at least three that rise by
one, with text after each, in a text without other chapters; numbered stanzas, lists and sections
are not. Headings without text between them are a list of contents.

Traces of print are not read: numbers and running heads of pages that are separated by form feeds,
hyphens that divide words at line ends, and the marks of Aozora Bunko (readings, notes of the
typist, the box that explains them, the colophon).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Set
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from tts_cli.plain import read_table
from tts_cli.sources.chapters import Block, Heading, SceneBreak, Text, is_scene_break
from tts_cli.sources.titles import title_of

MAX_WRAP_CHARS = 100  # a hard wrap is at most this wide
MAX_HEADING_CHARS = 80

_UNDERLINE = re.compile(r"\s*(={3,}|-{3,})\s*")
_EMPHASIS = re.compile(r"(?<![\w_])_(?=[^\s_])([^_]{0,2000}?[^\s_])_(?![\w_])")
_PICTURE = re.compile(r"\[Illustration(?::[^\[\]]{0,1000})?\]", re.IGNORECASE)
_NO_TITLE_END = re.compile(r"[.!?…,;:][\"”’»)]*$")
_FINAL = re.compile(r"[.…。][\"”’»」』)]*$")  # never at the end of a title
_END = re.compile(r"[.!?…。！？][\"'”’»」』)]*$")
_MAX_ENDED = 0.7  # of wrapped lines end as sentences do
_MIN_SERIES = 3
_MIN_CONTENTS = 3  # entries of a list
_MAX_ENTRY_CHARS = 500
_MAX_BEFORE = 100  # headings before a list
_MIN_WRAP = 40  # narrower lines are short texts, not wrapped
_MIN_CUT = 55  # characters; verses are shorter
_MAX_TITLE_LINES = 4  # of a long title; more are a paragraph
_TITLE_WIDTH = 0.6  # of a wrapped line; a longer one is text
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MIN_WORDS = 2_000  # different ones in a text, to know which parts of divided words are words
_MIN_PAGES = 3
_PAGE_NUMBER = re.compile(r"[-–—\[(]?\s*(?:[Pp]age\s+|p\.\s*)?(\d{1,4})\s*[-–—\])]?")
_PRINT = read_table(Path(__file__).parent / "data" / "print.toml")
_PRINTED = {one["name"]: re.compile(one["pattern"]) for one in _PRINT["printed"]}
_AOZORA = {name: re.compile(pattern) for name, pattern in _PRINT["aozora"].items()}
_MARKED = "\2"  # before a line that is marked as a heading; rejected in texts
_AOZORA_LEVELS = {"大": "1", "中": "2", "小": "3"}


class _Line(NamedTuple):
    place: str
    text: str  # no spaces at its end


class _Numeral(NamedTuple):
    """A line that is a heading if it belongs to a series."""

    heading: Heading
    value: int
    style: tuple[bool, bool]  # Roman, with a title
    text: Text  # used otherwise


_Found = Block | _Numeral


class Printed(NamedTuple):
    """A text without traces of print, and the kinds of traces removed."""

    text: str  # with empty lines in place of them, which preserves line numbers
    left_out: tuple[str, ...]
    starts: tuple[int, ...]  # the first line of each page, from 1


def without_print(text: str) -> Printed:
    """Remove the marks of Aozora Bunko, and numbers and heads of pages."""
    left_out = []
    if len(_AOZORA["sign"].findall(text)) > 1:
        for part in ("box", "end"):
            text = _AOZORA[part].sub(_newlines, text)
        text = _AOZORA["mark"].sub("", _AOZORA["heading"].sub(_aozora_heading, text))
        left_out.append("readings, notes of the typist and the colophon (Aozora Bunko)")
    for what, pattern in _PRINTED.items():
        if len(pattern.findall(text)) >= _MIN_PAGES:
            text = pattern.sub(_newlines, text)
            left_out.append(what)
    pages = [page.split("\n") for page in text.split("\f")]
    if len(pages) > _MIN_PAGES and _clear_pages(pages):
        left_out.append("numbers or running heads of pages")
    pieces = ["\n".join(pages[0])]
    starts = [1]
    for page in pages[1:]:
        last, first = pieces[-1].rstrip()[-1:], "".join(page).lstrip()[:1]
        is_cut = (last.isalnum() or last in ",-") and first.islower()  # the sentence continues
        pieces[-1] = pieces[-1].rstrip("\n") + "\n" if is_cut else pieces[-1] + "\f"
        starts.append(starts[-1] + pieces[-1].count("\n") + 2 * pieces[-1].count("\f"))
        pieces.append("\n".join(page).lstrip("\n") if is_cut else "\n".join(page))
    return Printed("".join(pieces), tuple(left_out), tuple(starts))


def _aozora_heading(found: re.Match[str]) -> str:
    level = _AOZORA_LEVELS[found[2] or found[3]]
    return f"\n{_MARKED}{level}{(found[1] or found[4]).strip()}\n"


def _clear_pages(pages: list[list[str]]) -> bool:
    """Empty lines with page numbers and running heads, in place. Return whether it found any."""
    edges = []  # of each page: its first and last filled lines
    for page in pages:
        filled = [number for number, line in enumerate(page) if line.strip()]
        edges.append({*filled[:1], *filled[-1:]})
    numbers = {
        (nth, place): int(found[1])
        for nth, places in enumerate(edges)
        for place in places
        if (found := _PAGE_NUMBER.fullmatch(pages[nth][place].strip()))
    }
    offsets = Counter(value - nth for (nth, _), value in numbers.items())
    offset, times = max(offsets.items(), key=lambda one: one[1], default=(0, 0))
    cleared = {
        key for key, value in numbers.items() if times >= _MIN_PAGES and value - key[0] == offset
    }
    lone = {  # separated from the text by a blank line
        (nth, place): re.sub(r"\d+", "", pages[nth][place]).strip()
        for nth, places in enumerate(edges)
        for place in places
        if not "".join(pages[nth][place + 1 : place + 2] or pages[nth][place - 1 : place]).strip()
    }
    heads = Counter(lone.values())
    cleared |= {key for key, head in lone.items() if 3 * heads[head] > len(pages) > _MIN_PAGES}
    for nth, place in cleared:
        pages[nth][place] = ""
    return bool(cleared)


def blocks(
    text: str, place_of: Callable[[int], str], *, is_wrapped: bool = False
) -> Iterator[Block]:
    """Yield the blocks of a text with newlines as line ends. `place_of` gives the place of a line
    by its number, from 1. Unless `is_wrapped`, the lengths of lines show whether they are
    hard-wrapped.
    """
    groups = list(_groups(_PICTURE.sub(_newlines, text), place_of))
    width = _wrap_width(groups)
    if is_wrapped and not width:
        width = max((len(line.text) for group in groups for line in group), default=0)
    has_parted = width and re.search(r"[^\W\d_]-\n\s*[a-zß-ÿ]", text)
    words = {word.casefold() for word in _WORD.findall(text)} if has_parted else set()
    found = [block for group in groups for block in _read(group, width, words)]
    lone = {group[0].place for group in groups if len(group) == 1}
    yield from _with_titles(list(_settled(_without_contents(found))), lone)


def _newlines(found: re.Match[str]) -> str:
    return "\n" * found.group().count("\n")


def _groups(text: str, place_of: Callable[[int], str]) -> Iterator[list[_Line]]:
    group: list[_Line] = []
    for number, text_of_line in enumerate(text.replace("\f", "\n\n").split("\n"), 1):
        if line := text_of_line.rstrip():
            group.append(_Line(place_of(number), line))
        elif group:
            yield group
            group = []
    if group:
        yield group


def _wrap_width(groups: list[list[_Line]]) -> int:
    """Return the width of hard-wrapped lines; 0 if the text is not wrapped."""
    followed = [len(line.text) for group in groups for line in group[:-1]]
    if not followed:
        return 0
    widest = max(followed)
    full = sum(length > 0.7 * widest for length in followed)
    ended = sum(_END.search(line.text) is not None for group in groups for line in group[:-1])
    if ended > _MAX_ENDED * len(followed):
        return 0
    return widest if widest <= MAX_WRAP_CHARS and 2 * full >= len(followed) else 0


def _read(group: list[_Line], width: int, words: Set[str]) -> Iterator[_Found]:
    lines: list[_Line] = []
    place = 0
    while place < len(group):
        is_inside = bool(lines and width)
        found = None
        if not is_inside or _stands_out(group[place].text.strip(), width):
            found = _heading(group, place, width)
        if found is None:
            lines.append(group[place])
            place += 1
            continue
        yield from _texts(lines, width, words)
        lines = []
        heading, num_lines = found
        yield heading
        place += num_lines
    yield from _texts(lines, width, words)


def _stands_out(line: str, width: int) -> bool:
    title = title_of(line)
    is_short = 2 * len(line) < width or not line.isascii()
    return title is not None and title.is_numbered and is_short


def _heading(group: list[_Line], place: int, width: int) -> tuple[Heading | _Numeral, int] | None:
    line, where = group[place].text.strip(), group[place].place
    if len(line) > MAX_HEADING_CHARS:
        return None
    below = group[place + 1].text if place + 1 < len(group) else ""
    if line.startswith(_MARKED):
        return Heading(line[2:], int(line[1]), where), 1
    middle = len(group[place].text) - len(line) // 2
    is_sentence = _FINAL.search(line) or (place > 0 and _END.search(line))
    found = None if is_sentence else _UNDERLINE.fullmatch(below)
    if found and found.start(1) <= middle:  # otherwise it is the line of a sum
        return Heading(line, 1 if found[1][0] == "=" else 2, where), 2
    below = below.strip()
    title = title_of(line, is_loose=len(group) == 1)
    if title is None or (line[0].islower() and _FINAL.search(line)):
        return None  # "section 3 and elsewhere."
    if title.value is not None:
        if width and len(group) > 1:
            return None
        heading = Heading(line, 2, where)
        style = (not line.lstrip("([").startswith(tuple("0123456789")), title.has_title)
        return _Numeral(heading, title.value, style, Text(line, where)), 1
    text, num_lines = title.text, 1
    if title.has_title and below and _goes_on(line, below, width):
        num_lines = len(group) - place
        if num_lines > _MAX_TITLE_LINES:
            return None
        text = _joined(group[place:])
    if not title.has_title and title.is_numbered and _is_title(group, place + 1, width):
        text, num_lines = _titled(text, below), 2
    return Heading(_EMPHASIS.sub(r"\1", text), 1 if title.is_part else 2, where), num_lines


def _goes_on(line: str, below: str, width: int) -> bool:
    """Return whether a line ends because the next word did not fit."""
    return _is_cut(line, below) or len(line) + 1 + len(below.split()[0]) > 0.8 * width > _MIN_WRAP


def _is_cut(line: str, below: str) -> bool:
    """Return whether a sentence goes on in the next line, although most lines are verses."""
    is_long = _MIN_CUT <= len(line) <= MAX_WRAP_CHARS
    return is_long and below.strip()[:1].islower() and not _END.search(line)


def _titled(heading: str, title: str) -> str:
    return f"{heading.rstrip('.:')}. {title}"


def _is_title(group: list[_Line], place: int, width: int) -> bool:
    if place >= len(group):
        return False
    line = group[place].text.strip()
    is_last = place == len(group) - 1
    return _reads_as_title(line) and (
        is_last or line.isupper() or not width or len(line) < _TITLE_WIDTH * width
    )


def _reads_as_title(line: str) -> bool:
    """Return whether a line without words of titles may be one: short, and not a sentence."""
    if len(line) > MAX_HEADING_CHARS or line[0].islower() or title_of(line):
        return False
    return line.isupper() or not _NO_TITLE_END.search(line)


def _texts(lines: list[_Line], width: int, words: Set[str]) -> Iterator[Block]:
    for paragraph in _paragraphs(lines, bool(width)) if lines else ():
        text = _EMPHASIS.sub(r"\1", _joined(paragraph, words))
        is_break = is_scene_break(text)
        yield SceneBreak() if is_break else Text(text, paragraph[0].place)


def _without_contents(found: list[_Found]) -> list[_Found]:
    """Turn the headings of a list of contents into text.

    Such a list has three or more chapters without text, and its end; or all its headings are
    repeated later, and it is in the first fifth of the text, with few words per entry.
    """
    headings = {place: one for place, one in enumerate(found) if isinstance(one, Heading)}
    places = list(headings)
    keys = [_key(one) for one in headings.values()]
    end = num_empty = 0
    for nth, place in enumerate(places):
        if headings[place].level == 1:
            continue
        if _chars_behind(found, place):
            is_last = keys[nth] not in keys[:nth]
            is_again = is_last and keys[nth] in keys[nth + 1 :]
            end = nth + 1 if is_last and num_empty + is_again >= _MIN_CONTENTS else end
            break
        num_empty += 1
        end = nth + 1 if num_empty >= _MIN_CONTENTS else 0
    size = [0, *accumulate(len(one.text) if isinstance(one, Text) else 0 for one in found)]
    latest = {key: nth for nth, key in enumerate(keys)}
    times = Counter(keys)
    first = 0
    while first < min(len(keys), _MAX_BEFORE):
        again = latest[keys[first]] if times[keys[first]] == 2 else 0
        if (
            again > first + 1
            and 5 * size[places[again]] < size[-1]
            and all(latest[key] >= again for key in keys[first:again])
            and size[places[again - 1]] - size[places[first]] <= _MAX_ENTRY_CHARS * (again - first)
        ):
            end = max(end, again)
        first = max(first + 1, again if end == again else 0)
    stop = places[end - 1] + 1 if end else 0
    return [
        Text(block.text, block.place) if isinstance(block, Heading) else block
        for block in found[:stop]
    ] + found[stop:]


def _chars_behind(found: list[_Found], place: int) -> int:
    count = 0
    for at in range(place + 1, len(found)):
        block = found[at]
        if isinstance(block, (Heading, _Numeral)) or count > _MAX_ENTRY_CHARS:
            break
        count += len(block.text) if isinstance(block, Text) else 0
    return count


def _key(heading: Heading) -> str:
    """Return the words that a heading shares with its entry in a list: `chapter ii`."""
    words = re.findall(r"\w+", heading.text.casefold())
    return " ".join([word for word in words[:3] if word != "the"][:2])


def _settled(found: list[_Found]) -> Iterator[Block]:
    """Yield blocks, in which numbers have become headings or text."""
    chapters = [one for one in found if isinstance(one, Heading) and one.level == 2]
    titles = [title_of(one.text, is_loose=True) for one in chapters]
    numbers = [title.number for title in titles if title is not None and title.is_numbered]
    chosen = _continued(found, numbers) if numbers else _series(found)
    if numbers:
        first = next(place for place, one in enumerate(found) if one == chapters[0])
        series = _series(found)
        if sum(place < first for place in series) > len(numbers):  # not parts of those chapters
            chosen = series
    for place, block in enumerate(found):
        if isinstance(block, _Numeral):
            yield block.heading if place in chosen else block.text
        elif isinstance(block, Heading) and block.level == 1 and (chosen or numbers):
            title = title_of(block.text, is_loose=True)
            yield block._replace(level=2 if title and title.is_part else 1)
        else:
            yield block


def _continued(found: list[_Found], numbers: list[int | None]) -> set[int]:
    """Return the places of numbers with titles that continue chapters with words: ADVENTURE VI. THE
    TWISTED LIP is followed by VII. THE BLUE CARBUNCLE.
    """
    last = numbers[-1] or 0
    chosen: set[int] = set()
    for style in sorted({block.style for block in found if isinstance(block, _Numeral)}):
        run: list[int] = []
        for place, value in _with_text(found, style):
            if style[1] and value == last + len(run) + 1:
                run.append(place)
        chosen |= set(run) if len(run) >= _MIN_SERIES else set()
    return chosen


def _series(found: list[_Found]) -> set[int]:
    """Return the places of numbers that are headings of chapters: of one style, each with text
    after it, rising by one, from one or from the last number of the part before.
    """
    best: set[int] = set()
    for style in sorted({block.style for block in found if isinstance(block, _Numeral)}):
        runs: list[list[int]] = []
        numerals = list(_with_text(found, style))
        values = [value for _, value in numerals]
        last = 0  # value of the last number in the series
        for nth, (place, value) in enumerate(numerals):
            behind = values[nth + 1 : nth + 2]
            is_misprint = runs and last > 1 and behind == [last + 2] and value != last + 1
            if is_misprint:
                value = last + 1
            elif value != last + 1 or not runs:
                if value > 1 or (runs and behind != [2]):
                    continue
                runs.append([])
            runs[-1].append(place)
            last = value
        chosen = {place for run in runs if len(run) > 1 for place in run}
        before = [
            one.text for one in (found[place - 1] for place in chosen) if isinstance(one, Text)
        ]
        if 2 * sum(_END.search(text) is None for text in before) > len(before):
            continue  # sentences continue after them: they are numbers of pages
        if len(chosen) >= max(_MIN_SERIES, len(best) + 1):
            best = chosen
    return best


def _with_text(found: list[_Found], style: tuple[bool, bool]) -> Iterator[tuple[int, int]]:
    before: tuple[int, int] | None = None
    for place, block in enumerate(found):
        if isinstance(block, _Numeral) and block.style == style:
            before = (place, block.value)
        elif before is not None and isinstance(block, (Text, _Numeral)):
            yield before
            before = None


def _is_heading(blocks: list[Block], place: int) -> bool:
    return place < len(blocks) and isinstance(blocks[place], Heading)


def _with_titles(blocks: list[Block], lone: set[str]) -> Iterator[Block]:
    """Yield headings with the titles that follow after a blank line: for parts before a chapter,
    and for chapters if three out of four have such a title.
    """
    num_bare = 0
    titles: dict[bool, dict[int, str]] = {True: {}, False: {}}
    for place, (one, below) in enumerate(pairwise(blocks)):
        title = title_of(one.text, is_loose=True) if isinstance(one, Heading) else None
        if title is None or title.has_title or not (title.is_numbered or title.value):
            continue
        num_bare += not title.is_part
        if not isinstance(below, Text) or not _reads_as_title(below.text):
            continue
        is_over = not title.is_part or _is_heading(blocks, place + 2)
        if below.place in lone and is_over:
            titles[title.is_part][place] = _titled(title.text, below.text)
    chosen = titles[True]
    if len(titles[False]) >= max(_MIN_SERIES, 0.75 * num_bare):
        chosen |= titles[False]
    for place, one in enumerate(blocks):
        if place in chosen and isinstance(one, Heading):
            yield one._replace(text=chosen[place])
        elif place - 1 not in chosen:
            yield one


def _paragraphs(group: list[_Line], is_wrapped: bool) -> Iterator[list[_Line]]:
    if not is_wrapped:
        piece: list[_Line] = []
        for line, below in zip(group, [*(one.text for one in group[1:]), ""], strict=True):
            piece.append(line)
            if not _is_cut(line.text, below):
                yield piece
                piece = []
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


def _joined(lines: list[_Line], words: Set[str] = frozenset()) -> str:
    """Join lines. A hyphen at the end of a line is part of the word, as in "well-/known", unless
    the text has the word without it, or has neither part. `words` are in lower case.
    """
    text = ""
    for line in lines:
        piece = line.text.strip()
        if text[-1:] == "-" and text[-2:-1].isalpha() and piece[:1].islower():
            before, after = _WORD.findall(text[:-1][-60:])[-1:], _WORD.match(piece)
            if before and after and _is_parted(before[0].casefold(), after[0].casefold(), words):
                text = text[:-1]
            text += piece
        else:
            text += f" {piece}" if text else piece
    return text


def _is_parted(before: str, after: str, words: Set[str]) -> bool:
    if before + after in words:
        return True
    is_own = f"{before}-{after}" in words
    return not is_own and len(words) >= _MIN_WORDS and not {before, after} & words
