"""The sample chapter: spoken as the guide says, and what a change of its text costs."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from workbench import MakeCheckpoint, Store, Workbench

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "samples" / "guide" / "books.md"

pytestmark = pytest.mark.slow


def book_file(out: Store) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out.path / "book.json").read_text(encoding="utf-8"))
    return found


def rows_of(out: Store) -> list[dict[str, Any]]:
    return [row for chapter in book_file(out)["chapters"] for row in chapter["sentences"]]


@pytest.mark.parametrize(
    "is_sample_voice",
    [False, pytest.param(True, marks=pytest.mark.long)],
    ids=["random weights", "sample voice"],
)
def test_the_command_of_the_guide(
    bench: Workbench,
    make_checkpoint: MakeCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    is_sample_voice: bool,
) -> None:
    """All of the chapter, each mark of it heeded; with the sample voice, also how it sounds."""
    pytest.importorskip("av", reason="PyAV (extra m4b) is not installed")
    from m4b_marks import read_marks

    monkeypatch.chdir(ROOT)
    guide = GUIDE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^    tts-cli (book samples/book/.*)$", guide, re.M)
    args = shlex.split(command)
    place = args.index("--out") + 1
    shown, args[place] = args[place], str(bench.out().path)
    if not is_sample_voice:
        model = make_checkpoint(speakers=("dora", "clara"), dialects=(), eos_gain=1.4)
        args += ["--model", str(model), "--normalize", "english", "--accept-truncated"]
    bench.run(*args, "--device", "cpu").expect(
        0, "the language of the book is en; rows are synthesized as english"
    )
    out = bench.out()
    listing = guide.partition(f"`{shown}` then has:")[2].partition("\nChange")[0]
    listed = re.findall(r"^    (\S+)", listing, re.M)
    there = {path.name for path in out.path.iterdir()}
    assert {name.rstrip("/") for name in listed} == there

    chapters = book_file(out)["chapters"]
    assert [chapter["title"] for chapter in chapters] == ["Low Water", "High Water"]
    assert [mark.title for mark in read_marks(out.path / "book.m4b")] == ["Low Water", "High Water"]
    spoken = " ".join(record["spoken_text"] or record["text"] for record in out.records.values())
    for words in (
        "At six forty five P M she untied",
        "since nineteen ninety two",
        "two dollars and fifty cents each way",
        "go for one half of that",
        "since Doctor Marsh",
        "number seven in his",
        "the end of the key.",
        "shivawn had the only ferry",
    ):
        assert words in spoken
    voices = {record["text"]: record["voice"] for record in out.records.values()}
    assert [text for text, voice in voices.items() if voice == "clara"] == [
        '"You are late," said a voice from the trees. "Siobhan, you are late."'
    ]
    rows = rows_of(out)
    gaps = {a["text"]: b["start_s"] - a["end_s"] for a, b in pairwise(rows)}
    assert gaps['"I know. He was my brother."'] == pytest.approx(0.7, abs=0.001)
    assert gaps["She took the money and started the engine."] == pytest.approx(1.5, abs=0.001)
    if is_sample_voice:
        assert sum(chapter["seconds"] for chapter in chapters) == pytest.approx(109, abs=15)
        assert all(len(record["suspect"]) == 0 for record in out.records.values())
