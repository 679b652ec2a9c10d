"""Manifests as they come in: what is wrong is said by line, and nothing is spoken or touched."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from workbench import Workbench, as_jsonl

GOOD = {"id": "good", "text": "Hello there."}
CAP = ("--max-seconds", 1)


def bad_line(**values: Any) -> bytes:
    return json.dumps({"text": "Hello.", **values}).encode()


HOSTILE = {
    "not JSON": (b"{'text': 'Hello.'}", "not JSON: "),
    "a list": (b'[{"text": "Hello."}]', "one JSON object a line, not an array"),
    "no object": (b'"Hello."', "must be a JSON object, not 'Hello.'"),
    "half an object": (b'{"text": "Hello', "not JSON: "),
    "nested too deep": (b'{"text": ' + b"[" * 100_000, "not "),
    "text of a wrong type": (bad_line(text=5), "text: must be text, not 5"),
    "number as text": (bad_line(seed="5"), "seed: must be a whole number, not '5'"),
    "number out of range": (bad_line(seed=2**53), "seed: must be 0 to"),
    "endless number": (b'{"text": "a", "seed": ' + b"9" * 5000 + b"}", "too many digits"),
    "NaN": (b'{"text": "a", "temperature": NaN}', "NaN is not a number"),
    "zero temperature": (bad_line(temperature=0), "temperature: must be 0.001 to 100"),
    "unknown field": (bad_line(voise="dora"), "unknown field 'voise'; did you mean 'voice'?"),
    "a key twice": (b'{"text": "a", "text": "b"}', "gives 'text' twice"),
    "no text": (b'{"id": "x"}', "has no text"),
    "empty text": (bad_line(text=""), "text: is blank"),
    "blank text": (bad_line(text=" \u200b\n "), "text: is blank"),
    "control character": (bad_line(text="a\x1bb"), "control character U+001B at position 2"),
    "1 MB of text": (bad_line(text="a" * 1_000_000), "text: has 1000000 characters, at most 20000"),
    "a line without end": (b"{" + b" " * 3_000_000, "the line is longer than 1048576 bytes"),
    "duplicate id": (bad_line(id="GOOD"), "id 'GOOD' is taken by line 1 (letter case is ignored)"),
    "id of a parent": (bad_line(id="../x"), "id '../x' has the part '..'"),
    "absolute id": (bad_line(id="/etc/x"), "id '/etc/x' starts with '/'"),
    "id of a device": (bad_line(id="sub/NUL.x"), "a device name on Windows"),
    "id of ours": (bad_line(id="truncated/x"), "is kept for rows cut at their frame cap"),
    "id with a newline": (bad_line(id="a\nb"), "holds '\\n'"),
    "id too long": (bad_line(id="a" * 300), "has a part longer than 200 bytes"),
    "unknown voice": (bad_line(voice="doora"), "'doora' is unknown; did you mean 'dora'?"),
    # A long value was cut without a sign, and so looked like another one.
    "endless voice": (bad_line(voice="ab" * 99), "voice: '" + "ab" * 30 + "'... is unknown"),
    "unknown language": (bad_line(language="klingon"), "the checkpoint has auto, chinese"),
    "both caps": (bad_line(max_frames=5, max_seconds=1), "gives both max_frames and max_seconds"),
    "a cap of nothing": (bad_line(max_seconds=0.001), "is less than one frame"),
    "a reference": (bad_line(ref_audio="nowhere.wav"), "a custom_voice checkpoint cannot clone"),
    "invalid UTF-8": (b'{"text": "Gr\xf6\xdfe"}', "(0xf6) is not UTF-8; save the file as UTF-8"),
    "lone surrogate": (b'{"text": "a\\ud800b"}', "control character U+D800"),
    "NUL": (b'{"text": "a\0b"}', "holds a NUL character"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bad_row_stops_the_run_before_it_begins(
    bench: Workbench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    line, words = HOSTILE[name]
    content = as_jsonl([GOOD]).encode() + b"\n" + line + b"\n" + bad_line(id="also") + b"\n"
    manifest = bench.write(content)
    result = bench.synth(manifest)
    assert result.code == 2
    assert result.out == ""
    first, last = result.err.splitlines()
    assert first.startswith(f"Error: {manifest}:3: ")
    assert words.replace("nowhere", str(bench.folder / "nowhere")) in first
    assert len(first) < 600
    assert last == (
        f"Error: {manifest}: 1 bad row of 3; correct what is named above, or add --skip-invalid "
        "to speak the rest"
    )
    assert not bench.out().path.exists()


def test_all_bad_rows_are_named_up_to_twenty(bench: Workbench) -> None:
    lines = b"\n".join(line for line, _ in HOSTILE.values())
    manifest = bench.write(as_jsonl([GOOD]).encode() + lines + b"\n")
    result = bench.synth(manifest)
    assert result.code == 2
    named = [line for line in result.err.splitlines() if line.startswith(f"Error: {manifest}:")]
    # Two are blank, and stand in one line.
    assert [int(line.split(":")[2]) for line in named[:20]] == [*range(2, 17), *range(18, 23)]
    assert f"{len(HOSTILE) - 21} more bad rows" in named[20]
    assert f"{len(HOSTILE)} bad rows of {len(HOSTILE) + 1}" in named[21]


def test_the_rest_can_be_spoken(bench: Workbench) -> None:
    lines = b"\n".join(line for line, _ in HOSTILE.values())
    manifest = bench.write(as_jsonl([GOOD]).encode() + lines + b"\n" + bad_line(id="last"))
    result = bench.synth(manifest, *CAP, "--skip-invalid")
    assert result.code == 1
    assert list(bench.out().files) == ["good.wav", "last.wav"]
    assert result.out.startswith(f"2 of {len(HOSTILE) + 2} rows spoken, {len(HOSTILE)} failed")
    records = bench.out().records
    assert records["good"]["status"] == records["last"]["status"] == "ok"
    assert {record["status"] for record in records.values()} == {"ok", "failed"}
    # Rows without an id of their own are recorded by line.
    assert records["#2"]["error"].startswith("not JSON: ")
    totals = bench.out().report["totals"]
    assert (totals["failed"], totals["bad_rows"]) == (len(HOSTILE), len(HOSTILE))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.jsonl", b"", "has no rows; write one row a line"),
        ("blank.jsonl", b"\n \n\n", "has no rows"),
        ("rows.docx", b"PK\x03\x04", "is a document; save it as plain text, and speak that by"),
        ("rows.xlsx", b"PK\x03\x04", "is no workbook: File is not a zip file; save it as .xlsx"),
        ("rows.xlsx", b"\xd0\xcf\x11\xe0\xa1", "is protected by a password, or of a version of"),
        ("rows.json", b'[{"text": "a"},\n{"text" "b"}]', "rows.json:2: not JSON: Expecting ':'"),
        ("rows.csv", b"a;b\n1;2\n", "unknown fields 'a', 'b'; add --extra keep (or --extra drop: "),
        ("rows.csv", b"", "is empty; name the columns in the first row"),
        ("rows.csv", b"id,text,voise\na,b,c\n", ":1: unknown field 'voise'; did you mean 'voice'?"),
        ("rows.csv", b"id,voice\na,dora\n", "no column is called 'text'"),
        ("rows.csv", b"id,text\na,b,c\n", ":2: id"),
        ("rows.csv", b'id,text\na,"b\nc,d\n', "is a quote never closed?"),
    ],
)
def test_unusable_files(bench: Workbench, name: str, content: bytes, words: str) -> None:
    manifest = bench.write(content, name)
    for command in (["validate", manifest], ["synth", manifest, "--out", bench.out().path]):
        result = bench.run(*command, "--model", bench.model)
        assert result.code == 2
        assert words.replace(":2: id", ":2: ") in result.err
        assert not bench.out().path.exists()


def test_a_missing_file_and_a_folder(bench: Workbench) -> None:
    missing = bench.folder / "missing.jsonl"
    result = bench.synth(missing)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"Error: {missing}: no such file or directory; check the path\n"
    result = bench.synth(bench.folder)
    assert result.code == 2
    assert "is a folder; give a manifest file" in result.err
    assert not bench.out().path.exists()


def test_a_manifest_through_a_pipe(bench: Workbench) -> None:
    """`synth <(generate)`: it is read more than once, so a copy is kept while the run lasts."""
    pipe = bench.folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(as_jsonl([GOOD]),))
    writer.start()
    result = bench.synth(pipe, *CAP)
    writer.join()
    assert result.code == 0
    assert list(bench.out().files) == ["good.wav"]


@pytest.mark.long  # tests of `plan` and `manifest` see what of it would grow
def test_many_rows_are_checked_in_little_memory(bench: Workbench, tmp_path: Path) -> None:
    """20,000 rows of text take 8 MB as strings alone; the check keeps a table of their ids."""
    manifest = tmp_path / "many.jsonl"
    text = "It was a bright cold day, and every clock in the street was wrong. " * 6
    with manifest.open("w") as file:
        for number in range(20_000):
            file.write(json.dumps({"id": f"{number // 100}/{number}", "text": text}) + "\n")
    assert bench.run("validate", manifest, "--limit", 1, "--model", bench.model).code == 0
    tracemalloc.start()
    try:
        result = bench.run("validate", manifest, "--model", bench.model, "--json")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.code == 0
    assert result.json["rows"] == 20_000
    assert peak < 6 * 2**20, f"{peak / 2**20:.1f} MiB"
