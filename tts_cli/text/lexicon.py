"""The lexicon: a user's pronunciations of words.

A lexicon is a file of tab-separated lines in UTF-8: `from`, `to`, `language`, `case`, `alphabet`.
The last three are optional: without a language, or with `any`, an entry applies to all languages;
`case` is `any` (the default) or `exact`; `alphabet` is `text` (the default), or that of the sounds
in `to`, see `phones`. A first line with the names of the columns is a header, in any order. Blank
lines and lines that begin with `#` are ignored. A file in XML is read by `pls`.

Only whole words are replaced (`cat` does not match `cats`), except in scripts without spaces. If
several entries match, the longest wins, then the one of the row's language, then the one with exact
case, then the one with the same apostrophe. Cells are cleaned like texts (`clean_unicode`);
straight and curly apostrophes are equal.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tts_cli.errors import UsageError
from tts_cli.plain import read_given
from tts_cli.text import phones
from tts_cli.text.languages import named_language
from tts_cli.text.normalized_text import Edit, mask
from tts_cli.text.pls import is_pls, pls_cells
from tts_cli.text.rule import one_of
from tts_cli.text.tables import script
from tts_cli.text.unicode import clean_unicode

ANY = "any"
COLUMNS = ("from", "to", "language", "case", "alphabet")
LANGUAGES = (
    *("chinese", "english", "french", "german", "italian"),
    *("japanese", "korean", "portuguese", "russian", "spanish"),
)
CASES = (ANY, "exact")
MAX_BYTES = 8 << 20
MAX_CHARS = 200  # of one cell
MAX_PROBLEMS = 20  # named in one message

_STRAIGHT = dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\uff07"), "'")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Scripts that write no spaces, or join endings to words as Korean does: Thai, Lao, Burmese, Khmer,
# kana, Chinese, hangul.
_UNSPACED = re.compile(
    "["
    + script(*("southeast_asian", "kana", "more_kana", "ideographs", "more_ideographs", "hangul"))
    + "]"
)


@dataclass(frozen=True)
class Entry:
    """One line of a lexicon."""

    written: str  # as the line has it
    spoken: str
    language: str | None  # lower case; None: any
    is_exact: bool  # whether its case counts
    line: int  # of the file, from 1; of PLS, the number of the lexeme
    alphabet: str = phones.TEXT  # of `spoken`

    @property
    def key(self) -> tuple[str, str | None, bool]:
        """What entries have in common that hold for the same words."""
        written = _straight(self.written) if self.is_exact else fold(self.written)
        return (written, self.language, self.is_exact)

    def holds(self, text: str, language: str | None) -> bool:
        """Whether it holds for a word that is found whatever its case."""
        if self.is_exact and _straight(text) != _straight(self.written):
            return False
        return self.language is None or self.language == language

    def has_form(self, text: str) -> bool:
        """Whether its apostrophes are those of a word that it holds for."""
        return text.lower() == self.written.lower()


@dataclass(frozen=True)
class Lexicon:
    """Entries by what they replace. An empty one changes nothing."""

    entries: tuple[Entry, ...] = ()
    path: Path | None = None  # of the file it was read from
    sha256: str | None = None  # of that file
    _by_fold: dict[str, list[Entry]] = field(init=False, repr=False, compare=False)
    _lengths: dict[str, list[int]] = field(init=False, repr=False, compare=False)
    _head: re.Pattern[str] = field(init=False, repr=False, compare=False)  # of any entry

    def __post_init__(self) -> None:
        by_fold: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_fold.setdefault(fold(entry.written), []).append(entry)
        for same in by_fold.values():
            same.sort(key=lambda entry: (entry.language is None, not entry.is_exact))
        heads: dict[str, set[int]] = {}
        for written in by_fold:
            heads.setdefault(written[0], set()).add(len(written))
        lengths = {head: sorted(found, reverse=True) for head, found in heads.items()}
        object.__setattr__(self, "_by_fold", by_fold)
        object.__setattr__(self, "_lengths", lengths)
        object.__setattr__(self, "_head", re.compile(one_of(heads)))

    @property
    def num_phonetic(self) -> int:
        """Number of entries with sounds."""
        return sum(entry.alphabet != phones.TEXT for entry in self.entries)

    def for_model(self, has_phones: bool) -> Lexicon:
        """Return the lexicon with sounds as a model reads them: between tags, or as letters.
        Pinyin has no letters for other models, so these entries are left out.
        """
        entries = []
        for entry in self.entries:
            if entry.alphabet != phones.TEXT:
                found = phones.parse(entry.spoken, entry.alphabet)
                if not has_phones and entry.alphabet == phones.PINYIN:
                    continue
                tagged = phones.tagged(found, entry.alphabet)
                entry = replace(entry, spoken=tagged if has_phones else phones.respelled(found))
            entries.append(entry)
        return replace(self, entries=tuple(entries))

    def found(
        self, text: str, language: str | None = None, protected: Sequence[tuple[int, int]] = ()
    ) -> list[tuple[int, Entry]]:
        """Return the matches of entries in a text, in order and without overlap.

        Args:
            language: of the text; None: unknown, so only entries for any language match.
            protected: spans (start, end) that must not change, such as markup.
        """
        if not self.entries:
            return []
        left = mask(text, protected)
        folded = fold(left)
        found = []
        end = 0
        for head in self._head.finditer(folded):
            place = head.start()
            if place >= end and (entry := self._at(left, folded, place, language)):
                found.append((place, entry))
                end = place + len(entry.written)
        return found

    def edits(
        self, text: str, language: str | None = None, protected: Sequence[tuple[int, int]] = ()
    ) -> list[Edit]:
        """Return the edits of a text. An entry whose two sides are equal is an edit, too: it
        protects the word from the normalizer. Arguments as in `found`.
        """
        return [
            Edit(place, place + len(entry.written), entry.spoken, entry.line)
            for place, entry in self.found(text, language, protected)
        ]

    def _at(self, text: str, folded: str, place: int, language: str | None) -> Entry | None:
        """The entry that holds at one place, the longest first."""
        if _is_inside(text, place):
            return None
        for length in self._lengths[folded[place]]:
            same = self._by_fold.get(folded[place : place + length])
            if same is None or _is_inside(text, place + length):
                continue
            written = text[place : place + length]
            found = [entry for entry in same if entry.holds(written, language)]
            for entry in found:
                if entry.key == found[0].key and entry.has_form(written):
                    return entry
            if found:
                return found[0]
        return None


def parse_row_lexicon(text: str) -> Lexicon:
    """Return the lexicon in a row's field: `lead=led; read=red`. Raises ValueError."""
    entries = []
    for part in re.split(r"[;\n]", text):
        written, is_there, spoken = (one.strip() for one in part.partition("="))
        if written and spoken:
            entries.append(Entry(written, spoken, None, False, 0))
        elif written or is_there:
            raise ValueError(f"{part.strip()!r} is not of the form word=pronunciation")
    return Lexicon(tuple(entries))


def fold(text: str) -> str:
    """Lower case and straight apostrophes, of the same length: places stay what they are."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return _straight(lower)


def _straight(text: str) -> str:
    return text if text.isascii() else text.translate(_STRAIGHT)


def read_lexicon(path: Path) -> Lexicon:
    """Read a file. UsageError names every bad line, up to MAX_PROBLEMS."""
    content = _content(path)
    problems: list[str] = []
    entries = _Entries()
    columns: Sequence[str] | None = None
    for number, raw, cells in _rows(path, content):
        if columns is None:
            columns = _header(cells) or COLUMNS
            if columns is not COLUMNS or cells == list(COLUMNS):
                continue
        entry = _entry(cells, columns, number)
        if isinstance(entry, str):
            problems.append(f"{path}:{number}: {entry}")
        elif (before := entries.add(entry, is_clean=clean_unicode(raw) == raw)) is not None:
            problems.append(f"{path}:{number}: {entry.written!r} is already in line {before}")
    if problems:
        more = len(problems) - MAX_PROBLEMS
        shown = problems[:MAX_PROBLEMS] + ([f"... and {more} more"] if more > 0 else [])
        raise UsageError("the lexicon has invalid lines:\n" + "\n".join(shown))
    return Lexicon(tuple(entries.found), path, hashlib.sha256(content).hexdigest())


class _Entries:
    """The entries of a file as they come. Of those that are one but for the form of letters or of
    an apostrophe equal ones merge, and what was written in the form that is read wins.
    """

    def __init__(self) -> None:
        self.found: list[Entry] = []
        self._is_clean: list[bool] = []
        self._by_key: dict[tuple[str, str | None, bool], list[int]] = {}

    def add(self, entry: Entry, *, is_clean: bool) -> int | None:
        """Take an entry. Returns the line of the very same one, which is a mistake.

        Args:
            is_clean: its line was `clean_unicode` already.
        """
        same = self._by_key.setdefault(entry.key, [])
        for place in same:
            other, is_other_clean = self.found[place], self._is_clean[place]
            if not other.has_form(entry.written):
                continue
            is_equal = other.spoken == entry.spoken
            if is_clean == is_other_clean and (is_clean or not is_equal):
                return other.line
            if is_clean and not is_equal:
                self.found[place], self._is_clean[place] = entry, True
            return None
        if all(self.found[place].spoken != entry.spoken for place in same):
            same.append(len(self.found))
            self.found.append(entry)
            self._is_clean.append(is_clean)
        return None


def _content(path: Path) -> bytes:
    """Return the file's content. Raises UsageError: it cannot be read, or is too large."""
    try:
        return read_given(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the lexicon {path}: {error.strerror}") from None


def _lines(path: Path, content: bytes) -> list[str]:
    """Return the file's lines. Raises UsageError: it is not UTF-8."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: is not UTF-8", "save the lexicon as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _rows(path: Path, content: bytes) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, content and cells of each entry. Raises UsageError."""
    if is_pls(content):
        try:
            for number, found in pls_cells(content):
                yield number, "", [clean_unicode(cell).strip() for cell in found]
        except ValueError as error:
            raise UsageError(f"{path}: {error}", "give a table, or a valid .pls file") from None
        return
    for number, raw in enumerate(_lines(path, content), 1):
        line = clean_unicode(raw)
        if line.strip() and not line.startswith("#"):
            yield number, raw, [cell.strip() for cell in line.split("\t")]


def _header(cells: Sequence[str]) -> Sequence[str] | None:
    """The columns a header names; None for an entry."""
    names = [cell.lower() for cell in cells]
    is_header = {"from", "to"} <= set(names) <= set(COLUMNS) and len(set(names)) == len(names)
    return names if is_header else None


def _entry(cells: Sequence[str], columns: Sequence[str], line: int) -> Entry | str:
    """One line's entry, or what is wrong with it."""
    if len(cells) > len(columns):
        return f"has {len(cells)} cells, but the columns are {', '.join(columns)}"
    given = dict(zip(columns, cells, strict=False))
    written, spoken = given.get("from", ""), given.get("to", "")
    if not written or not spoken:
        return f"has no {'from' if not written else 'to'!r}; cells are separated by tabs"
    for name, cell in given.items():
        if len(cell) > MAX_CHARS or _CONTROL.search(cell):
            return f"{name!r} has a control character or more than {MAX_CHARS} characters"
    language = named_language(given.get("language", "").lower() or ANY, LANGUAGES)
    if language not in (ANY, *LANGUAGES):
        return f"language {language!r} is unknown; known are {', '.join(LANGUAGES)}"
    case = given.get("case", "").lower() or ANY
    if case not in CASES:
        return f"case {case!r} must be any or exact"
    alphabet = given.get("alphabet", "").lower() or phones.TEXT
    if alphabet not in phones.ALPHABETS:
        return f"alphabet {alphabet!r} must be one of {', '.join(phones.ALPHABETS)}"
    if alphabet != phones.TEXT:
        try:
            phones.parse(spoken, alphabet)
        except ValueError as error:
            return f"'to': {error}"
    known = None if language == ANY else language
    return Entry(written, spoken, known, case == "exact", line, alphabet)


def _is_inside(text: str, place: int) -> bool:
    """Return whether a position is inside a word."""
    return 0 < place < len(text) and _joins(text[place - 1]) and _joins(text[place])


def _joins(char: str) -> bool:
    """Return whether a character continues a word; in scripts without spaces none does."""
    is_part = char.isalnum() or char == "_" or unicodedata.combining(char) != 0
    return is_part and not _UNSPACED.match(char)
