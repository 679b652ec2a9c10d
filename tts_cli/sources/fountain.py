"""Read the dialogue of a screenplay in Fountain: an item per speech, with its character.

A name is a line in capital letters after a blank line, or begins with @. A direction in parentheses
and the scene become the extra columns `direction` and `scene`.

Source: the syntax of Fountain 1.1.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TextIO

from tts_cli.errors import ManifestError
from tts_cli.named import counted
from tts_cli.sources.archive import read_bounded
from tts_cli.sources.item import Item
from tts_cli.text.words import strip_markup

log = logging.getLogger(__name__)

MAX_CHARS = 16 << 20
_LEFT_OUT = re.compile(r"/\*.*?\*/|\[\[.*?\]\]", re.DOTALL)
_TITLE_PAGE = re.compile(r"\A(?:[^\W\d_][\w ]{0,40}:[^\n]*\n(?:[ \t]+[^\n]*\n)*)+(?=\s*(?:\n|\Z))")
SCENE = re.compile(r"\s*(?:INT|EXT|EST|INT\./EXT|INT/EXT|I/E)\.[ ]", re.IGNORECASE)
_SCENE = re.compile(r"\.(?=[^.\s])|(?:INT|EXT|EST|INT\./EXT|INT/EXT|I/E)[. ]", re.IGNORECASE)
_SCENE_NUMBER = re.compile(r"\s*#[\w.-]+#$")
_ESCAPED = re.compile(r"\\\*|\\(?=_)")  # asterisks that are not emphasis
_OTHER = re.compile(r"[!>#=~]|.*\bTO:$")  # forced action, transition, section, synopsis, song
_EXTENSION = re.compile(r"\s*\([^()]*\)|\s*\^\s*$")  # (V.O.), (CONT'D); ^ marks simultaneous speech


def fountain_items(file: TextIO, name: str) -> Iterator[Item]:
    """Return an item per speech. Raises ManifestError if there are none, or the text is
    too long.
    """
    content = read_bounded(file, MAX_CHARS, name).removeprefix("\ufeff")
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    for pattern in (_LEFT_OUT, _TITLE_PAGE):
        content = pattern.sub(lambda found: "\n" * found[0].count("\n"), content)
    scene, speaker, num_speeches, num_others = "", "", 0, 0
    said: list[str] = []
    directions: list[str] = []
    lines = [*content.split("\n"), ""]
    is_open = True  # the line before is blank
    start = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if speaker and (text or line == "  "):
            if text.startswith("(") and text.endswith(")"):
                directions.append(text[1:-1].strip())
            elif text:
                said.append(text.removeprefix("~"))
            continue
        if speaker and said:
            extra = {"scene": scene, "direction": "; ".join(directions)}
            extra = {key: value for key, value in extra.items() if value}
            spoken = strip_markup(_ESCAPED.sub("", " ".join(said)))
            yield Item(start, {"text": spoken}, extra, speaker)
            num_speeches += 1
        speaker, said, directions = "", [], []
        if text and is_open and _SCENE.match(text):
            scene = _SCENE_NUMBER.sub("", text.removeprefix("."))
        elif is_open and _is_cue(text, lines[number].strip() if number < len(lines) else ""):
            speaker, start = _EXTENSION.sub("", text.removeprefix("@")).strip(), number
        else:
            num_others += bool(text) and is_open
        is_open = not text
    if not num_speeches:
        raise ManifestError(
            f"{name}: has no dialogue",
            "write names in capital letters after a blank line, and what they say below them",
        )
    others = counted(num_others, "other paragraph")
    log.info("%s: %s read, not the %s", name, counted(num_speeches, "speech", "speeches"), others)


def _is_cue(text: str, below: str) -> bool:
    if not below or _OTHER.match(text):
        return False
    name = _EXTENSION.sub("", text)
    return text.startswith("@") or (name.isupper() and any(map(str.isalpha, name)))
