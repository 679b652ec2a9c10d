"""Links between the README and the pages lead somewhere, headings included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "samples" / "guide"
PATTERNS = ("README.md", "samples/**/*.md", "models/*/README.md")
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


@pytest.mark.parametrize("family", ["qwen3_tts", "fish_speech"])
def test_families_have_the_files_that_a_new_one_needs(family: str) -> None:
    assert len(FAMILY_FILES) >= 11
    folder = ROOT / "models" / family
    for name in FAMILY_FILES:
        assert (folder / name).is_file(), name
    page = (GUIDE / "adding_a_model.md").read_text()
    for line in re.findall(r"^\| `(\w+)\.py` \|.*\| (`\w+\(.*) \|$", page, re.MULTILINE):
        source = (folder / f"{line[0]}.py").read_text()
        for function, arguments in re.findall(r"`(\w+)\((.*?)\)`", line[1]):
            found = re.search(rf"^def {function}\((.*?)\) ->", source, re.MULTILINE | re.DOTALL)
            assert found is not None, (line[0], function)
            asked = arguments.split(", ")
            assert re.findall(r"(\w+):", found[1])[: len(asked)] == asked, (line[0], function)


def test_the_tool_knows_no_family_by_name() -> None:
    for path in (ROOT / "tts_cli").rglob("*.py"):
        assert not re.search("qwen3_tts|fish_speech", path.read_text(encoding="utf-8")), path
