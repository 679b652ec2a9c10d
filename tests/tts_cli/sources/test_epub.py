"""EPUB 2 and 3, whole ones and ones that nobody should trust."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from cases import cases
from make_epub import CONTAINER, XHTML, XHTML11, document, package, small_epub, write_epub

from tts_cli.errors import ManifestError, SetupError
from tts_cli.sources import archive
from tts_cli.sources.chapters import Book
from tts_cli.sources.epub import read_epub
from tts_cli.sources.folder import read_book

CASES = cases(__file__)["epub"]

NAV = document("nav.xhtml", 'properties="nav"')
NCX = 'href="toc.ncx" media-type="application/x-dtbncx+xml"'


def texts(book: Book) -> list[list[str]]:
    return [[one.text for one in chapter.paragraphs] for chapter in book.chapters]


def body(path: Path, content: str) -> list[str]:
    """What is read of a document's body."""
    return texts(read_epub(small_epub(path / "b.epub", content)))[0]


def test_epub_3(tmp_path: Path) -> None:
    nav = (
        '<nav epub:type="landmarks"><ol><li><a href="text/two.xhtml">No</a></li></ol></nav>'
        '<nav epub:type="toc"><h1>Contents</h1><ol>'
        '<li><a href="text/one.xhtml">One: <i>Rain</i></a></li>'
        '<li><a href="text/two.xhtml#here">Two</a>'
        '<ol><li><a href="text/two.xhtml#deep">no chapter</a></li>'
        '<li><a href="text/three%20x.xhtml">Three</a></li></ol></li>'
        '<li><a href="http://example.org/">Elsewhere</a></li></ol></nav>'
    )
    path = write_epub(
        tmp_path / "mill.epub",
        {
            "OEBPS/book.opf": package(
                {
                    "nav": NAV,
                    "cover": document("cover.xhtml"),
                    "one": document("text/one.xhtml"),
                    "rest": document("text/one_b.xhtml"),
                    "two": document("text/two.xhtml"),
                    "three": document("text/three%20x.xhtml"),
                    "notes": document("notes.xhtml"),
                    "far": 'href="http://example.org/a.mp3" media-type="audio/mpeg"',
                },
                ["cover", "nav", "one", "rest", "two", "three", "notes linear='no'"],
            ),
            "OEBPS/nav.xhtml": XHTML.format(nav),
            "OEBPS/cover.xhtml": XHTML.format('<img src="a.jpg" alt="The cover"/>'),
            "OEBPS/text/one.xhtml": XHTML.format("<h1>One</h1><p>It rained.</p>"),
            "OEBPS/text/one_b.xhtml": XHTML.format("<p>It went on.</p>"),
            "OEBPS/text/two.xhtml": XHTML.format(
                '<p>Still one.</p><section id="here"><h2>Two</h2><p>He <em>came</em>.</p>'
                '<p id="deep">And went.</p></section>'
            ),
            "OEBPS/text/three x.xhtml": XHTML.format("<p>The end.</p>"),
            "OEBPS/notes.xhtml": XHTML.format("<p>Not linear.</p>"),
        },
    )
    book = read_epub(path)
    assert (book.title, book.author, book.language) == ("The Mill", "A. Writer", "en-GB")
    assert [one.title for one in book.chapters] == ["One: Rain", "Two", "Three"]
    assert texts(book) == [
        ["One", "It rained.", "It went on.", "Still one."],
        ["Two", "He came.", "And went."],
        ["The end."],
    ]
    assert book.chapters[0].paragraphs[1].place == "mill.epub: OEBPS/text/one.xhtml, paragraph 2"
    assert book.warnings == ("mill.epub: an image is left out",)


def test_epub_2(tmp_path: Path) -> None:
    ncx = (
        '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/x.dtd">'
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><navMap>'
        '<navPoint id="a"><navLabel><text>Part One</text></navLabel><content src="p.html"/>'
        '<navPoint id="b"><navLabel><text>Rain</text></navLabel><content src="a.html"/></navPoint>'
        "</navPoint>"
        '<navPoint id="c"><navLabel><text>Sun</text></navLabel><content src="b.html#s"/></navPoint>'
        "</navMap></ncx>"
    )
    path = write_epub(
        tmp_path / "old.epub",
        {
            "content.opf": package(
                {
                    "n": NCX,
                    "p": document("p.html"),
                    "a": document("a.html"),
                    "b": document("b.html"),
                },
                ["p", "a", "b"],
                version="2.0",
                toc="n",
            ),
            "toc.ncx": ncx,
            "p.html": XHTML11.format("<h1>Part One</h1>"),
            "a.html": XHTML11.format("<h2>1</h2><p>It&nbsp;rained &mdash; a lot &amp; long.</p>"),
            "b.html": XHTML11.format('<p><a id="s"/>The sun&hellip;</p><hr/><p>Shone.</p>'),
        },
        opf="content.opf",
    )
    book = read_epub(path)
    assert [one.title for one in book.chapters] == ["Rain", "Sun"]
    assert texts(book) == [["Part One", "1", "It rained — a lot & long."], ["The sun…", "Shone."]]
    assert book.chapters[1].paragraphs[0].is_scene_end


@pytest.mark.parametrize(("content", "read"), CASES["bodies"])
def test_bodies(tmp_path: Path, content: str, read: list[str]) -> None:
    assert body(tmp_path, content) == read


MARKED = (
    '<nav epub:type="landmarks"><ol>'
    '<li><a epub:type="titlepage" href="title.xhtml">Title</a></li></ol></nav>'
)
GUIDE = '<reference type="title-page" href="title.xhtml"/>'
TITLE = "<h1>The Mill</h1><p>A. Writer</p>"


@pytest.mark.parametrize(
    ("title", "landmarks", "guide", "is_read"),
    [
        (f"{TITLE}<p>Second edition</p>", "", "", True),
        (f"{TITLE}<p>Second edition</p>", MARKED, "", False),
        (f"{TITLE}<p>Second edition</p>", "", GUIDE, False),
        (f"<section epub:type='titlepage'>{TITLE}<p>Second edition</p></section>", "", "", False),
        (TITLE, "", "", False),  # the contents do not name it
        ("<h1>The Mill</h1><p>By A. Writer, and others</p>", "", "", True),
        (f"{TITLE}<p>{'It rained. ' * 200}</p>", "", GUIDE, True),  # the guide is wrong
        # The contents point into it: there is more in it than the title.
        (f"{TITLE}<p id='p'>A preface</p>", "", GUIDE, True),
    ],
)
def test_a_title_page_is_not_read(
    tmp_path: Path, title: str, landmarks: str, guide: str, is_read: bool
) -> None:
    preface = '<li><a href="title.xhtml#p">Preface</a></li>' if "id='p'" in title else ""
    nav = f'<nav epub:type="toc"><ol>{preface}<li><a href="one.xhtml">One</a></li></ol></nav>'
    items = {name: document(f"{name}.xhtml") for name in ("title", "one")}
    path = write_epub(
        tmp_path / "b.epub",
        {
            "OEBPS/book.opf": package({"nav": NAV, **items}, ["title", "one"], guide=guide),
            "OEBPS/nav.xhtml": XHTML.format(nav + landmarks),
            "OEBPS/title.xhtml": XHTML.format(title),
            "OEBPS/one.xhtml": XHTML.format("<p>It rained.</p>"),
        },
    )
    book = read_epub(path)
    assert ("The Mill" in str(texts(book))) == is_read
    assert book.chapters[-1].title == "One"
    assert book.warnings == (() if is_read else ("b.epub: the title page is left out",))


def test_a_book_of_one_document_is_no_title_page(tmp_path: Path) -> None:
    opf = package({"t": document("t.xhtml")}, ["t"], guide=GUIDE.replace("title.x", "t.x"))
    body = XHTML.format("<h1>The Mill</h1>")
    path = write_epub(tmp_path / "b.epub", {"OEBPS/book.opf": opf, "OEBPS/t.xhtml": body})
    assert texts(read_epub(path)) == [["The Mill"]]


def test_what_is_left_out_is_counted_once(tmp_path: Path) -> None:
    """A footnote's mark and its text are one footnote, also where a link leads back."""
    text = "".join(f"<p>Word<sup><a href='#n{n}'>{n}</a></sup>.</p>" for n in (1, 2))
    notes = "".join(
        f"<aside epub:type='footnote' id='n{n}'>Note. <a href='#m{n}'>\u21a9</a></aside>"
        for n in (1, 2)
    )
    picture = "<figure><img alt='x'/><figcaption>Fig. 1</figcaption></figure>"
    book = read_epub(small_epub(tmp_path / "b.epub", picture + text + notes))
    assert sorted(book.warnings) == [
        "b.epub: a caption is left out",
        "b.epub: a footnote is left out, 2 times",
        "b.epub: an image is left out",
    ]
    plain = "<p>Note. <a href='#m1'>\u21a9</a></p>"
    book = read_epub(small_epub(tmp_path / "c.epub", text + plain))
    assert book.warnings == ("c.epub: a footnote is left out, 2 times",)


def test_what_project_gutenberg_put_around(tmp_path: Path) -> None:
    nav = (
        '<nav epub:type="toc"><ol><li><a href="c.xhtml#t">The Ferry</a><ol>'
        '<li><a href="c.xhtml#a">A</a></li><li><a href="c.xhtml#b">B</a></li></ol></li>'
        '<li><a href="c.xhtml#l">The full license</a></li></ol></nav>'
    )
    page = (
        '<section id="pg-header"><h2>The eBook</h2><p>Terms.</p></section><h1 id="t">The Ferry</h1>'
        '<h2 id="a">A</h2><p>Late.</p><h2 id="b">B</h2><p>Lit.</p>'
        '<section id="pg-footer"><h2 id="l">Full</h2><p>More terms.</p></section>'
    )
    opf = package({"n": NAV, "c": document("c.xhtml")}, ["c"])
    book = read_epub(
        write_epub(
            tmp_path / "b.epub",
            {
                "OEBPS/book.opf": opf,
                "OEBPS/nav.xhtml": XHTML.format(nav),
                "OEBPS/c.xhtml": XHTML.format(page),
            },
        )
    )
    assert [one.title for one in book.chapters] == ["A", "B"]
    assert texts(book) == [["The Ferry", "A", "Late."], ["B", "Lit."]]
    assert book.warnings == (
        "b.epub: the frame of Project Gutenberg around the book is left out, 30 characters",
    )


def test_fallbacks_of_the_spine(tmp_path: Path) -> None:
    def spine_of(*items: str) -> Path:
        opf = package({f"i{n}": item for n, item in enumerate(items)}, ["i0"])
        page = XHTML.format("<p>Read.</p>")
        return write_epub(tmp_path / "b.epub", {"OEBPS/book.opf": opf, "OEBPS/c.xhtml": page})

    json = 'href="{}.json" media-type="application/json" fallback="{}"'
    image = 'href="c.png" media-type="image/png" fallback="i2"'
    path = spine_of(json.format("a", "i1"), image, document("c.xhtml"))
    assert texts(read_epub(path)) == [["Read."]]
    refused(spine_of(json.format("a", "i1"), json.format("b", "i0")), "no document to read")
    refused(spine_of(json.format("a", "i7")), "no document to read")


def test_a_book_of_pictures(tmp_path: Path) -> None:
    page = "<div><img src='1.jpg' alt='Page one'/></div>"
    refused(small_epub(tmp_path / "a.epub", page), r"only pictures, no text.*\(OCR\)")
    opf = package({"c": 'href="c.png" media-type="image/png"'}, ["c"])
    refused(
        write_epub(tmp_path / "d.epub", {"OEBPS/book.opf": opf}), "contains only pictures, no text"
    )
    refused(small_epub(tmp_path / "a.epub", "<div> </div>"), "contains no text")


def test_encodings(tmp_path: Path) -> None:
    for declared, codec in (("utf-16", "utf-16"), ("iso-8859-1", "latin-1"), ("UTF-8", "utf-8")):
        page = XHTML.format("<p>Ça va &eacute;t&#233;</p>").replace('"utf-8"', f'"{declared}"')
        path = small_epub(tmp_path / "b.epub", "", {"OEBPS/d.xhtml": page.encode(codec)})
        opf = package({"c": document("d.xhtml")}, ["c"])
        with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as file:
            file.writestr("OEBPS/book.opf", opf)
        assert texts(read_epub(path)) == [["Ça va été"]]


def refused(path: Path, match: str) -> None:
    with pytest.raises(ManifestError, match=match) as caught:
        read_epub(path)
    assert len(str(caught.value)) < 500


def test_no_epub(tmp_path: Path) -> None:
    path = tmp_path / "a.epub"
    path.write_bytes(b"not a zip")
    refused(path, "it is not a ZIP file")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "a")
    refused(path, "is not an EPUB: it has no")
    refused(tmp_path / "none.epub", "No such file")


@pytest.mark.slow
def test_a_zip_bomb(tmp_path: Path) -> None:
    refused(small_epub(tmp_path / "a.epub", "<p>" + " " * (30 << 20) + "x</p>"), "unpacks to")
    huge = small_epub(tmp_path / "b.epub", "<p>" + " " * (33 << 20) + "x</p>")
    refused(huge, "is larger than 32 MiB when unpacked")


def test_many_large_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 50_000)
    names = [f"c{index}" for index in range(10)]
    members = {f"OEBPS/{name}.xhtml": XHTML.format("<p>word </p>" * 900) for name in names}
    opf = package({name: document(f"{name}.xhtml") for name in names}, names)
    refused(write_epub(tmp_path / "a.epub", {"OEBPS/book.opf": opf, **members}), "when unpacked")


@pytest.mark.parametrize(("offset", "value"), [(10, b"\xff\xff"), (12, b"\0\0\0\x7f")])
def test_a_huge_directory_is_not_even_opened(tmp_path: Path, offset: int, value: bytes) -> None:
    path = small_epub(tmp_path / "a.epub", "<p>a</p>")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x05\x06") + offset
    data[at : at + len(value)] = value
    path.write_bytes(data)
    refused(path, "directory is larger")


def test_a_password(tmp_path: Path) -> None:
    path = small_epub(tmp_path / "a.epub", "<p>a</p>")
    data = bytearray(path.read_bytes())
    place = -1
    while (place := data.find(b"PK\x01\x02", place + 1)) >= 0:
        data[place + 8] |= 1
    path.write_bytes(data)
    refused(path, "is encrypted")


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + ']><html xmlns="http://www.w3.org/1999/xhtml"><body><p>&i;</p></body></html>'
)
FILE = LAUGHS.replace('"ha"', 'SYSTEM "file:///etc/passwd"')


@pytest.mark.parametrize("member", ["OEBPS/c.xhtml", "OEBPS/book.opf", "META-INF/container.xml"])
@pytest.mark.parametrize("text", [LAUGHS, FILE, LAUGHS.encode("utf-16")], ids=["ha", "file", "16"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entities(tmp_path: Path, member: str, text: str | bytes) -> None:
    path = small_epub(tmp_path / "a.epub", "<p>a</p>", {member: text})
    refused(path, "declares entities")


@pytest.mark.parametrize(
    "link", ["../../etc/passwd", "/etc/passwd", "a\\..\\b", "%2e%2e/%2e%2e/x", "../..", "a%00b"]
)
def test_links_that_lead_out(tmp_path: Path, link: str) -> None:
    opf = package({"c": document(link)}, ["c"])
    refused(write_epub(tmp_path / "a.epub", {"OEBPS/book.opf": opf}), "leads out of the book")
    path = tmp_path / "b.epub"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("META-INF/container.xml", CONTAINER.format("../" + link))
    refused(path, "leads out of the book")


def test_documents_elsewhere_and_missing_ones(tmp_path: Path) -> None:
    opf = package({"c": document("http://example.org/c.xhtml")}, ["c"])
    refused(write_epub(tmp_path / "a.epub", {"OEBPS/book.opf": opf}), "is missing in the file")
    opf = package({"c": document("c.xhtml")}, ["c"])
    path = write_epub(tmp_path / "b.epub", {"OEBPS/book.opf": opf})
    refused(path, "'OEBPS/c.xhtml' is missing in")
    opf = package({"c": document("c.xhtml")}, ["d"])
    refused(write_epub(tmp_path / "c.epub", {"OEBPS/book.opf": opf}), "is missing in the file")
    opf = package({"c": 'href="c.png" media-type="image/png"'}, ["c"])
    refused(write_epub(tmp_path / "d.epub", {"OEBPS/book.opf": opf}), "contains only pictures")
    refused(write_epub(tmp_path / "e.epub", {}), "'OEBPS/book.opf' is missing in")
    refused(write_epub(tmp_path / "f.epub", {"OEBPS/book.opf": "<package>"}), "is damaged")
    refused(write_epub(tmp_path / "g.epub", {"OEBPS/book.opf": ""}), "is damaged")


ENCRYPTION = (
    '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod Algorithm="{}"/>'
    '<CipherData><CipherReference URI="{}"/></CipherData></EncryptedData></encryption>'
)


def test_protection(tmp_path: Path) -> None:
    aes = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
    fonts = "http://www.idpf.org/2008/embedding"
    for number, (algorithm, target) in enumerate([(aes, "OEBPS/c.xhtml"), (aes, "a.otf")]):
        more = {"META-INF/encryption.xml": ENCRYPTION.format(algorithm, target)}
        refused(small_epub(tmp_path / f"{number}.epub", "<p>a</p>", more), r"protected \(DRM\)")
    more = {"META-INF/encryption.xml": ENCRYPTION.format(fonts, "OEBPS/a.otf")}
    assert texts(read_epub(small_epub(tmp_path / "f.epub", "<p>a</p>", more))) == [["a"]]


def test_lxml_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lxml.etree", None)
    with pytest.raises(SetupError, match='lxml is not installed; pip install "lxml>='):
        read_epub(small_epub(tmp_path / "a.epub", "<p>a</p>"))


def test_bad_links_in_the_contents_are_ignored_and_reported(tmp_path: Path) -> None:
    """One of them refused the whole book."""
    nav = (
        '<nav epub:type="landmarks"><ol><li><a epub:type="titlepage" href="/t.xhtml">T</a></li>'
        '</ol></nav><nav epub:type="toc"><ol><li><a href="one.xhtml">One</a></li>'
        '<li><a href="../../else.xhtml">Bad</a></li>'
        '<li><a href="two.xhtml">Two</a></li></ol></nav>'
    )
    items = {
        "nav": NAV,
        "one": document("one.xhtml"),
        "two": document("two.xhtml"),
        "cover": 'href="/cover.png" media-type="image/png"',
    }
    members = {
        "OEBPS/book.opf": package(items, ["one", "two"]),
        "OEBPS/nav.xhtml": XHTML.format(nav),
        "OEBPS/one.xhtml": XHTML.format("<p>It rained.</p>"),
        "OEBPS/two.xhtml": XHTML.format("<p>The end.</p>"),
    }
    book = read_epub(write_epub(tmp_path / "mill.epub", members))
    assert [one.title for one in book.chapters] == ["One", "Two"]
    assert book.warnings == (
        "mill.epub: its contents lead out of the book, ignored: '../../else.xhtml', '/t.xhtml'",
    )
    points = "".join(
        f'<navPoint><navLabel><text>{title}</text></navLabel><content src="{link}"/></navPoint>'
        for title, link in (("One", "one.xhtml"), ("Bad", "/bad.xhtml"), ("Two", "two.xhtml"))
    )
    ncx = f'<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{points}</navMap></ncx>'
    del items["nav"]
    opf = package({**items, "ncx": NCX}, ["one", "two"], "2.0", "ncx")
    book = read_epub(
        write_epub(tmp_path / "old.epub", {**members, "OEBPS/book.opf": opf, "OEBPS/toc.ncx": ncx})
    )
    assert [one.title for one in book.chapters] == ["One", "Two"]
    assert book.warnings == ("old.epub: its contents lead out of the book, ignored: '/bad.xhtml'",)


def of_documents(tmp_path: Path, *bodies: str) -> Book:
    names = [f"d{number}" for number in range(len(bodies))]
    members = {
        f"OEBPS/{name}.xhtml": XHTML.format(one) for name, one in zip(names, bodies, strict=True)
    }
    opf = package({name: document(f"{name}.xhtml") for name in names}, names)
    return read_epub(write_epub(tmp_path / "b.epub", {"OEBPS/book.opf": opf, **members}))


def test_the_licence_of_an_older_gutenberg_book(tmp_path: Path) -> None:
    """Its marks are paragraphs without the ids of newer ones."""
    front = "<p>This eBook is for anyone.</p><p>*** START OF THIS PROJECT GUTENBERG EBOOK X ***</p>"
    back = "<p>End of the Project Gutenberg EBook of X</p><p>These are the terms.</p>" * 2
    book = of_documents(
        tmp_path, f"{front}<h1>One</h1><p>It rained.</p>", f"<h1>Two</h1><p>No.</p>{back}"
    )
    assert texts(book) == [["One", "It rained."], ["Two", "No."]]
    assert "the frame of Project Gutenberg around the book is left out" in book.warnings[0]


def test_a_printed_table_of_contents_is_not_read(tmp_path: Path) -> None:
    links = "".join(f'<p><a href="d{n}.xhtml">Chapter {n}</a></p>' for n in (1, 2, 3))
    chapters = [f"<h1>Chapter {n}</h1><p>It rained.</p>" for n in (1, 2, 3)]
    book = of_documents(tmp_path, f"<h2>Contents</h2>{links}", *chapters)
    assert [one.title for one in book.chapters] == ["Chapter 1", "Chapter 2", "Chapter 3"]
    assert "b.epub: a printed table of contents is left out" in book.warnings
    linked = '<p>See <a href="d1.xhtml">there</a> and there, and in all of the other places.</p>'
    assert len(texts(of_documents(tmp_path, linked * 3, *chapters))[0]) >= 3


def test_the_folder_of_an_unpacked_book_is_read_in_the_order_of_its_spine(tmp_path: Path) -> None:
    # Repositories of public editions have it so; its texts were read in the order of their names.
    packed = small_epub(tmp_path / "b.epub", "<p>It rained.</p>")
    top = tmp_path / "edition" / "src"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(top)
    (top / "link.xml").symlink_to(packed)
    os.mkfifo(top / "pipe.xml")
    wanted = texts(read_epub(packed))
    inner = next(one.parent for one in top.rglob("*.opf"))
    assert [texts(read_book(one)) for one in (top.parent, top, inner)] == [wanted] * 3
    with (top / "huge.jpg").open("wb") as huge:
        huge.truncate(257 << 20)  # it was copied, however large
    with pytest.raises(ManifestError, match="are larger than 256 MiB; check that this is the fold"):
        read_book(top)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("<pre>\n  The lamp is lit,\n    The tide comes in\n  And so on</pre>", True),
        ("<pre>She came at noon (so they\nsay), and stayed.</pre>", True),
        ("<pre>Now at noon.</pre>", False),
        ("<pre><code>Now it is\nNoon at last</code></pre>", False),
        ('<pre class="sh">Now it is\nNoon at last</pre>', False),
        ("<pre>Print(x)\nFor each of these.</pre>", False),
        ("<pre>npm install\nnpm run it</pre>", False),
        (f"<pre>A{' ' * 5000}b</pre>", False),  # took for ever
    ],
)
def test_preformatted_verses_are_no_code(tmp_path: Path, content: str, read: bool) -> None:
    # Of a public edition 250 poems were left out as code blocks.
    book = read_epub(small_epub(tmp_path / "b.epub", f"<p>Before.</p>{content}"))
    assert len(texts(book)[0]) == 1 + read
    assert any("a code block is left out" in one for one in book.warnings) != read
