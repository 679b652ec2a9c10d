"""Manifests as they come in: what is wrong is said by line, and nothing is spoken or touched."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import threading
from typing import Any

import pytest
from workbench import Workbench, as_jsonl

from tts_cli.cli import messages as msg
from tts_cli.sources import open as manifest_module

GOOD = {"id": "good", "text": "Hello there."}
CAP = ("--max-seconds", 1)


def bad_line(**values: Any) -> bytes:
    return json.dumps({"text": "Hello.", **values}).encode()


HOSTILE = {
    "not JSON": (b"{'text': 'Hello.'}", "not JSON: "),
    "nested too deep": (b'{"text": ' + b"[" * 100_000, "not "),
    "1 MB of text": (
        bad_line(text="a" * 1_000_000),
        "text: has 1000000 characters; the maximum is 20000",
    ),
    "a line without end": (b"{" + b" " * 3_000_000, "the line is longer than 1048576 characters"),
    "duplicate id": (
        bad_line(id="GOOD"),
        "id 'GOOD' is already used by line 1 (letter case is ignored)",
    ),
    "id of a parent": (bad_line(id="../x"), "id '../x' has the part '..'"),
    "unknown voice": (bad_line(voice="doora"), "'doora' is unknown; did you mean 'dora'?"),
    # A long value was cut without a sign, and so looked like another one.
    "endless voice": (bad_line(voice="ab" * 99), "voice: '" + "ab" * 30 + "'... is unknown"),
    "a cap of nothing": (bad_line(max_seconds=0.001), "is less than one frame"),
    "a reference": (bad_line(ref_audio="nowhere.wav"), "a custom_voice checkpoint cannot clone"),
    "invalid UTF-8": (
        b'{"text": "Gr\xf6\xdfe"}',
        "(0xf6) is not UTF-8; save the file as UTF-8, or give its encoding with --encoding",
    ),
    "lone surrogate": (b'{"text": "a\\ud800b"}', "contains the control character U+D800"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bad_row_stops_the_run_before_it_begins(
    bench: Workbench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    line, words = HOSTILE[name]
    content = as_jsonl([GOOD]).encode() + b"\n" + line + b"\n" + bad_line(id="also") + b"\n"
    manifest = bench.write(content)
    result = bench.synth(manifest).expect(2)
    assert result.out == ""
    first, last = result.err.splitlines()
    assert first.startswith(f"Error: {manifest}:3: ")
    assert words.replace("nowhere", str(bench.folder / "nowhere")) in first
    assert len(first) < 600
    assert last == (
        f"Error: {manifest}: 1 invalid row of 3; fix the rows above, or add --skip-invalid to "
        "synthesize the others"
    )
    assert not bench.out().path.exists()


def test_the_rest_can_be_spoken(bench: Workbench) -> None:
    lines = b"\n".join(line for line, _ in HOSTILE.values())
    manifest = bench.write(as_jsonl([GOOD]).encode() + lines + b"\n" + bad_line(id="last"))
    result = bench.synth(manifest, *CAP, "--skip-invalid").expect(1)
    assert list(bench.out().files) == ["good.wav", "last.wav"]
    assert result.out.startswith(msg.synthesized(2, len(HOSTILE) + 2, failed=len(HOSTILE)))
    records = bench.out().records
    assert records["good"]["status"] == records["last"]["status"] == "ok"
    assert {record["status"] for record in records.values()} == {"ok", "failed"}
    # Rows without an id of their own are recorded by line.
    assert records["#2"]["error"].startswith("not JSON: ")
    totals = bench.out().report["totals"]
    assert (totals["failed"], totals["bad_rows"]) == (len(HOSTILE), len(HOSTILE))


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


@pytest.mark.parametrize(("depth", "is_good"), [(60, True), (300, False), (600, False)])
def test_values_in_columns_to_keep_nested_deep(bench: Workbench, depth: int, is_good: bool) -> None:
    """`validate` took them, and `synth` ended as an internal error."""
    deep = '{"id": "deep", "text": "Hello.", "more": ' + "[" * depth + "]" * depth + "}\n"
    manifest = bench.write(as_jsonl([GOOD]) + "\n" + deep)
    checked = bench.run("validate", manifest, "--model", bench.model, "--extra", "keep").expect(
        0 if is_good else 2
    )
    assert ("id 'deep'" not in checked.err) == is_good
    bench.synth(manifest, *CAP, "--extra", "keep", "--skip-invalid").expect(0 if is_good else 1)
    assert sorted(bench.out().files) == ["deep.wav", "good.wav"][1 - is_good :]


def test_a_pipe_that_never_ends_a_line(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """`yes | tr -d "\\n" | tts-cli synth -` filled the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(bench.folder))
    result = bench.run("validate", "/dev/zero", "--model", bench.model).expect(2)
    assert result.err == (
        "Error: /dev/zero: a line is longer than 64 MiB; write one row per line, or pipe in less\n"
    )


def test_a_pipe_that_never_ends(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "MAX_PIPED_BYTES", 3 << 20)
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[{"text": "Hi."},\n' * 999_999))
    )
    bench.run("validate", "-", "--model", bench.model).expect(
        2, "<stdin>: has more than 3 MiB; give it as a file"
    )


def test_an_id_in_a_folder_with_the_name_of_a_file(bench: Workbench) -> None:
    """`a.TextGrid` is a file of row `a`, and could not be the folder of another row."""
    bench.run("validate", bench.write([GOOD, {"id": "x.textGRID/y", "text": "Hi."}])).expect(
        2, "has a folder that ends with '.TextGrid'"
    )
