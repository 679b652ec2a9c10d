"""Reading manifests: formats, line numbers, hostile bytes, bounded memory."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases import cases

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, SetupError, StoppedEarly
from tts_cli.sources import open as reader
from tts_cli.sources.item import ManifestFile, ManifestSet
from tts_cli.sources.jsonl import MAX_LINE_CHARS
from tts_cli.sources.open import open_source, read_rows

CASES = cases(__file__)["open"]

MakeSource = Callable[..., ManifestFile]
MIB = 1 << 20


def texts(source: ManifestFile) -> list[str]:
    rows = list(read_rows(source))
    assert all(isinstance(row, Row) for row in rows), rows
    return [row.text for row in rows if isinstance(row, Row)]


def only_bad(source: ManifestFile) -> BadRow:
    bad = [row for row in read_rows(source) if isinstance(row, BadRow)]
    assert len(bad) == 1, bad
    return bad[0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["m.jsonl", "m.NDJSON", "m.json", "m.txt", "m.csv", "m.tsv"])
def test_line_ends_and_byte_order_marks(
    make_source: MakeSource, end: str, bom: bytes, name: str
) -> None:
    lines = ["Grüße", "two words"]
    if name.endswith("sv"):
        lines.insert(0, "text")
    elif "txt" not in name:
        lines = [json.dumps({"text": line}, ensure_ascii=False) for line in lines]
    content = bom + end.join([*lines, ""]).encode()
    assert texts(make_source(content, name)) == ["Grüße", "two words"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello", "not JSON: Expecting value at column 1"),
        (b'{"text":"a"', "not JSON"),
        (b'{"text":"a"} {"text":"b"}', "not JSON: Extra data"),
        (b"{'text':'a'}", "not JSON"),
        (b'"hello"', "must be a JSON object, not 'hello'"),
        (b"5", "must be a JSON object, not 5"),
        (b"null", "must be a JSON object"),
        (
            b'[{"text":"a"}]',
            "a manifest has one JSON object per line, not an array; jq -c '.[]' converts it",
        ),
        (
            b'[{"text":"a"},',
            "a manifest has one JSON object per line, not an array; jq -c '.[]' converts it",
        ),
        (b'{"text":"a","text":"a"}', "has 'text' twice"),
        (b'{"text":"a","temperature":NaN}', "NaN is not a valid number"),
        (b'{"text":"a","temperature":-Infinity}', "-Infinity is not a valid number"),
        (b'{"text":"a","temperature":1e999}', "not inf"),
        (b'{"text":"a","seed":' + b"9" * 100_000 + b"}", "too many digits"),
        (b'{"text":' + b"[" * 200_000 + b"}", "nested too deep"),
        (b'{"text":' + b"[" * 900 + b"]" * 900 + b"}", "not a list"),
        (b'{"a":' * 100_000, "nested too deep"),
        (
            b'{"text":"a\xffb"}',
            "byte 11 of line 2 (0xff) is not UTF-8; save the file as UTF-8, or give "
            "its encoding with --encoding",
        ),
        (b'{"text":"a\xed\xa0\x80"}', "not UTF-8"),  # a surrogate, encoded
        (b'{"text":"a\\ud800"}', "U+D800"),
        (b'{"text":"a\0"}', "contains a NUL character at position 11"),
        (b'{"text":"a\\u0000"}', "U+0000"),
        (b'{"text":"a\tb"}', "not JSON: Invalid control character"),
        (b'{"text":"' + b"x" * MIB + b'"}', "longer than 1048576 characters"),
        (b'{"text":"' + b"x" * 100_000 + b'"}', "the maximum is 20000"),
        (b'{"text":"' + b"x" * 5 * MIB, "longer than 1048576 characters"),
        (b'{"id":"../../etc/x","text":"a"}', "could leave"),
        (b"{}", "has no text"),
    ],
)
def test_hostile_lines_do_not_stop_the_rest(
    make_source: MakeSource, line: bytes, words: str
) -> None:
    source = make_source(b'{"text":"before"}\n' + line + b'\n{"text":"after"}\n')
    rows = list(read_rows(source))
    assert [row.line for row in rows] == [1, 2, 3]
    assert [row.id for row in rows if isinstance(row, Row)] == ["000001", "000003"]
    bad = rows[1]
    assert isinstance(bad, BadRow)
    assert words in bad.message
    assert len(bad.message) < 400


def test_deepest_line_is_bounded_in_memory(make_source: MakeSource) -> None:
    """One endless line must not be loaded as a whole."""
    source = make_source(b"x" * (24 * MIB))
    tracemalloc.start()
    bad = only_bad(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"{MAX_LINE_CHARS}" in bad.message
    assert peak < 6 * MIB


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "json", "csv", "tsv"])
def test_lines_together_may_be_longer_than_one(make_source: MakeSource, suffix: str) -> None:
    """Three in a text were an internal error: it is looked at for subtitles, as one row. Blank ones
    above a header were counted as of it.
    """
    good = {"json": b'{"text":"a"}\n', "jsonl": b'{"text":"a"}\n', "txt": b"a\n"}
    long = b"x" * (MAX_LINE_CHARS // 2) + b"\n" if suffix == "txt" else b" " * 100_000 + b"\n"
    content = long * (3 if suffix == "txt" else 12) + good.get(suffix, b"text\na\n")
    rows = list(read_rows(make_source(content, f"m.{suffix}")))
    assert [row.text for row in rows if isinstance(row, Row)] == ["a"]


@pytest.mark.slow
def test_many_rows_need_little_memory(make_source: MakeSource) -> None:
    source = make_source(b'{"text":"hello there"}\n' * 5_000)
    tracemalloc.start()
    count = sum(1 for _ in read_rows(source))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 5_000
    assert peak < MIB


class TestTables:
    @pytest.mark.parametrize(("row", "words"), CASES["bad_rows_have_their_line"])
    def test_bad_rows_have_their_line(self, make_source: MakeSource, row: str, words: str) -> None:
        rows = list(read_rows(make_source(f'id,text\nx,"1\n2"\n{row}\ny,z\n', "m.csv")))
        assert [entry.line for entry in rows] == [2, 4, 5]
        bad = rows[1]
        assert isinstance(bad, BadRow)
        assert words in bad.message
        assert isinstance(rows[2], Row)

    @pytest.mark.slow
    def test_an_open_quote_swallows_a_bounded_piece(self, make_source: MakeSource) -> None:
        content = 'text\n"never closed\n' + "a line of text\n" * 40_000
        rows = list(read_rows(make_source(content, "m.csv")))
        assert isinstance(rows[0], BadRow)
        assert rows[0].line == 2
        assert "if a quote is not closed" in rows[0].message
        assert len(rows) > 20_000
        assert all(isinstance(row, Row) for row in rows[1:])

    @pytest.mark.parametrize(("header", "words"), CASES["bad_headers"])
    def test_bad_headers(self, make_source: MakeSource, header: str | bytes, words: str) -> None:
        content = header if isinstance(header, bytes) else header.encode()
        with pytest.raises(ManifestError) as caught:
            list(read_rows(make_source(content + (b"\n1,2\n" if content else b""), "m.csv")))
        assert words in str(caught.value)
        assert caught.value.exit_code == 2


class TestOpening:
    def test_missing(self, tmp_path: Path) -> None:
        with (
            pytest.raises(ManifestError, match="no such file or directory; check the path"),
            open_source(str(tmp_path / "m.jsonl")),
        ):
            pass

    def test_unreadable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        path = tmp_path / "m.txt"
        path.write_text("x")
        monkeypatch.setattr(reader, "open", fail, raising=False)
        with (
            pytest.raises(ManifestError, match="permission denied; check the file's permissions"),
            open_source(str(path)),
        ):
            pass

    def test_a_nul_in_the_path(self) -> None:
        with pytest.raises(ManifestError), open_source("a\0b.jsonl"):
            pass

    def test_errors_of_the_caller_stay_their_own(self, make_source: MakeSource) -> None:
        """An OSError raised while the manifest is in use was once reported as the manifest's."""
        path = make_source("x", "m.txt").name
        with pytest.raises(FileNotFoundError, match="other"), open_source(path):
            raise FileNotFoundError("other")

    def test_stdin_can_be_read_twice(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        stdin = SimpleNamespace(buffer=io.BytesIO(b'{"text":"a"}\n'))
        monkeypatch.setattr(sys, "stdin", stdin)
        with open_source("-") as source:
            assert source.name == "<stdin>"
            assert texts(source) == texts(source) == ["a"]
            assert os.listdir(temporary) == []  # a kill -9 left the copy behind

    def test_a_pipe_can_be_read_twice(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(b'{"text":"a"}\n',))
        writer.start()
        with open_source(str(path)) as source:
            assert texts(source) == texts(source) == ["a"]
            assert source.folder == str(tmp_path)
        writer.join()

    def test_no_room_for_a_copy(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A full TMPDIR ended as an internal error that did not name it."""
        gone = str(tmp_path / "gone")
        monkeypatch.setattr(tempfile, "tempdir", gone)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"x")))
        with pytest.raises(SetupError, match=f"{gone}: No such.*TMPDIR"), open_source("-"):
            pytest.fail("there is no copy")

    def test_closed_stdin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(ManifestError, match="<stdin>: is closed"), open_source("-"):
            pytest.fail("there is nothing to read")

    def test_a_file_that_goes_away(self, make_source: MakeSource) -> None:
        source = make_source("x", "m.txt")
        os.unlink(source.name)
        with pytest.raises(ManifestError, match=r"m\.txt: no such file"):
            list(read_rows(source))


@pytest.mark.parametrize("name", ["m.jsonl", "m.csv", "m.tsv", "m.txt"])
@pytest.mark.slow
def test_damaged_files_never_crash_the_reader(make_source: MakeSource, name: str) -> None:
    generator = random.Random(name)
    lines = [b'{"id": "a", "text": "one \\u00e9", "seed": 5, "greedy": true}'] * 4
    if name.endswith("sv"):
        comma = b"," if name == "m.csv" else b"\t"
        lines = [comma.join([b"id", b"text", b"seed"])]
        lines += [comma.join([b"a%d" % n, b'"one ""two""\nthree"', b"5"]) for n in range(4)]
    whole = b"\n".join(lines)
    pieces = [
        b'"',
        b",",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\\",
        b"{",
        b"]",
        b"\xef\xbb\xbf",
        b"9" * 99,
    ]
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 6)):
            place = generator.randrange(len(damaged))
            damaged[place : place + generator.randint(0, 3)] = generator.choice(pieces)
        try:
            rows = list(read_rows(make_source(bytes(damaged), name)))
        except ManifestError:
            continue
        assert all(row.line >= 1 and row.record_id for row in rows)


def test_several_manifests_are_one(make_source: MakeSource, tmp_path: Path) -> None:
    """Numbers go on, and each file has a folder of its own."""
    (tmp_path / "sub").mkdir()
    first = make_source('{"text":"a"}\nbad\n', "a.jsonl")
    second = make_source("text,ref_audio\nb,x.wav\nc,\n", "sub/b.csv")
    both = ManifestSet((first, second), first.columns)
    rows = list(read_rows(both))
    assert [(row.number, row.line, row.file) for row in rows] == [
        *((1, 1, first.name), (2, 2, first.name)),
        *((3, 2, second.name), (4, 3, second.name)),
    ]
    assert [row.id for row in rows] == ["000001", None, "000003", "000004"]
    assert rows[1].record_id == f"#{first.name}:2"
    assert isinstance(rows[2], Row)
    assert rows[2].ref_audio == str(tmp_path / "sub" / "x.wav")
    Path(second.name).write_text("text,ref_audio\nb,x.wav\nd,\n")
    with pytest.raises(StoppedEarly, match=r"b\.csv: the manifest was changed"):
        both.require_same()
    with pytest.raises(StoppedEarly, match=r"b\.csv: the manifest was changed"):
        list(read_rows(both))
