"""The text of an XHTML document, as a reader would read it, by lxml.

Read: what is in paragraphs, headings, lists, quotations, a table row by row, the text of links and
emphasis. Not read: images with their alternative text, code blocks, formulas, the numbers of
printed pages, readings beside Chinese characters, navigation, and footnotes, both the marks and
what they say. They are told by `epub:type` or `role`, the marks also by being a short link.

Documents come from files that nobody vouches for: no entity is replaced but those of HTML, none may
be declared, nothing is fetched, and nesting is bounded by libxml2.
"""

from __future__ import annotations

import html.entities
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from tts_cli.book.block import Block, ChapterMark, Heading, SceneBreak, Text, one_line
from tts_cli.errors import ManifestError, SetupError

MAX_SHORT_CHARS = 1_000  # of titles
MAX_MARK_ELEMENTS = 8  # inside of a footnote's number

_ENTITY = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
_DECLARATION = re.compile(rb"<!ENTITY", re.IGNORECASE)
_NOTE_MARK = re.compile(r"[\[(]?(?:[0-9]{1,4}|[*†‡§]{1,4}|[a-z])[\])]?|[↩↑^]\ufe0e?")

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|caption|center|dd|details|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|header|legend|li|main|ol|p|section|summary|table|tbody|tfoot|"
    "thead|tr|ul"
)
_SKIPPED = re.compile(
    "audio|canvas|head|iframe|nav|noscript|object|rp|rt|script|style|template|video"
)
_CELL_END = "\0"  # in no XML
_COUNTED = {"pre": "a code block", "math": "a formula", "img": "an image", "svg": "an image"}
_NOTES = re.compile("(?:footnote|endnote|rearnote)s?|noteref")
_PAGES = re.compile("pagebreak|page-?list")
_EPUB_TYPE = "{http://www.idpf.org/2007/ops}type"


def load_lxml() -> Any:
    """The package's `etree`. Raises SetupError."""
    try:
        from lxml import etree
    except ImportError:
        raise SetupError("EPUB needs lxml", remedy='pip install "tts-cli[book]"') from None
    return etree


def parse_xml(data: bytes, name: str, *, is_html: bool = False) -> Any:
    """The root element of an untrusted document.

    Args:
        is_html: XHTML that is not well-formed is read as HTML.
    Raises:
        ManifestError: it is broken, declares entities, or is nested too deep.
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
    return ManifestError(f"{name}: is broken: {reason[:200]}", remedy="mend or convert the book")


def _as_utf8(data: bytes, name: str) -> bytes:
    """The document in UTF-8, whatever it declares."""
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
    """An entity of HTML as its characters; others stay, and are errors."""
    value = html.entities.html5.get(found[1].decode("ascii") + ";")
    if value is None or found[1] in _XML_ENTITIES:
        return found.group()
    return value.encode()


def tag_of(element: Any) -> str:
    """An element's name without its namespace, in small letters; '' for what is no element."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def text_of(element: Any) -> str:
    """The text of a short element in one line; of a long one the beginning."""
    pieces: list[str] = []
    chars = 0
    for piece in element.itertext():
        pieces.append(piece)
        chars += len(piece)
        if chars > MAX_SHORT_CHARS:
            break
    return one_line("".join(pieces)[:MAX_SHORT_CHARS])


class HtmlReader:
    """One document.

    Args:
        root: of `parse_xml`.
        name: of the document, for messages.
        marks: element id -> title of the chapter that begins there; "" is the document's start.
    """

    def __init__(self, root: Any, name: str, marks: Mapping[str, str]) -> None:
        self._root = root
        self._name = name
        self._marks = dict(marks)
        self._pieces: list[str] = []
        self._blocks: list[Block] = []
        self._heading = 0
        self._number = 0  # of paragraphs so far
        self.left_out: Counter[str] = Counter()  # what was not read -> how often

    def blocks(self) -> Iterator[Block]:
        """The blocks of the document in order."""
        etree = load_lxml()
        if title := self._marks.pop("", None):
            yield ChapterMark(title)
        walk = etree.iterwalk(self._root, events=("start", "end"))
        skipped: Any = None
        for event, element in walk:
            if event == "start":
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
        yield from self._take_blocks()

    def _mark(self, element: Any) -> None:
        """Begin a chapter where the table of contents points at this element."""
        if not self._marks:
            return
        for key in ("id", "name"):
            title = self._marks.pop(element.get(key) or "", None)
            if title:
                self._flush()
                self._blocks.append(ChapterMark(title))

    def _is_skipped(self, element: Any) -> bool:
        tag = tag_of(element)
        kinds = (element.get(_EPUB_TYPE) or element.get("epub:type") or "").lower().split()
        kinds += (element.get("role") or "").lower().replace("doc-", "").split()
        if tag in _COUNTED:
            self.left_out[_COUNTED[tag]] += 1
            if tag == "pre":
                self._flush()
            return True
        if any(map(_NOTES.fullmatch, kinds)) or (tag == "a" and self._is_note_mark(element)):
            self.left_out["a footnote"] += 1
            return True
        is_page = any(map(_PAGES.fullmatch, kinds))
        is_hidden = element.get("hidden") is not None
        return is_page or is_hidden or _SKIPPED.fullmatch(tag) is not None

    def _is_note_mark(self, element: Any) -> bool:
        """Whether a link is a footnote's number, or one that leads back to the text."""
        if sum(1 for _ in islice(element.iter(), MAX_MARK_ELEMENTS + 1)) > MAX_MARK_ELEMENTS:
            return False
        text = text_of(element)
        if "#" not in (element.get("href") or "") or not _NOTE_MARK.fullmatch(text):
            return False
        parent = element.getparent()
        is_raised = any(tag_of(one) == "sup" for one in (element, *element))
        is_raised = is_raised or (parent is not None and tag_of(parent) == "sup")
        return is_raised or not text[0].isalnum()

    def _start(self, element: Any) -> None:
        tag = tag_of(element)
        if tag in _HEADINGS or _BLOCKS.fullmatch(tag):
            self._flush()
            self._heading = _HEADINGS.get(tag, self._heading)
        elif tag == "hr":
            self._flush()
            self._blocks.append(SceneBreak())
        elif tag == "br":
            self._pieces.append(" ")
        self._pieces.append(element.text or "")

    def _end(self, element: Any) -> None:
        tag = tag_of(element)
        if tag in ("td", "th"):
            self._pieces.append(_CELL_END)
        elif tag in _HEADINGS or _BLOCKS.fullmatch(tag):
            self._flush()
            if tag in _HEADINGS:
                self._heading = 0

    def _flush(self) -> None:
        """End a paragraph, or a row of a table."""
        cells = "".join(self._pieces).split(_CELL_END)
        text = ", ".join(filter(None, map(str.strip, cells)))
        self._pieces.clear()
        if not text:
            return
        self._number += 1
        place = f"{self._name}, paragraph {self._number}"
        heading = self._heading
        self._blocks.append(Heading(text, heading, place) if heading else Text(text, place))

    def _take_blocks(self) -> Iterator[Block]:
        yield from self._blocks
        self._blocks.clear()
