"""Imports run one way, tts_cli -> models -> kernels, and what must stay light stays light.

The rules are read from the syntax trees, so an import inside a function counts as well.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
        {"qwen3_tts", "fish_speech"},
        {"slots"},
        {"vocoder"},
        {"decoder"},
        {"device", "base"},
        {"checkpoint", "pace"},
        {"sampling"},
    ),
    "kernels": (
        {"bench"},
        {"persistent"},
        {"attention", "frame", "linear", "sampling", "vocoder"},
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_direction(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for line, name in imports(path):
        top = name.split(".")[0]
        assert top != "tests", f"{path}:{line} imports {name}"
        if top in PACKAGES:
            assert top in MAY_IMPORT[package], f"{path}:{line} imports {name}"


def floor_of(package: str, room: str) -> int:
    """How far down a room lies."""
    return next(index for index, rooms in enumerate(FLOORS[package]) if room in rooms)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_rooms_import_downwards(path: Path) -> None:
    package, room = path.relative_to(ROOT).with_suffix("").parts[:2]
    if room == "__init__" or package not in FLOORS:
        return
    for line, name in imports(path):
        top, *rest = name.split(".")
        if top != package or not rest or rest[0] == room or rest[0] == "__init__":
            continue
        where = f"{path}:{line} imports {name}"
        assert floor_of(package, rest[0]) > floor_of(package, room), where


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_triton_stays_in_kernels(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for line, name in imports(path):
        if name.split(".")[0] == "triton":
            assert package == "kernels", f"{path}:{line} imports {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").rglob("*.py")), ids=name_of)
def test_kernels_need_torch_triton_and_nothing_else(path: Path) -> None:
    allowed = KERNEL_LIBRARIES | sys.stdlib_module_names | {"kernels"}
    for line, name in imports(path):
        assert name.split(".")[0] in allowed, f"{path}:{line} imports {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "models").rglob("*.py")), ids=name_of)
def test_families_do_not_know_each_other(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    own = parts[1] if parts[1] in FAMILIES else None
    for line, name in imports(path):
        other = name.split(".")[1:2]
        if name.startswith("models.") and other[0] in FAMILIES:
            assert other[0] == own, f"{path}:{line} imports {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.name == "__init__.py" and path != LIBRARY],
    ids=name_of,
)
def test_package_files_hold_a_docstring_only(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assert len(body) == 1, path
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


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
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
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
    program = (
        "import kernels; from transformers import AutoTokenizer, PreTrainedModel;"
        "import kernels.linear.rms_norm; print(kernels.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == ROOT / "kernels" / "__init__.py"


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").rglob("*.py")), ids=name_of)
def test_what_the_host_calls_of_kernels_is_typed(path: Path) -> None:
    """mypy cannot tell the bodies for the GPU, which have no types, from other functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef):
            continue
        if any(ast.unparse(mark).startswith("jit") for mark in node.decorator_list):
            continue
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        untyped = [one.arg for one in given if one.annotation is None and one.arg != "self"]
        assert not untyped, f"{path}:{node.lineno} {node.name}: {untyped}"
        assert node.returns is not None, f"{path}:{node.lineno} {node.name} returns what?"
