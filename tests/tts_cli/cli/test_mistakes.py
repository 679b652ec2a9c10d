"""Command lines of other tools, and those that one guesses."""

from __future__ import annotations

import importlib
from pathlib import Path

import click
import pytest
from cases import cases

from tts_cli.cli import other_tools as mistakes
from tts_cli.main import COMMANDS, main

CASES = cases(__file__)["mistakes"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        *CASES["what_is_meant"],
        ([__file__], f"to synthesize a manifest: tts-cli synth {__file__} --out DIR"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_meant(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--limit" in args:
        args[1] = str(Path(__file__))
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Did you mean" not in err


def test_a_slip_is_left_to_click(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--versoin"]) == 2
    assert "Did you mean '--version'?" in capsys.readouterr().err


def test_what_is_named_is_there() -> None:
    """No name of ours is among those of others, and none of those is meant twice."""
    for name in COMMANDS:
        command: click.Command = importlib.import_module(f"tts_cli.cli.{name}").command
        ours = {flag for param in command.params for flag in param.opts}
        others = [o for param in command.params for o in getattr(param, "others", "").split()]
        assert not ours & set(others)
        assert len(others) == len(set(others)), name
    assert not set(mistakes._by_name("commands")) & set(COMMANDS)
