"""The drawing of the rooms in tts_cli/README.md: an SVG made of the headings of tests/rooms.txt.

    python samples/rooms.py

writes guide/pictures/rooms.svg. The same page gives the same bytes. A box is a room; a room imports
only from the boxes below it.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

SAMPLES = Path(__file__).parent
PAGE = SAMPLES.parent / "tests" / "rooms.txt"
PICTURE = SAMPLES / "guide" / "pictures" / "rooms.svg"

# Pixels.
WIDTH, EDGE, HEAD = 760, 24, 56
BOX, GAP = 44, 10
PURPOSE = 118  # from the left of a box to the purpose of its room

STYLE = """text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.ground { fill: #ffffff } .box { fill: #f6f8fa; stroke: #d1d9e0 } .name { font-weight: 600 }
.purpose { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .ground { fill: #0d1117 } .box { fill: #151b23; stroke: #3d444d }
.purpose { fill: #9198a1 } }"""


def rooms(page: str) -> list[tuple[int, str, str]]:
    """Floor, name and purpose of each room, the uppermost first."""
    found = re.findall(r"^\[(\w+) (\d+)\] (.+)$", page, re.MULTILINE)
    boxes = [(int(floor), name, purpose.replace("`", "")) for name, floor, purpose in found]
    return [*sorted(boxes), (16, "top", "files of tts_cli itself: types, settings, errors, events")]


def draw(page: str) -> str:
    """The SVG of a page of rooms."""
    boxes = rooms(page)
    height = HEAD + len(boxes) * (BOX + GAP) + EDGE - GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title what">',
        '<title id="title">The rooms of tts_cli</title>',
        f'<desc id="what">{escape("; ".join(f"{name}: {what}" for _, name, what in boxes))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text x="{EDGE}" y="34" class="name">A room imports only from rooms below it</text>',
    ]
    for place, (_, name, purpose) in enumerate(boxes):
        top = HEAD + place * (BOX + GAP)
        lines += [
            f'<rect class="box" x="{EDGE}" y="{top}" width="{WIDTH - 2 * EDGE}" height="{BOX}" '
            'rx="6"/>',
            f'<text x="{EDGE + 14}" y="{top + 27}" class="name">{escape(name)}</text>',
            f'<text x="{EDGE + PURPOSE}" y="{top + 27}" class="purpose">{escape(purpose)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
