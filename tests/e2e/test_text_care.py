"""Texts are spoken as they are read: by a lexicon, and in words. What was written stays known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from workbench import Store, Workbench

from tts_cli.cli import messages as msg

ROWS = [
    {"id": "nasa", "text": "NASA calls.", "language": "english"},
    {"id": "five", "text": "It costs $5.", "language": "english"},
    {"id": "plain", "text": "Good morning.", "language": "english"},
    {"id": "both", "text": "NASA paid $5.", "language": "english"},
    {"id": "auto", "text": "It costs $7."},
]
CAP = ("--max-seconds", 1)


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    path = tmp_path / "words.tsv"
    path.write_text("NASA\tnassa\nGood\tgud\n")
    return path


def pairs(folder: Store) -> dict[str, tuple[Any, Any]]:
    return {key: (row["text"], row["spoken_text"]) for key, row in folder.records.items()}


def test_journal_and_report_have_what_was_written_and_what_was_spoken(
    bench: Workbench, lexicon: Path
) -> None:
    flags = (*CAP, "--lexicon", lexicon, "--normalize", "English")
    bench.synth(ROWS, *flags).expect(0)
    out = bench.out()
    assert pairs(out) == {
        "nasa": ("NASA calls.", "nassa calls."),
        "five": ("It costs $5.", "It costs five dollars."),
        "plain": ("Good morning.", "gud morning."),
        "both": ("NASA paid $5.", "nassa paid five dollars."),
        "auto": ("It costs $7.", "It costs seven dollars."),
    }
    assert out.records["five"]["text_chars"] == len("It costs $5.")
    report = out.report["text"]
    assert len(report.pop("lexicon_sha256")) == 64
    assert report == {
        "normalize": True,
        "auto_language": "english",
        "lexicon": str(lexicon),
        "lexicon_entries": 2,
    }
    # What is asked for again in words is the same speech.
    spoken = [{**row, "text": pairs(out)[row["id"]][1]} for row in ROWS]
    again = bench.synth(spoken, *CAP)
    assert again.summary == msg.nothing_to_do(5)


def test_figures_that_nobody_understands_are_left_whole_and_counted(bench: Workbench) -> None:
    rows = [{"id": "a", "text": "It is $5."}, {"id": "b", "text": "Part 1/2/3 and 1971,13."}]
    manifest = bench.write(
        [{**row, "language": "english"} for row in [*rows, {**rows[1], "id": "c"}]]
    )
    flags = ("--model", bench.model, "--normalize", "auto")
    error = bench.run("validate", manifest, *flags).err
    assert f"{manifest}: figures that are not understood are left as written in 2 rows, " in error
    assert "2 rows, '1/2/3' of 'b' first" in error
    assert "figure" not in bench.run("validate", manifest, *flags[:2]).err
    said = bench.run(
        "say",
        rows[1]["text"],
        *flags,
        "--language",
        "english",
        "-o",
        bench.folder / "one.wav",
        *CAP,
    )
    assert "left as written in 1 row, '1/2/3' of 'say' first" in said.err


def test_what_cannot_be_used_is_told_before_a_weight_is_read(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("tts_cli.engine.load.load_model")
    bad = tmp_path / "bad.tsv"
    bad.write_text("NASA nassa\n")
    for command in ("synth", "validate"):
        flags = (command, bench.write(ROWS), "--model", bench.model, "--out", bench.out().path)
        result = bench.run(*flags, "--lexicon", bad)
        assert (result.code, result.out) == (2, "")
        assert f"{bad}:1: has no 'to'; cells are separated by tabs" in result.err
        bench.run(*flags, "--lexicon", tmp_path / "none.tsv").expect(2)
        bench.run(*flags, "--normalize", "klingon").expect(
            2, "--normalize 'klingon': must be auto, off, or one of english, german"
        )
    assert not bench.out().path.exists()


class TestLexiconTest:
    def test_a_table_says_what_reads_a_word(self, bench: Workbench, lexicon: Path) -> None:
        words = ("NASA", "$5 for NASA", "hello")
        flags = ("--model", bench.model, "--normalize", "english", "--lexicon", lexicon)
        lines = bench.run("lexicon", "test", *words, *flags).out.splitlines()
        assert lines[0] == (
            "lexicon of 2 entries; normalization is on; texts with language auto are "
            "treated as english"
        )
        assert [line.split("  ")[-1].strip() for line in lines[1:]] == [
            *("by", f"{lexicon}:1", f"normalizer, {lexicon}:1", "unchanged")
        ]

    def test_the_sample_voice_reads_figures(self, bench: Workbench) -> None:
        found = bench.run("lexicon", "test", "5 km", "--json").json
        assert found["words"][0]["spoken"] == "Five kilometers"
