"""Read the text of an XHTML document as a person would read it aloud, by lxml.

Images with their captions, code blocks, formulas, numbers of printed pages, ruby, navigation,
hidden and struck-out text, title pages and footnotes are left out. Footnotes have an `epub:type` or
a `role`; a short link may be a mark too. An image of a letter at the start of a paragraph is read.

Documents are untrusted: only entities of HTML are replaced, none may be declared, nothing is
fetched, and libxml2 limits the nesting.
"""

from __future__ import annotations

import html.entities
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tts_cli.errors import ManifestError
from tts_cli.extras import load
from tts_cli.sources.chapters import (
    BREAK,
    FRAME_IDS,
    LEVEL,
    LOWERED,
    RAISED,
    Block,
    Heading,
    SceneBreak,
    Text,
    TocEntry,
    joined,
    one_line,
    parted,
    settle_raised,
)

MAX_SHORT_CHARS = 1_000  # of titles
MAX_MARK_ELEMENTS = 8  # inside of a footnote's number
MAX_FIGURE_ELEMENTS = 100  # searched for a picture

_ENTITY = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
_DECLARATION = re.compile(rb"<!ENTITY", re.IGNORECASE)
_NOTE_MARK = re.compile(r"[\[(]?(?:\*?[0-9]{1,4}|[*†‡§]{1,4}|[a-z])[\])]?|[↩↑^]\ufe0e?")
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
# Classes of elements that are hidden or are not text: of MediaWiki, Bootstrap, WordPress.
_HIDDEN_CLASS = re.compile(
    "mw-editsection|reflist|navbox|noprint|sr-only|(?:visually-?)?hidden|screen-reader-text|skip-link"
    "|d-none"
)
_SHIFTS = {"sup": RAISED, "sub": LOWERED, "super": RAISED}
_CSS_SHIFT = re.compile(
    r"vertical-align\s*:\s*(super|sub)\b|\A(super|sub)(?:script)?\Z", re.IGNORECASE
)

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|caption|center|dd|details|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|header|legend|li|main|ol|p|section|summary|table|tbody|tfoot|"
    "thead|tr|ul"
)
_SKIPPED = re.compile(
    "audio|button|canvas|head|iframe|input|nav|noscript|object|rp|rt|script|select|style|template"
    "|textarea|video"
)
_CELL_END = "\0"  # not possible in XML
_EDGE = "\2"  # of an element inside of a heading; not possible in XML
# Elements in a heading that need a space between them: a digit and a letter, unless it ends an
# ordinal; and two elements where letter case changes or a sentence ends.
_APART = re.compile(
    rf"[0-9][.:)]?{_EDGE}+(?=[^\W\d_\u2e80-\uffff])(?!(?:st|nd|rd|th|er|re|e|[oa]s?)\b)"
    rf"|[^\W\d_\u2e80-\uffff]{_EDGE}+(?=[0-9])"
    rf"|(?:[^\W\d_]{{2}}[a-zß-ÿ]|[A-ZÀ-Þ]{{2}}|\b[IVXLC]|[.:;!?)]){_EDGE}{{2,}}(?=[A-ZÀ-Þ][a-zß-ÿ])"
)
_DROP_CAP = re.compile(
    r"(?:[\w ]{0,40}\b(?:letter|initial|cap|capital) )?[\"“‘']?([^\W\d_])[\"”’']?", re.IGNORECASE
)
_COUNTED = {"pre": "a code block", "math": "a formula", "img": "an image", "svg": "an image"}
_CODE_TAGS = frozenset(("code", "kbd", "samp", "span", "tt", "var"))
_CODE_SIGNS = re.compile(r"[{}<>=\\|#$@~^`]|[\w)]\(|/\w+/|::|\.\w+\(|__")
_VERSE = re.compile(r"[\"'“‘(—–-]*[A-ZÀ-Þ][^\W\d_]*[\s,'’—-]")  # begins with a word
_SENTENCES = re.compile(r"[\"'“‘]?[A-ZÀ-Þ]\S*(?:\s+\S+){2,}\s+\S*[.!?][\"'”’]?")
_MIN_VERSE_SHARE = 0.6
_NOTES = re.compile("(?:footnote|endnote|rearnote)s?")
NOTE, NOTE_MARK = "a footnote", "a footnote's mark"  # in `left_out`
TITLE_PAGES = frozenset(("title-page", "titlepage", "halftitlepage"))  # of the guide; of EPUB 3
_PAGES = re.compile("pagebreak|page-?list")
_PAGE_CLASS = re.compile(r"(?:x-ebookmaker-)?page-?(?:num(?:ber)?|no|\d+)|pg-?\d+")  # or id
_PAGE_NUMBER = re.compile(
    r"[\[({]?(?:(?:pg|page|p)\b\.?\s*)?(?:\d{1,4}|[ivxlc]{1,8})[\])}]?", re.IGNORECASE
)
_EPUB_TYPE = "{http://www.idpf.org/2007/ops}type"


def load_lxml() -> Any:
    return load("book", "lxml", "EPUB")


def parse_xml(data: bytes, name: str, *, is_html: bool = False) -> Any:
    """Return the root of an untrusted document. With `is_html`, XHTML that is not well-formed is
    read as HTML. Raises ManifestError if it is broken, declares entities, or is nested too deep.
    """
    etree = load_lxml()
    data = _as_utf8(data, name)
    if _DECLARATION.search(data):
        raise ManifestError(f"{name}: declares entities", remedy="remove its <!ENTITY ...>")
    data = _ENTITY.sub(_character, data)
    settings = {"no_network": True, "huge_tree": False, "remove_comments": True, "remove_pis": True}
    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, load_dtd=False, **settings)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        if not is_html or "xcessive depth" in str(error):
            raise _broken(name, error) from None
    try:
        root = etree.fromstring(data, etree.HTMLParser(encoding="utf-8", **settings))
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _broken(name, error) from None
    if root is None:
        raise ManifestError(f"{name}: is empty")
    return root


def _broken(name: str, error: Exception) -> ManifestError:
    reason = (str(error).splitlines() or ["no reason given"])[0]
    return ManifestError(f"{name}: is damaged: {reason[:200]}", remedy="fix or convert the book")


def _as_utf8(data: bytes, name: str) -> bytes:
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16").encode()
        data = data.removeprefix(b"\xef\xbb\xbf")
        declared = re.match(rb"<\?xml[^>]{0,200}?encoding=[\"']([\w.-]{1,40})", data)
        if declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
            return data.decode(declared[1].decode("ascii")).encode()
    except (UnicodeError, LookupError) as error:
        raise _broken(name, error) from None
    return data


def _character(found: re.Match[bytes]) -> bytes:
    """Return the characters of an HTML entity. Others do not change, and are errors later."""
    value = html.entities.html5.get(found[1].decode("ascii") + ";")
    if value is None or found[1] in _XML_ENTITIES:
        return found.group()
    return value.encode()


def tag_of(element: Any) -> str:
    """Return an element's name without namespace, in lower case; "" if it is not an element."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def kinds_of(element: Any) -> list[str]:
    kinds = (element.get(_EPUB_TYPE) or element.get("epub:type") or "").lower().split()
    return [*kinds, *(element.get("role") or "").lower().replace("doc-", "").split()]


def text_of(element: Any) -> str:
    """Return the text of an element such as a heading, in one line; of a long one the start."""
    pieces: list[str] = []
    chars = 0
    for event, one in load_lxml().iterwalk(element, events=("start", "end")):
        tag = tag_of(one)
        if event == "start":
            piece = (_shift_of(one, tag) or _edge(tag)) + (one.text or "")
        else:
            end = LEVEL if _shift_of(one, tag) else _edge(tag)
            piece = end + (one.tail or "" if one is not element else "")
        pieces.append(piece)
        chars += len(piece)
        if chars > MAX_SHORT_CHARS:
            break
    return _heading_of("".join(pieces)[:MAX_SHORT_CHARS])


def _shift_of(element: Any, tag: str) -> str:
    """Return the mark of a superscript or subscript, including those by style or class."""
    if tag in ("sup", "sub"):
        return _SHIFTS[tag]
    looks = (element.get("style"), element.get("class")) if tag == "span" else ()
    found = next((one for look in looks if look and (one := _CSS_SHIFT.search(look))), None)
    return "" if found is None else _SHIFTS[(found[1] or found[2]).lower()]


def _edge(tag: str) -> str:
    """Return the mark for the start or end of an element in a heading."""
    return BREAK if tag == "br" else _EDGE


def _heading_of(text: str) -> str:
    """Return a heading in one line, with the spaces that are missing between elements."""
    text, _ = settle_raised(text)
    text = _APART.sub(lambda found: f"{found.group().rstrip(_EDGE)} ", text)
    return one_line(joined(text.replace(_EDGE, "")))


def left_out_warnings(name: str, left_out: Counter[str]) -> list[str]:
    times = Counter({NOTE: left_out[NOTE_MARK]}) | left_out  # a mark and its note count once
    return [
        f"{name}: {kind} is left out" + (f", {count} times" * (count > 1))
        for kind, count in times.items()
        if kind != NOTE_MARK and count
    ]


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) <= 4 else default


_CAPTION = re.compile("(?:(?:fig|figure|image|img|picture|photo)-?)?caption(?:-text)?")


def _is_caption(element: Any, tag: str) -> bool:
    names = (element.get("class") or "").lower().replace("_", "-").split()
    has_class = any(map(_CAPTION.fullmatch, names)) and tag in ("p", "div", "span")
    if tag != "figcaption" and not has_class:
        return False
    parent = element.getparent()
    near = [element.getprevious(), element.getnext()]  # a chapter may have images elsewhere
    if parent is not None and tag_of(parent) == "figure":
        near.append(parent)
    return any(
        tag_of(one) in ("img", "svg")
        for place in near
        if place is not None
        for one in islice(place.iter(), MAX_FIGURE_ELEMENTS)
    )


def _verses(element: Any) -> str:
    """Return the lines of preformatted verses or sentences; "" if it may be code."""
    lines = [line.strip() for line in "".join(element.itertext()).split("\n") if line.strip()]
    text = "\n".join(lines)
    has_tags = element.get("class") or any(tag_of(one) in _CODE_TAGS for one in element.iter())
    if has_tags or _CODE_SIGNS.search(text):
        return ""
    num_verses = sum(_VERSE.match(line) is not None for line in lines)
    is_verse = len(lines) > 1 and num_verses >= _MIN_VERSE_SHARE * len(lines)
    return BREAK.join(lines) if is_verse or _SENTENCES.fullmatch(text) else ""


class HtmlReader:
    """Reads one document.

    Args:
        root: of `parse_xml`.
        marks: entries of the contents by element id; "" is the start of the document.
    """

    def __init__(self, root: Any, name: str, marks: Mapping[str, Sequence[TocEntry]]) -> None:
        self._root = root
        self._name = name
        self._marks = dict(marks)
        self._pieces: list[str] = []
        self._blocks: list[Block] = []
        self._heading = 0
        self._number = 0  # of paragraphs so far
        self._item = ""  # number of a list item, until its first paragraph
        self._numbers: dict[Any, int] = {}  # of the last item of each ordered list
        self._drop_cap = ""  # a letter from a picture at the start of the paragraph
        self.left_out: Counter[str] = Counter()  # kinds of elements that were not read
        self.num_framed = 0  # characters that Project Gutenberg put around the book

    def blocks(self) -> Iterator[Block]:
        etree = load_lxml()
        yield from self._marks.pop("", ())
        walk = etree.iterwalk(self._root, events=("start", "end"))
        skipped: Any = None
        for event, element in walk:
            if event == "start":
                if skipped is None or skipped.get("id") not in FRAME_IDS:
                    self._mark(element)
                if skipped is None and self._is_skipped(element):
                    skipped = element
                if skipped is None:
                    self._start(element)
            else:
                if skipped is None:
                    self._end(element)
                elif skipped is element:
                    skipped = None
                if skipped is None and element is not self._root:
                    self._pieces.append(element.tail or "")
            yield from self._take_blocks()
        self._flush()
        self.left_out["an image"] += bool(self._drop_cap)
        yield from self._take_blocks()

    def warnings(self, name: str) -> list[str]:
        """Return warnings about elements left out. Only complete when `blocks` has ended."""
        return left_out_warnings(name, self.left_out)

    def _mark(self, element: Any) -> None:
        """Add the entries of the contents at this element. A deep entry does not split a paragraph,
        because it may not become a chapter.
        """
        if not self._marks:
            return
        for key in ("id", "name"):
            marks = self._marks.pop(element.get(key) or "", ())
            if marks and not self._heading and (marks[0].depth == 1 or not self._is_inside()):
                self._flush()
            self._blocks += marks

    def _is_inside(self) -> bool:
        """Return whether the paragraph already has text in this line."""
        last = next(filter(str.strip, reversed(self._pieces)), BREAK)
        return last != BREAK

    def _is_skipped(self, element: Any) -> bool:
        tag = tag_of(element)
        kinds = kinds_of(element)
        names = (element.get("class") or "").lower().replace("_", "-").split()
        if element.get("id") in FRAME_IDS:
            self.num_framed += len(one_line("".join(element.itertext())))
            self._flush()
            return True
        if tag == "img" and self._take_drop_cap(element.get("alt") or ""):
            return True
        if tag in _COUNTED:
            verses = _verses(element) if tag == "pre" else ""
            self.left_out[_COUNTED[tag]] += not verses
            if tag == "pre":
                self._flush()
                self._pieces.append(verses)
                self._flush()
            return True
        is_mark = "noteref" in kinds or (tag == "a" and self._is_note_mark(element))
        if is_mark or any(map(_NOTES.fullmatch, (*kinds, *names))):
            is_back = is_mark and text_of(element)[:1] in "↩↑^"  # from a note to its mark
            self.left_out[NOTE_MARK if is_mark else NOTE] += not is_back
            return True
        if _is_caption(element, tag):
            self.left_out["a caption"] += 1
            return True
        if TITLE_PAGES.intersection(kinds):
            self.left_out["the title page"] += 1
            return True
        if tag in ("s", "del", "strike"):
            self.left_out["text that is struck out"] += 1
            return True
        if self._is_hidden(element, tag) or any(map(_HIDDEN_CLASS.fullmatch, names)):
            self.left_out["hidden text"] += bool(text_of(element))
            return True
        names.append((element.get("id") or element.get("name") or "").lower().replace("_", "-"))
        if any(map(_PAGE_CLASS.fullmatch, names)) and _PAGE_NUMBER.fullmatch(text_of(element)):
            return True
        return any(map(_PAGES.fullmatch, kinds)) or _SKIPPED.fullmatch(tag) is not None

    def _is_hidden(self, element: Any, tag: str) -> bool:
        if element.get("hidden") is not None or _HIDDEN.search(element.get("style") or ""):
            return True
        is_silent = (element.get("aria-hidden") or "").lower() == "true"
        return is_silent and tag not in _HEADINGS  # which the menu of the reading app has

    def _is_note_mark(self, element: Any) -> bool:
        if "#" not in (element.get("href") or ""):
            return False
        if sum(1 for _ in islice(element.iter(), MAX_MARK_ELEMENTS + 1)) > MAX_MARK_ELEMENTS:
            return False
        text = "".join(element.itertext()).strip()
        if not _NOTE_MARK.fullmatch(text):
            return False
        parent = element.getparent()
        is_raised = any(tag_of(one) == "sup" for one in (element, *element))
        is_raised = is_raised or (parent is not None and tag_of(parent) == "sup")
        last = "".join(self._pieces[-4:])[-1:]  # a style may raise a number directly after a word
        is_close = text.isdecimal() and (last.isalnum() or last in tuple(".,;:!?\"'”’»)"))
        return is_raised or is_close or not text[0].isalnum()

    def _start(self, element: Any) -> None:
        tag = tag_of(element)
        if tag in _HEADINGS or _BLOCKS.fullmatch(tag):
            self._flush()
            self._heading = _HEADINGS.get(tag, self._heading)
        elif tag == "hr":
            self._flush()
            self._blocks.append(SceneBreak())
        elif shift := _shift_of(element, tag):
            self._pieces.append(shift)
        elif tag == "br" or self._heading:
            self._pieces.append(_edge(tag))
        if tag == "li":
            self._item = self._number_of(element)
        self._pieces.append(element.text or "")

    def _number_of(self, item: Any) -> str:
        """Return the number of a list item; "" if the list has a style, which may hide numbers."""
        parent = item.getparent()
        if parent is None or tag_of(parent) != "ol" or not text_of(item):
            return ""
        number = self._numbers.get(parent, _whole(parent.get("start"), 1) - 1) + 1
        number = self._numbers[parent] = _whole(item.get("value"), number)
        has_style = any(parent.get(name) is not None for name in ("class", "style", "reversed"))
        if has_style or parent.get("type", "1") != "1":
            self.left_out["the number of a list's item"] += 1
            return ""
        return f"{number}. "

    def _end(self, element: Any) -> None:
        tag = tag_of(element)
        if tag in ("td", "th"):
            self._pieces.append(_CELL_END)
        elif tag in _HEADINGS or _BLOCKS.fullmatch(tag):
            self._flush()
            if tag in _HEADINGS:
                self._heading = 0
        elif _shift_of(element, tag):
            self._pieces.append(LEVEL)
        elif self._heading and tag != "br":
            self._pieces.append(_edge(tag))

    def _flush(self) -> None:
        """End a paragraph, several paragraphs with breaks between them, or a row of a table."""
        text, num_notes = settle_raised("".join(self._pieces))
        text = self._with_drop_cap(text)
        self.left_out[NOTE_MARK] += num_notes
        self._pieces.clear()
        if not text.strip():
            return
        if self._heading:
            texts = [_heading_of(text)]
        else:
            cells = list(filter(joined, text.split(_CELL_END)))
            texts = list(parted(cells[0])) if len(cells) == 1 else [", ".join(map(joined, cells))]
            texts[0], self._item = self._item + texts[0], ""
        for one in filter(str.strip, texts):
            self._number += 1
            place, level = f"{self._name}, paragraph {self._number}", self._heading
            self._blocks.append(Heading(one, level, place) if level else Text(one, place))

    def _take_drop_cap(self, alternative: str) -> bool:
        """Return whether an image is the first letter of a paragraph, by its alternative text."""
        found = _DROP_CAP.fullmatch(alternative.strip())
        if not found or not found[1].isupper() or any(map(str.strip, self._pieces)):
            return False
        self.left_out["an image"] += bool(self._drop_cap)
        self._drop_cap = found[1]
        self._pieces.clear()
        return True

    def _with_drop_cap(self, text: str) -> str:
        """Return a paragraph with the letter of its image if that begins a word."""
        rest = text.lstrip()
        if not self._drop_cap or not rest:
            return text
        letter, self._drop_cap = self._drop_cap, ""
        is_name = rest[0].isupper() and rest[1:2].islower()
        if self._heading or is_name or not (rest[0].isalpha() or rest[0] in "'’"):
            self.left_out["an image"] += 1
            return text
        return letter + (text if letter in "AIO" else rest)

    def _take_blocks(self) -> Iterator[Block]:
        yield from self._blocks
        self._blocks.clear()
