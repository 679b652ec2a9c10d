"""Build the page of `report`: one HTML file that loads nothing but the audio beside it.

Its parts are the files in this folder. Texts of manifests come in as JSON that cannot end its
element, and the page shows them as text alone; should that fail, the page's own policy allows no
script and no style but ours, by their hashes, and no address but the folder's.

The command line by which a run's rows can be spoken again, from what its report tells.

The report may be a stranger's, and the line is pasted: it says how rows sound and how the manifest
is read, nothing else, and no value can be taken for another flag.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

from tts_cli.config import SETTINGS
from tts_cli.named import printable
from tts_cli.setting import About, Scope, SettingFacts, flag

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


_TAKEN_OVER = (About.SPEECH, About.DELIVERY, About.ROWS)
UNKNOWN_MANIFEST = "MANIFEST"
MORE_TAKES = 3  # of a suspect row, as commands that are printed ask for


def spoken_by(report: Mapping[str, Any]) -> list[str]:
    """`synth` with the manifest and the settings of the speech that are not the default, without
    --out, as it may stand on a terminal or in a clipboard.

    Args:
        report: run.json or a line of runs.jsonl; may lack anything.
    """
    manifests = report.get("manifests")
    manifests = manifests if isinstance(manifests, list) else []
    names = [name for name in manifests if isinstance(name, str)]
    args = ["synth", *(_behind_dashes(name) for name in names or [UNKNOWN_MANIFEST])]
    settings = report.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    settings = {"voice_dir": settings.get("voices"), **settings}  # as it was called before
    for name, one in SETTINGS.items():
        value = settings.get(name)
        if value is None or value == one.default or not _is_of_the_speech(name, one, settings):
            continue
        if one.kind is bool:
            args += [flag(name)] * (value is True)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            args += [flag(name), _absolute(str(value)) if one.names_path else str(value)]
    return [printable(arg) for arg in args]


def _is_of_the_speech(name: str, one: SettingFacts, settings: Mapping[str, Any]) -> bool:
    if name == "max_batch":
        return settings.get("reproducible") is True  # then audio depends on it
    return one.about in _TAKEN_OVER and one.scope is Scope.ANY


def _absolute(path: str) -> str:
    """A path that holds in every folder; a model may be no path at all."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _behind_dashes(name: str) -> str:
    """A file name that is not taken for a flag."""
    return f"./{name}" if name.startswith("-") else name
