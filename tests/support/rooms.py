"""`tests/rooms.txt`: which files tts_cli has, in which room, on which floor."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

FILES: list[str] = []
UP: list[tuple[str, str]] = []  # imports that rooms still lack a better way for
CIRCLES: list[tuple[str, ...]] = []
_FLOORS: dict[str, int] = {}
_TOP = {"__init__": "library", "__main__": "main"}  # what files of the top belong to


@cache
def tree(path: Path) -> ast.Module:
    """Of a file of Python."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All that a file of Python has."""
    return list(ast.walk(tree(path)))


def code_lines(path: Path) -> int:
    """Count the lines that are not empty, no comment and no docstring."""
    texts, docstrings = set(), set()
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        ):
            texts.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node) is not None:
                docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    code = {number for number, line in lines if line.strip() and not line.lstrip().startswith("#")}
    return len((code | texts) - docstrings)


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
