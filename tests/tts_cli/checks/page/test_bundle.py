"""page.js is what esbuild makes of its sources: short, formatted, and of right types."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tts_cli.checks.page import content

PAGE = Path(content.__file__).parent
FRONTEND = PAGE / "frontend"
MAX_LINES, MAX_COMPONENT = 1500, 200  # of code


def code_lines(path: Path) -> int:
    """Lines with code, without comments."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return sum(
        bool(line.strip()) and not line.strip().startswith("//") for line in text.split("\n")
    )


def tool(name: str, *args: str) -> str:
    """The output of a node tool of the lock file, skipped where it is not installed."""
    path = FRONTEND / "node_modules" / ".bin" / name
    if shutil.which("node") is None or not path.exists():
        pytest.skip("needs Node, and `npm ci` in the frontend's folder")
    done = subprocess.run([path, *args], cwd=FRONTEND, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def test_sources_are_small() -> None:
    lines = {path.name: code_lines(path) for path in (FRONTEND / "src").glob("*.js")}
    assert {name: count for name, count in lines.items() if count > MAX_COMPONENT} == {}
    assert sum(lines.values()) <= MAX_LINES


def test_the_bundle_is_current() -> None:
    script = "src/main.js --bundle --format=iife --charset=utf8 --target=es2022"
    made = tool("esbuild", *script.split(), "--legal-comments=none")
    assert made == (PAGE / "page.js").read_text(encoding="utf-8"), "run `make page`"


@pytest.mark.slow
def test_types_are_right() -> None:
    assert tool("tsc", "--noEmit") == ""


def test_sources_are_formatted() -> None:
    tool("prettier", "--check", "src")


def test_selectors_are_literals() -> None:
    """Texts of manifests can be the content of an element, but never a part of its selector."""
    literal = r'"[a-z0-9]+(\.[a-z-]+)*"'
    good = re.compile(rf"{literal}|[\w. =]+ \? {literal} : {literal}")
    calls = [
        call.lstrip()
        for path in (FRONTEND / "src").glob("*.js")
        for call in re.split(r"(?<!function )\bh\(", path.read_text(encoding="utf-8"))[1:]
    ]
    assert len(calls) > 50
    assert [call[:40] for call in calls if not good.match(call)] == []


def test_the_node_tools_are_pinned() -> None:
    package = (FRONTEND / "package.json").read_text(encoding="utf-8")
    versions = re.findall(r'"(?:esbuild|prettier|typescript)": "(.*)"', package)
    assert len(versions) == 3
    assert all(re.fullmatch(r"[0-9.]+", version) for version in versions)
