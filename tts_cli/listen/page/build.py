"""The page itself: one HTML file that asks nobody for anything but the audio beside it.

Its parts are the files in this folder. Texts of manifests come in as JSON that cannot end its
element, and the page shows them as text alone; should that fail, the page's own policy allows no
script and no style but ours, by their hashes, and no address but the folder's.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

# In this order; each may use what stands before it.
SCRIPTS = (
    "base.js",
    "shell.js",
    "rows.js",
    "waveform.js",
    "player.js",
    "basket.js",
    "item.js",
    "list.js",
    "detail.js",
    "charts.js",
    "keys.js",
    "start.js",
)
# Inside a string of JSON; `<` could end the element, and two line ends are none in older scripts.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def build_page(content: Mapping[str, Any]) -> bytes:
    """The page with this content, UTF-8."""
    style = _part("style.css")
    body = "\n".join(_part(name) for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{body}\n}})();\n'
    page = Template(_part("page.html")).substitute(
        title=html.escape(str(content["folder"]["name"])),
        policy=_policy(script, style),
        style=style,
        data=as_safe_json(content),
        script=script,
    )
    return page.encode("utf-8", "replace")  # half of a surrogate pair is no text


def as_safe_json(value: Any) -> str:
    """JSON that can stand in an element of a page."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _policy(script: str, style: str) -> str:
    """What the page may do: run our script, use our style, play audio of its folder."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "media-src 'self' file:",
            "img-src data:",  # the empty icon, lest a browser asks for one
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _part(name: str) -> str:
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")
