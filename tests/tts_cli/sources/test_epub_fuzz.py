"""Damaged EPUBs by the hundred: each is a book or a message, never a crash."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from make_epub import XHTML, document, package, write_epub

from tts_cli.book.utterances import BookPauses, segment_book
from tts_cli.errors import ManifestError
from tts_cli.sources.epub import read_epub

pytestmark = pytest.mark.slow

NAV = '<nav epub:type="toc"><ol><li><a href="c.xhtml#x">One</a></li></ol></nav>'
PAGE = (
    '<h1 id="x">One</h1><p>Text, a lot &amp; <sup><a href="#n">1</a></sup> of <b>it</b>.</p>'
    "<table><tr><td>a</td></tr></table>"
)
MEMBERS = {
    "OEBPS/book.opf": package(
        {"c": document("c.xhtml"), "n": document("nav.xhtml", 'properties="nav"')}, ["c"]
    ),
    "OEBPS/nav.xhtml": XHTML.format(NAV),
    "OEBPS/c.xhtml": XHTML.format(PAGE),
}


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut out or doubled."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        place, kind = rng.randrange(len(found)), rng.random()
        if kind < 0.5:
            found[place] = rng.randrange(256)
        elif kind < 0.75 and len(found) > 100:
            del found[place : place + rng.randint(1, 30)]
        else:
            start = rng.randrange(len(found))
            found[place:place] = found[start : start + rng.randint(1, 60)]
    return bytes(found)


@pytest.mark.parametrize(
    "count", [300, pytest.param(20_000, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_no_damage_is_a_crash(tmp_path: Path, count: int) -> None:
    # `zipfile` raised NotImplementedError of a member whose version was changed.
    rng = random.Random(count)
    path = tmp_path / "a.epub"
    whole = write_epub(path, MEMBERS).read_bytes()
    outcomes: Counter[str] = Counter()
    for number in range(count):
        if number % 2:
            path.write_bytes(damaged(whole, rng))
        else:
            name = rng.choice(list(MEMBERS))
            write_epub(path, {**MEMBERS, name: damaged(MEMBERS[name].encode(), rng)})
        try:
            segment_book(read_epub(path), BookPauses())
            outcomes["read"] += 1
        except ManifestError:
            outcomes["refused"] += 1
    assert min(outcomes["read"], outcomes["refused"]) > count / 10, outcomes
