"""Tables of the fields of our files, from the code that writes them.

A field's meaning is the comment beside it: in a class, an enum, a tuple of names, or a dict that a
function makes. Of a property it is the docstring.

    audio_s: Seconds = 0.0  # length of the audio (since 0.3)
    "host": self.host,  # [text] where it ran

The unit stands in brackets where neither the name nor the type tells it. `(since 0.3)` ends the
comment of a field that is younger than its table. What has no such comment is no field.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parents[2] / "tts_cli"
ENDS = {
    **{"_ms": "ms", "_s": "s", "_hz": "Hz", "_dbfs": "dBFS", "_dbtp": "dBTP", "_db": "dB"},
    **{"_share": "share", "_chars": "characters", "bytes": "bytes", "frames": "frames"},
    **{"sha256": "hex", "_hash": "hex", "_digest": "hex", "rtf": "s per s", "xrt": "s per s"},
}
KINDS = {
    "str": "text",
    "bool": "true, false",
    "dict": "object",
    "Whole": "number",
    "float": "number",
}
ENUMS = ("core.py:Status", "core.py:Role", "core.py:Finish")
_COMMENT = re.compile(r"(?:\[(?P<unit>.*?)\] )?(?P<what>.*?)(?: \(since (?P<since>[\d.]+)\))?\.?")


class Table(NamedTuple):
    """Where the fields of a table are written: `file:name` of classes, functions and tuples."""

    since: str  # version of the oldest of its fields; earlier ones count as this one
    scopes: tuple[str, ...]
    first: str = "field"  # head of the first column; values have no unit


class Field(NamedTuple):
    name: str
    kind: str  # the first word of its type; empty: none is told
    comment: str


TABLES = {
    "timings": Table("0.2", ("store/entry.py:JournalEntry", "store/entry.py:JournalEntry.suspect")),
    "status": Table("0.2", ("core.py:Status",), "status"),
    "role": Table("0.2", ("core.py:Role",), "role"),
    "finish": Table("0.2", ("core.py:Finish",), "finish_reason"),
    "remark": Table("0.4", ("core.py:Remark",), "entry"),
    "kind": Table("0.3", ("checks/outliers.py:KINDS",), "kind"),
    "part": Table("0.2", ("engine/pieces.py:part_facts",), "entry"),
    "applied": Table(
        "0.2", ("audio/treatment.py:PostProcessReport", "audio/loudness.py:LoudnessReport"), "entry"
    ),
    "source": Table("0.2", ("store/sources.py:AudioSource.as_source",), "entry"),
    "run": Table("0.2", ("app/run_report.py:report_of", "store/run_file.py:with_folder")),
    "start": Table("0.4", ("startup.py:MOMENTS",), "moment"),
    "totals": Table("0.2", ("app/totals.py:run_totals",)),
    "wanted_voice": Table("0.4", ("plan/free_voices.py:FreeVoices.facts",), "entry"),
    "device": Table(
        "0.2",
        (
            *("engine/load.py:Loaded.facts", "engine/loop.py:Engine.facts"),
            "engine/session.py:LocalSession.speak",
        ),
    ),
    "worker": Table("0.3", ("workers/worker_handle.py:WorkerHandle.facts",)),
    "text": Table("0.2", ("text/frontend.py:TextFrontend.facts",)),
    "folder": Table("0.2", ("store/run_file.py:FolderTotals",)),
    "checks": Table(
        "0.3",
        (
            *("checks/verdicts.py:TakeVerdict", "checks/verdicts.py:TakeVerdict.to_line"),
            *("checks/verdicts.py:Transcript", "checks/verdicts.py:VoiceSimilarity"),
            "checks/verdicts.py:MosScores",
        ),
    ),
    "reviews": Table("0.5", ("checks/reviews.py:Decision",)),
    "words": Table("0.4", ("checks/word_times.py:WordTimes",)),
    "timed_word": Table("0.4", ("checks/word_times.py:TimedWord",), "entry"),
    "made_voice": Table(
        "0.4", ("engine/made_voices.py:_keep", "voices/voice_store.py:VoiceStore.keep"), "entry"
    ),
    "choice": Table("0.2", ("store/store.py:_choice",), "entry"),
    "book": Table("0.2", ("book/book_file.py:write_book_file",)),
    "chapter": Table(
        "0.2",
        (
            *("book/book_file.py:_chapter", "book/book_file.py:MadeFile"),
            "book/book_file.py:_audio_fields",
        ),
    ),
    "sentence": Table("0.2", ("book/book_file.py:_sentences",)),
}


def tables() -> dict[str, Any]:
    """All of them, in the form of a file of figures."""
    found = {name: _table(table) for name, table in TABLES.items()}
    return {"tables": found, "words": {}, "sources": {}}


def _table(table: Table) -> dict[str, Any]:
    has_units = table.first in ("field", "entry")
    rows = []
    for field in (field for scope in table.scopes for field in fields(scope)):
        found = _COMMENT.fullmatch(field.comment)
        assert found is not None, field
        unit = [found["unit"] or _unit(field)] if has_units else []
        rows.append([f"`{field.name}`", *unit, found["what"], found["since"] or table.since])
    columns = [table.first, *(["unit or values"] if has_units else []), "meaning", "since"]
    return {"columns": columns, "rows": rows}


def _unit(field: Field) -> str:
    """By its name, else by its type."""
    for end, unit in ENDS.items():
        if field.name.endswith(end):
            return unit
    if f"core.py:{field.kind}" in ENUMS:
        return ", ".join(f"`{value.name}`" for value in fields(f"core.py:{field.kind}"))
    return KINDS[field.kind]


def fields(scope: str) -> list[Field]:
    """What has a comment in a scope, in its order. Raises KeyError: there is no such scope."""
    file, _, path = scope.partition(":")
    text = (PACKAGE / file).read_text(encoding="utf-8")
    node: Any = ast.parse(text)
    for name in path.split("."):
        node = {_target(child): child for child in node.body}[name]
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        return [Field(node.name, "", " ".join((ast.get_docstring(node) or "").split()))]
    if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):  # words of an enum
        words: Any = zip(node.value.keys, node.value.values, strict=True)
        return [Field(key.attr.lower(), "", text.value) for key, text in words]
    found: dict[str, Field] = {}
    lines = set()  # what stands in a line behind a field is in it
    for name, kind, line in sorted(_entries(node), key=lambda entry: entry[2]):
        if line not in lines:
            found.setdefault(name, Field(name, kind, _comment(text.splitlines(), line)))
        lines.add(line)
    return [field for field in found.values() if field.comment]


def _entries(scope: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Name, first word of the type and line of whatever may be a field."""
    for node in scope.body if isinstance(scope, ast.ClassDef) else ast.walk(scope):
        if isinstance(node, ast.AnnAssign) and isinstance(scope, ast.ClassDef):
            names = [one.value for one in getattr(node.value, "keywords", ()) if one.arg == "name"]
            name = names[0].value if names else _target(node)  # a field with another name in JSON
            yield name, re.split(r"\W", ast.unparse(node.annotation))[0], node.lineno
        elif isinstance(node, ast.Assign):  # `facts["name"] = ...`, or a word of an enum
            named = getattr(node.targets[0], "slice", node.value)
            if isinstance(named, ast.Constant):
                yield str(named.value), "", node.lineno
        elif isinstance(node, ast.Dict | ast.Tuple):
            for key in node.keys if isinstance(node, ast.Dict) else node.elts:
                if isinstance(key, ast.Constant):
                    yield str(key.value), "", key.lineno


def _target(node: ast.stmt) -> str:
    """What a statement gives a name to."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
    return str(getattr(target, "id", getattr(target, "name", "")))


def _comment(lines: list[str], line: int) -> str:
    """Behind a line, from 1; else above it, as far as the next blank line or other code."""
    behind = re.search(r"  # (.*)$", lines[line - 1])
    if behind is not None:
        return behind[1]
    first = line - 1
    while lines[first - 1].strip().startswith("# "):
        first -= 1
    return " ".join(above.strip(" #") for above in lines[first : line - 1])
