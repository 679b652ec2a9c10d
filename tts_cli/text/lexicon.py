"""The lexicon: a user's pronunciations of words.

A lexicon is a file of tab-separated lines in UTF-8, or a Pronunciation Lexicon in XML (PLS). The
columns are `from`, `to`, `language` (default `any`), `case` (`any` or `exact`) and `alphabet`
(`text`, or the alphabet of the sounds in `to`, see `phones`). A header may reorder them. Blank
lines and lines that begin with `#` are ignored.

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
from typing import Any
from xml.etree import ElementTree

from tts_cli.errors import UsageError
from tts_cli.plain import read_given
from tts_cli.text import phones
from tts_cli.text.languages import named_language
from tts_cli.text.normalized_text import Edit, mask
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

_PLS = "{http://www.w3.org/2005/01/pronunciation-lexicon}"
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
    written: str  # as the line has it
    spoken: str
    language: str | None  # lower case; None: any
    is_exact: bool  # whether its case counts
    line: int  # of the file, from 1; of PLS, the number of the lexeme
    alphabet: str = phones.TEXT  # of `spoken`

    @property
    def key(self) -> tuple[str, str | None, bool]:
        """The key of entries that apply to the same words."""
        written = _straight(self.written) if self.is_exact else fold(self.written)
        return (written, self.language, self.is_exact)

    def holds(self, text: str, language: str | None) -> bool:
        """Return whether it applies to a word that was found in any case."""
        if self.is_exact and _straight(text) != _straight(self.written):
            return False
        return self.language is None or self.language == language

    def has_form(self, text: str) -> bool:
        """Return whether its apostrophes are those of the word."""
        return text.lower() == self.written.lower()


@dataclass(frozen=True)
class Lexicon:
    """Entries by the words they replace. An empty lexicon changes nothing."""

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
        return sum(entry.alphabet != phones.TEXT for entry in self.entries)

    def for_model(self, has_phones: bool) -> Lexicon:
        """Return the lexicon with sounds as a model reads them: between tags, or as letters. Pinyin
        has no letters, so without tags its entries are left out.
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
        """Return the matches of entries in a text, in order and without overlap. Entries with a
        language need a text of that language. `protected` spans (start, end) do not change.
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
        """Return the edits of a text; arguments as in `found`. An entry whose two sides are equal
        is an edit, too: it protects the word from the normalizer.
        """
        return [
            Edit(place, place + len(entry.written), entry.spoken, entry.line)
            for place, entry in self.found(text, language, protected)
        ]

    def _at(self, text: str, folded: str, place: int, language: str | None) -> Entry | None:
        """Return the longest entry that applies at a place."""
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
    """Return lower case and straight apostrophes, without a change of length or positions."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return _straight(lower)


def _straight(text: str) -> str:
    return text if text.isascii() else text.translate(_STRAIGHT)


def read_lexicon(path: Path) -> Lexicon:
    """Read a file. Raises UsageError with all invalid lines, up to MAX_PROBLEMS."""
    try:
        content = read_given(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the lexicon {path}: {error.strerror}") from None
    is_xml = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"
    problems: list[str] = []
    # By key and form of the apostrophe; whether the line was `clean_unicode` already.
    found: dict[tuple[Any, str], tuple[Entry, bool]] = {}
    for number, cells, columns, is_clean in (_pls_rows if is_xml else _table_rows)(path, content):
        entry = _entry(cells, columns, number)
        if isinstance(entry, str):
            problems.append(f"{path}:{number}: {entry}")
            continue
        place = entry.key, entry.written.lower()
        before, was_clean = found.get(place, (None, False))
        if before is None or is_clean > was_clean:  # a clean line wins over one cleaned to it
            found[place] = entry, is_clean
        elif is_clean == was_clean and (is_clean or before.spoken != entry.spoken):
            problems.append(f"{path}:{number}: {entry.written!r} is already in line {before.line}")
    if problems:
        more = len(problems) - MAX_PROBLEMS
        shown = problems[:MAX_PROBLEMS] + ([f"... and {more} more"] if more > 0 else [])
        raise UsageError("the lexicon has invalid lines:\n" + "\n".join(shown))
    entries = {(one.key, one.spoken): one for one, _ in reversed(found.values())}
    return Lexicon(tuple(reversed(entries.values())), path, hashlib.sha256(content).hexdigest())


# Number of a line or lexeme, its cells, their columns, and whether the line is `clean_unicode`.
_Row = tuple[int, list[str], Sequence[str], bool]


def _table_rows(path: Path, content: bytes) -> Iterator[_Row]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{number}: is not UTF-8", "save the lexicon as UTF-8") from None
    columns: Sequence[str] | None = None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(lines, 1):
        line = clean_unicode(raw)
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if columns is None:
            names = [cell.lower() for cell in cells]
            is_header = {"from", "to"} <= set(names) <= set(COLUMNS)
            columns = names if is_header and len(set(names)) == len(names) else COLUMNS
            if columns is names:
                continue
        yield number, cells, columns, line == raw


def _pls_rows(path: Path, content: bytes) -> Iterator[_Row]:
    """Yield the entries of a Pronunciation Lexicon of the W3C (PLS 1.0). Raises UsageError.

    Each `grapheme` of a `lexeme` gets the first `alias`, else the first `phoneme`. Alphabets are
    IPA (the default of PLS), `x-arpabet` and `x-pinyin`.
    """
    remedy = "give a table, or a valid .pls file"
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:  # whose entities could be endless
        raise UsageError(f"{path}: has a document type; remove it", remedy)
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as error:
        raise UsageError(f"{path}: is not valid XML: {error}", remedy) from None
    if root.tag != f"{_PLS}lexicon":
        raise UsageError(f"{path}: is not a pronunciation lexicon (PLS)", remedy)
    language = root.get("{http://www.w3.org/XML/1998/namespace}lang") or ANY
    for number, lexeme in enumerate(root.iter(f"{_PLS}lexeme"), 1):
        alias, phoneme = (lexeme.find(f"{_PLS}{name}") for name in ("alias", "phoneme"))
        chosen, alphabet = alias, phones.TEXT
        if alias is None and phoneme is not None:
            own = phoneme.get("alphabet") or root.get("alphabet")
            chosen, alphabet = phoneme, own or phones.IPA
        for one in lexeme.iter(f"{_PLS}grapheme"):
            texts = ("" if text is None else text.text or "" for text in (one, chosen))
            written, spoken = (clean_unicode(" ".join(text.split())) for text in texts)
            cells = [written, spoken, language, ANY, alphabet.removeprefix("x-")]
            yield number, cells, COLUMNS, True


def _entry(cells: Sequence[str], columns: Sequence[str], line: int) -> Entry | str:
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
    """Return whether a character continues a word; none does in scripts without spaces."""
    is_part = char.isalnum() or char == "_" or unicodedata.combining(char) != 0
    return is_part and not _UNSPACED.match(char)
