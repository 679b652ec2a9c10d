"""Manifests as other programs export them, from the message with the flag to the audio: files in
the ways of Excel, Google Sheets, Numbers, Yarn Spinner, articy:draft and Unreal, made here.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from make_xlsx import workbook
from workbench import Workbench, as_jsonl

from tts_cli.cli import messages as msg

CAP = ("--max-seconds", 0.2, "--accept-truncated")

# Excel, German: semicolons, Windows' code page, CRLF, a column of notes, an empty one behind.
EXCEL = "Nr;Rolle;Satz;Anmerkung;\r\n1;dora;Grüß Gott;laut;\r\n2;emil;Tschüß;;\r\n".encode("cp1252")
# Excel's "Unicode Text": UTF-16 and tabs.
UNICODE_TEXT = "Line ID\tCharacter\tDialogue\r\nq1\tDora\tHello there.\r\n".encode("utf-16")
# Google Sheets and Numbers: UTF-8, commas, quotes around line breaks; Numbers with a mark.
SHEETS = '\ufeffLine ID,Character,Dialogue\nq1,Dora,"Hello,\nyou."\n'.encode()
# A string table of Unreal: key and source string.
UNREAL = b'Key,SourceString,Context\n"greet","Hello there.","in the street"\n'
ARTICY = [
    ["Technical Name", "Speaker", "Text", "Stage Directions", "Id"],
    ["DFr_01", "dora", "Hello there.", "calm", 72057594037927950],
]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("de.csv", EXCEL, {"1": "Grüß Gott", "2": "Tschüß"}),
        ("unicode.csv", UNICODE_TEXT, {"q1": "Hello there."}),
        ("sheets.csv", SHEETS, {"q1": "Hello,\nyou."}),
        ("unreal.csv", UNREAL, {"greet": "Hello there."}),
        ("articy.xlsx", workbook(ARTICY), {"DFr_01": "Hello there."}),
    ],
)
def test_the_message_tells_the_flags(
    bench: Workbench, name: str, content: bytes, wanted: dict[str, str]
) -> None:
    """What the error says to add is added, and then all rows are spoken."""
    manifest = bench.write(content, name)
    if name == "articy.xlsx":  # whose own Id would be taken before the technical name
        advice = '--map "Technical Name=id,Speaker=voice,Text=text,Stage Directions=instruct"'
        flags = [*shlex.split(advice), "--extra", "keep"]
    else:
        result = bench.synth(manifest).expect(2)
        advice = result.err.splitlines()[-1].partition("; add ")[2]
        flags = shlex.split(advice.partition(" (or ")[0].partition(", or ")[0])
        assert flags[0] == "--map"
    bench.synth(manifest, *flags, *CAP).expect(0)
    records = bench.out().records
    assert {row_id: record["text"] for row_id, record in records.items()} == wanted


CAST = """\
[Anna]
voice = "dora"
seed = 5

[characters."Old Tom"]
voice = "emil"
language = "en"
"""
SCENE = [
    {"id": "a", "text": "Hello there.", "character": "Anna"},
    {"id": "b", "text": "Good morning.", "character": "old tom"},
    {"id": "c", "text": "Good night.", "role": "Fang"},
    {"id": "d", "text": "Good night.", "character": "Anna", "voice": "fang", "seed": 9},
]


def write_cast(bench: Workbench, content: str = CAST) -> Path:
    return bench.write(content, "cast.toml")


def test_a_cast(bench: Workbench) -> None:
    cast = write_cast(bench)
    bench.synth(SCENE, *CAP, "--cast", cast, "--voice", "fang").expect(0)
    records = bench.out().records
    assert [records[row]["voice"] for row in "abcd"] == ["dora", "emil", "fang", "fang"]
    assert [records[row]["character"] for row in "abc"] == ["Anna", "old tom", "Fang"]
    assert (records["a"]["seed"], records["d"]["seed"]) == (5, 9)
    assert records["b"]["language"] == "english"
    assert bench.out().report["cast"]["characters"] == ["Anna", "Old Tom"]
    plain = [
        {"id": "a", "text": "Hello there.", "voice": "dora", "seed": 5},
        {"id": "b", "text": "Good morning.", "voice": "emil", "language": "english"},
    ]
    assert (
        msg.NOTHING_TO_DO.format(reason="") in bench.synth(plain, *CAP).out
    )  # a cast is a way to write rows
    write_cast(bench, CAST.replace("seed = 5", "seed = 6"))
    result = bench.synth(SCENE, *CAP, "--cast", cast, "--dry-run")
    assert ": ".join(msg.PLAN_PENDING).format(rows=msg.rows(1)) + ": 1 changed" in result.out


@pytest.mark.parametrize("flags", [(), ("--extra", "keep")])
def test_a_title_above_the_header(bench: Workbench, flags: tuple[str, ...]) -> None:
    """The flags that were named for it led nowhere."""
    rows = [["My game, script 3"], [], ["Line ID", "Dialogue"], ["a", "Hello there."]]
    manifest = bench.write(workbook(rows), "rows.xlsx")
    result = bench.run("validate", manifest, "--model", bench.model, *flags).expect(2)
    assert result.err.endswith("; if the header is a later line, remove the lines above it\n")
    manifest = bench.write(workbook(rows[2:]), "rows.xlsx")
    assert "above it" not in bench.run("validate", manifest, "--model", bench.model, *flags).err


def test_a_cast_that_is_not_there_yet(bench: Workbench) -> None:
    """All that it must have is said, however many lines they speak; the flag fits the column."""
    rows = "".join(f"Role {n % 30},This is line {n}.\n" for n in range(60))
    manifest = bench.write(f"Who,Line\n{rows}", "a.csv")
    given = "Who=character,Line=text"
    result = bench.run("validate", manifest, "--model", bench.model, "--map", given).expect(
        2, 'leave the column out: --map "Who=,Line=text"'
    )
    assert "20 more invalid rows" in result.err  # of ten characters that are not told by row
    named = ", ".join(f"'Role {n}'" for n in range(30))
    assert f"a.csv: 30 characters have no voice: {named}\n" in result.err
    result = bench.run("validate", manifest, "--model", bench.model, "--map", "Who=,Line=text")
    assert (result.code, result.err) == (0, "")


def test_several_manifests(bench: Workbench) -> None:
    """Numbers go on, columns may differ, and what is wrong is told by file and line."""
    (bench.folder / "sub").mkdir()
    first = bench.write(as_jsonl([{"text": "Hello."}, {"text": "Hm."}]), "a.jsonl")
    second = bench.write("Satz;Notiz\nGuten Tag;laut\n", "sub/b.csv")
    flags = ["--map", "Satz=text", "--extra", "keep", *CAP]
    command = [*bench.command(first, *flags), str(second)]
    bench.run(*command).expect(0)
    assert list(bench.out().files) == ["000001.wav", "000002.wav", "000003.wav"]
    assert bench.out().records["000003"]["extra"] == {"Notiz": "laut"}
    manifests = bench.out().report["read_as"]
    assert [manifest["path"] for manifest in manifests] == [str(first), str(second)]
    assert manifests[1]["separator"] == ";"
    assert msg.NOTHING_TO_DO.format(reason="") in bench.run(*command).out
    bench.write("Satz;id\nGuten Tag;000001\n ;x\n", "sub/b.csv")
    bench.run(*command).expect(
        2,
        f"{second}:2: id '000001' is already used by {first}:1",
        f"{second}:3: id 'x': text: is blank",
        f"Error: {first}, {second}: 2 invalid rows of 4",
    )
    bench.run(*command, "--skip-invalid").expect(1)
    assert f"#{second}:2" in bench.out().records
    twice = bench.run(*bench.command(first), bench.folder / "a.jsonl")
    assert "a.jsonl: is given twice" in twice.err
    result = bench.run("validate", first, second, *flags[:4], "--model", bench.model, "--json")
    assert result.json["rows"] == 2
    assert [bad["file"] for bad in result.json["bad"]] == [str(second)] * 2
