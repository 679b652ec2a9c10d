"""The page on text care: what it says is read so, is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tts_cli.text.frontend import TextFrontend
from tts_cli.text.lexicon import read_lexicon

PAGE = (Path(__file__).parents[2] / "samples" / "guide" / "text_care.md").read_text()
ENGLISH = PAGE.partition("### English")[2].partition("### Other")[0]
ROWS = re.findall(r"^\| (`.*`) \| (.*) \|$", ENGLISH, re.MULTILINE)
LEFT, WRONG = ENGLISH.partition("Left as written")[2].split("Known to come out wrong")
CARE = TextFrontend(is_normalized=True, language="english")


@pytest.mark.parametrize(("written", "spoken"), ROWS)
def test_english(written: str, spoken: str) -> None:
    for text in re.findall("`([^`]*)`", written):
        said = CARE.read(text).spoken.rstrip(".")
        assert said.lower() in spoken.lower(), text


def test_printed_marks() -> None:
    care = TextFrontend(is_normalized=True, language="english", is_typed=True)
    rows = re.findall(r"^\| (`.*`) \| (`.*) \|$", PAGE.partition("| written | given |")[2], re.M)
    marks, *others = [[re.findall("`([^`]*)`", cell) for cell in row] for row in rows[:3]]
    assert [care.read(f"a{mark}b").spoken for mark in marks[0]] == [f"a{to}b" for to in marks[1]]
    for written, given in others:
        assert care.read(written[0]).spoken == given[0]
    for text in ("lost — and found", "lost—and found"):
        assert text in PAGE
        assert care.read(text).spoken == "lost, and found"


def test_what_is_left() -> None:
    texts = re.findall("`([^`]*)`", LEFT)
    assert texts == ["NASA", "U.S.", "5 in", "100.000"]
    assert [CARE.read(text).spoken for text in texts] == ["NASA", "U.S.", "Five in", "100.000"]
    wrong = CARE.read(re.findall("`([^`]*)`", WRONG)[0]).spoken
    assert wrong == "an acceleration of one point five grams"


def test_the_lexicon(tmp_path: Path) -> None:
    lines = [line[4:] for line in PAGE.splitlines() if line.startswith("    ") and "\t" in line]
    path = tmp_path / "words.tsv"
    path.write_text("\n".join(lines))
    care = TextFrontend(read_lexicon(path), is_normalized=True, language="english")
    spoken = care.read("Dr. Nguyen put polish on a Polish SQL book of Mr. Hill.").spoken
    assert spoken == "Dr. win put polish on a polish sequel book of Mister Hill."
