"""A file is whole or absent, whatever step of writing it is the last."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tts_cli.output.atomic import remove_stale_parts, write_atomic


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data[:7])))
    write_atomic(tmp_path / "x", bytes(range(100)))
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_kill_between_steps_leaves_only_a_part(tmp_path: Path, step: str) -> None:
    """The process dies inside `step`: no final name, and the next run tidies up."""
    program = f"""
        import os
        from pathlib import Path
        from tts_cli.output.atomic import write_atomic
        os.{step} = lambda *_: os._exit(9)
        write_atomic(Path({str(tmp_path)!r}) / "a.wav", b"x" * 100)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == 9
    assert len(files(tmp_path)) == 1
    assert files(tmp_path)[0].endswith(".part")
    assert remove_stale_parts(tmp_path) == 1
    assert files(tmp_path) == []


def test_only_our_parts_are_removed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    ours = [".a.wav.123.tts-cli.part", "sub/.b.codes.safetensors.9.tts-cli.part"]
    theirs = [
        ".a.wav.123.part",
        "a.part",
        ".a.part",
        "a.wav.123.part",
        "sub/.b.x.part",
        "c.wav",
        ".a.wav.12.tts-cli.part.x",
    ]
    for name in ours + theirs:
        (tmp_path / name).write_text("x")
    assert remove_stale_parts(tmp_path) == 2
    assert files(tmp_path) == sorted(theirs)


def test_a_part_of_a_dead_run_with_our_pid_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}.tts-cli.part").write_text("old")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert files(tmp_path) == ["a"]
