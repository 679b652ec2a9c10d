"""Read a book from a file, or from a folder with one or more files per chapter.

A `SUMMARY.md` (mdBook, GitBook) in the folder or in `src/`, the `nav` of a `mkdocs.yml`, a
`_toc.yml` (Jupyter Book), a `Book.txt` (Leanpub, Softcover) or one of `_ORDERS` names the files in
order. Without one, the texts at the top of the folder are the book, in natural order of their
names; other files that look like texts are reported.

Sources: mdBook's guide on SUMMARY.md, MkDocs' on nav, Leanpub's on Book.txt, Jupyter Book's on its
table of contents.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt

from tts_cli.errors import ManifestError
from tts_cli.named import counted, first_few
from tts_cli.plain import open_given, open_plain, read_table
from tts_cli.sources.archive import read_bounded
from tts_cli.sources.chapters import Book, NoTextError, assemble, frame_warning, strip_gutenberg
from tts_cli.sources.decode import Encoding, find_encoding, tell_encoding
from tts_cli.sources.epub import read_epub, unpacked_epub
from tts_cli.sources.ids import natural_order
from tts_cli.sources.markdown import MarkdownReader
from tts_cli.sources.plain import blocks, without_print
from tts_cli.text.unicode import clean_unicode

MAX_FILES = 2_000
MAX_SEEN = 50_000  # names of files in subfolders
MAX_SUMMARY_BYTES = 1 << 20
MARKDOWN = (".md", ".markdown", ".rmd", ".qmd", ".mdx")
PLAIN = (".txt", ".text")
DOCUMENTS = (".docx", ".html", ".htm", ".xhtml", ".pdf")
SUMMARY = "SUMMARY.md"
# Suffixes of texts that cannot be read, or not from a folder.
_OTHER = re.compile(
    r"\.(?:adoc|asc|asciidoc|azw3|docx?|epub|fb2|x?html?|ipynb|mobi|odt|org|pdf|rst|rtf"
    r"|tex|textile|typ)",
    re.IGNORECASE,
)

_DATA = Path(__file__).parent / "data"
_FILES = read_table(_DATA / "titles.toml")["files"]
_PLACES = tuple(
    (place, re.compile(rf"_?(?:{words})(?![^\W\d_])", re.IGNORECASE))
    for first, names in ((-len(_FILES["front"]), _FILES["front"]), (1, _FILES["back"]))
    for place, words in enumerate(names, first)
)
# Hugo, Docusaurus, Just the Docs; a number in front matter.
_WEIGHT = re.compile(
    rb"^(?:weight|sidebar_position|nav_order)[ \t]*[:=][ \t]*(\d{1,8})", re.MULTILINE
)
_LAST = 10**9  # of files without one
_MAX_FRONT_BYTES = 2048
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")


class Texts(NamedTuple):
    files: tuple[Path, ...]
    is_summary: bool  # whether a file names them; each is a chapter then
    warnings: tuple[str, ...]
    is_markdown: bool = False  # whether .txt files are Markdown too, as Leanpub has it


_ALONE = Texts((), is_summary=False, warnings=())


def texts_of(folder: Path) -> Texts:
    """Return the texts of a folder. Raises ManifestError if there are none or too many, or a link
    leads out of the folder.
    """
    for name, read_links, bases in _ORDERS:
        order = folder / name
        if order.is_file():
            links, base = read_links(_order_text(order, folder))
            if any(_is_text(link) for _, link in links):
                found = _named(order, folder, links, [order.parent / one for one in (base, *bases)])
                if found is not None:
                    return found
    entries = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    files = [one for one in entries if _is_text(one.name)]
    files = files or [one for one in entries if one.suffix.lower() in DOCUMENTS[:-1]]  # not PDF
    weights = _weights(files)
    files.sort(key=lambda one: (weights[one], _place(one.stem), natural_order(one.stem.casefold())))
    rest = _rest([one for one in entries if one not in files])
    remedy = f"give one of them, convert them to .md, or list the files in a {SUMMARY}"
    if not files:
        raise ManifestError(
            f"{folder}: has no .md or .txt file" + f", but {rest}" * bool(rest),
            remedy=remedy if rest else "give the EPUB file itself",
        )
    _require_few(folder, len(files))
    warnings = (f"{folder}: left out: {rest}; {remedy}",) if rest else ()
    return Texts(tuple(files), is_summary=False, warnings=warnings)


def _weights(files: list[Path]) -> dict[Path, int]:
    """Return the places that front matter gives to files, if it does for most; else 0 for each."""
    found = {}
    for one in files:
        with suppress(OSError), open_plain(one) as file:
            match = _WEIGHT.search(file.read(_MAX_FRONT_BYTES))
            found[one] = int(match[1]) if match else _LAST
    num_placed = sum(weight != _LAST for weight in found.values())
    is_known = 2 * num_placed > len(files)
    return {one: -1 if one.stem == "_index" else found.get(one, _LAST) * is_known for one in files}


def _place(stem: str) -> int:
    """Return where in a book a file goes by its name: below 0 at the start, above 0 at the end."""
    return next((place for place, words in _PLACES if words.match(stem)), 0)


def _is_text(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in MARKDOWN + PLAIN


def _require_few(folder: Path, count: int) -> None:
    if count > MAX_FILES:
        raise ManifestError(f"{folder}: has {count} texts; the maximum is {MAX_FILES}")


def _order_text(path: Path, folder: Path) -> str:
    if not _is_within(path, folder):
        raise _leads_out(str(path), "the file")
    with open_plain(path) as file:
        return file.read(MAX_SUMMARY_BYTES).decode("utf-8", errors="replace")


_Links = tuple[list[tuple[int, str]], str]  # line and path of each, and the folder they start in


def _summary_links(text: str) -> _Links:
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        line = token.map[0] + 1 if token.map else 0
        for child in token.children or ():
            link = re.split("[#?]", str(child.attrs.get("href", "")))[0]
            if link:  # a draft has none
                found.append((line, unquote(link)))
    return found, ""


def _mkdocs_links(text: str) -> _Links:
    found, is_nav, base = [], False, "docs"
    for number, line in enumerate(text.splitlines(), 1):
        if line[:1].strip(" -#"):
            is_nav = line.startswith("nav:")
        entry = _YAML_VALUE.search(line)
        if entry and is_nav:
            found.append((number, entry[1]))
        elif entry and line.startswith("docs_dir:"):
            base = entry[1]
    return found, base


def _book_links(text: str) -> _Links:
    """Return the lines that are names of files, not parts of a book such as `frontmatter:`."""
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if _BOOK_LINE.fullmatch(line)], ""


def _listed_links(text: str) -> _Links:
    """Return the names of texts in the lists of a YAML file."""
    named = ((number, _LISTED.findall(line)) for number, line in enumerate(text.splitlines(), 1))
    return [(number, name) for number, names in named for name in names], ""


def _toc_links(text: str) -> _Links:
    """Return the files of a table of contents, which have no suffix in Jupyter Book."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TOC_LINE.match(line):
            found.append((number, match[1] if "." in match[1] else f"{match[1]}.md"))
    return found, ""


_TOC_LINE = re.compile(r"[ -]*(?:root|file):\s+[\"']?([^\s\"'#:]+)")
_LISTED = re.compile(
    r"(?:^\s*-\s+(?:\w+:\s+)?|[\[,]\s*|^\s*(?:part|file|href):\s+)[\"']?([^\s\"',:]+\.[qr]?md)\b",
    re.IGNORECASE,
)
_YAML_VALUE = re.compile(r"(?:^\s*-|:)\s+[\"']?([^\"'#:\s][^\"'#:]*?)[\"']?\s*(?:#.*)?$")
_BOOK_LINE = re.compile(r"[^#{\s][^{}:]*\.\w+")
# Files that name the texts of a folder in order: mdBook and GitBook, MkDocs, Leanpub and Softcover.
_ORDERS: tuple[tuple[str, Callable[[str], _Links], tuple[str, ...]], ...] = (
    (SUMMARY, _summary_links, ()),
    (f"src/{SUMMARY}", _summary_links, ()),
    ("mkdocs.yml", _mkdocs_links, ()),
    ("_quarto.yml", _listed_links, ()),
    ("_bookdown.yml", _listed_links, ()),
    ("_toc.yml", _toc_links, ()),
    ("myst.yml", _toc_links, ()),
    ("Book.txt", _book_links, ("chapters",)),
    ("manuscript/Book.txt", _book_links, ()),
)


def _named(
    order: Path, folder: Path, links: list[tuple[int, str]], bases: list[Path]
) -> Texts | None:
    """Return the files that an order names, each once; None if the order is an ordinary text."""
    files: dict[Path, None] = {}
    lost: list[str] = []
    for line, link in links:
        paths = [Path(os.path.normpath(base / link)) for base in bases]
        is_address = _SCHEME.match(link) is not None
        if not is_address and (
            "\0" in link or "\\" in link or link[0] == "/" or not _is_within(paths[0], folder)
        ):
            raise _leads_out(f"{order}:{line}", f"the link {link[:100]!r}")
        path = next(filter(os.path.isfile, paths), None)
        if not is_address and _is_text(link) and path is not None and _is_within(path, folder):
            files[path] = None
        else:
            lost.append(f"{link[:100]} (line {line})")
    _require_few(folder, len(files))
    told = (
        f"{order}: ignored {counted(len(lost), 'link')} to files that are not .md or .txt or do "
        f"not exist: {first_few(lost)}"
    )
    if not files and order.name == "Book.txt":
        return None
    if not files:
        raise ManifestError(told, remedy="fix its links, or remove it")
    warnings = (told,) if lost else ()
    return Texts(tuple(files), True, warnings, is_markdown=order.name == "Book.txt")


def _is_within(path: Path, folder: Path) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((real, top)) == top


def _leads_out(place: str, what: str) -> ManifestError:
    return ManifestError(
        f"{place}: {what} leads out of the folder",
        remedy="put the file into the folder, or give the folder that contains both",
    )


def _rest(entries: list[Path]) -> str:
    """Describe the files of a folder that look like texts but are not read; "" without any."""
    others = [one.name for one in entries if _OTHER.fullmatch(one.suffix) and one.is_file()]
    below: Counter[str] = Counter()
    walked = (
        (top.name, name)
        for top in entries
        if top.is_dir() and not top.is_symlink()
        for _, _, names in os.walk(top)
        for name in names
    )
    for top, name in islice(walked, MAX_SEEN):
        if _is_text(name) or _OTHER.fullmatch(os.path.splitext(name)[1]):
            below[f"{top}/"] += 1
    parts = []
    if others:
        parts.append(f"{counted(len(others), 'text')} of other formats ({first_few(others)})")
    if below:
        parts.append(f"{counted(below.total(), 'text')} in subfolders ({first_few(list(below))})")
    return " and ".join(parts)


MAX_DOCUMENT_BYTES = 256 << 20  # with its pictures
MAX_TEXT_BYTES = 16 << 20  # of one file; the Bible has 4 MB

_MARKED = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6}[ \t]+[^\s#]")  # a heading of Markdown
_MIN_MARKED = 2
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


def read_book(path: Path, encoding: str | None = None) -> Book:
    """Read the book at a path; its suffix shows the format. Raises ManifestError, and SetupError if
    the library for the format is missing.

    Args:
        encoding: of texts, as Python calls it; None: detect it.
    """
    unpacked = unpacked_epub(path) if path.is_dir() else None
    if unpacked or path.suffix.lower() == ".epub":
        return read_epub(unpacked or path)
    if path.is_dir():
        return _read_folder(path, encoding)
    if not path.exists():
        raise ManifestError(f"{path}: No such file or directory", "check the path")
    if path.suffix.lower() not in MARKDOWN + PLAIN + DOCUMENTS:
        remedy = "save it as .txt, .md, .epub, .docx or .html; folders of such files work too"
        for kind in read_table(_DATA / "suffixes.toml")["kind"]:
            if path.suffix.lower() in kind["suffixes"] and kind["remedy"].startswith("convert"):
                remedy = kind["remedy"]
        problem = f"a book with the suffix {path.suffix!r} is not supported"
        raise ManifestError(f"{path}: {problem}", remedy)
    return _read_text(path, path.name, encoding)


def _read_folder(folder: Path, encoding: str | None) -> Book:
    """Read the texts of a folder. Each file of a summary is a chapter; else headings begin them."""
    found = texts_of(folder)
    books: list[Book] = []
    empty: list[str] = []
    for one in found.files:
        name = os.path.relpath(one, folder)
        try:
            books.append(_read_text(one, name, encoding, found))
        except NoTextError:
            empty.append(name)
        else:
            empty += [] if books[-1].chapters else [name]
    if not any(book.chapters for book in books):
        raise ManifestError(
            f"{folder}: contains no text", remedy="check that this is the right folder"
        )
    languages = {book.language for book in books} - {None}
    return replace(
        books[0],
        chapters=tuple(chapter for book in books for chapter in book.chapters),
        title=folder.resolve().name,
        language=languages.pop() if len(languages) == 1 else None,
        warnings=(
            *found.warnings,
            *(f"{name}: contains no text" for name in empty),
            *(warning for book in books for warning in book.warnings),
        ),
    )


def _read_text(path: Path, name: str, encoding: str | None, among: Texts = _ALONE) -> Book:
    if path.suffix.lower() in DOCUMENTS:
        from tts_cli.sources.documents import read_document

        return read_document(path, _bytes_of(path, MAX_DOCUMENT_BYTES), name)
    text, num_left_out = strip_gutenberg(_decoded(path, encoding))
    warnings = [frame_warning(name, num_left_out)] if num_left_out else []
    front: dict[str, str] = {}
    has_marks = len(_MARKED.findall(text)) >= _MIN_MARKED
    if has_marks and path.suffix.lower() in PLAIN and not among.is_markdown:
        warnings.append(f"{name}: read as Markdown, because headings begin with #")
    if has_marks or among.is_markdown or path.suffix.lower() in MARKDOWN:
        reader = MarkdownReader(text, name)
        front = reader.front
        title = front.get("title") or path.stem
        made = assemble(reader.blocks(), title, is_chapter=among.is_summary)
        warnings += reader.warnings()
    else:
        printed = without_print(text)
        made = assemble(
            blocks(printed.text, lambda number: f"{name}:{number}"),
            path.stem,
            is_chapter=among.is_summary,
        )
        warnings += [f"{name}: left out: {what}" for what in printed.left_out]
    return replace(
        made,
        title=made.title or front.get("title"),
        author=front.get("author"),
        language=front.get("lang") or front.get("language"),
        warnings=(*warnings, *made.warnings),
    )


def _bytes_of(path: Path, most_bytes: int) -> bytes:
    try:
        with open_given(path) as file:
            return read_bounded(file, most_bytes, str(path))
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}", "check the path") from error


def _decoded(path: Path, encoding: str | None) -> str:
    data = _bytes_of(path, MAX_TEXT_BYTES)
    found = tell_encoding(Encoding(encoding) if encoding else find_encoding([data]), str(path))
    try:
        text = data.decode(found.name).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{path}: byte {error.start + 1} is not {found.name.upper()}",
            "save it as UTF-8, or give its encoding with --encoding",
        ) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        raise ManifestError(
            f"{path}:{line}: contains the control character U+{ord(control.group()):04X}",
            remedy="remove it, and check that the file is a text",
        )
    return clean_unicode(text)
