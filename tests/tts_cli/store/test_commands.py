"""What series of commands leave: the names of a row's audio with their values, and its state."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import pytest
from cases import cases
from store_bench import CODES, StoreBench

from tts_cli.core import Role

TABLES = cases(__file__)["commands"]

# Commands (see `run`), values of the audio files by name, and the state of row `a`.
CASES = TABLES["cases"]


def run(bench: StoreBench, command: str) -> None:
    """Run a method of the bench with its arguments, or copy or delete a file. `killed`: the command
    dies when its entry is in the journal and its files lack their names.
    """
    name, *words = command.split()
    if name == "killed":
        bench.killed_after_commit(pytest.MonkeyPatch(), partial(run, bench, " ".join(words)))
    elif name == "copy":
        shutil.copyfile(bench.out / words[0], bench.out / words[1])
    elif name == "delete":
        (bench.out / words[0]).unlink()
    else:
        plain = [word for word in words if "=" not in word]
        named = dict(word.split("=") for word in words if "=" in word)
        args: list[Any] = [int(word) if word.isdecimal() else word for word in plain]
        getattr(bench, name)(*(Role.EXTRA if arg == "extra" else arg for arg in args), **named)


def state_of(bench: StoreBench) -> str:
    """The current take of row `a`, and what holds of it."""
    take, *flags, _ = bench.row()
    words = zip(("pinned", "failed", "removed"), flags, strict=True)
    return " ".join([f"take {take}", *(word for word, is_so in words if is_so)])


@pytest.mark.parametrize(("commands", "values", "state"), CASES, ids=[case[0] for case in CASES])
def test_what_is_left(bench: StoreBench, commands: str, values: str, state: str) -> None:
    """No temporary file is left, and codes are those of the audio next to them."""
    for command in commands.split(", "):
        run(bench, command)
    pairs = (pair.split() for pair in values.split(", "))
    wanted = {name: int(value) for name, value in pairs}
    assert bench.values() == wanted
    assert state_of(bench) == state
    assert all(file in wanted or file.endswith(CODES) for file in bench.files())
    before = bench.files()
    bench.recover()
    assert bench.files() == before
