"""Books in HTML, .docx and PDF: what is read, what is left out, and files that mean harm."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import pytest

from tts_cli.errors import ManifestError, SetupError
from tts_cli.sources import archive, documents
from tts_cli.sources.chapters import Book
from tts_cli.sources.folder import read_book

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = "".join(
    f'<w:style w:styleId="{key}"><w:name w:val="{name}"/>{inner}</w:style>'
    for key, name, inner in (
        ("T", "Title", ""),
        ("berschrift1", "heading 1", ""),
        ("V1", "toc 1", ""),
        ("L", "List Number", '<w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr>'),
    )
)
NUMBERING = (
    '<w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>'
    '<w:num w:numId="3"><w:abstractNumId w:val="7"/></w:num>'
)
CORE = '<c xmlns:d="d"><d:title>The Mill</d:title><d:creator>A. B.</d:creator></c>'


def docx(path: Path, body: str, **parts: str) -> Path:
    found = {
        "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {WORD}>{STYLES}</w:styles>",
        "word/numbering.xml": f"<w:numbering {WORD}>{NUMBERING}</w:numbering>",
        "docProps/core.xml": CORE,
        **parts,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in found.items():
            packed.writestr(name, content)
    return path


def p(text: str, style: str = "", form: str = "") -> str:
    inner = text if text.startswith("<") else f"<w:r>{form}<w:t>{text}</w:t></w:r>"
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{inner}</w:p>'


def run(text: str, form: str = "") -> str:
    return f"<w:r><w:rPr>{form}</w:rPr>{text}</w:r>"


def texts(book: Book) -> list[tuple[str, list[str]]]:
    return [(one.title, [part.text for part in one.paragraphs]) for one in book.chapters]


def test_docx(tmp_path: Path) -> None:
    body = [
        p("The Mill", "T"),
        f"<w:sdt><w:sdtContent>{p('One 1', 'V1')}</w:sdtContent></w:sdt>",
        p("One", "berschrift1"),
        p(
            run("<w:t>It rained &amp; H</w:t>")
            + run("<w:t>2</w:t>", '<w:vertAlign w:val="subscript"/>')
            + run(
                '<w:t>O, a</w:t><w:noBreakHyphen/><w:t>b</w:t><w:tab/><w:t xml:space="preserve">'
                "c </w:t>"
            )
            + run("<w:t>secret</w:t>", "<w:vanish/>")
            + run("<w:t>struck</w:t>", "<w:strike/>")
            + "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
            + f"<w:ins>{run('<w:t>added</w:t>')}</w:ins>"
            + run("<w:footnoteReference/><w:drawing/><w:instrText>PAGE</w:instrText>")
        ),
        p("First", "L"),
        p("Second", "L"),
        "<w:tbl><w:tr>"
        + "".join(f"<w:tc>{p(one)}</w:tc>" for one in "ab")
        + f"<w:tc><w:tbl><w:tr><w:tc>{p('inner')}</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>",
        p("Two", "berschrift1"),
        p("The end."),
    ]
    book = read_book(docx(tmp_path / "a.docx", "".join(body)))
    assert (book.title, book.author) == ("The Mill", "A. B.")
    assert texts(book) == [
        (
            "One",
            [
                *("The Mill", "One", "It rained & H₂O, a-b c added"),
                *("1. First", "2. Second", "a, b, inner"),
            ],
        ),
        ("Two", ["Two", "The end."]),
    ]
    said = "\n".join(book.warnings)
    for kind in ("a footnote", "an image", "hidden text", "struck out", "table of contents"):
        assert kind in said


def test_words_with_readings_in_docx(tmp_path: Path) -> None:
    ruby = f"<w:ruby><w:rt>{run('<w:t>kan</w:t>')}</w:rt><w:rubyBase>{run('<w:t>漢</w:t>')}"
    body = p(run(f"{ruby}</w:rubyBase></w:ruby>") + run("<w:t>字</w:t>"))
    assert texts(read_book(docx(tmp_path / "a.docx", body))) == [("a", ["漢字"])]


def test_headings_by_hand(tmp_path: Path) -> None:
    """A manuscript without styles has its chapters, as a plain text has."""
    lines = ["Chapter One", "It rained.", "* * *", "It stopped.", "Chapter Two", "The end."]
    book = read_book(docx(tmp_path / "a.docx", "".join(map(p, lines))))
    assert texts(book) == [
        ("Chapter One", ["Chapter One", "It rained.", "It stopped."]),
        ("Chapter Two", ["Chapter Two", "The end."]),
    ]
    first = book.chapters[0].paragraphs
    assert [one.is_scene_end for one in first] == [False, True, False]
    assert first[1].place == "a.docx, paragraph 2"
    page = "<ol><li>Milk,\nand</li><li>Bread</li><li>Eggs</li></ol><p>Go\nhome.</p>"
    (tmp_path / "a.html").write_text(page)
    expected = ["1. Milk, and", "2. Bread", "3. Eggs", "Go home."]
    assert texts(read_book(tmp_path / "a.html")) == [("a", expected)]


def test_what_pages_do_not_show(tmp_path: Path) -> None:
    page = (
        '<h1>Ferry<span class="mw-editsection">[edit]</span></h1><a class="skip-link">Skip</a>'
        '<p>A boat<sup class="noprint">[citation needed]</sup>. <a id="Page_16">[16]</a>Late.</p>'
        '<p class="hidden">No.</p><p class="footnote">1. A note.</p><p id="page-1">It rained.</p>'
        '<div class="reflist"><ol><li>Smith 1990.</li></ol></div>'
    )
    (tmp_path / "a.html").write_text(page)
    book = read_book(tmp_path / "a.html")
    assert texts(book) == [("Ferry", ["Ferry", "A boat. Late.", "It rained."])]
    assert "a footnote is left out" in " ".join(book.warnings)
    assert "hidden text is left out" in " ".join(book.warnings)


def test_html(tmp_path: Path) -> None:
    page = (
        "<!DOCTYPE html><html lang=fr><head><title>Le moulin</title><meta name=author content=A>"
        "<meta charset=windows-1252></head><body><nav>menu</nav><h1>Un</h1><p>Le café&nbsp;!"
        "<p>Et <del>non</del> oui.<h1>Deux</h1>Fin.</body></html>"
    )
    (tmp_path / "a.html").write_bytes(page.encode("cp1252"))
    book = read_book(tmp_path / "a.html")
    assert (book.title, book.author, book.language) == ("Le moulin", "A", "fr")
    assert texts(book) == [("Un", ["Un", "Le café !", "Et oui."]), ("Deux", ["Deux", "Fin."])]


def pdf(path: Path, pages: list[list[str]], bookmarks: dict[int, str], rest: str = "") -> Path:
    """Write a PDF with a line of text per line."""
    first = 4 + 2 * len(pages)
    kids = " ".join(f"{4 + 2 * nth} 0 R" for nth in range(len(pages)))
    last = first + len(bookmarks) - 1
    objects = [
        f"<</Type/Catalog/Pages 2 0 R/Lang(en)/Outlines {first + len(bookmarks)} 0 R{rest}>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for nth, lines in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in lines)
        content = f"BT /F1 11 Tf 14 TL 72 720 Td {shown} ET"
        objects.append(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>"
            f"/Contents {5 + 2 * nth} 0 R>>"
        )
        objects.append(f"<</Length {len(content)}>>stream\n{content}\nendstream")
    for nth, (page, title) in enumerate(bookmarks.items()):
        following = f"/Next {first + nth + 1} 0 R" if first + nth < last else ""
        objects.append(
            f"<</Title({title})/Parent {last + 1} 0 R/Dest[{4 + 2 * page} 0 R/Fit]{following}>>"
        )
    ends = f"/First {first} 0 R/Last {last} 0 R" if bookmarks else ""
    objects.append(f"<</Type/Outlines{ends}/Count {len(bookmarks)}>>")
    found = io.BytesIO(b"%PDF-1.4\n")
    found.seek(0, 2)
    places = []
    for number, one in enumerate(objects, 1):
        places.append(found.tell())
        found.write(f"{number} 0 obj\n{one}\nendobj\n".encode("latin-1"))
    start = found.tell()
    found.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    found.write("".join(f"{place:010d} 00000 n \n" for place in places).encode())
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF"
    found.write(trailer.encode())
    path.write_bytes(found.getvalue())
    return path


LONG = "The miller had a daughter who went to the river every morning to fetch"
PAGES = [
    ["THE MILL", "The first night", LONG, "water for the horses. She was well-", "known.", "1"],
    ["THE MILL", LONG, "and to sing her songs.", "Then a stranger came along the road with", "2"],
    ["THE MILL", "apples. He asked for the way to the sea.", "The second night", LONG, "3"],
    ["THE MILL", "a song, and another one, until the stars came out.", "It rained.", "4"],
]


def test_pdf(tmp_path: Path) -> None:
    """Running heads and page numbers are left out, sentences go on over pages, and a bookmark is
    placed where its title is.
    """
    marks = {0: "1 The first night", 2: "2. The second night"}
    book = read_book(pdf(tmp_path / "a.pdf", PAGES, marks))
    assert book.language == "en"
    found = texts(book)
    assert [title for title, _ in found] == ["1 The first night", "2. The second night"]
    spoken = [" ".join(parts) for _, parts in found]
    assert "MILL" not in "".join(spoken)
    assert "along the road with apples. He asked" in spoken[0]
    assert spoken[0].endswith("to the sea.")
    assert "to fetch a song, and another one" in spoken[1]
    assert found[0][1][1].endswith("She was well-known.")
    assert found[1][1][-1].endswith("came out. It rained.")
    assert "paragraphs and headings of a PDF are guessed" in book.warnings[0]
    assert any("running heads of pages" in one for one in book.warnings)
    assert book.chapters[1].paragraphs[0].place == "a.pdf, page 3"


def test_lines_of_a_pdf_are_no_sentences(tmp_path: Path) -> None:
    """A reader for e-books stopped at each line, and said "re duce"."""
    lines = [
        *("Report", "The engineers had to re-", "duce the noise of the machine until nobody"),
        *("could hear it.", "The end of a line", "is not the end of a sentence."),
    ]
    assert texts(read_book(pdf(tmp_path / "a.pdf", [lines], {})))[0][1] == [
        "Report",
        "The engineers had to re-duce the noise of the machine until nobody could hear it.",
        "The end of a line is not the end of a sentence.",
    ]


def refused(path: Path, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_book(path)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


class TestHostile:
    def test_docx(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "a.docx"
        path.write_bytes(b"PK\x03\x04 no")
        refused(path, "cannot be read: it is not a ZIP file; save it as .docx again")
        refused(docx(path, p("x" * (33 << 20))), "is larger than 32 MiB when unpacked")
        refused(docx(path, "<w:p>"), "is damaged")
        refused(docx(path, "<w:sdt>" * 300 + "</w:sdt>" * 300), "is damaged: Excessive depth")
        entity = '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'
        refused(docx(path, p("x"), **{"word/styles.xml": entity}), "declares entities")
        monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 100)
        refused(docx(path, p("x")), "when unpacked")

    def test_html(self, tmp_path: Path) -> None:
        path = tmp_path / "a.html"
        for content, words in (
            (b"", "is empty"),
            (b"<p>" + b"<div>" * 1000, "nested"),
            (b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><p>&x;</p>", "entities"),
            (b"<p><img src=a.png></p>", "contains no text"),
        ):
            path.write_bytes(content)
            with pytest.raises(ManifestError):
                read_book(path)
            assert words

    def test_pdf(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "a.pdf"
        whole = pdf(path, PAGES, {}).read_bytes()
        for content in (b"", b"%PDF-1.4\n", whole[:400]):
            path.write_bytes(content)
            with pytest.raises(ManifestError):
                read_book(path)
        refused(pdf(path, [[]], {}), "contains only pictures, no text; run text recognition")
        encrypted = (
            pdf(path, PAGES, {}, "/A 1")
            .read_bytes()
            .replace(b"/Root 1 0 R>>", b"/Root 1 0 R/Encrypt<</Filter/Standard/V 9/R 9>>>>")
        )
        path.write_bytes(encrypted)
        refused(path, "it is encrypted: use a copy without a password")
        looped = pdf(path, PAGES, {0: "a"}).read_bytes().replace(b"/Dest", b"/Next 12 0 R/Dest")
        path.write_bytes(looped)
        assert read_book(path).chapters
        monkeypatch.setattr(documents, "MAX_PAGES", 3)
        refused(pdf(path, PAGES, {}), "has 4 pages; the maximum is 3")


@pytest.mark.parametrize(
    ("module", "name"), [("pypdf", "a.pdf"), ("lxml.etree", "a.docx"), ("lxml.etree", "a.html")]
)
def test_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    path = tmp_path / name
    docx(path, p("x")) if name == "a.docx" else path.write_text("<p>x</p>")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetupError, match="pip install "):
        read_book(path)
