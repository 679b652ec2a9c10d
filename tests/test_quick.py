"""`make quick` has tests of every room: what it leaves out is marked, files or single tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("slow", "long", "gpu", "copy_engine", "weights", "oracle", "browser")
ROOMS = sorted(
    {
        path.parent.relative_to(ROOT)
        for package in ("tts_cli", "models", "kernels")
        for path in (ROOT / package).rglob("*.py")
    }
)


def is_left_out(*marks: ast.expr) -> bool:
    return any(f"pytest.mark.{name}" in ast.unparse(mark) for mark in marks for name in LEFT_OUT)


def quick_tests(path: Path) -> list[str]:
    """Those of a file that run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    if is_left_out(*marks):
        return []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [
        node.name
        for node in functions
        if node.name.startswith("test_") and not is_left_out(*node.decorator_list)
    ]


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_every_room_has_a_quick_test(room: Path) -> None:
    tests = ROOT / "tests" / room
    while not tests.is_dir():  # a room of tables is tested where it is read
        tests = tests.parent
    assert any(quick_tests(path) for path in tests.glob("test_*.py")), (
        f"tests/{room}: all its tests are left out of `make quick`; leave one unmarked"
    )
