"""Tables of words: every file is read, and the wheel contains it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tts_cli.text
from tts_cli.plain import read_table
from tts_cli.text.tables import load_table, script

DATA = Path(tts_cli.text.__file__).parent / "data"
NAMES = sorted(path.stem for path in DATA.iterdir())
PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize("name", NAMES)
def test_tables_have_no_empty_words(name: str) -> None:
    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, cell in value.items():
                assert key == key.strip() != ""
                check(cell)
        elif isinstance(value, list):
            assert value
            assert len(value) == len({str(cell) for cell in value}) or name == "units"
        else:
            assert value != ""

    check(load_table(name))
    assert {"abbreviations", "english", "languages", "names", "scripts", "units"} <= set(NAMES)


@pytest.mark.parametrize("name", load_table("scripts"))
def test_scripts_are_classes_of_a_pattern(name: str) -> None:
    assert re.compile(f"[{script(name)}]").match("x\u3042"[name != "latin"]) or name
    assert re.compile(f"[^{script(name)}]").match("\n" if name != "latin" else "\u3042")


def test_the_wheel_has_all_files_of_the_packages() -> None:
    """Data next to code is in the wheel, because only these two folders are excluded."""
    wheel = read_table(PROJECT)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["kernels", "models", "tts_cli"]
    assert "only-include" not in wheel
    assert wheel["exclude"] == ["kernels/bench", "tts_cli/checks/page/frontend"]
