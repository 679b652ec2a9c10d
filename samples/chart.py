"""The chart of speed in the README: an SVG drawn of the figures in evidence/chart.json.

    python samples/chart.py

writes guide/pictures/speed.svg. The same figures give the same bytes. The picture has a ground of
its own, whose colour changes with the reader's theme together with the text on it, so that both go
together wherever it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent
FIGURES = SAMPLES / "evidence" / "chart.json"
CHART = SAMPLES / "guide" / "pictures" / "speed.svg"

# Pixels. Text is as wide as it is in a common sans serif, at most.
WIDTH = 820
EDGE = 24
NAMES = 176  # where bars begin
VALUES = 56  # room for a figure behind the longest bar
BAR, GAP = 18, 6
GROUP_HEAD, GROUP_GAP = 22, 12
HEAD = 74  # title and what it was measured on
FOOT = 34

# Ground, text, text beside it, bars, outlines: in a light and a dark theme.
LIGHT = {"ground": "#ffffff", "text": "#1f2328", "beside": "#59636e", "bar": "#0969da"}
DARK = {"ground": "#0d1117", "text": "#f0f6fc", "beside": "#9198a1", "bar": "#4493f8"}


def draw(figures: dict[str, Any]) -> str:
    """The SVG of what chart.json holds."""
    bars = [bar["xrt"] for group in figures["groups"] for bar in group["bars"]]
    scale = (WIDTH - 2 * EDGE - NAMES - VALUES) / max(bars)
    height = HEAD + FOOT + len(bars) * (BAR + GAP)
    height += len(figures["groups"]) * (GROUP_HEAD + GROUP_GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title what">',
        f'<title id="title">{escape(figures["title"])}</title>',
        f'<desc id="what">{escape("; ".join(_in_words(figures)))}</desc>',
        f"<style>{_style()}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
        _text(EDGE, 34, figures["title"], "head"),
        _text(EDGE, 56, figures["subtitle"], "beside"),
    ]
    top = HEAD
    for group in figures["groups"]:
        lines.append(_text(EDGE, top + 15, group["name"], "name"))
        top += GROUP_HEAD
        for bar in group["bars"]:
            kind = "bar" if figures["sources"][bar["source"]]["is_ours"] else "other"
            width = round(bar["xrt"] * scale, 1)
            lines += [
                _text(EDGE + NAMES - 10, top + 13, bar["name"], "beside end"),
                f'<rect class="{kind}" x="{EDGE + NAMES}" y="{top}" width="{width}" '
                f'height="{BAR}" rx="2"/>',
                _text(round(EDGE + NAMES + width + 8, 1), top + 13, f"{bar['xrt']:,}", "figure"),
            ]
            top += BAR + GAP
        top += GROUP_GAP
    lines += [_text(EDGE, height - 18, figures["note"], "small"), "</svg>"]
    return "\n".join(lines) + "\n"


def _in_words(figures: dict[str, Any]) -> Iterator[str]:
    """The chart for those who do not see it."""
    for group in figures["groups"]:
        for bar in group["bars"]:
            yield f"{group['name']}, {bar['name']}: {bar['xrt']:,}"


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


def _style() -> str:
    rules = [
        "text{font:13px system-ui,sans-serif}",
        "text.head{font-size:19px;font-weight:600}",
        "text.name,text.figure{font-weight:600}",
        "text.small{font-size:12px}",
        ".end{text-anchor:end}",
    ]
    dark = "".join(_colours(DARK))
    return "".join([*rules, *_colours(LIGHT), f"@media(prefers-color-scheme:dark){{{dark}}}"])


def _colours(theme: dict[str, str]) -> Iterator[str]:
    yield f".ground{{fill:{theme['ground']}}}"
    yield f"text{{fill:{theme['text']}}}"
    yield f"text.beside,text.small{{fill:{theme['beside']}}}"
    yield f".bar{{fill:{theme['bar']}}}"
    yield f".other{{fill:none;stroke:{theme['beside']};stroke-width:1.5}}"


if __name__ == "__main__":
    CHART.write_text(draw(json.loads(FIGURES.read_text())))
