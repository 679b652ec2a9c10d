"""EPUB files made in memory, good ones and ones that no shop would sell."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

XHTML = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
    "<head><title>Not to be read</title></head><body>{}</body></html>"
)
XHTML11 = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" '
    '"http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">\n'
    '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>'
    "<body>{}</body></html>"
)
CONTAINER = (
    '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def package(
    items: Mapping[str, str],
    spine: Sequence[str],
    version: str = "3.0",
    toc: str = "",
    title: str = "The Mill",
    guide: str = "",
) -> str:
    """An OPF.

    Args:
        items: attributes of manifest entries by id, without the id.
        spine: ids, with attributes behind them after a space.
        toc: id of the NCX.
        guide: references of the guide.
    """
    manifest = "".join(f'<item id="{key}" {value}/>' for key, value in items.items())
    refs = "".join(
        '<itemref idref="{}" {}/>'.format(*(entry + " ").split(" ", 1)) for entry in spine
    )
    attribute = f' toc="{toc}"' if toc else ""
    return (
        f'<package xmlns="http://www.idpf.org/2007/opf" version="{version}">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{title}</dc:title><dc:creator>A. Writer</dc:creator>"
        f"<dc:language>en-GB</dc:language></metadata>"
        f"<manifest>{manifest}</manifest><spine{attribute}>{refs}</spine>"
        f"<guide>{guide}</guide></package>"
    )


def document(name: str, more: str = "") -> str:
    """Attributes of a manifest entry for XHTML."""
    return f'href="{name}" media-type="application/xhtml+xml" {more}'


def write_epub(path: Path, members: Mapping[str, str | bytes], opf: str = "OEBPS/book.opf") -> Path:
    """Write the container's own members and others into a file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", CONTAINER.format(opf))
        for name, data in members.items():
            archive.writestr(name, data)
    path.write_bytes(buffer.getvalue())
    return path


def small_epub(path: Path, body: str, more: Mapping[str, str | bytes] | None = None) -> Path:
    """A book of one document."""
    return write_epub(
        path,
        {
            "OEBPS/book.opf": package({"c": document("c.xhtml")}, ["c"]),
            "OEBPS/c.xhtml": XHTML.format(body),
            **(more or {}),
        },
    )
