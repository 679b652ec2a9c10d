"""Read a Pronunciation Lexicon of the W3C (PLS 1.0): an XML file of words with their sounds.

Each `grapheme` of a `lexeme` gets the first `alias`, else the first `phoneme`. Alphabets are IPA,
which is PLS's own, and `x-arpabet` or `x-pinyin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from tts_cli.text.phones import IPA, TEXT

_NAMESPACE = "{http://www.w3.org/2005/01/pronunciation-lexicon}"


def is_pls(content: bytes) -> bool:
    """Return whether a file is XML, and not a table."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def pls_cells(content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each lexeme and the cells of its lines: from, to, language, case, and
    alphabet.

    Raises:
        ValueError: it is not PLS, or has a document type, whose entities could be endless.
    """
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError("has a document type; remove it")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(f"is not valid XML: {error}") from None
    if root.tag != f"{_NAMESPACE}lexicon":
        raise ValueError("is not a pronunciation lexicon (PLS)")
    language = root.get("{http://www.w3.org/XML/1998/namespace}lang") or "any"
    usual = root.get("alphabet") or IPA
    for number, lexeme in enumerate(root.iter(f"{_NAMESPACE}lexeme"), 1):
        alias, phoneme = (lexeme.find(f"{_NAMESPACE}{name}") for name in ("alias", "phoneme"))
        chosen = phoneme if alias is None else alias
        spoken = "" if chosen is None else " ".join((chosen.text or "").split())
        alphabet = TEXT
        if alias is None and phoneme is not None:
            alphabet = phoneme.get("alphabet") or usual
        for grapheme in lexeme.iter(f"{_NAMESPACE}grapheme"):
            written = " ".join((grapheme.text or "").split())
            yield number, [written, spoken, language, "any", alphabet.removeprefix("x-")]
