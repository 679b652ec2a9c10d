"""Recognize plain texts whose lines have keys, times or names before the text, or readings between
its characters. The forms and marks are in `data/lists.toml`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.plain import read_table
from tts_cli.sources.dialect import MAX_PARTS, is_audio, path_id
from tts_cli.sources.ids import id_problem
from tts_cli.sources.item import Item, ListForm

if TYPE_CHECKING:
    from tts_cli.sources.jsonl import Lines

log = logging.getLogger(__name__)

_TABLE = Path(__file__).parent / "data" / "lists.toml"
MIN_LINES = 3  # needed to recognize a form
_MIN_SHARE = 0.6  # of lines with a time or a name; a message may have several lines
_MIN_HEADS, _MAX_HEADS = 0.3, 0.7  # share of lines that describe the next ones
_MIN_KEYS = 0.8  # of lines with a key
_MIN_DIFFERENT = 0.7  # of keys; one that occurs again is reported with its row
_PATTERNS = ("line", "head", "skip")  # of a form
_CONTINUED = re.compile(r"\\\n[ \t]*")
_INVISIBLE = "\r\n\t \u200e\ufeff"  # at the ends of lines


@cache
def _forms() -> tuple[ListForm, ...]:
    found: list[dict[str, Any]] = [
        {key: re.compile(one) if key in _PATTERNS else one for key, one in form.items()}
        for form in read_table(_TABLE)["form"]
    ]
    return tuple(ListForm(**values) for values in found)


def _is_of(form: ListForm, lines: list[str]) -> bool:
    kept = [line for line in lines if form.skip is None or not form.skip.fullmatch(line)]
    pattern = form.line or form.head or re.compile("")
    blocks = ["\n".join(kept[nth : nth + form.head_lines]) for nth in range(len(kept))]
    found = [match for block in blocks if (match := pattern.fullmatch(block))]
    share = form.head_lines * len(found) / max(1, len(kept))
    if len(found) < MIN_LINES:
        return False
    if form.head is not None:
        is_start = any(map(form.head.fullmatch, blocks[:MIN_LINES]))  # below a title
        num_names = len({match["speaker"] for match in found})  # others are texts
        is_start &= form.head_lines == 1 or num_names <= _MIN_DIFFERENT * len(found)
        return is_start and _MIN_HEADS <= share <= _MAX_HEADS
    if "id" in pattern.groupindex:
        ids = list(map(_id_of, found))
        is_known = not any(map(id_problem, ids))
        return is_known and share >= _MIN_KEYS and len(set(ids)) >= _MIN_DIFFERENT * len(ids)
    if "number" in pattern.groupindex:
        numbers = [int(match["number"]) for match in found]
        num_rising = sum(after == before + 1 for before, after in pairwise(numbers))
        return share >= _MIN_SHARE and num_rising >= _MIN_SHARE * len(numbers)
    has_heads = len(lines) - len(kept) >= _MIN_HEADS * len(lines)
    is_told = has_heads or not {"time", "key"}.isdisjoint(pattern.groupindex)
    return is_told and share >= _MIN_SHARE


def _id_of(found: re.Match[str]) -> str:
    return path_id(found["id"], MAX_PARTS) if is_audio(found["id"]) else found["id"]


def find_list(sample: list[str], name: str) -> ListForm | None:
    """Return the form of a text by its first lines, and log it; None: one text per line."""
    lines = [line.strip(_INVISIBLE) for line in sample if line.strip()]
    lines = _CONTINUED.sub("", "\n".join(lines)).split("\n")
    form = next((one for one in _forms() if _is_of(one, lines)), None)
    if form is not None:
        is_certain = _has_ids(form) and all(
            any(part and part.fullmatch(line) for part in (form.line, form.skip)) for line in lines
        )
        told = "%s: read as %s; add --manifest-format txt to read all of each line"
        log.log(logging.INFO if is_certain else logging.WARNING, told, name, form.name)
    return form


def _has_ids(form: ListForm) -> bool:
    return form.line is not None and "id" in form.line.groupindex


def find_marks(sample: list[str], name: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns of marks to remove from the texts of a file, and their replacements."""
    lines = [line.strip(_INVISIBLE) for line in sample if line.strip()]
    if len(lines) < MIN_LINES:
        return ()
    marks = []
    for mark in read_table(_TABLE)["mark"]:
        pattern = re.compile(mark["pattern"])
        if sum(pattern.search(line) is not None for line in lines) >= mark["least"] * len(lines):
            log.warning("%s: %s are left out of the texts", name, mark["name"])
            marks.append((pattern, mark["put"]))
    return tuple(marks)


def _filled(lines: Lines, form: ListForm) -> Iterator[tuple[int, str, str | None]]:
    for line in lines:
        text, number = line.strip(_INVISIBLE), lines.number
        while _has_ids(form) and text.endswith("\\") and (more := next(lines, "")):
            text = text[:-1] + more.strip()
        problem = lines.problem
        lines.start_row()
        if text and not (form.skip is not None and form.skip.fullmatch(text)):
            yield number, text, problem


def list_items(lines: Lines, form: ListForm) -> Iterator[Item]:
    """Return an item per text. The name and time of a head apply until the next head."""
    about: dict[str, str] = {}
    is_head = False  # the second line of one
    read = chain(_filled(lines, form), [(0, "", None)])
    for (number, text, problem), (_, below, _) in pairwise(read):
        if is_head:
            is_head = False
            continue
        if problem is not None:
            yield Item(number, problem=problem)
            continue
        head = f"{text}\n{below}" if form.head_lines > 1 else text
        found = form.head.fullmatch(head) if form.head else None
        found = found or (form.line.fullmatch(text) if form.line else None)
        if found is not None:
            about = {key: value.strip() for key, value in found.groupdict().items() if value}
            if found.re is form.head:
                is_head = form.head_lines > 1
                continue
        values = {"text": about.pop("text", text)}
        if found is not None and about.pop("id", ""):
            values["id"] = _id_of(found)
        extra = {key: value for key, value in about.items() if key != "speaker"}
        yield Item(number, values, extra, about.get("speaker", ""))


@cache
def _transcript_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    marks = read_table(_TABLE)["transcript"]
    return tuple((mark["name"], re.compile(mark["pattern"], re.MULTILINE)) for mark in marks)


def transcript_marks(text: str) -> Iterator[tuple[str, str]]:
    """Return the first mark of each kind of transcript mark in a text, with its name."""
    for name, pattern in _transcript_patterns() if "[" in text else ():
        if found := pattern.search(text):
            yield name, found.group()
