"""A file is whole or absent, whatever step of writing it is the last."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tts_cli.atomic import remove_stale_parts, write_atomic, write_standalone


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
        from tts_cli.atomic import write_atomic
        os.{step} = lambda *_: os._exit(9)
        write_atomic(Path({str(tmp_path)!r}) / "a.wav", b"x" * 100)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == 9
    assert len(files(tmp_path)) == 1
    assert files(tmp_path)[0].endswith(".part")
    remove_stale_parts(tmp_path)
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
    remove_stale_parts(tmp_path)
    assert files(tmp_path) == sorted(theirs)


def test_a_part_of_a_dead_run_with_our_pid_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}.tts-cli.part").write_text("old")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert files(tmp_path) == ["a"]


@pytest.mark.skipif(sys.platform != "linux", reason="files without a name are Linux's")
@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize("step", ["open", "write", "fsync", "link", "replace"])
def test_a_kill_leaves_nothing_where_nobody_tidies_up(
    tmp_path: Path, step: str, before: bytes | None
) -> None:
    """`say` left its part beside the user's files for ever."""
    path = tmp_path / "a.wav"
    if before is not None:
        path.write_bytes(before)
    program = f"""
        import os
        from pathlib import Path
        from tts_cli.atomic import write_standalone
        os.{step} = lambda *_, **__: os._exit(9)
        write_standalone(Path({str(path)!r}), b"x" * 100)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    if step == "replace" and before is None:  # nothing is to be replaced
        assert (done.returncode, path.read_bytes()) == (0, b"x" * 100)
        return
    assert done.returncode == 9
    assert (path.read_bytes() if path.exists() else None) == before
    if step == "replace":  # the file that is replaced keeps its name until this very call
        assert len(files(tmp_path)) == 2
    else:
        assert files(tmp_path) == ["a.wav"] * (before is not None)
    write_standalone(path, b"new")
    assert path.read_bytes() == b"new"
    assert files(tmp_path) == ["a.wav"]


def test_parts_of_others_stay(tmp_path: Path) -> None:
    living = f".a.wav.{os.getppid()}.tts-cli.part"
    for name in (living, ".b.wav.4194304.tts-cli.part", ".a.wav.x.tts-cli.part"):
        (tmp_path / name).touch()
    (tmp_path / ".a.wav.4194304.tts-cli.part").touch()  # above the highest number of a process
    write_standalone(tmp_path / "a.wav", b"new")
    assert files(tmp_path) == sorted(
        [living, ".b.wav.4194304.tts-cli.part", ".a.wav.x.tts-cli.part", "a.wav"]
    )


def test_where_no_file_is_nameless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tts_cli.atomic._NAMELESS", os.O_WRONLY)
    for content in (b"one", b"two"):
        write_standalone(tmp_path / "a.wav", content)
        assert (tmp_path / "a.wav").read_bytes() == content
    assert files(tmp_path) == ["a.wav"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_standalone(tmp_path / "folder", b"x")
