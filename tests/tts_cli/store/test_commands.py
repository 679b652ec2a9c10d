"""What series of commands leave: the names of a row's audio with their values, and its state."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import pytest
from store_bench import CODES, StoreBench

from tts_cli.core import Role

# Commands (see `run`), values of the audio files by name, and the state of row `a`.
CASES = [
    ("keep 1, keep 2 2, keep 3 3", "a.wav 3, takes/a/1.wav 1, takes/a/2.wav 2", "take 3"),
    ("keep 1, keep 2 2 extra", "a.wav 1, takes/a/2.wav 2", "take 1"),
    ("keep 1, keep 1 2", "a.wav 1", "take 1"),
    ("keep 1, pin 1, keep 1 2", "a.wav 1", "take 1 pinned"),
    ("keep 1, keep 2 2 save_codes=", "a.wav 2, takes/a/1.wav 1", "take 2"),
    ("keep 1, keep 2 2 format=flac", "a.flac 2, takes/a/1.wav 1", "take 2"),
    ("keep 1, reencode format=flac", "a.flac 1, takes/a/1.source.wav 1", "take 1"),
    ("keep 1, reencode subtype=PCM_24", "a.wav 1, takes/a/1.source.wav 1", "take 1"),
    # A rendition that can be made again is dropped.
    (
        "keep 1, reencode format=flac, reencode format=opus, reencode subtype=PCM_24",
        "a.wav 1, takes/a/1.source.wav 1",
        "take 1",
    ),
    # Files that a user edited, emptied, put there, or made of an old take.
    ("keep 1, edit a.wav 9, keep 2 2", "a.wav 2, takes/a/3.wav 9", "take 2"),
    ("keep 1, copy /dev/null a.wav, keep 2 2", "a.wav 2", "take 2"),
    ("edit a.wav 9, keep 1", "a.wav 1, takes/a/2.wav 9", "take 1"),
    ("keep 1, keep 2 2, copy takes/a/1.wav a.wav, keep 3 3", "a.wav 3, takes/a/1.wav 1", "take 3"),
    (
        "keep 1, edit takes/a/1.wav 9, keep 2 2",
        "a.wav 2, takes/a/1.wav 9, takes/a/3.wav 1",
        "take 2",
    ),
    ("keep 1, fail 2 2", "a.wav 1, truncated/a.wav 2", "take 1 failed"),
    ("keep 1, fail 2 2, fail 3 2, keep 4 2", "a.wav 4, takes/a/1.wav 1", "take 2"),
    ("keep 1, pin 1", "a.wav 1", "take 1 pinned"),
    ("keep 1, keep 2 2 extra, pin 2", "a.wav 2, takes/a/1.wav 1", "take 2 pinned"),
    ("keep 1, keep 2 2 extra, pin 2, pin 1", "a.wav 1, takes/a/2.wav 2", "take 1 pinned"),
    ("keep 1 save_codes=, keep 2 2, pin 1", "a.wav 1, takes/a/2.wav 2", "take 1 pinned"),
    ("keep 1 format=flac, keep 2 2, pin 1", "a.flac 1, takes/a/2.wav 2", "take 1 pinned"),
    (
        "keep 1, reencode format=flac, keep 2 2, pin 1",
        "a.flac 1, takes/a/1.source.wav 1, takes/a/2.wav 2",
        "take 1 pinned",
    ),
    (
        "keep 1, keep 2 2 extra, edit a.wav 9, pin 2, pin 3",
        "a.wav 9, takes/a/2.wav 2",
        "take 3 pinned",
    ),
    ("keep 1, keep 2 2 extra, fail 5 4, pin 1", "a.wav 1, takes/a/2.wav 2", "take 1 pinned"),
    (
        "keep 1, keep 2 2 extra, keep 4 4, delete a.wav, fail 4 4, pin 1",
        "a.wav 1, takes/a/2.wav 2",
        "take 1 pinned",
    ),
    ("keep 1, keep 2 2 extra, remove", "takes/a/1.wav 1, takes/a/2.wav 2", "take 1 removed"),
    ("keep 1, keep 2 2, pin 1, remove, restore", "a.wav 1, takes/a/2.wav 2", "take 1 pinned"),
    ("keep 1 save_codes=, edit a.wav 9, remove", "takes/a/2.wav 9", "take 2 removed"),
    ("keep 1 save_codes=, edit a.wav 9, remove, restore", "a.wav 9", "take 2"),
    (
        "keep 1, reencode format=flac, remove",
        "takes/a/1.flac 1, takes/a/1.source.wav 1",
        "take 1 removed",
    ),
    ("keep 1, reencode format=flac, remove, restore", "a.flac 1, takes/a/1.source.wav 1", "take 1"),
    ("keep 1, killed keep 2 2, recover", "a.wav 2, takes/a/1.wav 1", "take 2"),
    ("keep 1, killed keep 2 2 save_codes=, recover", "a.wav 2, takes/a/1.wav 1", "take 2"),
    ("keep 1, killed keep 2 2 extra, recover", "a.wav 1, takes/a/2.wav 2", "take 1"),
    ("keep 1, killed fail 2 2, recover", "a.wav 1, truncated/a.wav 2", "take 1 failed"),
    ("keep 1, killed remove, recover", "takes/a/1.wav 1", "take 1 removed"),
    ("keep 1, remove, killed restore, recover", "a.wav 1", "take 1"),
    ("keep 1, keep 2 2, killed pin 1, recover", "a.wav 1, takes/a/2.wav 2", "take 1 pinned"),
    ("keep 1, killed keep 2 2, edit a.wav 9, recover", "a.wav 2, takes/a/3.wav 9", "take 2"),
]


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
