"""Links between the README and the pages lead somewhere, headings included."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from rooms import code_lines

from models.registry import FAMILIES, FamilyEntry

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "samples" / "guide"
PATTERNS = ("README.md", "samples/**/*.md", "models/**/README.md")
PAGES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
FAMILY_FILES = re.findall(
    r"^\| `([\w/]+\.py)` \|", (GUIDE / "adding_a_model.md").read_text(), re.MULTILINE
)


def headings(page: Path) -> set[str]:
    """What may stand behind `#`, as GitHub makes it of headings."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    for target in targets:
        if target.startswith("https:"):
            continue
        name, _, heading = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        assert not heading or heading in headings(path), target


def test_every_page_is_in_the_index_and_in_the_readme() -> None:
    index, readme = (ROOT / "samples" / "README.md").read_text(), (ROOT / "README.md").read_text()
    for page in GUIDE.glob("*.md"):
        assert f"(guide/{page.name})" in index, page.name
        assert f"(samples/guide/{page.name}" in readme, page.name
    for page in (ROOT / "samples" / "evidence").glob("*.md"):
        assert f"(evidence/{page.name})" in index, page.name


def test_a_family_of_its_own_kind_has_the_files_that_a_new_one_needs() -> None:
    assert len(FAMILY_FILES) >= 6
    for name in FAMILY_FILES:
        assert (ROOT / "models" / "qwen3_tts" / name).is_file(), name


@pytest.mark.parametrize("entry", FAMILIES, ids=lambda entry: entry.folder)
def test_every_family_has_a_page_and_what_the_walk_through_names(entry: FamilyEntry) -> None:
    assert (ROOT / "models" / entry.folder / "README.md").is_file()
    page = (GUIDE / "adding_a_model.md").read_text()
    rows = re.findall(r"^\| (`\w+[`(].*?) \|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)(?:\([\w, ]*\))?`", row)}
    fields = {field.name for field in dataclasses.fields(entry.family)}
    assert fields - {"markers", "shared_codec"} <= named


def test_the_walk_through_states_the_size_of_its_example() -> None:
    page = (GUIDE / "adding_a_model.md").read_text()
    stated = re.search(r"Audio8-TTS needs (\d+) lines of code", page)
    assert stated is not None
    path = ROOT / "models" / "audio8_tts" / "family.py"
    assert int(stated[1]) == code_lines(path)


def test_the_tool_knows_no_family_by_name() -> None:
    for path in (ROOT / "tts_cli").rglob("*.py"):
        assert not re.search(
            "qwen3_tts|fish_speech|audio8_tts", path.read_text(encoding="utf-8")
        ), path
