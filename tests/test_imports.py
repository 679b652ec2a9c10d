"""Imports run one way, tts_cli -> models -> kernels, and what must stay light stays light.

The rules are read from the syntax trees, so an import inside a function counts as well.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from rooms import nodes, tree

from models import registry

ROOT = Path(__file__).parent.parent
PACKAGES = ("tts_cli", "models", "kernels")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MAY_IMPORT = {
    "tts_cli": {"tts_cli", "models", "kernels"},
    "models": {"models", "kernels"},
    "kernels": {"kernels"},
}
KERNEL_LIBRARIES = {"torch", "triton"}
# Rooms of a package, the topmost first: a room imports from lines below its own. A file of the
# package itself stands as a room of its own name. Those of tts_cli: `test_house.py`.
FLOORS = {
    "models": (
        {"registry"},
        {"load"},
        {"qwen3_tts", "fish_speech", "audio8_tts"},
        {"dual_ar"},
        {"slots"},
        {"vocoder"},
        {"decoder"},
        {"family"},
        {"device", "base"},
        {"checkpoint", "pace"},
        {"sampling"},
    ),
    "kernels": (
        {"bench"},
        {"persistent"},
        {"sampling"},  # a draw can begin the next step, see `linear.code_embedding`
        {"attention", "frame", "linear", "vocoder"},
        {"launch"},
    ),
}
LIBRARY = ROOT / "tts_cli" / "__init__.py"  # hands out what users import, see its own tests
FAMILIES = [family.folder for family in registry.FAMILIES]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module a file imports, `from x import y` as x.y."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                yield node.lineno, ".".join([*base, alias.name])


def test_the_walk_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "models" / "a.py"
    path.parent.mkdir()
    path.write_text(
        "import os.path as p\nfrom . import b\nfrom ..kernels import c\n"
        "def f():\n    from tts_cli.main import d\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert list(imports(path)) == [
        (1, "os.path"),
        (2, "models.b"),
        (3, "kernels.c"),
        (5, "tts_cli.main.d"),
    ]


@cache
def in_package(package: str) -> list[tuple[Path, str, str]]:
    """File, place and name of all that its files import."""
    return [
        (path, name, f"{name_of(path)}:{line} imports {name}")
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] == package
        for line, name in imports(path)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_direction(package: str) -> None:
    wrong = [
        where
        for _, name, where in in_package(package)
        if (top := name.split(".")[0]) == "tests"
        or (top in PACKAGES and top not in MAY_IMPORT[package])
    ]
    assert not wrong


def floor_of(package: str, room: str) -> int:
    """How far down a room lies."""
    return next(index for index, rooms in enumerate(FLOORS[package]) if room in rooms)


@pytest.mark.parametrize("package", FLOORS)
def test_rooms_import_downwards(package: str) -> None:
    wrong = []
    for path, name, where in in_package(package):
        room = path.relative_to(ROOT).with_suffix("").parts[1]
        top, *rest = name.split(".")
        if top != package or not rest or room == "__init__" or rest[0] in (room, "__init__"):
            continue
        if floor_of(package, rest[0]) <= floor_of(package, room):
            wrong.append(where)
    assert not wrong


@pytest.mark.parametrize("package", ["tts_cli", "models"])
def test_triton_stays_in_kernels(package: str) -> None:
    assert not [where for _, name, where in in_package(package) if name.split(".")[0] == "triton"]


def test_kernels_need_torch_triton_and_nothing_else() -> None:
    allowed = KERNEL_LIBRARIES | sys.stdlib_module_names | {"kernels"}
    wrong = [where for _, name, where in in_package("kernels") if name.split(".")[0] not in allowed]
    assert not wrong


def test_families_do_not_know_each_other() -> None:
    wrong = []
    for path, name, where in in_package("models"):
        own = path.relative_to(ROOT).parts[1]
        other = name.split(".")[1:2]
        if name.startswith("models.") and other[0] in FAMILIES and other[0] != own:
            wrong.append(where)
    assert not wrong


def test_package_files_hold_a_docstring_only() -> None:
    files = [path for path in SOURCES if path.name == "__init__.py" and path != LIBRARY]
    wrong = [
        path for path in files if len(tree(path).body) != 1 or not ast.get_docstring(tree(path))
    ]
    assert files
    assert not wrong


def test_every_folder_of_sources_is_a_package() -> None:
    folders = {path.parent for path in SOURCES}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_tests_are_no_package() -> None:
    """With __init__ files, tests/kernels would stand in for kernels."""
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_kernels_has_no_version() -> None:
    """transformers takes a `kernels` with a version for the published package of that name."""
    names = {
        node.id
        for path in (ROOT / "kernels").rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Name)
    }
    assert "__version__" not in names


def test_our_version_is_none_of_that_package() -> None:
    """transformers also takes the version of whoever brings a `kernels`, here ours, for it."""
    found = re.search(
        r'^version = "(\d+)\.(\d+)\.(\d+)"$', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert found is not None
    version = tuple(map(int, found.groups()))
    assert not (0, 18, 0) <= version < (0, 20, 0), (
        "go from 0.17 to 0.20: 0.18.2 to 0.19.0 are wanted"
    )


@pytest.mark.slow
def test_transformers_loads_beside_our_kernels() -> None:
    """It looks for the published package when it is imported; here ours lies on the path."""
    from transformers import AutoTokenizer, PreTrainedModel

    import kernels

    assert AutoTokenizer.__name__ == "AutoTokenizer"
    assert PreTrainedModel.__name__ == "PreTrainedModel"
    assert Path(str(kernels.__file__)) == ROOT / "kernels" / "__init__.py"


def test_what_the_host_calls_of_kernels_is_typed() -> None:
    """mypy cannot tell the bodies for the GPU, which have no types, from other functions."""
    wrong = []
    for path in sorted((ROOT / "kernels").rglob("*.py")):
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.FunctionDef):
                continue
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            if any(mark.startswith(("jit", "gluon_jit")) for mark in marks):
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            untyped = [one.arg for one in given if one.annotation is None and one.arg != "self"]
            if untyped or node.returns is None:
                wrong.append(f"{name_of(path)}:{node.lineno} {node.name}: {untyped or 'returns'}")
    assert not wrong
