"""Find plain texts whose lines are more than words: keys, times or names before the text, readings
between its characters. The forms and marks are in `data/lists.toml`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.plain import read_table
from tts_cli.sources.ids import id_problem
from tts_cli.sources.item import Item, ListForm

if TYPE_CHECKING:
    from tts_cli.sources.jsonl import Lines

log = logging.getLogger(__name__)

_TABLE = Path(__file__).parent / "data" / "lists.toml"
MIN_LINES = 3  # that show a form
_MIN_SHARE = 0.6  # of lines with a time or a name; a message may have several lines
_MIN_HEADS = 0.3  # of lines that are heads of others


@cache
def _forms() -> tuple[ListForm, ...]:
    return tuple(
        ListForm(one["name"], *(_compiled(one.get(key)) for key in ("line", "head", "skip")))
        for one in read_table(_TABLE)["form"]
    )


def _is_of(form: ListForm, lines: list[str]) -> bool:
    """Whether the first lines of a text have this form."""
    lines = [line for line in lines if form.skip is None or not form.skip.fullmatch(line)]
    pattern = form.line or form.head or re.compile("")
    found = [match for line in lines if (match := pattern.fullmatch(line))]
    if len(found) < MIN_LINES:
        return False
    if form.head is not None:
        return form.head.fullmatch(lines[0]) is not None and (len(found) >= _MIN_HEADS * len(lines))
    if "id" not in pattern.groupindex:
        return len(found) >= _MIN_SHARE * len(lines)
    ids = [match["id"] for match in found]
    return len({*ids}) == len(lines) and not any(map(id_problem, ids))


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(pattern)


def find_list(sample: list[str], name: str) -> ListForm | None:
    """Return the form of a text by its first lines, and log it; None: a text per line.

    Args:
        name: what messages call the file.
    """
    lines = [line.strip("\r\n ") for line in sample if line.strip()]
    form = next((one for one in _forms() if _is_of(one, lines)), None)
    if form is not None:
        has_ids = form.line is not None and "id" in form.line.groupindex
        log.log(
            logging.INFO if has_ids else logging.WARNING,
            "%s: read as %s; add --manifest-format txt to read all of each line",
            name,
            form.name,
        )
    return form


def find_marks(sample: list[str], name: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns of marks to remove from the texts of a file, and their replacements."""
    lines = [line for line in sample if line.strip()]
    if len(lines) < MIN_LINES:
        return ()
    marks = []
    for mark in read_table(_TABLE)["mark"]:
        pattern = re.compile(mark["pattern"])
        if sum(pattern.search(line) is not None for line in lines) >= mark["least"] * len(lines):
            log.warning("%s: %s are left out of the texts", name, mark["name"])
            marks.append((pattern, mark["put"]))
    return tuple(marks)


def list_items(lines: Lines, form: ListForm) -> Iterator[Item]:
    """Return an item per text; the name and the time of a head apply until the next head."""
    about: dict[str, str] = {}
    for line in lines:
        problem, text = lines.problem, line.strip("\r\n ")
        lines.start_row()
        if not text or (form.skip is not None and form.skip.fullmatch(text)):
            continue
        if form.head is not None and (found := form.head.fullmatch(text)):
            about = {key: value for key, value in found.groupdict().items() if value}
            continue
        if problem is not None:
            yield Item(lines.number, problem=problem)
            continue
        if form.line is not None and (found := form.line.fullmatch(text)):
            about = {key: value for key, value in found.groupdict().items() if value}
        values = {"text": about.pop("text", text)}
        if "id" in about:
            values["id"] = about.pop("id")
        extra = {key: value for key, value in about.items() if key != "speaker"}
        yield Item(lines.number, values, extra, about.get("speaker", ""))


@cache
def _transcript_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    marks = read_table(_TABLE)["transcript"]
    return tuple((mark["name"], re.compile(mark["pattern"], re.MULTILINE)) for mark in marks)


def transcript_marks(text: str) -> Iterator[tuple[str, str]]:
    """Return the marks of transcripts in a text, of each kind the first, with their names."""
    for name, pattern in _transcript_patterns() if "[" in text else ():
        if found := pattern.search(text):
            yield name, found.group()
