"""The house: every file of tts_cli stands in `rooms.txt`, and what makes it heavy only shrinks.

Ceilings are what the tree has. Whoever gets below one lowers it; whoever needs more has the wrong
place for what is new.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rooms

ROOT = Path(__file__).parent.parent
MAX_FILES = 249  # of tts_cli with code
MAX_LINES = 400  # of code in a file
LARGER = {"tts_cli/config.py": 430, "tts_cli/store/store.py": 411}  # those that have more
MAX_CODE = {"kernels": 3918, "models": 5984, "tts_cli": 37054}  # lines of a package
MAX_INNER_IMPORTS = 134
MAX_ASSERTS = 15  # that a value is there
MAX_TWINS = 0  # public classes that have their name twice


@cache
def sources() -> dict[Path, list[ast.AST]]:
    """All that each file has."""
    return {
        path: rooms.nodes(path)
        for package in ("tts_cli", "models", "kernels")
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@cache
def ours() -> dict[str, list[ast.AST]]:
    """Those of tts_cli, by their paths in it."""
    top = ROOT / "tts_cli"
    return {
        path.relative_to(top).as_posix(): nodes
        for path, nodes in sources().items()
        if path.is_relative_to(top)
    }


def inner(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Imports and asserts that stand in functions."""
    functions = (n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    found = (node for function in functions for node in ast.walk(function))
    return iter({n for n in found if isinstance(n, ast.Import | ast.ImportFrom | ast.Assert)})


@cache
def graph() -> dict[str, set[str]]:
    """Which files of tts_cli a file imports, wherever it does so."""
    modules = {rooms.module_of(file): file for file in ours()}
    found: dict[str, set[str]] = {}
    for file, nodes in ours().items():
        taken = (node for node in nodes if isinstance(node, ast.ImportFrom))
        names = {(node.module or "", alias.name) for node in taken for alias in node.names}
        targets = {modules.get(f"{module}.{name}") or modules.get(module) for module, name in names}
        found[file] = {target for target in targets if target is not None}
    return found


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        for file in edges[left.pop()] - found:
            found.add(file)
            left.append(file)
    return found


def test_every_file_has_a_line() -> None:
    there = {
        path.relative_to(ROOT / "tts_cli").as_posix()
        for path in (ROOT / "tts_cli").rglob("*")
        if path.is_file() and path.suffix != ".pyc" and "node_modules" not in path.parts
    }
    assert sorted(there) == sorted(rooms.FILES)


def test_rooms_import_from_lower_floors() -> None:
    up = {
        (file, target)
        for file, targets in graph().items()
        for target in targets
        if rooms.room_of(file) != rooms.room_of(target)
        and rooms.floor_of(file) >= rooms.floor_of(target)
    }
    assert sorted(up) == sorted(rooms.UP), "only what rooms.txt says is left, and no less"


def test_files_stand_in_no_circle() -> None:
    edges = graph()
    far = {file: reachable(file, edges) for file in edges}
    circles = {
        tuple(sorted(other for other in far[file] if file in far[other]))
        for file in edges
        if file in far[file]
    }
    assert sorted(circles) == sorted(rooms.CIRCLES), "only what rooms.txt says is left, and no less"


def test_only_the_command_line_knows_click() -> None:
    knows = {
        file
        for file, nodes in ours().items()
        for node in nodes
        if (isinstance(node, ast.Import) and any(one.name == "click" for one in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "click")
    }
    assert {rooms.room_of(file) for file in knows} <= {"cli", "main"}


def test_commands_print_through_one_function() -> None:
    """`screen.echo` removes what a terminal would obey; help and completion have no such values,
    and `main` cleans the errors of a command line itself.
    """
    others = {"cli/screen.py", "cli/options.py", "cli/completion.py", "main.py"}
    prints = {
        file
        for file, nodes in ours().items()
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "print")
    }
    assert prints <= others


def test_a_command_has_one_undertaking() -> None:
    functions = [
        node
        for file, nodes in ours().items()
        for node in nodes
        if rooms.room_of(file) == "cli" and isinstance(node, ast.FunctionDef)
    ]
    for function in functions:
        taken = {n.module or "" for n in ast.walk(function) if isinstance(n, ast.ImportFrom)}
        assert sum(module.startswith("tts_cli.app.") for module in taken) <= 1, function.name


def test_one_file_knows_ray() -> None:
    knows = {
        file
        for file, nodes in ours().items()
        for node in nodes
        if isinstance(node, ast.Import) and any(one.name == "ray" for one in node.names)
    }
    assert knows <= {"workers/cluster.py"}


def test_files_are_small_and_few() -> None:
    lines = {path.relative_to(ROOT).as_posix(): rooms.code_lines(path) for path in sources()}
    large = {path: count for path, count in lines.items() if count > LARGER.get(path, MAX_LINES)}
    assert not large
    assert {path for path, count in lines.items() if count > MAX_LINES} == LARGER.keys()
    files = sum(count > 0 for path, count in lines.items() if path.startswith("tts_cli"))
    assert files <= MAX_FILES
    for package, most in MAX_CODE.items():
        count = sum(count for path, count in lines.items() if path.startswith(f"{package}/"))
        assert count <= most, f"{package} has {count} lines"


def test_habits_only_shrink() -> None:
    nodes = [node for found in sources().values() for node in inner(found)]
    imports = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    asserts = sum(
        isinstance(node, ast.Assert) and "is not None" in ast.unparse(node.test) for node in nodes
    )
    classes = Counter(
        node.name
        for found in sources().values()
        for node in found
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twins = sorted(name for name, count in classes.items() if count > 1)
    assert imports <= MAX_INNER_IMPORTS
    assert asserts <= MAX_ASSERTS
    assert len(twins) <= MAX_TWINS, twins
