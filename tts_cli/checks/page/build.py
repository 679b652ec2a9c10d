"""Build the page of `report`: one HTML file that loads nothing but the audio next to it.

Its script is `page.js`, which `make page` bundles from `frontend/src`. Texts of manifests are JSON
that cannot end its element, and the page shows them only as text. If that fails, the page's policy
allows only our script and style, by their hashes, and only addresses in the folder.
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

# In strings of JSON: `<` could end the element, and older scripts do not allow two line ends.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def build_page(content: Mapping[str, Any], *, is_served: bool = False) -> bytes:
    """Return the page in UTF-8. `is_served`: it may ask the server of `review` for data."""
    style, script = _part("style.css"), _part("page.js")
    page = Template(_part("page.html")).substitute(
        title=html.escape(str(content["folder"]["name"])),
        policy=_policy(script, style, is_served),
        style=style,
        data=as_safe_json(content),
        script=script,
    )
    return page.encode("utf-8", "replace")  # halves of surrogate pairs become `?`


def as_safe_json(value: Any) -> str:
    """Return JSON that is safe inside an element of a page."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _policy(script: str, style: str, is_served: bool) -> str:
    """Return the page's content security policy: our script, our style, audio of its folder."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "media-src 'self'" + " file:" * (not is_served),
            *(["connect-src 'self'"] * is_served),
            "img-src data:",  # the empty icon, so that browsers request none
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


_REPEATED = (About.SPEECH, About.DELIVERY, About.ROWS)
UNKNOWN_MANIFEST = "MANIFEST"
MORE_TAKES = 3  # of a suspect row, in commands that are printed


def spoken_by(report: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `synth` that synthesize the rows of a run again, for a terminal or
    the clipboard: the manifest and all settings that are not the default, without --out.

    The report may be untrusted, and users paste the command: it has only settings of speech,
    delivery and manifest, and no value can be mistaken for another flag.

    Args:
        report: run.json or a line of runs.jsonl; may be incomplete.
    """
    manifests = report.get("manifests") or [UNKNOWN_MANIFEST]
    args = ["synth", *map(_not_a_flag, manifests)]
    settings = report.get("settings", {})
    settings = {"voice_dir": settings.get("voices"), **settings}  # its earlier name
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
    return one.about in _REPEATED and one.scope is Scope.ANY


def _absolute(path: str) -> str:
    """Return a path that is valid in every folder; a model need not be a path."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _not_a_flag(name: str) -> str:
    return f"./{name}" if name.startswith("-") else name
