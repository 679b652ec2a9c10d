"""Calls of `synth` that change the folder fail; `error_moments.py` has all, and other commands."""

from __future__ import annotations

import errno
import itertools

import pytest
from folder_calls import Failer, watch
from workbench import Workbench

ROWS = [{"id": "one", "text": "Hello there."}, {"id": "two", "text": "Good morning."}]
FLAGS = ("--max-seconds", 0.2, "--accept-truncated")


@pytest.mark.parametrize("kind", ["open", "write", "rename", "fsync"])
def test_synth(bench: Workbench, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The files that are there are those of an undisturbed run, and the same command adds the
    others.
    """
    bench.synth(ROWS, *FLAGS, out="clean")
    wanted = bench.out("clean").files
    for number in itertools.count(1, 4):
        failer, out = Failer(kind, number, errno.EIO, False), f"out{number}"
        with monkeypatch.context() as patched:
            watch(str(bench.out(out).path), failer, patched.setattr)
            result = bench.synth(ROWS, *FLAGS, out=out)
        if not failer.result()["failed"]:
            break
        assert result.code in (0, 3, 4), (kind, number)
        assert "internal error" not in result.err
        assert not failer.result()["retried"]
        audio = {name: data for name, data in bench.out(out).files.items() if ".wav" in name}
        assert all(wanted.get(name) == data for name, data in audio.items() if name[0] != ".")
        assert bench.synth(ROWS, *FLAGS, out=out).code == 0, (kind, number)
        assert bench.out(out).files == wanted, (kind, number)
    assert number > 1
