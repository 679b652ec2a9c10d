"""Books as read aloud: chapters of paragraphs, without the markup of the source.

Readers of formats yield blocks (`Text`, `Heading`, `SceneBreak`, `TocEntry`), and `assemble` makes
chapters of them. The entries of a table of contents (EPUB, PDF) begin chapters; without one, the
headings of the highest level that occurs twice do. A part that consists of headings ("Part One"
before "Chapter One") is read at the start of the next chapter.

Entries of the contents for whole documents begin chapters at any depth. Of the entries for places
inside documents, those down to the first level with two or more entries do. A chapter of more than
an hour is split at the entries one level below, repeatedly.

Readers put `BREAK` between lines that the author broke (`<br>`, hard breaks of Markdown). Two of
them separate paragraphs. A single one becomes a comma if no punctuation mark is there.

Source of the marks of Project Gutenberg: its texts of 1994 to 2025; `pg-header` and `pg-footer` in
its EPUBs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from tts_cli.errors import ManifestError
from tts_cli.plain import read_table
from tts_cli.text.boundaries import is_cjk
from tts_cli.text.languages import code_of, named_language
from tts_cli.text.pauses import pause_problem, without_pauses
from tts_cli.text.unicode import clean_unicode
from tts_cli.text.words import strip_markup, usual_s

LONG_S = 3600.0  # of a chapter


@dataclass(frozen=True)
class Paragraph:
    """A paragraph or a heading. Its text may contain pauses such as `[pause 500ms]`."""

    text: str  # one line, not empty
    place: str  # position in the source, for messages
    voice: str | None = None  # None: the run's
    is_heading: bool = False
    is_scene_end: bool = False  # a scene break follows


@dataclass(frozen=True)
class Chapter:
    title: str  # of the file and the chapter mark; the heading that is read is a paragraph
    paragraphs: tuple[Paragraph, ...]  # at least one


@dataclass(frozen=True)
class Book:
    chapters: tuple[Chapter, ...]
    title: str | None = None
    author: str | None = None
    language: str | None = None  # as in the source, such as en-GB
    warnings: tuple[str, ...] = ()  # about parts of the source that are not read
    cover: bytes | None = field(default=None, repr=False)  # JPEG or PNG

    def without_markup(self) -> Book:
        """Return the book without tags of style and emphasis in its texts, such as `_italics_`."""
        chapters = (
            replace(
                chapter,
                title=_stripped(chapter.title),
                paragraphs=tuple(
                    replace(one, text=_stripped(one.text)) for one in chapter.paragraphs
                ),
            )
            for chapter in self.chapters
        )
        return replace(self, chapters=tuple(chapters))


def _stripped(text: str) -> str:
    return " ".join(strip_markup(text).split()) or text


def picture_suffix(data: bytes) -> str | None:
    """Return the suffix of a picture by its first bytes; None if it is neither JPEG nor PNG."""
    starts = {b"\xff\xd8\xff": ".jpg", b"\x89PNG\r\n\x1a\n": ".png"}
    return next((suffix for start, suffix in starts.items() if data.startswith(start)), None)


MAX_CHAPTERS = 9_999
MAX_TITLE_CHARS = 200
BREAK = "\1"  # a line break of the author; not possible in XML, and rejected in texts

_SPACES = re.compile(r"\s+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# A line between scenes: * * *, ***, ---, # # #, ~, and ornaments.
_SCENE_BREAK = re.compile(r"(?:[*#~_=•·◦†–—-]\s*){3,60}|[*#~⁂§❦❧☙]|(?:[⁂❦❧☙]\s*){1,9}")


# Ignored at the ends of broken lines. Our marks and those of checkpoints, in [] and {}, are not.
_CLOSING, _OPENING = "\"'”’»›)）」』》", "\"'“‘„«‹(（「『《¿¡"
# A clause does not end after these words ("produced for / Standard Ebooks"). Words that can end a
# clause in another language, such as "in" and "die", are not among them.
_LEANING = re.compile(
    r"(?<!\w)(?:an|and|as|but|by|for|from|into|of|or|than|the|with|das|dem|der|des|eine|einer|für|im"
    r"|oder|und|von|vom|zum|zur|au|aux|avec|ce|chez|dans|de|du|et|la|le|les|ou|sur|un|une|con|del"
    r"|della|di|el|gli|las|los|nel|para|por|uma|una)\Z",
    re.IGNORECASE,
)
_KANA = re.compile("[\u3040-\u30ff]")


class Text(NamedTuple):
    text: str
    place: str


class Heading(NamedTuple):
    text: str
    level: int
    place: str


class SceneBreak(NamedTuple):
    """A break between scenes."""


class NoTextError(ManifestError):
    """A text has no words; the others of its folder may have some."""


class TocEntry(NamedTuple):
    """An entry of the table of contents, at the place it points to, before the heading there."""

    title: str
    depth: int = 1  # of the entry, 1 is the top level
    is_document: bool = False  # it points at a whole document


Block = Text | Heading | SceneBreak | TocEntry


def one_line(text: str) -> str:
    """Return a text in one line, without invisible characters and outer spaces."""
    return _CONTROL.sub("", _SPACES.sub(" ", clean_unicode(text))).strip()


def parted(text: str) -> Iterator[str]:
    for has_text, lines in groupby(map(str.strip, text.split(BREAK)), key=bool):
        if has_text:
            yield _joined(list(lines))


def joined(text: str) -> str:
    """Return a text with broken lines as one paragraph."""
    return _joined(list(filter(None, map(str.strip, text.split(BREAK)))))


def _joined(lines: list[str]) -> str:
    spaces = [_space_between(before, behind) for before, behind in pairwise(lines)]
    return "".join(piece for pair in zip(lines, [*spaces, ""], strict=False) for piece in pair)


def _space_between(before: str, behind: str) -> str:
    """Return what replaces a line break: a space after a mark or inside a clause, else a comma."""
    last, first = before.rstrip(_CLOSING)[-1:], behind.lstrip(_OPENING)[:1]
    is_open = last and first and unicodedata.category(last)[0] in "LMN"
    if not is_open or first.islower() or unicodedata.category(first)[0] not in "LN":
        return " "
    if _LEANING.search(before, max(0, len(before) - 8)):
        return " "
    if is_cjk(last):
        return "、" if _KANA.search(before) or _KANA.search(behind) else "，"
    return "، " if "\u0600" <= last <= "\u06ff" else ", "


RAISED, LOWERED, LEVEL = "\3", "\4", "\5"  # around superscripts and subscripts, see `settle_raised`
_UP = str.maketrans("0123456789+-\u2212=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_DOWN = str.maketrans("0123456789+-\u2212=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_FRACTION = re.compile(
    rf"(\d*){RAISED}\s*(\d{{1,3}})\s*{LEVEL}\s*[/\u2044\u2215]\s*{LOWERED}?\s*(\d{{1,3}})(?!\d)\s*{LEVEL}?"
)
_SHIFTED = re.compile(
    rf"([^\W\d_]*|\d+(?:[.,]\d+)*|\))([{RAISED}{LOWERED}])([^{RAISED}{LOWERED}{LEVEL}]*){LEVEL}"
)
_NOTE_NUMBER = re.compile(r"[\[(]?\*?\d{1,4}[\])]?|[*†‡§¶]{1,4}")
_POWER = re.compile(r"[+\u2212-]?(?:\d{1,4}|n)")
# 10, cm, x; after other text a raised number belongs to a note.
_WORDS = read_table(Path(__file__).parent / "data/print.toml")["short_words"].split()
_BASE = re.compile(rf"\d{{1,3}}|\d+\.\d+|(?!(?i:{'|'.join(_WORDS)})\Z)[^\W\d_]{{1,3}}|\)")


def settle_raised(text: str) -> tuple[str, int]:
    """Return a text with Unicode's superscripts and subscripts, and the number of note marks left
    out: superscripts after a long word, a year or the end of a sentence. In the text, each such
    part has `RAISED` or `LOWERED` before it, and `LEVEL` after it.
    """
    if RAISED not in text and LOWERED not in text:
        return text, 0
    num_notes = 0

    def settle(found: re.Match[str]) -> str:
        nonlocal num_notes
        base, inside = found[1], found[3].strip()
        if found[2] == LOWERED:
            is_number = re.fullmatch(r"[\d+\u2212=()-]+", inside)
            return base + (inside.translate(_DOWN) if is_number else inside)
        if _POWER.fullmatch(inside) and _BASE.fullmatch(base):
            return base + inside.translate(_UP)
        if _NOTE_NUMBER.fullmatch(inside):
            num_notes += 1
            return base
        return base + inside

    text = _FRACTION.sub(lambda found: f"{found[1]} {found[2]}/{found[3]}".strip(), text)
    return _SHIFTED.sub(settle, text), num_notes


def is_scene_break(text: str) -> bool:
    """Return whether a paragraph consists only of signs that separate scenes."""
    return _SCENE_BREAK.fullmatch(clean_unicode(text).strip()) is not None


def assemble(blocks: Iterable[Block], name: str, *, is_chapter: bool = False) -> Book:
    """Return a book without author and language. Its title is a single heading above all chapters.
    Raises ManifestError if there is no text or too many chapters.

    Args:
        name: the title of a chapter that has none.
        is_chapter: everything is one chapter, titled by its first heading; it may be empty.
    """
    found = list(blocks)
    if is_chapter:
        titles = (_without_marks(one.text, one.place) for one in found if isinstance(one, Heading))
        found.insert(0, TocEntry(next(filter(None, titles), name)))
    builder = _Builder(name)
    levels = Counter(block.level for block in found if isinstance(block, Heading))
    is_marked = any(isinstance(block, TocEntry) for block in found)
    level = 0 if is_marked else _chapter_level(levels)
    for block in found:
        builder.take(block, level)
    chapters = builder.finish()
    if len(chapters) > MAX_CHAPTERS:
        raise ManifestError(f"{name}: has {len(chapters)} chapters; the maximum is {MAX_CHAPTERS}")
    if not chapters and not is_chapter:
        raise NoTextError(f"{name}: contains no text", remedy="check that this is the right file")
    title = None if is_marked else _book_title(found, level)
    return Book(chapters, title, warnings=tuple(builder.warnings))


def _chapter_level(levels: Counter[int]) -> int:
    repeated = [level for level, times in levels.items() if times > 1]
    return min(repeated or levels, default=0)


def _book_title(blocks: list[Block], level: int) -> str | None:
    first = next((block for block in blocks if isinstance(block, Heading)), None)
    if first is None or first.level >= level:
        return None
    return one_line(first.text)


class _Builder:
    def __init__(self, name: str) -> None:
        self._name = name
        self._title: str | None = None
        self._paragraphs: list[Paragraph] = []
        self._chapters: list[Chapter] = []
        self.warnings: list[str] = []

    def take(self, block: Block, level: int) -> None:
        if isinstance(block, SceneBreak):
            if self._paragraphs:
                self._paragraphs[-1] = replace(self._paragraphs[-1], is_scene_end=True)
        elif isinstance(block, TocEntry):
            self._begin(block.title)
        elif isinstance(block, Heading):
            text = one_line(block.text)
            if text and block.level <= level:
                self._begin(_without_marks(text, block.place))
            self._add(text, block.place, is_heading=True)
        elif is_scene_break(block.text):
            self.take(SceneBreak(), level)
        else:
            self._add(one_line(block.text), block.place)

    def finish(self) -> tuple[Chapter, ...]:
        """Return all chapters. Headings without text after them go to the last one."""
        if self._paragraphs and not self._has_text() and self._chapters:
            last = self._chapters.pop()
            self._paragraphs = [*last.paragraphs, *self._paragraphs]
            self._title = last.title
        self._close()
        return tuple(self._chapters)

    def _begin(self, title: str) -> None:
        if self._has_text():
            self._close()
        self._title = title[:MAX_TITLE_CHARS]

    def _has_text(self) -> bool:
        return not all(paragraph.is_heading for paragraph in self._paragraphs)

    def _close(self) -> None:
        if self._paragraphs:
            title = self._title or self._name
            self._chapters.append(Chapter(title, tuple(self._paragraphs)))
        self._paragraphs, self._title = [], None

    def _add(self, text: str, place: str, is_heading: bool = False) -> None:
        text, voice = take_voice(text)
        if mark := misspelt(text):
            self.warnings.append(
                f"{place}: {mark!r} will be read aloud: put {{voice=NAME}} at the start or "
                "end of a paragraph"
            )
        if text:
            self._paragraphs.append(Paragraph(text, place, voice, is_heading))


def _without_marks(text: str, place: str) -> str:
    text, _ = take_voice(text)
    require_pauses(text, place)
    return one_line(without_pauses(text))


_VOICE = re.compile(r"\{voice=([^{}\s=](?:[^{}=\n]{0,198}[^{}\s=])?)\}")
_ALMOST_VOICE = re.compile(r"\{\s*voice\b[^{}\n]{0,60}\}", re.IGNORECASE)


def require_pauses(text: str, place: str) -> None:
    """Raise ManifestError if a pause in a paragraph is longer than a minute."""
    if problem := pause_problem(text):
        raise ManifestError(f"{place}: {problem}")


def take_voice(text: str) -> tuple[str, str | None]:
    """Split a paragraph into its text and the voice that its mark selects."""
    found = _VOICE.match(text) or _VOICE.search(text, max(0, len(text) - 210))
    if found is None or (found.start() and found.end() < len(text)):
        return text, None
    return (text[: found.start()] + text[found.end() :]).strip(), found[1]


def misspelt(text: str) -> str | None:
    """Return the first piece of a text that looks like a mistyped voice mark, or None."""
    found = _ALMOST_VOICE.search(text)
    return None if found is None else found.group()


# Checkpoints that support Chinese do not support Cantonese (yue, zh-yue) and the others.
_OTHER_CHINESE = {"yue", "nan", "wuu", "hak", "gan", "hsn"}
_NO_LANGUAGE = {"und", "mul", "mis", "zxx", "art"}  # of ISO 639-2: unknown, several, none


def known_language(tag: str | None, known: Collection[str]) -> str | None:
    """Return the checkpoint's name for a language such as `en-GB`, or None."""
    parts = _parts(tag)
    if not _OTHER_CHINESE.isdisjoint(parts[1:]):
        return None
    name = named_language(parts[0], known)
    return name if name != "auto" and name in known else None


def is_language(tag: str) -> bool:
    code = code_of(_parts(tag)[0])
    return code is not None and code not in _NO_LANGUAGE


def _parts(tag: str | None) -> list[str]:
    return (tag or "").strip().lower().replace("_", "-").split("-")


def chapters_of(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks without the entries of the contents that do not begin chapters."""
    entries = [one for one in blocks if isinstance(one, TocEntry)]
    depths = [one.depth for one in entries]
    seconds = _seconds(blocks)
    base = _base_depth(depths, seconds)
    chosen = {n for n, one in enumerate(entries) if one.is_document or one.depth <= base}
    spans = list(pairwise([*sorted(chosen), len(entries)]))
    while spans:
        first, end = spans.pop()
        below = [n for n in range(first + 1, end) if depths[n] > depths[first]]
        if below and sum(seconds[first:end]) > LONG_S:
            highest = min(depths[n] for n in below)
            parts = [n for n in below if depths[n] == highest]
            chosen.update(parts)
            spans += pairwise([first, *parts, end])
    numbers = iter(range(len(entries)))
    return [one for one in blocks if not isinstance(one, TocEntry) or next(numbers) in chosen]


def _seconds(blocks: Sequence[Block]) -> list[float]:
    """Return the estimated duration of the text from each entry up to the next one."""
    seconds: list[float] = []
    for one in blocks:
        if isinstance(one, TocEntry):
            seconds.append(0.0)
        elif isinstance(one, Text | Heading) and seconds:
            seconds[-1] += usual_s(one.text)
    return seconds


def _base_depth(depths: Sequence[int], seconds: Sequence[float]) -> int:
    """Return the highest level with two entries that have text, or entries below them."""
    counts: Counter[int] = Counter()
    for depth, text_s, behind in zip(depths, seconds, [*depths, 0][1:], strict=True):
        counts[depth] += text_s > 0 or behind > depth
    return min((depth for depth, times in counts.items() if times > 1), default=1)


FRAME_IDS = frozenset(("pg-header", "pg-footer", "pg-start-separator", "pg-end-separator"))
_FRAME_NAME = r"(?:THE |THIS )?PROJECT GUTENBERG"
_FRAME_START = re.compile(
    rf"^[ \t]*\*{{3}} ?START OF {_FRAME_NAME}[^*]{{0,400}}\*{{3}}[ \t]*$"
    r"|^[ \t]*\*?END\*? ?(?:THE )?SMALL PRINT[^\n]{0,200}\*END\*?[ \t]*$"
    r"|^[ \t]*\*END\*THE SMALL PRINT[^\n]{0,200}$",
    re.MULTILINE | re.IGNORECASE,
)
_FRAME_END = re.compile(
    rf"^[ \t]*\*{{3}} ?END OF {_FRAME_NAME}[^*]{{0,400}}\*{{3}}[ \t]*$"
    rf"|^[ \t]*END OF {_FRAME_NAME}(?:'s|\u2019s)? [^\n]{{0,200}}$",
    re.MULTILINE | re.IGNORECASE,
)


def strip_gutenberg(text: str) -> tuple[str, int]:
    """Return a book without Project Gutenberg's header and licence, and the number of characters
    left out. One of the marks may be missing. Empty lines preserve line numbers.
    """
    start = 0
    for found in _FRAME_START.finditer(text, 0, max(len(text) // 2, 40_000)):
        start = found.end()  # an old text has two of them
    end = _FRAME_END.search(text, start)
    stop = end.start() if end else len(text)
    before, book, behind = text[:start], text[start:stop], text[stop:]
    num_left_out = len(before.strip()) + len(behind.strip())
    return "\n" * before.count("\n") + book, num_left_out


def strip_gutenberg_blocks(blocks: Sequence[Block]) -> tuple[list[Block], int]:
    """Return blocks without the header and licence, whose marks are paragraphs in older EPUBs, and
    the number of characters left out. Entries of the contents stay.
    """
    texts = [one.text if isinstance(one, Text | Heading) else "" for one in blocks]
    starts = (n for n in range(len(texts) // 2) if _FRAME_START.fullmatch(one_line(texts[n])))
    first = next(starts, -1)
    ends = (n for n in range(first + 1, len(texts)) if _FRAME_END.fullmatch(one_line(texts[n])))
    last = next(ends, len(texts))
    kept = [
        one
        for n, one in enumerate(blocks)
        if first < n < last or (isinstance(one, TocEntry) and n < last)
    ]
    return kept, sum(len(text) for n, text in enumerate(texts) if not first < n < last)


def frame_warning(name: str, num_left_out: int) -> str:
    what = "the frame of Project Gutenberg around the book"
    return f"{name}: {what} is left out, {num_left_out:,} characters"
