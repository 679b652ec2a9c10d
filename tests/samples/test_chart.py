"""The chart of speed: made of the committed figures, and of them alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from scripts import load_script

SAMPLES = Path(__file__).parents[2] / "samples"
PAGE = (SAMPLES / "evidence" / "speed.md").read_text()


@pytest.fixture(scope="module")
def chart() -> ModuleType:
    return load_script(SAMPLES / "chart.py")


def brightness(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_committed_chart_is_of_the_committed_figures(chart: ModuleType) -> None:
    """Run `python samples/chart.py` where this fails."""
    drawn = chart.draw(json.loads(chart.FIGURES.read_text()))
    assert chart.CHART.read_bytes() == drawn.encode()


def test_bars_are_as_long_as_their_figures(chart: ModuleType) -> None:
    figures = json.loads(chart.FIGURES.read_text())
    root = ElementTree.fromstring(chart.draw(figures))
    bars = [r for r in root.findall("{*}rect") if r.get("class") in ("bar", "other")]
    values = [bar["xrt"] for group in figures["groups"] for bar in group["bars"]]
    lengths = [float(bar.get("width", 0)) for bar in bars]
    assert lengths == pytest.approx([value * lengths[0] / values[0] for value in values], abs=0.1)
    edges = [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in bars]
    assert max(edges) + 40 < float(root.get("width", 0))  # room for the figure behind it


def test_text_in_a_chart_is_text(chart: ModuleType) -> None:
    figures = json.loads(chart.FIGURES.read_text())
    figures["title"] = "<script>&"
    root = ElementTree.fromstring(chart.draw(figures))
    assert root.findtext("{*}title") == "<script>&"


def test_both_themes_can_be_read(chart: ModuleType) -> None:
    for theme in (chart.LIGHT, chart.DARK):
        assert contrast(theme["text"], theme["ground"]) > 7
        assert contrast(theme["beside"], theme["ground"]) > 4.5
        assert contrast(theme["bar"], theme["ground"]) > 3


def test_each_figure_stands_in_the_page_with_its_source(chart: ModuleType) -> None:
    figures = json.loads(chart.FIGURES.read_text())
    for source in figures["sources"].values():
        assert set(source) == {
            *("is_ours", "command", "rows", "hardware", "versions", "commit", "date")
        }
        assert source["date"] in PAGE
        assert source["commit"] is None or source["commit"] in PAGE
    for group in figures["groups"]:
        for bar in group["bars"]:
            assert re.search(rf"(?<![\d,]){bar['xrt']:,}(?![\d,])", PAGE), bar
            assert bar["source"] in figures["sources"]
