"""`tests/rooms.txt`: which files tts_cli has, in which room, on which floor."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

FILES: list[str] = []
UP: list[tuple[str, str]] = []  # imports that rooms still lack a better way for
CIRCLES: list[tuple[str, ...]] = []
_FLOORS: dict[str, int] = {}
_TOP = {"__init__": "library", "__main__": "main"}  # what files of the top belong to

_NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
)


@cache
def tree(path: Path) -> ast.Module:
    """Of a file of Python."""
    return ast.parse(path.read_text(encoding="utf-8"))


def code_lines(path: Path) -> int:
    """Count the lines with a token that is no comment and no docstring."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node) is not None:
                lines.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(lines)


def room_of(file: str) -> str:
    """Return the room of a file of tts_cli; a file of the top folder is a room."""
    first, *rest = file.split("/")
    stem = first.removesuffix(".py")
    return first if rest else _TOP.get(stem, stem)


def floor_of(file: str) -> int:
    """Return the floor of a file."""
    return _FLOORS[room_of(file)]


def module_of(file: str) -> str:
    """How it is imported."""
    dotted = file.removesuffix(".py").replace("/", ".")
    return f"tts_cli.{dotted}".removesuffix(".__init__")


def _read() -> None:
    for line in (Path(__file__).parents[1] / "rooms.txt").read_text().splitlines():
        fact = line.split("|")[0].strip()
        words = fact.split()
        if not fact or fact.startswith("#"):
            continue
        if room := re.match(r"\[(\w+) (\d+)\]", fact):
            _FLOORS[room[1]] = int(room[2])
        elif words[0] == "up":
            UP.append((words[1], words[3]))
        elif words[0] == "circle":
            CIRCLES.append(tuple(words[1:]))
        elif not fact.startswith("["):
            FILES.append(words[0])
            if len(words) > 1:
                _FLOORS[room_of(words[0])] = int(words[1])


_read()
