"""The drawing of the rooms shows the page that the tree is checked against."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "samples" / "rooms.py"))
PAGE = SCRIPT["PAGE"].read_text(encoding="utf-8")


def test_the_picture_is_that_of_the_page() -> None:
    assert SCRIPT["PICTURE"].read_text(encoding="utf-8") == SCRIPT["draw"](PAGE)


def test_every_room_has_a_box_and_upper_rooms_come_first() -> None:
    drawn = [text for text in ElementTree.fromstring(SCRIPT["draw"](PAGE)).itertext() if text]
    names = re.findall(r"^\[(\w+) \d+\]", PAGE, re.MULTILINE)
    assert len(names) == 14
    assert set(names) <= set(drawn)
    assert drawn.index("cli") < drawn.index("engine") < drawn.index("store") < drawn.index("text")
