"""The sample chapter: spoken as the guide says, and what a change of its text costs."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from workbench import Folder, MakeCheckpoint, Workbench

ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "samples" / "book" / "chapter.md"
LEXICON = ROOT / "samples" / "book" / "lexicon.tsv"
GUIDE = ROOT / "samples" / "guide" / "books.md"

pytestmark = pytest.mark.slow


def book_file(out: Folder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out.path / "book.json").read_text(encoding="utf-8"))
    return found


def rows_of(out: Folder) -> list[dict[str, Any]]:
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
    from tts_cli.book.m4b import read_marks

    monkeypatch.chdir(ROOT)
    guide = GUIDE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^    tts-cli (book samples/book/.*)$", guide, re.M)
    args = shlex.split(command)
    place = args.index("--out") + 1
    shown, args[place] = args[place], str(bench.out().path)
    if not is_sample_voice:
        model = make_checkpoint(speakers=("dora", "clara"), dialects=(), eos_gain=1.4)
        args += ["--model", str(model), "--normalize", "english", "--accept-truncated"]
    result = bench.run(*args, "--device", "cpu")
    assert result.code == 0, result.err
    assert "the book is in en: rows are spoken as english" in result.err
    out = bench.out()
    listing = guide.partition(f"Then `{shown}` holds")[2].partition("\nChange")[0]
    listed = re.findall(r"^    (\S+) +\S", listing, re.M)
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


def test_what_a_change_costs(bench: Workbench, longer: Path, tmp_path: Path) -> None:
    """With random weights: exactly the sentences that a change touches are spoken again."""
    bench.model = longer
    text = CHAPTER.read_text(encoding="utf-8").replace("voice=clara", "voice=dora")
    lexicon = tmp_path / "lexicon.tsv"
    lexicon.write_bytes(LEXICON.read_bytes())
    path = tmp_path / "chapter.md"
    out = bench.out()

    def spoken(content: str) -> list[str]:
        path.write_text(content, encoding="utf-8")
        before = len(out.lines) if out.path.exists() else 0
        flags = ("--lexicon", lexicon, "--model", bench.model, "--normalize", "english")
        flags += ("--accept-truncated",)
        assert bench.run("book", path, "--out", out.path, *flags, "--device", "cpu").code == 0
        # What another audio replaces becomes a take, and gets its line once more.
        # What comes back into the book has the line that it had.
        old = {line["started"] for line in (out.lines[:before] if before else ())}
        new = [line for line in out.lines[before:] if line["started"] not in old]
        own = {line["id"]: line for line in new if line["role"] != "extra"}
        return [line["text"] for line in own.values() if line["status"] == "ok"]

    whole = spoken(text)
    assert sorted(whole) == sorted(row["text"] for row in rows_of(out))
    assert len(whole) == 22
    assert spoken(text) == []

    # One word, in a sentence that stands alone.
    assert spoken(text.replace("She took the money", "She counted the money")) == [
        "She counted the money and started the engine."
    ]
    # A paragraph in the middle, another at the very top.
    lines = [
        "Somewhere behind them a bell rang on the shore.",
        "It began as any other evening did.",
    ]
    more = text.replace("\n---\n\nIn the middle", f"\n{lines[0]}\n\n---\n\nIn the middle")
    assert spoken(more) == lines[:1]
    assert sorted(spoken(more.replace("Siobhan had the", f"{lines[1]}\n\nSiobhan had the"))) == [
        lines[1]
    ]
    # One entry of the lexicon: the sentences that hold the word, and no others.
    content = lexicon.read_text(encoding="utf-8")
    lexicon.write_text(content.replace("quay\tkey", "quay\tkay"), encoding="utf-8")
    held = [sentence for sentence in whole if "quay" in sentence]
    assert len(held) == 2
    assert sorted(spoken(text)) == sorted(held)
    # What changes nothing that is said costs nothing.
    assert spoken(text.replace("$2.50 each", "$2.50  each")) == []
    lexicon.write_text(content.replace("quay\tkey", "quay\tkay") + "\nzebra\tzeebra\n")
    assert spoken(text) == []
