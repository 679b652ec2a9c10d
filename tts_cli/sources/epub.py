"""Read EPUB 2 and 3: a ZIP file of XHTML documents with an order and a table of contents.

The spine of the package document lists the documents in order. Documents that are not linear (such
as notes), a table of contents in the spine, and the title page are left out. A title page is a
short document that the guide (EPUB 2), the landmarks (EPUB 3) or its own `epub:type` calls so, or a
document before the first entry of the contents that only has title and author. A document in
another format is replaced by its fallback if that can be read.

Source: EPUB 3.3 (W3C Recommendation of 2023), OPF 2.0.1 and NCX of the DAISY consortium.
"""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from tts_cli.errors import ManifestError
from tts_cli.named import first_few
from tts_cli.plain import open_plain
from tts_cli.sources.archive import MAX_TOTAL_BYTES, Archive
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
    picture_suffix,
    strip_gutenberg_blocks,
)
from tts_cli.sources.html import (
    TITLE_PAGES,
    HtmlReader,
    kinds_of,
    left_out_warnings,
    parse_xml,
    tag_of,
    text_of,
)

CONTAINER = "META-INF/container.xml"
MAX_TITLE_PAGE_CHARS = 2_000  # a longer document is not only a title page
ENCRYPTION = "META-INF/encryption.xml"
MAX_SPINE = 5_000
_MIN_LINKS = 3  # of a printed table of contents
_LINK_SHARE = 0.7  # of its characters are links
MAX_TOC = 20_000

_PACKED = (".xml", ".opf", ".ncx", ".xhtml", ".html", ".htm", ".jpg", ".jpeg", ".png")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_DOCUMENTS = (
    "application/xhtml+xml",
    "text/html",
    "application/x-dtbook+xml",
    "text/x-oeb1-document",
)
_NCX = "application/x-dtbncx+xml"
_WORD = re.compile(r"\w+")
# Algorithms that only scramble fonts; the text is not protected.
_FONT_ALGORITHMS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


class _Item(NamedTuple):
    path: str  # in the archive
    type: str
    properties: tuple[str, ...]
    fallback: str  # id of another; "": none


def _words(*texts: str) -> set[str]:
    return set(_WORD.findall(" ".join(texts).casefold()))


class _Entry(NamedTuple):
    path: str
    fragment: str
    title: str
    depth: int  # 1 is the top level


def _is_contents(root: Any, texts: list[str]) -> bool:
    links = [one for one in root.iter("{*}a") if _leads_away(one.get("href") or "")]
    chars = sum(len(one_line("".join(one.itertext()))) for one in links)
    return len(links) >= _MIN_LINKS and chars > _LINK_SHARE * sum(map(len, texts))


def _leads_away(href: str) -> bool:
    return not href.startswith("#") and not _SCHEME.match(href) and bool(href)


_Marks = dict[str, dict[str, list[TocEntry]]]  # document -> element id -> entries for it


def unpacked_epub(folder: Path) -> Path | None:
    """Return the folder of an unpacked EPUB that is this one, is in its src/, or is around it."""
    above = [folder.parent] if any(folder.glob("*.opf")) else []
    return next(
        (one for one in (folder, folder / "src", *above) if (one / CONTAINER).is_file()), None
    )


def _packed(folder: Path) -> BinaryIO:
    """Return a temporary ZIP file with the texts and pictures of a folder, without links."""
    found = (Path(root, name) for root, _, names in os.walk(folder) for name in sorted(names))
    files = [one for one in found if one.suffix.lower() in _PACKED]
    files = [one for one in files if one.is_file() and not one.is_symlink()]
    if sum(one.stat().st_size for one in files) > MAX_TOTAL_BYTES:
        raise ManifestError(
            f"{folder}: its texts and pictures are larger than {MAX_TOTAL_BYTES >> 20} MiB",
            "check that this is the folder of one book",
        )
    packed = cast(BinaryIO, tempfile.TemporaryFile(prefix="tts-cli-"))  # noqa: SIM115
    with zipfile.ZipFile(packed, "w", strict_timestamps=False) as archive:
        for one in files:
            archive.write(one, one.relative_to(folder))
    return packed


def read_epub(path: Path) -> Book:
    """Return the book in an EPUB file, or in the folder of an unpacked one. Raises ManifestError,
    and SetupError without lxml.
    """
    try:
        file = _packed(path) if path.is_dir() else open_plain(path)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}", "check the path") from error
    with file:
        archive = Archive(file, path.name, "download the book again, or fix or convert it")
        if CONTAINER not in archive.names:
            raise ManifestError(f"{path.name}: is not an EPUB: it has no {CONTAINER}")
        return _Reader(archive, path.stem).book()


class _Reader:
    def __init__(self, archive: Archive, stem: str) -> None:
        self._archive = archive
        self._stem = stem
        self._left_out: Counter[str] = Counter()
        self._num_framed = 0
        self._bad_links: dict[str, None] = {}  # in the table of contents

    def book(self) -> Book:
        opf = self._package_path()
        package = self._parse(opf)
        items = self._items(package, posixpath.dirname(opf))
        spine = self._spine(package, items)
        self._refuse_protected({item.path for item in spine})
        marks = self._marks(package, items, {item.path for item in spine})
        title_pages = self._title_pages(opf, package, items) if len(spine) > 1 else set()
        blocks = list(self._blocks(spine, marks, title_pages, self._title_words(package)))
        blocks, num_framed = strip_gutenberg_blocks(blocks)
        self._num_framed += num_framed
        has_text = any(isinstance(one, Text | Heading) for one in blocks)
        if not has_text and self._left_out["an image"]:
            raise self._only_pictures()
        made = assemble(chapters_of(blocks), self._metadata(package, "title") or self._stem)
        warnings = left_out_warnings(self._archive.name, self._left_out)
        if self._num_framed:
            warnings.insert(0, frame_warning(self._archive.name, self._num_framed))
        if self._bad_links:
            links = first_few([repr(link[:100]) for link in self._bad_links])
            name = self._archive.name
            warnings.append(f"{name}: its contents lead out of the book, ignored: {links}")
        return replace(
            made,
            title=self._metadata(package, "title") or made.title,
            author=self._metadata(package, "creator"),
            language=self._metadata(package, "language"),
            warnings=(*warnings, *made.warnings),
            cover=self._cover(package, items),
        )

    def _cover(self, package: Any, items: dict[str, _Item]) -> bytes | None:
        """Return the picture of the cover: EPUB 3 marks its item, EPUB 2 names it in a `meta`."""
        named = (one for one in package.iter("{*}meta") if one.get("name") == "cover")
        ids = [one.get("content") or "" for one in named]
        found = [one for one in items.values() if "cover-image" in one.properties]
        for item in found + [items[one] for one in ids if one in items]:
            if item.path in self._archive.names:
                data = self._archive.read(item.path)
                return data if picture_suffix(data) else None
        return None

    def _only_pictures(self) -> ManifestError:
        return ManifestError(
            f"{self._archive.name}: contains only pictures, no text",
            remedy="run text recognition (OCR) on its pages, and use the result",
        )

    def _blocks(
        self, spine: list[_Item], marks: _Marks, title_pages: set[str], title_words: set[str]
    ) -> Iterator[Block]:
        is_front = bool(marks)  # before the first entry of the contents
        for item in spine:
            root = self._parse(item.path, is_html=True)
            entries = marks.get(item.path, {})
            reader = HtmlReader(root, f"{self._archive.name}: {item.path}", entries)
            blocks = list(reader.blocks())
            is_front = is_front and not entries
            texts = [one.text for one in blocks if isinstance(one, Text | Heading)]
            words = _words(*texts)
            is_title_page = item.path in title_pages and not any(entries)  # none inside of it
            is_title_page &= sum(map(len, texts)) <= MAX_TITLE_PAGE_CHARS
            if words and (is_title_page or (is_front and words <= title_words)):
                self._left_out["the title page"] += 1
                continue
            if len(spine) > 1 and _is_contents(root, texts):
                self._left_out["a printed table of contents"] += 1
                continue
            yield from blocks
            self._left_out += reader.left_out
            self._num_framed += reader.num_framed

    def _package_path(self) -> str:
        container = self._parse(CONTAINER)
        for element in container.iter("{*}rootfile"):
            return self._resolve("", element.get("full-path") or "")[0]
        raise ManifestError(f"{self._archive.name}: {CONTAINER} names no package document")

    def _items(self, package: Any, base: str) -> dict[str, _Item]:
        items: dict[str, _Item] = {}
        for element in package.iterfind("{*}manifest/{*}item"):
            href = element.get("href") or ""
            if _SCHEME.match(href):
                continue
            properties = tuple((element.get("properties") or "").split())
            type = (element.get("media-type") or "").lower()
            try:
                path, _ = self._resolve(base, href)
            except ManifestError:
                if type in _DOCUMENTS:
                    raise
                continue
            fallback = element.get("fallback") or ""
            items[element.get("id") or ""] = _Item(path, type, properties, fallback)
        return items

    def _spine(self, package: Any, items: dict[str, _Item]) -> list[_Item]:
        spine: list[_Item] = []
        has_pictures = False
        for element in package.iterfind("{*}spine/{*}itemref"):
            if element.get("linear") == "no":
                continue
            item = items.get(element.get("idref") or "")
            if item is None:
                raise ManifestError(
                    f"{self._archive.name}: a document of the book is missing in the file",
                    remedy="download it again, or fix it: its spine names documents that its "
                    "manifest does not have",
                )
            has_pictures |= item.type.startswith("image/")
            item = self._readable(item, items)
            if item.type in _DOCUMENTS and "nav" not in item.properties and item not in spine:
                spine.append(item)
            if len(spine) > MAX_SPINE:
                raise ManifestError(f"{self._archive.name}: has more than {MAX_SPINE} documents")
        if not spine and has_pictures:
            raise self._only_pictures()
        if not spine:
            raise ManifestError(f"{self._archive.name}: names no document to read")
        return spine

    def _readable(self, item: _Item, items: dict[str, _Item]) -> _Item:
        """Return the first document among an item and its fallbacks, or the last fallback."""
        chain = {item}
        while item.type not in _DOCUMENTS:
            behind = items.get(item.fallback)
            if behind is None or behind in chain:
                break
            item = behind
            chain.add(item)
        return item

    def _refuse_protected(self, paths: set[str]) -> None:
        if ENCRYPTION not in self._archive.names:
            return
        for element in self._parse(ENCRYPTION).iter("{*}EncryptedData"):
            method = element.find("{*}EncryptionMethod")
            algorithm = "" if method is None else method.get("Algorithm") or ""
            targets = [one.get("URI") or "" for one in element.iter("{*}CipherReference")]
            is_text = any(self._resolve("", target)[0] in paths for target in targets)
            if is_text or not algorithm.startswith(_FONT_ALGORITHMS):
                raise ManifestError(
                    f"{self._archive.name}: is protected (DRM); its text cannot be read",
                    remedy="ask the shop or the publisher for a copy without protection",
                )

    def _marks(self, package: Any, items: dict[str, _Item], paths: set[str]) -> _Marks:
        """Return the entries of the contents by place, the first of each depth."""
        marks: _Marks = {}
        for number, entry in enumerate(self._contents(package, items)):
            if number >= MAX_TOC:
                break
            if entry.path in paths and entry.title:
                found = marks.setdefault(entry.path, {}).setdefault(entry.fragment, [])
                if all(entry.depth > one.depth for one in found):
                    found.append(TocEntry(entry.title, entry.depth, not entry.fragment))
        return marks

    def _contents(self, package: Any, items: dict[str, _Item]) -> Iterator[_Entry]:
        """Yield the table of contents of EPUB 3, or else of EPUB 2."""
        if (nav := self._nav(items)) is not None:
            yield from self._navigation(nav.path)
            return
        spine = package.find("{*}spine")
        ncx = items.get("" if spine is None else spine.get("toc") or "")
        ncx = ncx or next((item for item in items.values() if item.type == _NCX), None)
        if ncx is not None and ncx.path in self._archive.names:
            yield from self._ncx(ncx.path)

    def _nav(self, items: dict[str, _Item]) -> _Item | None:
        navs = (item for item in items.values() if "nav" in item.properties)
        return next((item for item in navs if item.path in self._archive.names), None)

    def _title_pages(self, opf: str, package: Any, items: dict[str, _Item]) -> set[str]:
        references = package.iterfind("{*}guide/{*}reference")
        places = [(opf, one) for one in references if one.get("type") in TITLE_PAGES]
        if (nav := self._nav(items)) is not None:
            links = self._parse(nav.path, is_html=True).iter("{*}a")
            places += [(nav.path, one) for one in links if TITLE_PAGES & set(kinds_of(one))]
        entries = (
            entry for path, one in places for entry in self._entry(path, one.get("href") or "")
        )
        return {entry.path for entry in entries if not entry.fragment}

    def _navigation(self, path: str) -> Iterator[_Entry]:
        """Yield the links of the navigation document; the level of a nested list is its depth."""
        root = self._parse(path, is_html=True)
        tables = [one for one in root.iter() if tag_of(one) == "nav"]
        named = [one for one in tables if "toc" in kinds_of(one)]
        for table in (named or tables)[:1]:
            for link in (one for one in table.iter() if tag_of(one) == "a"):
                lists = sum(tag_of(one) == "ol" for one in link.iterancestors())
                title = text_of(link)
                yield from self._entry(path, link.get("href") or "", title, lists)

    def _ncx(self, path: str) -> Iterator[_Entry]:
        root = self._parse(path)
        for point in root.iter("{*}navPoint"):
            content = point.find("{*}content")
            label = point.find("{*}navLabel")
            depth = 1 + sum(tag_of(one) == "navpoint" for one in point.iterancestors())
            title = "" if label is None else text_of(label)
            source = "" if content is None else content.get("src") or ""
            yield from self._entry(path, source, title, depth)

    def _entry(self, path: str, href: str, title: str = "", depth: int = 1) -> Iterator[_Entry]:
        if href and not _SCHEME.match(href):
            base = path if href.startswith("#") else posixpath.dirname(path)
            try:
                target, fragment = (path, href[1:]) if base == path else self._resolve(base, href)
            except ManifestError:
                self._bad_links[href] = None
                return
            yield _Entry(target, fragment, title, depth)

    def _resolve(self, base: str, href: str) -> tuple[str, str]:
        """Return a link's path and fragment. Raises ManifestError if it leads out of the file."""
        link, _, fragment = href.partition("#")
        link = unquote(link)
        path = posixpath.normpath(posixpath.join(base, link))
        if _SCHEME.match(link) or path.startswith(("/", "..")) or "\\" in path or "\0" in path:
            raise ManifestError(
                f"{self._archive.name}: the link {href[:100]!r} leads out of the book",
                remedy="check where this file comes from",
            )
        return path, unquote(fragment)

    def _title_words(self, package: Any) -> set[str]:
        named = [one for name in ("title", "creator") for one in package.iter(f"{{*}}{name}")]
        return {"by", *_words(*map(text_of, named))}

    def _metadata(self, package: Any, name: str) -> str | None:
        for element in package.iter(f"{{*}}{name}"):
            return text_of(element)[:200] or None
        return None

    def _parse(self, path: str, *, is_html: bool = False) -> Any:
        data = self._archive.read(path)
        return parse_xml(data, f"{self._archive.name}: {path}", is_html=is_html)
