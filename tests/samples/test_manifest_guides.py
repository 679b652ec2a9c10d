"""The pages on manifests, tables and settings: what they show can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from tts_cli.cli.settings_files import FileSettings, load_settings
from tts_cli.main import cli
from tts_cli.sources.cast import read_cast
from tts_cli.sources.mapping import ColumnMapping, parse_map

GUIDE = Path(__file__).parents[2] / "samples" / "guide"
MANIFESTS = (GUIDE / "manifests.md").read_text()
TABLES = (GUIDE / "tables.md").read_text()
SETTINGS = (GUIDE / "settings.md").read_text()
FLAGS = re.findall(r'--map (?:"[^"\n]*"|\'[^\'\n]*\')', TABLES)


def block(page: str, first: str) -> str:
    """The indented lines that begin with one."""
    lines = page[page.index(first) :].splitlines()
    end = next(n for n, line in enumerate(lines) if line and n and not line.startswith("    "))
    return "\n".join(line.removeprefix("    ") for line in lines[:end])


@pytest.mark.parametrize("flag", sorted(set(FLAGS)))
def test_maps(flag: str) -> None:
    assert parse_map(shlex.split(flag)[1])


def test_the_table_of_exports_has_its_columns() -> None:
    for columns, flag in re.findall(r"^\| .*\((`.*`)\) \| `(--map .*?)`", TABLES, re.MULTILINE):
        names = [name for part in re.findall("`([^`]*)`", columns) for name in part.split(",")]
        fields = ColumnMapping(parse_map(shlex.split(flag)[1])).fields
        assert set(fields) <= {name.strip() for name in names}


def test_the_cast(tmp_path: Path) -> None:
    path = tmp_path / "cast.toml"
    path.write_text(block(MANIFESTS, "    # cast.toml"))
    assert list(read_cast(path).characters) == ["Anna", "Old Tom"]


def test_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config_home: Callable[..., Path]
) -> None:
    (tmp_path / "cast.toml").write_text('[a]\nvoice = "b"\n')
    (tmp_path / "tts-cli.toml").write_text(block(SETTINGS, "    # tts-cli.toml"))
    monkeypatch.chdir(tmp_path)
    ctx = click.Context(cli, info_name="tts-cli", **cli.context_settings)
    synth = cli.get_command(ctx, "synth")
    assert synth is not None
    found: FileSettings = load_settings(ctx, ("synth",), synth)
    assert found.values["map"] == "Line ID=id,Dialogue=text"
    assert found.values["cast"] == str(tmp_path / "cast.toml")
