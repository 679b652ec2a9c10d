"""`tts-cli book`: whole books in, chapters out, and what a change of the text costs."""

from __future__ import annotations

import json
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from fake_aligner import FakeAligner
from make_epub import small_epub
from workbench import Result, Store, Workbench, finish

from tts_cli.app import align as app_align
from tts_cli.checks.word_times import read_words, textgrid, words_vtt
from tts_cli.cli import messages as msg
from tts_cli.named import counted

pytestmark = pytest.mark.slow

STORY = """# The Ferry

## The River

The ferryman had not slept, and the river was high that night. "Stay with me," he said to her.

{voice=emil} She heard him, and she did not turn her head to look.

---

Nobody in the village ever spoke of it again[^1]. [pause 2s] The light on the bank went out.

## The Bank

He waited for her on the bank until the snow came. Then he went home, and he slept at last.

## The End

Many years later a stranger came and asked for the ferry.

[^1]: A note.
"""
CHAPTERS = ["01-the-river.wav", "02-the-bank.wav", "03-the-end.wav"]


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


def command(bench: Workbench, text: str | Path, *flags: object, model: Path | None = None) -> Any:
    if isinstance(text, str):
        path = bench.folder / "story.md"
        path.write_text(text, encoding="utf-8")
        text = path
    given = [text, "--out", bench.folder / "out", "--model", model or bench.model]
    return ["book", *given, "--device", "cpu", *flags]


def speak(bench: Workbench, text: str | Path, *flags: object, model: Path | None = None) -> Result:
    return bench.run(*command(bench, text, *flags, model=model))


@pytest.fixture
def told(bench: Workbench) -> Workbench:
    """The workbench, with STORY spoken."""
    bench.run_once(*command(bench, STORY))
    return bench


def test_words_of_sentences_are_aligned(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_align, "SphinxAligner", lambda processes, flag: FakeAligner())
    speak(bench, "# One\n\nIt rained. He went home.", "--words", "pocketsphinx").expect(
        0, out="rows aligned"
    )
    out = bench.out().path
    sounds = {path.stem for path in out.glob("**/*.wav")}
    assert {path.name.removesuffix(".words.json") for path in out.rglob("*.words.json")} == sounds
    (chapter,) = json.loads((out / "book.json").read_text())["chapters"]
    found = read_words(out, "01-one")
    assert found is not None
    assert (found.sha256, found.audio_s) == (chapter["sha256"], chapter["seconds"])
    assert [word.word for word in found.words] == ["One", "It", "rained", "He", "went", "home"]
    for word in found.words:
        assert found.text[word.text_start : word.text_end] == word.word
    starts = [row["file_start_s"] for row in chapter["sentences"]]
    wanted_s = max(starts[1], found.words[0].end_s)
    assert found.words[1].start_s == pytest.approx(wanted_s, abs=1e-3)
    assert (out / "01-one.words.vtt").read_text() == words_vtt(found)
    assert (out / "01-one.TextGrid").read_text() == textgrid(found)
    written = (out / "01-one.words.json").stat().st_mtime_ns
    speak(bench, "# One\n\nIt rained. He went home.", "--words", "pocketsphinx").expect(0)
    assert (out / "01-one.words.json").stat().st_mtime_ns == written
    speak(bench, "# One\n\nIt rained. He went home.").expect(0)
    assert (out / "01-one.words.json").stat().st_mtime_ns == written


def book_file(out: Store) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out.path / "book.json").read_text(encoding="utf-8"))
    return found


def names(out: Store) -> list[str]:
    """Files in the folder itself."""
    return sorted(path.name for path in out.path.iterdir() if path.is_file())


def spoken(out: Store, lines_before: int = 0) -> list[str]:
    """Texts of rows that were spoken since."""
    texts = {
        row["id"]: row["text"]
        for chapter in book_file(out)["chapters"]
        for row in chapter["sentences"]
    }
    # One that replaces another may have a failed line, or one of the older take, before its own.
    last = {line["id"]: line["status"] for line in out.lines[lines_before:]}
    return [texts[row_id] for row_id, status in last.items() if status == "ok"]


def test_a_book(bench: Workbench) -> None:
    result = speak(bench, STORY, "--subtitles", "srt,vtt").expect(0)
    assert result.out.splitlines()[0] == msg.synthesized(11, 11)
    assert result.out.splitlines()[-1].startswith("3 of 3 chapters, 10.2 s, in ")
    assert "warning: story.md:11: a footnote is left out\n" in result.err
    out = bench.out()
    subtitles = [name.replace(".wav", suffix) for name in CHAPTERS for suffix in (".srt", ".vtt")]
    assert set(names(out)) >= {*CHAPTERS, *subtitles, "book.json", "book.jsonl", "timings.jsonl"}
    found = book_file(out)
    assert found["title"] == "The Ferry"
    assert [chapter["title"] for chapter in found["chapters"]] == [
        "The River",
        "The Bank",
        "The End",
    ]
    river = found["chapters"][0]
    assert [row["text"] for row in river["sentences"]] == [
        "The Ferry",
        "The River",
        'The ferryman had not slept, and the river was high that night. "Stay with me," he said to '
        "her.",
        "She heard him, and she did not turn her head to look.",
        "Nobody in the village ever spoke of it again.",
        "The light on the bank went out.",
    ]
    assert [row["voice"] for row in river["sentences"]].count("emil") == 1
    for chapter, name in zip(found["chapters"], CHAPTERS, strict=True):
        assert chapter["path"] == name
        samples = out.samples(name)
        assert len(samples) == chapter["samples"]
        assert chapter["seconds"] == pytest.approx(len(samples) / 24_000, abs=1e-6)
        rows = chapter["sentences"]
        assert all(row["is_spoken"] and row["start_s"] < row["end_s"] for row in rows)
        for before, behind in pairwise(rows):
            assert before["end_s"] < behind["start_s"]
        for row in rows:
            start, end = row["span"]
            assert chapter["paragraphs"][row["paragraph"]][start:end] == row["text"]
        srt = (out.path / name.replace(".wav", ".srt")).read_text(encoding="utf-8")
        assert srt.startswith("1\n00:00:00,")
        assert "".join(rows[-1]["text"].split()) in "".join(srt.split())
    gaps = [b["start_s"] - a["end_s"] for a, b in pairwise(river["sentences"])]
    assert max(gaps) == pytest.approx(2.0, abs=0.001)
    assert [line["voice"] for line in out.lines].count("emil") == 1


def test_only_what_changed_is_spoken(told: Workbench) -> None:
    bench, out = told, told.out()
    count = len(out.lines)
    before = out.files
    stamps = {name: (out.path / name).stat().st_mtime_ns for name in CHAPTERS}

    again = speak(bench, STORY)
    assert (again.code, again.out.splitlines()[0]) == (0, msg.nothing_to_do(11))
    assert len(out.lines) == count
    assert {name: (out.path / name).stat().st_mtime_ns for name in CHAPTERS} == stamps

    line = "A line that the writer had forgotten at first."
    text = STORY.replace("## The River\n", f"## The River\n\n{line}\n")
    speak(bench, text).expect(0)
    assert spoken(out, count) == [line]
    assert out.files[CHAPTERS[0]] != before[CHAPTERS[0]]
    assert {name: (out.path / name).stat().st_mtime_ns for name in CHAPTERS[1:]} == {
        name: stamps[name] for name in CHAPTERS[1:]
    }

    speak(bench, STORY.replace("until the snow", "until the rain")).expect(0)
    new = [line for line in out.lines if line["run_id"] == out.report["run_id"]]
    assert [line["text"].split(" until")[0] for line in new] == ["He waited for her on the bank"]
    gone = {line["id"] for line in out.lines if line["status"] == "removed"}
    assert len(gone) == 2  # the line put in at first, and the bank without rain
    speak(bench, STORY).expect(0)
    assert len(out.runs) == 3  # none spoke: its audio was still there
    assert out.files[CHAPTERS[0]] == before[CHAPTERS[0]]


def test_an_edited_chapter_is_not_replaced_without_a_word(bench: Workbench) -> None:
    """It was, by another word of its text and by another length of its own."""
    speak(bench, STORY, "--subtitles", "srt").expect(0)
    out, subtitles = bench.out(), CHAPTERS[1].replace(".wav", ".srt")
    samples = out.samples(CHAPTERS[1])
    soundfile.write(out.path / CHAPTERS[1], samples[:-2400], 24_000, "PCM_16")
    (out.path / subtitles).write_text("mine")
    mine = out.files
    again = speak(bench, STORY, "--subtitles", "srt")
    assert (
        f"{CHAPTERS[1]} was edited since it was written, and stays as it is; delete it "
        "to have it written again"
    ) in again.err
    assert {name: out.files[name] for name in mine if name != "book.json"} == {
        name: data for name, data in mine.items() if name != "book.json"
    }
    changed = STORY.replace("until the snow", "until the rain")
    result = speak(bench, changed, "--subtitles", "srt")
    for name in (CHAPTERS[1], subtitles):
        second = name.replace(".", ".edited.")
        assert f"{name} was edited since it was written; your version is now " in result.err
        assert out.files[second] == mine[name]
        assert out.files[name] != mine[name]
    assert "edited" not in speak(bench, changed, "--subtitles", "srt").err


def test_a_chapter_with_a_failed_row_is_not_written(bench: Workbench, poisoned: Path) -> None:
    pytest.importorskip("av", reason="PyAV (extra m4b) is not installed")
    speak(bench, STORY, "--join", "m4b", "--subtitles", "srt", model=poisoned).expect(0)
    out = bench.out()
    assert {"book.m4b", *CHAPTERS} <= set(names(out))
    sick = STORY.replace("snow came", "snow~ came")
    result = speak(bench, sick, "--join", "m4b", "--subtitles", "srt", model=poisoned).expect(
        1,
        "warning: not written: 02-the-bank.wav: 1 row is missing: sentences/",
        out="\n" + msg.NEXT_FAILED.format(command=f"tts-cli book {bench.folder}/story.md --out"),
    )
    assert result.out.splitlines()[-1].startswith("2 of 3 chapters")
    left = [name for name in names(out) if name.endswith((".wav", ".srt", ".m4b"))]
    assert left == ["01-the-river.srt", CHAPTERS[0], "03-the-end.srt", CHAPTERS[2]]
    chapter = book_file(out)["chapters"][1]
    assert chapter["path"] is None
    assert [row["is_spoken"] for row in chapter["sentences"]] == [True, False, True]
    assert all(row["start_s"] is None for row in chapter["sentences"])
    speak(bench, STORY, "--join", "m4b", model=poisoned).expect(0)
    assert {"book.m4b", *CHAPTERS} <= set(names(out))


def test_files_of_other_flags_are_kept_and_reported(bench: Workbench) -> None:
    """`book.m4b`, subtitles and chapters of another format were deleted without a word."""
    pytest.importorskip("av", reason="PyAV (extra m4b) is not installed")
    flags = ("--join", "m4b", "--format", "flac", "--subtitles", "srt")
    assert "kept as they are" not in speak(bench, STORY, *flags).err
    out = bench.out()
    before = {name: out.files[name] for name in names(out) if name.endswith((".m4b", "c", ".srt"))}
    assert len(before) == 7
    for _ in range(2):
        speak(bench, STORY, "--subtitles", "vtt", "--forget", "join,format").expect(
            0, "kept as they are: 7 files of an earlier run with other flags: "
        )
        assert {name: out.files[name] for name in before} == before
    assert "orphan" not in bench.run("check", out.path).out
    changed = STORY.replace("until the snow", "until the rain")
    result = speak(bench, changed, *flags)
    assert "kept as they are: 6 files of an earlier run with other flags: 01-the-river.v" in (
        result.err
    )
    assert "edited" not in result.err
    changes = {name for name in before if out.files[name] != before[name]}
    assert changes == {"02-the-bank.flac", "02-the-bank.srt", "book.m4b"}


def test_refused_before_anything_is_written(bench: Workbench) -> None:
    bomb = small_epub(bench.folder / "bomb.epub", "<p>" + " " * (30 << 20) + "x</p>")
    for path, message in (
        (bomb, "unpacks to"),
        (bench.folder / "none.md", "No such file"),
        (bench.folder, r"has no .md or .txt file"),
    ):
        speak(bench, path).expect(2, message)
    speak(bench, STORY, "--subtitles", "ass").expect(2)
    speak(bench, STORY.replace("emil", "nobody")).expect(
        2, "Error: story.md:7: voice: 'nobody' is unknown", "fix these places in the book"
    )
    assert not list((bench.folder / "out").glob("*.wav"))


def test_the_language_is_that_of_the_book(bench: Workbench) -> None:
    story = "---\nlang: {}\n---\n\nIt rained on the lake all day long.\n"
    speak(bench, story.format("en-GB")).expect(
        0, "the language of the book is en-GB; rows are synthesized as english"
    )
    out = bench.out()
    assert [line["language"] for line in out.lines] == ["english"]
    # The rows stand for themselves: `synth` on them, and what a user says of them.
    bench.synth(out.path / "book.jsonl").expect(0)
    speak(bench, story.format("fr"), "--language", "english").expect(0)
    assert len(out.lines) == 1
    speak(bench, story.format("en"), "--language", "auto").expect(2)
    speak(bench, story.format("en"), "--language", "auto", "--redo").expect(0)
    assert out.lines[-1]["language"] == "auto"
    count = len(out.lines)
    # It was read by the rules of another language, with exit code 0.
    for flags in ((), ("--dry-run",)):
        speak(bench, story.format("cy"), "--forget", "language", *flags).expect(
            2,
            "Error: the book is in 'cy', but ",
            "choose another model with --model, or a language with --language (auto: none)",
        )
    assert len(out.lines) == count
    result = speak(bench, story.format("und"), "--forget", "language", "--keep-done")
    assert "the book is in und, a language that the model does not list" in result.err


def test_files_that_are_not_ours_stay(bench: Workbench) -> None:
    out = bench.folder / "out"
    out.mkdir()
    (out / "02-the-bank.wav").write_bytes(b"my own recording")
    speak(bench, STORY).expect(
        2, "02-the-bank.wav: in the folder, but not written by an earlier run"
    )
    assert (out / "02-the-bank.wav").read_bytes() == b"my own recording"
    speak(bench, STORY, "--overwrite").expect(0)
    assert len(bench.out().samples("02-the-bank.wav")) > 0


@pytest.mark.parametrize("flags", [(), ("--prune",), ("--dry-run",), ("--overwrite",)])
def test_a_folder_of_a_manifest_is_refused(bench: Workbench, flags: tuple[str, ...]) -> None:
    """A book was mixed into a data set."""
    bench.synth_once(
        [{"id": "b", "text": "Hi."}, {"id": "a", "text": "Hello."}], "--max-seconds", 1
    )
    before = bench.out().files
    speak(bench, STORY, *flags).expect(
        2,
        f"Error: {bench.out().path}: has 2 rows of a manifest: ",
        "choose another --out for the book",
    )
    assert bench.out().files == before


def test_a_book_file_of_somebody_else_removes_nothing(told: Workbench) -> None:
    bench = told
    keep = bench.folder / "keep.wav"
    keep.write_bytes(b"x")
    path = bench.out().path / "book.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("02-the-bank.wav", "../keep.wav"), encoding="utf-8")
    speak(bench, STORY).expect(2, "book.json is not valid")
    speak(bench, STORY, "--overwrite").expect(0)
    assert keep.exists()


def test_long_sentences_are_spoken_in_parts(bench: Workbench) -> None:
    speak(bench, STORY, "--split", "40", "--pause-clause", 0.3, "--subtitles", "srt").expect(0)
    out = bench.out()
    parts = {line["text"]: line["parts"] for line in out.lines}
    assert len(parts["She heard him, and she did not turn her head to look."]) == 2
    assert parts["The River"] == []
    assert names(out)[: len(CHAPTERS) : 2] == ["01-the-river.srt", "02-the-bank.srt"]
    rows = [row for chapter in book_file(out)["chapters"] for row in chapter["sentences"]]
    assert {row["text"] for row in rows} == parts.keys()
    row = next(row for row in rows if row["text"].startswith("She heard him,"))
    spans = [(part["start_s"], part["end_s"]) for part in row["parts"]]
    offset_s = row["file_start_s"]
    assert (spans[0][0], spans[-1][1]) == (row["start_s"], row["end_s"])
    for (_, end_s), part in zip(spans, parts[row["text"]][:-1], strict=False):
        assert end_s == pytest.approx(offset_s + part["end_s"], abs=1e-5)
    srt = (out.path / "01-the-river.srt").read_text(encoding="utf-8")
    for start_s, _ in spans:
        seconds, ms = divmod(round(1000 * start_s), 1000)
        assert f"00:00:{seconds:02d},{ms:03d} --> " in srt
    assert all(row["is_spoken"] for row in rows)
    # Another rule of splitting concerns the rows that are split, and no others.
    count, split = len(out.lines), [text for text, found in parts.items() if found]
    speak(bench, STORY, "--split", "40", "--pause-clause", 0.2).expect(2)
    speak(bench, STORY, "--split", "40", "--pause-clause", 0.2, "--redo").expect(0)
    assert sorted(spoken(out, count)) == sorted(split)


def test_chapters_are_no_orphans(told: Workbench) -> None:
    bench = told
    for command in (
        ("book", bench.folder / "story.md"),
        ("synth", bench.out().path / "book.jsonl"),
    ):
        flags = ("--out", bench.out().path, "--model", bench.model, "--dry-run", "--json")
        result = bench.run(*command, *flags).expect(0)
        assert (result.json["orphans"], result.json["rows"]) == (0, 11)
    (bench.out().path / "mine.wav").write_bytes(b"x")
    assert bench.run(*command, *flags).json["first_orphans"] == ["mine"]


# Dies like a power cut would look to the files, behind the Nth rename to a name of some kind.
DEADLY = """
import os, signal
count, real = [0], os.replace
def deadly(source, target, **named):
    real(source, target, **named)
    count[0] += str(target).endswith({suffix!r}) and {part!r} in str(target)
    if count[0] == {nth}:
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = deadly
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("part", "suffix", "nth"),
    [("sentences/", ".wav", 5), ("01-", ".wav", 1)],
    ids=["a row", "first chapter"],
)
def test_a_book_goes_on_after_a_crash(bench: Workbench, part: str, suffix: str, nth: int) -> None:
    """A short lock for book.jsonl once took the sign of a crash away, and with it went what tells
    the dead run's files from a user's own; chapters were taken for rows.
    """
    path = bench.folder / "story.md"
    path.write_text(STORY, encoding="utf-8")
    args = ["book", path, "--out", bench.out().path, "--model", bench.model, "--device", "cpu"]
    patch = DEADLY.format(part=part, suffix=suffix, nth=nth)
    finish(bench.start(list(map(str, args)), patch)).expect(-signal.SIGKILL)
    bench.run(*args).expect(0)
    out = bench.out()
    assert len(out.status()) == 11
    assert set(out.status().values()) == {"ok"}
    assert [name for name in names(out) if name.endswith(".wav")] == CHAPTERS


def test_another_level_or_format_of_chapters_speaks_nothing(told: Workbench) -> None:
    bench, out = told, told.out()
    lines, rows = len(out.lines), {n: d for n, d in out.files.items() if n.startswith("sentences/")}
    plain = {name: out.samples(name) for name in CHAPTERS}
    result = speak(bench, STORY, "--loudness", "-30", "--highpass", 70, "--pad", "0.5,1").expect(0)
    assert len(out.lines) == lines
    assert {n: d for n, d in out.files.items() if n.startswith("sentences/")} == rows
    for chapter, name in zip(book_file(out)["chapters"], CHAPTERS, strict=True):
        samples = out.samples(name)
        assert len(samples) == len(plain[name]) + 36_000
        applied = chapter["applied"]
        assert applied["after_db"] == pytest.approx(-30, abs=0.2)
        peak_dbfs = 20 * np.log10(np.abs(samples).max())
        assert applied["true_peak_dbtp"] - 3 < peak_dbfs <= applied["true_peak_dbtp"] + 0.01
        assert set(applied["gains_db"]) <= {"dora", "emil"}
        with soundfile.SoundFile(out.path / name) as file:
            told = file.copy_metadata()
        assert (told["title"], told["album"]) == (chapter["title"], "The Ferry")
        assert told["comment"].startswith("synthetic speech; model ")
    assert result.out.splitlines()[0] == msg.nothing_to_do(11)
    assert speak(bench, STORY, "--format", "opus").out.startswith(
        msg.NOTHING_BUT_CONVERTED.format(files=counted(11, "file"))
    )
    assert (out.path / "01-the-river.opus").is_file()
    speak(bench, STORY, "--forget", "all").expect(0)
    assert all((out.samples(name) == plain[name]).all() for name in CHAPTERS)
    spoken_by = {line["run_id"] for line in out.records.values()}
    assert len(spoken_by) == 1, "one run spoke it all"
