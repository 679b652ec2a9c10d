"""Manifests that change between two looks at them, or in the middle of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tts_cli.errors import StoppedEarly
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.open import open_source, read_rows

pytestmark = pytest.mark.slow

MakeSource = Callable[..., ManifestFile]
Change = Callable[[Path], object]
LINES = [b'{"text": "row %06d"}\n' % number for number in range(3 * (1 << 16) // 22)]
CONTENT = b"".join(LINES)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(CONTENT.replace(b"row 000005", b"ROW 000005"))
    other.replace(path)


def edit(path: Path) -> None:
    """One byte, at once and with the old time."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Change] = {
    "cut": lambda path: os.truncate(path, len(CONTENT) // 2),
    "cut after a whole line": lambda path: path.write_bytes(b"".join(LINES[:-1])),
    "grown": lambda path: path.write_bytes(CONTENT + LINES[0]),
    "emptied": lambda path: path.write_bytes(b""),
    "replaced": replace,
    "removed": lambda path: path.unlink(),
    "edited": edit,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_behind_a_reading(make_source: MakeSource, change: Change) -> None:
    source = make_source(CONTENT)
    assert sum(1 for _ in read_rows(source)) == len(LINES)
    source.require_same()
    change(Path(source.name))
    for look in (source.require_same, lambda: next(read_rows(source))):
        with pytest.raises(StoppedEarly, match=r"m\.jsonl: the manifest was changed.*same command"):
            look()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_in_the_middle_of_a_reading(make_source: MakeSource, change: Change) -> None:
    source = make_source(CONTENT)
    rows = read_rows(source)
    next(rows)
    change(Path(source.name))
    assert sum(1 for _ in rows)
    with pytest.raises(StoppedEarly):
        source.require_same()


def test_what_a_change_has_broken_is_not_told(make_source: MakeSource) -> None:
    """The array seems to have no end: that is not what is to be mended."""
    source = make_source(b"[" + b",".join(line.strip() for line in LINES) + b"]")
    rows = read_rows(source)
    next(rows)
    CHANGES["cut"](Path(source.name))
    assert sum(1 for _ in rows)  # an array is loaded before its first row
    with pytest.raises(StoppedEarly):
        source.require_same()


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_pipe_in_its_place_is_not_waited_for(make_source: MakeSource) -> None:
    source = make_source(CONTENT)
    assert len(list(read_rows(source))) == len(LINES)
    os.unlink(source.name)
    os.mkfifo(source.name)
    with pytest.raises(StoppedEarly):
        list(read_rows(source))


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_copy_of_a_pipe_cannot_change(tmp_path: Path) -> None:
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(CONTENT,))
    writer.start()
    with open_source(str(pipe)) as source:
        writer.join()
        pipe.unlink()
        for _ in range(2):
            assert len(list(read_rows(source))) == len(LINES)
            source.require_same()
