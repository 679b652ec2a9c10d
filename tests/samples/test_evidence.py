"""The pages of evidence: their figures are those of the JSON, their commands those of the tree."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import prose
import pytest
from scripts import load_script

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "samples" / "evidence"
MAX_WORDS = 35
KEYS = {"Command", "Hardware", "Versions", "Measured"}


RENDER = load_script(FOLDER / "render.py")
FILES: dict[str, dict[str, Any]] = {
    name: file for name, file in RENDER.evidence().items() if name != "chart"
}
PAGES = [page for page in RENDER.pages() if page.parent.name != "book"]
OWN = sorted(FOLDER.glob("*.md"))


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_figures_are_those_of_the_json(page: Path) -> None:
    """Run `python samples/evidence/render.py` where this fails."""
    text = page.read_text(encoding="utf-8")
    assert RENDER.render(text, FILES) == text
    assert text.count("<!-- / -->") == len(RENDER.MARK.findall(text))
    inline = [line for line in text.splitlines() if re.match(r"<!-- \w+:[\w.]+ -->\S", line)]
    assert inline == [], "a comment that begins a line makes HTML of it"


def test_every_figure_is_shown() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = {(file, name) for _, file, name, _, _ in RENDER.MARK.findall(text)}
    for name, file in FILES.items():
        entries = [*file["tables"], *file["words"], *(f"{one}.source" for one in file["sources"])]
        assert {(name, entry) for entry in entries} <= shown
        assert not set(file["tables"]) & set(file["words"])
        assert set(file["sources"]) >= {
            table["source"] for table in file["tables"].values() if name != "fields"
        }
        for table in file["tables"].values():
            assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def test_what_was_measured_says_on_what() -> None:
    for name, file in FILES.items():
        for key, source in file["sources"].items():
            assert set(source) >= KEYS or key == "estimates", (name, key)


def test_the_chart_shows_figures_of_the_table() -> None:
    """Bars of ours are rows of the table of whole runs on an H200."""
    tables = FILES["speed"]["tables"]
    ours = {(row[0], str(row[1])): row[2] for row in tables["runs"]["rows"]}
    others = {str(row[0]): row[1] for row in tables["peers"]["rows"]}
    chart = json.loads((FOLDER / "chart.json").read_text(encoding="utf-8"))
    for group in chart["groups"]:
        for bar in group["bars"]:
            (batch,) = re.findall(r"\b(\d+)(?: rows at once)?$", bar["name"])
            known = ours.get((group["name"], batch)) if bar["source"] == "ours" else others[batch]
            assert bar["xrt"] == known, bar
    for row in tables["peers"]["rows"]:
        assert row[2] == ours["Qwen3-TTS 0.6B", str(row[0])]


def test_times_follow_from_the_figures() -> None:
    """Ten hours by the xRT beside them, in the tables and in the README."""
    units = {"s": 1, "minutes": 60, "days": 86_400}
    rows, words = FILES["speed"]["tables"]["cards"]["rows"], FILES["speed"]["words"]
    for row in rows:
        xrt, (number, unit) = float(row[1]), row[4].split()
        assert float(number) * units[unit] == pytest.approx(36_000 / xrt, rel=0.02), row
    (common,) = (row for row in rows if row[0].startswith("RTX 4090"))
    assert (words["xrt_4090"], words["ten_hours"]) == (str(common[1]), common[4])


def test_estimates_follow_the_rule() -> None:
    """The smaller ratio of the data sheets to an H200's, times what an H200 makes."""
    tables = FILES["speed"]["tables"]
    cards = {row[0]: row for row in tables["cards"]["rows"]}
    best, *others = tables["sheets"]["rows"]
    for card, bandwidth, operations, _, base, share, estimate in others:
        ratio = min(float(bandwidth) / float(best[1]), operations / best[2])
        assert float(share) == pytest.approx(ratio, abs=0.001), card
        assert estimate == pytest.approx(ratio * base, rel=0.1), card
        assert (cards[card][1], cards[card][5]) == (estimate, "estimated")


def commands() -> list[str]:
    """What the sources and pages have of scripts and tests, without tts-cli's own."""
    said = "\n".join(s.get("Command", "") for f in FILES.values() for s in f["sources"].values())
    said += "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = re.findall(r"`((?:python|pytest) [^`]*)`", said)
    return sorted({*found, *re.findall(r"^    (python \S+\.py .*)$", said, re.MULTILINE)})


@pytest.mark.parametrize("command", commands())
def test_commands_name_what_is_there(command: str) -> None:
    """Scripts have these flags and parts, tests these files. Most need a GPU, so none is run."""
    program, *words = shlex.split(command)
    files = [word for word in words if word.endswith(".py") or word.startswith("tests/")]
    for file in files:
        assert (ROOT / file).exists(), command
    if program == "python" and files:
        source = "".join(
            path.read_text(encoding="utf-8")
            for path in [ROOT / files[0], *(ROOT / "samples" / "benchmarks").glob("*.py")]
        )
        for word in words[1:]:
            if word.startswith("--"):
                assert f'"{word}"' in source, (command, word)
        part = words[1] if len(words) > 1 else ""
        assert not part.isalpha() or part.isupper() or f'"{part}"' in source, command


@pytest.mark.parametrize("page", OWN, ids=names(OWN))
def test_sentences_are_short(page: Path) -> None:
    for sentence in prose.sentences(page.read_text(encoding="utf-8")):
        assert sentence.words <= MAX_WORDS, sentence.text
