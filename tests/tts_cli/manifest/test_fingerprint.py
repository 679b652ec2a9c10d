"""Manifests that change between two readings, or in the middle of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tts_cli.errors import StoppedEarly
from tts_cli.manifest.manifest import open_source, read_rows
from tts_cli.manifest.source import BLOCK_BYTES, Source

MakeSource = Callable[..., Source]
Change = Callable[[Path], object]
LINES = [b'{"text": "row %06d"}\n' % number for number in range(3 * BLOCK_BYTES // 22)]
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
def test_a_change_between_two_readings(make_source: MakeSource, change: Change) -> None:
    source = make_source(CONTENT)
    assert sum(1 for _ in read_rows(source)) == len(LINES)
    source.fingerprint.require_same()
    change(Path(source.name))
    with pytest.raises(StoppedEarly, match=r"m\.jsonl: the manifest was changed.*same command"):
        source.fingerprint.require_same()
    seen = []
    with pytest.raises(StoppedEarly, match=r"run the same command again"):
        seen += [row.text for row in read_rows(source)]
    with pytest.raises(StoppedEarly):
        source.fingerprint.require_same()


@pytest.mark.parametrize("name", ["cut", "grown", "emptied", "edited"])
def test_a_change_in_the_middle_of_a_reading(make_source: MakeSource, name: str) -> None:
    """No row comes from a block that is not what it was."""
    source = make_source(CONTENT)
    expected = [row.text for row in read_rows(source)]
    rows = read_rows(source)
    seen = [next(rows).text for _ in range(10)]
    CHANGES[name](Path(source.name))
    with pytest.raises(StoppedEarly):
        seen.extend(row.text for row in rows)
    assert seen == expected[: len(seen)]
    assert 10 < len(seen) < len(expected) or name == "grown"


def test_a_file_that_was_only_touched(make_source: MakeSource) -> None:
    source = make_source(CONTENT)
    assert len(list(read_rows(source))) == len(LINES)
    path = Path(source.name)
    path.touch()
    source.fingerprint.require_same()
    path.unlink()
    path.write_bytes(CONTENT)
    source.fingerprint.require_same()
    assert len(list(read_rows(source))) == len(LINES)


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
@pytest.mark.parametrize("at_once", [7, BLOCK_BYTES, 2 * len(CONTENT)])
def test_blocks_are_the_same_however_much_is_asked_for(
    make_source: MakeSource, at_once: int
) -> None:
    """Subtitles of more than a block were read at once the second time, and called changed."""
    source = make_source(CONTENT)
    for size in (BLOCK_BYTES, at_once):
        with source.open() as file:
            assert b"".join(iter(lambda size=size, file=file: file.read(size), b"")) == CONTENT


def test_long_subtitles(make_source: MakeSource) -> None:
    cue = "{0}\n00:00:01,000 --> 00:00:02,000\nRow number {0}.\n\n"
    content = "".join(map(cue.format, range(1, 2000))).encode()
    assert len(content) > BLOCK_BYTES
    source = make_source(content, "m.srt")
    assert [sum(1 for _ in read_rows(source)) for _ in range(2)] == [1999, 1999]


def test_a_pipe_in_its_place_is_not_waited_for(make_source: MakeSource) -> None:
    source = make_source(CONTENT)
    assert len(list(read_rows(source))) == len(LINES)
    os.unlink(source.name)
    os.mkfifo(source.name)
    with pytest.raises(StoppedEarly):
        list(read_rows(source))
    with pytest.raises(StoppedEarly):
        source.fingerprint.require_same()


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
            source.fingerprint.require_same()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.jsonl", '{"text":"a"}\n\n{"text":"b"}\nbad\n{"text":"d"}\n'),
        ("m.txt", "a\n\nb\nc\0\nd\n"),
        ("m.csv", 'text\na\n\n"b"\nc,c\nd\n'),
    ],
)
def test_rows_that_are_not_wanted_are_passed_over(
    make_source: MakeSource, name: str, content: str
) -> None:
    source = make_source(content, name)
    rows = list(read_rows(source))
    assert [row.number for row in rows] == [1, 2, 3, 4]
    for bits in range(16):
        wanted = bytes(bits >> place & 1 for place in range(4))
        expected = [row for row, bit in zip(rows, wanted, strict=True) if bit]
        assert list(read_rows(source, wanted)) == expected
