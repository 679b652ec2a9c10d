"""Read books from documents: HTML, .docx of Word, and the text of PDF.

A .docx is converted to XHTML and then read like an EPUB. A PDF has no paragraphs, so their ends are
guessed: a line that is shorter than the others and ends like a sentence, or is much shorter.
Bookmarks begin chapters; without them, lines that look like titles do, as in plain text.

Source: ECMA-376, part 1, section 17 (WordprocessingML).
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from tts_cli.errors import ManifestError, library_errors
from tts_cli.extras import load
from tts_cli.sources.archive import Archive
from tts_cli.sources.chapters import (
    Block,
    Book,
    Heading,
    Text,
    TocEntry,
    assemble,
    chapters_of,
    frame_warning,
    one_line,
    strip_gutenberg_blocks,
)
from tts_cli.sources.decode import find_encoding
from tts_cli.sources.html import HtmlReader, parse_xml, tag_of, text_of
from tts_cli.sources.plain import blocks, without_print

MAX_PAGES = 5_000
MAX_PDF_CHARS = 16 << 20
_MAX_OUTLINE = 5_000
_MIN_PAGES = 3
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?…:。！？][\"'”’»」』)\]]*$")
_SHORT = 0.5  # of it; a shorter line ends one, unless the next line starts in lower case
_FULL = 0.85  # of the widest lines of a page; a shorter one may end a paragraph
_PASSED = ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "hyperlink", "fldSimple")
_PICTURES = ("drawing", "pict", "object", "AlternateContent")
_NOTES = ("footnoteReference", "endnoteReference")
_Read = tuple[list[Block], Book]  # blocks, and a book without chapters
_TOC = re.compile(r"toc \d|toc heading|contents heading|table of figures")


def read_document(path: Path, data: bytes, name: str) -> Book:
    """Read a document of the kind that its suffix shows. Raises ManifestError, SetupError."""
    reader = {".pdf": _read_pdf, ".docx": _read_docx}.get(path.suffix.lower(), _read_html)
    found, book = reader(data, name)
    made = assemble(found, path.stem)
    warnings = (*book.warnings, *made.warnings)
    return replace(book, chapters=made.chapters, title=book.title or made.title, warnings=warnings)


def _read_html(data: bytes, name: str) -> _Read:
    if not data.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<?xml"):
        declared = _META_CHARSET.search(data, 0, 4096)
        try:
            text = data.decode(declared[1].decode() if declared else find_encoding([data]).name)
        except (UnicodeDecodeError, LookupError):
            text = data.decode(find_encoding([data]).name, "replace")
        data = text.removeprefix("\ufeff").encode()
    root = parse_xml(data, name, is_html=True)
    found = (one.get("content") for one in root.iter("{*}meta") if one.get("name") == "author")
    author = next(found, None)
    language = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang")
    title = next((text_of(one) for one in root.iter("{*}title")), None)
    return _document(root, name, title, author, language)


def _document(
    root: Any, name: str, title: str | None, author: str | None, language: str | None
) -> _Read:
    reader = HtmlReader(root, name, {})
    found, num_framed = strip_gutenberg_blocks(list(reader.blocks()))
    num_framed += reader.num_framed
    if not any(isinstance(one, Heading) for one in found):  # its author made them by hand
        places = [one.place if isinstance(one, Text) else "" for one in found]
        lines = [one_line(one.text) if isinstance(one, Text) else "* * *" for one in found]
        found = list(blocks("\n\n".join(lines), lambda number: places[number // 2]))
    warnings = [frame_warning(name, num_framed)] if num_framed else []
    warnings += reader.warnings(name)
    return found, Book((), title or None, author or None, language or None, tuple(warnings))


def _read_docx(data: bytes, name: str) -> _Read:
    archive = Archive(io.BytesIO(data), name, "save it as .docx again")
    parts = {
        part: parse_xml(archive.read(path), f"{name}: {path}")
        for part in ("styles", "numbering")
        if (path := f"word/{part}.xml") in archive.names
    }
    main = "word/document.xml"
    body = next(parse_xml(archive.read(main), f"{name}: {main}").iter("{*}body"), None)
    if body is None:
        raise ManifestError(f"{name}: has no text", "save it as .docx again")
    writer = _Docx(parts.get("styles"), parts.get("numbering"))
    xhtml = f"<html><body>{''.join(writer.blocks(body))}</body></html>"
    core: dict[str, str] = {}
    if (path := "docProps/core.xml") in archive.names:
        core = {tag_of(one): text_of(one) for one in parse_xml(archive.read(path), name)}
    root = parse_xml(xhtml.encode(), name)
    found, book = _document(
        root, name, core.get("title"), core.get("creator"), core.get("language")
    )
    if writer.num_contents:
        warning = f"{name}: a printed table of contents is left out"
        book = replace(book, warnings=(*book.warnings, warning))
    return found, book


def _value(element: Any, path: str) -> str | None:
    """Return the value of an element below another one, "" without a value; None: no element."""
    found = None if element is None else element.find(path)
    if found is None:
        return None
    return next((value for key, value in found.items() if key.endswith("}val")), "")


def _attribute(element: Any, name: str) -> str:
    return next((value for key, value in element.items() if key.endswith(f"}}{name}")), "")


def _is_on(element: Any, path: str) -> bool:
    return _value(element, path) not in (None, "0", "false", "none")


class _Docx:
    """Converts a document to XHTML. `styles` and `numbering` are roots of these parts, if any."""

    def __init__(self, styles: Any, numbering: Any) -> None:
        self.num_contents = 0  # paragraphs of printed tables of contents
        self._names: dict[str, str] = {}  # of styles, by id
        self._lists: dict[str, Any] = {}  # numbering of styles, by id
        for style in () if styles is None else styles.iterfind("{*}style"):
            key = _attribute(style, "styleId")
            self._names[key] = (_value(style, "{*}name") or "").lower()
            self._lists[key] = style.find("{*}pPr/{*}numPr")
        self._formats: dict[tuple[str, str], str] = {}  # of list and level
        self._counts: Counter[tuple[str, str]] = Counter()
        if numbering is not None:
            self._read_numbering(numbering)

    def _read_numbering(self, numbering: Any) -> None:
        levels = {
            _attribute(one, "abstractNumId"): [
                (_attribute(level, "ilvl"), _value(level, "{*}numFmt") or "")
                for level in one.iterfind("{*}lvl")
            ]
            for one in numbering.iterfind("{*}abstractNum")
        }
        for one in numbering.iterfind("{*}num"):
            for level, form in levels.get(_value(one, "{*}abstractNumId") or "", ()):
                self._formats[_attribute(one, "numId"), level] = form

    def blocks(self, parent: Any) -> Iterator[str]:
        for one in parent:
            tag = tag_of_word(one)
            if tag == "p":
                yield self._paragraph(one)
            elif tag == "tbl":
                yield f"<table>{''.join(map(self._row, one.iterfind('{*}tr')))}</table>"
            elif tag in _PASSED:
                yield from self.blocks(one)

    def _row(self, row: Any) -> str:
        cells = (
            "<br/>".join(filter(None, map(self._inline, cell.iter("{*}p"))))
            for cell in row.iterfind("{*}tc")
        )
        return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"

    def _paragraph(self, paragraph: Any) -> str:
        properties = paragraph.find("{*}pPr")
        style = _value(properties, "{*}pStyle") or ""
        name = self._names.get(style, style.lower())
        text = self._inline(paragraph)
        if _TOC.match(name):
            self.num_contents += 1
            return ""
        if name == "title":
            return f"<h1>{text}</h1>"
        outline = _value(properties, "{*}outlineLvl") or ""
        level = name[-1] if re.fullmatch(r"heading [1-9]", name) else ""
        if not level and outline.isdecimal() and int(outline) < 9:
            level = str(int(outline) + 1)
        if level:
            depth = min(6, int(level) + 1)  # below the title
            return f"<h{depth}>{text}</h{depth}>"
        numbering = None if properties is None else properties.find("{*}numPr")
        numbering = self._lists.get(style) if numbering is None else numbering
        key = (_value(numbering, "{*}numId") or "", _value(numbering, "{*}ilvl") or "0")
        if numbering is None or self._formats.get(key) != "decimal" or not text:
            return f"<p>{text}</p>"
        self._counts[key] += 1
        for other in [one for one in self._counts if one[0] == key[0] and one[1] > key[1]]:
            del self._counts[other]
        return f'<ol start="{self._counts[key]}"><li>{text}</li></ol>'

    def _inline(self, parent: Any) -> str:
        pieces = []
        for one in parent:
            tag = tag_of_word(one)
            if tag == "r":
                pieces.append(self._run(one))
            elif tag in _PASSED:
                pieces.append(self._inline(one))
            elif tag in ("oMath", "oMathPara"):
                pieces.append("<math/>")
        return "".join(pieces)

    def _run(self, run: Any) -> str:
        text = "".join(self._piece(one) for one in run)
        properties = run.find("{*}rPr")
        shift = {"superscript": "sup", "subscript": "sub"}.get(
            _value(properties, "{*}vertAlign") or ""
        )
        if shift and text:
            text = f"<{shift}>{text}</{shift}>"
        if _is_on(properties, "{*}strike") or _is_on(properties, "{*}dstrike"):
            text = f"<s>{text}</s>"
        return f"<span hidden=''>{text}</span>" if _is_on(properties, "{*}vanish") else text

    def _piece(self, element: Any) -> str:
        tag = tag_of_word(element)
        if tag == "t":
            return escape(element.text or "")
        if tag in ("tab", "noBreakHyphen"):
            return " " if tag == "tab" else "-"
        if tag in ("br", "cr"):
            return "" if _attribute(element, "type") == "page" else "<br/>"
        if tag == "ruby":
            return self._inline(element.find("{*}rubyBase"))
        if tag in _NOTES:
            return '<a role="doc-noteref">1</a>'
        return "<img/>" if tag in _PICTURES else ""


def tag_of_word(element: Any) -> str:
    """Return an element's name without its namespace; "" if it is not an element."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _read_pdf(data: bytes, name: str) -> _Read:
    pypdf = load("pdf", "pypdf", f"{name}: .pdf")
    remedy = "save it again, or save its text as .txt"
    if b"/Encrypt" in data:
        remedy = "it is encrypted: use a copy without a password"
    with library_errors(name, remedy):
        reader = pypdf.PdfReader(io.BytesIO(data))
        is_open = not reader.is_encrypted or reader.decrypt("")
        num_pages = len(reader.pages) if is_open else 0
    if not is_open:
        raise ManifestError(f"{name}: is encrypted", "use a copy without a password")
    if num_pages > MAX_PAGES:
        raise ManifestError(f"{name}: has {num_pages} pages; the maximum is {MAX_PAGES}")
    pages, num_chars = [], 0
    for number in range(num_pages):
        with library_errors(f"{name}, page {number + 1}", remedy):
            lines = reader.pages[number].extract_text().splitlines()
        pages.append([re.sub(r"[\x00-\x08\x0b-\x1f]", "", line).strip() for line in lines])
        num_chars += sum(map(len, pages[-1]))
        if num_chars > MAX_PDF_CHARS:
            raise ManifestError(f"{name}: has more than {MAX_PDF_CHARS >> 20} Mi characters")
    if not num_chars:
        raise ManifestError(
            f"{name}: contains only pictures, no text",
            "run text recognition (OCR) on its pages, and use the result",
        )
    with library_errors(name, remedy):
        told = reader.metadata
        title, author = (told.title, told.author) if told else (None, None)
        language = reader.root_object.get("/Lang")
        chapters = dict(_outline(reader, reader.outline, 1))
    titles = {_letters(entry.title) for entries in chapters.values() for entry in entries}
    _part_paragraphs(pages, titles)
    printed = without_print("\f".join("\n".join(lines) for lines in pages))
    warnings = [f"{name}: paragraphs and headings of a PDF are guessed; check them with --dry-run"]
    warnings += [f"{name}: left out: {what}" for what in printed.left_out]
    places = [f"{name}, page {page}" for page in range(1, len(printed.starts) + 1)]
    read = blocks(
        printed.text, lambda line: places[bisect_right(printed.starts, line) - 1], is_wrapped=True
    )
    found = _with_bookmarks(list(read), places, chapters)
    language = language and str(language)
    return chapters_of(found), Book((), title or None, author or None, language, tuple(warnings))


def _part_paragraphs(pages: list[list[str]], titles: Set[str]) -> None:
    """Put blank lines around running heads and titles, and after paragraphs, in place."""
    edges = Counter(
        re.sub(r"\d+", "", line)
        for lines in pages
        for line in {*filter(None, (lines[:1] or [""]) + lines[-1:])}
    )
    for lines in pages:
        widths = sorted(map(len, lines))
        width = widths[9 * len(widths) // 10] if widths else 0
        parted: list[str] = []
        for nth, line in enumerate(lines):
            key = re.sub(r"\d+", "", line)
            is_edge = nth in (0, len(lines) - 1) and edges[key] >= max(_MIN_PAGES, len(pages) / 3)
            is_alone = is_edge or _letters(line) in titles
            parted += ["", line, ""] if is_alone else [line]
            is_end = len(line) < _FULL * width and _SENTENCE_END.search(line)
            following = "".join(lines[nth + 1 : nth + 2])
            if is_end or (len(line) < _SHORT * width and not following[:1].islower()):
                parted.append("")
        lines[:] = parted


def _outline(reader: Any, entries: Any, depth: int) -> Iterator[tuple[int, list[TocEntry]]]:
    found: dict[int, list[TocEntry]] = {}
    left = [(entries, depth)]
    count = 0
    while left and count < _MAX_OUTLINE:
        level, depth = left.pop()
        for one in level:
            count += 1
            if isinstance(one, list):
                left.append((one, depth + 1))
            elif (page := reader.get_destination_page_number(one)) is not None and one.title:
                found.setdefault(page, []).append(TocEntry(str(one.title), depth))
    yield from found.items()


def _with_bookmarks(
    found: list[Block], places: list[str], chapters: dict[int, list[TocEntry]]
) -> list[Block]:
    """Return blocks with each bookmark before its title or its page's text."""
    numbers = {place: page for page, place in enumerate(places)}
    pages = [0]  # of each block
    for one in found:
        pages.append(numbers[one.place] if isinstance(one, Text | Heading) else pages[-1])
    del pages[0]
    before: dict[int, list[Block]] = {}
    for number, entries in sorted(chapters.items()):
        first = bisect_left(pages, number)
        texts = [
            (nth, _letters(one.text))
            for nth, one in enumerate(found[first : bisect_right(pages, number)], first)
            if isinstance(one, Text | Heading)
        ]
        for entry in entries:
            title = _letters(entry.title)
            at = next((nth for nth, text in texts if text.startswith(title)), first)
            before.setdefault(at, []).append(entry)
    return [one for nth, block in enumerate(found) for one in (*before.get(nth, ()), block)]


def _letters(text: str) -> str:
    """Return the letters of a title, without the number of its section."""
    return "".join(filter(str.isalnum, text)).casefold().lstrip("0123456789")
