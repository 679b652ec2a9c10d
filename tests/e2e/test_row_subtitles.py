"""`tts-cli synth --subtitles`: files beside the audio of rows, made of what lies in the folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from workbench import Workbench

from tts_cli.audio.join import speech_span

pytestmark = pytest.mark.slow
pysubs2 = pytest.importorskip("pysubs2", reason="pysubs2 (extra dev) is not installed")

LONG = (
    "The ferryman had not slept, and the river was high. She stood on the other bank, as she had "
    "stood there every evening since the war. He could not tell whether she saw him."
)
ROWS = [
    {"id": "short", "text": "Stay {please}, 2 < 3."},
    {"id": "deep/long.one", "text": LONG},
    {"id": "silent", "text": "* * *"},
]
SPLIT = ("--split", 60)


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


def test_subtitles_of_rows(bench: Workbench) -> None:
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt,vtt").expect(0, "subtitles: 6 files written")
    out = bench.out()
    assert "Stay {please}, 2 < 3.\n" in out.files["short.srt"].decode()
    assert "Stay {please}, 2 &lt; 3.\n" in out.files["short.vtt"].decode()
    assert out.files["silent.srt"] == b""
    events = pysubs2.load(str(out.path / "deep/long.one.srt")).events
    assert " ".join(event.plaintext.replace("\n", " ") for event in events) == LONG
    parts = out.records["deep/long.one"]["parts"]
    assert len(parts) == len(events) == 4
    samples = out.samples("deep/long.one.wav")
    start, end = speech_span(samples, 24_000)
    assert events[0].start == pytest.approx(start / 24, abs=1)
    assert events[-1].end == pytest.approx(end / 24, abs=1)
    for event, part in zip(events[1:], parts[1:], strict=True):
        assert event.start == pytest.approx(1000 * part["start_s"], abs=1)
    assert out.report["settings"]["subtitles"] == "srt,vtt"


def test_missing_subtitles_are_made_without_speaking(bench: Workbench) -> None:
    bench.synth_once(ROWS, *SPLIT)
    out = bench.out()
    audio, count = out.files, len(out.lines)
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt").expect(0)
    made = {name: data for name, data in out.files.items() if name.endswith(".srt")}
    assert sorted(made) == ["deep/long.one.srt", "short.srt", "silent.srt"]
    assert (len(out.lines), {**audio, **made}) == (count, out.files)

    (out.path / "short.srt").write_text("mended by hand")
    (out.path / "deep/long.one.srt").unlink()
    result = bench.synth(ROWS, *SPLIT, "--subtitles", "srt")
    assert "subtitles: 1 file written" in result.err
    assert out.files == {**audio, **made, "short.srt": b"mended by hand"}
    assert len(out.lines) == count


def test_subtitles_follow_the_text(bench: Workbench) -> None:
    bench.synth_once(ROWS, *SPLIT, "--subtitles", "srt")
    out = bench.out()
    row = {"id": "short", "text": "Go now."}
    bench.synth([row, *ROWS[1:]], *SPLIT, "--subtitles", "srt").expect(0)
    assert b"Go now." in out.files["short.srt"]
    # The audio still says the other text, so nothing is written for this one.
    before = out.files
    bench.synth([{**row, "text": "Stay."}], *SPLIT, "--subtitles", "srt", "--retry-failed").expect(
        0
    )
    assert out.files == before


def test_files_of_somebody_else_stay(bench: Workbench) -> None:
    path = bench.out().path / "short.srt"
    path.parent.mkdir()
    path.write_text("mine")
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt,vtt").expect(
        2, "short.srt: in the folder, but not in timings.jsonl, so not from an earlier run"
    )
    bench.synth(ROWS, *SPLIT).expect(0)
    assert path.read_text() == "mine"
    bench.synth([{"id": "b", "text": "One."}], "--subtitles", "ass").expect(2)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_a_row_whose_subtitles_cannot_be_written(bench: Workbench) -> None:
    bench.synth_once(ROWS, *SPLIT)
    (bench.out().path / "short.srt").mkdir()
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt").expect(1, "warning: row short has no subtitles")
    assert (bench.out().path / "silent.srt").exists()


def test_subtitles_follow_the_audio_whatever_the_clock_says(bench: Workbench) -> None:
    """A row kept the subtitles of its old text where their time was later than the audio's."""
    row = {"id": "a", "text": "The rain fell."}
    bench.synth([row], "--subtitles", "srt,vtt").expect(0)
    out = bench.out()
    for path in out.path.glob("a.*"):
        os.utime(path, (4e9, 4e9))
    result = bench.synth([{**row, "text": "Something else."}], "--subtitles", "srt,vtt")
    assert "subtitles: 2 files written" in result.err
    assert b"Something else." in out.files["a.srt"]
    assert b"Something else." in out.files["a.vtt"]
    for path in (out.path / "a.wav", out.path / "a.srt"):
        os.utime(path)
    assert (
        "subtitles: 0 files"
        in bench.synth([{**row, "text": "Something else."}], "--subtitles", "srt").err
    )


def test_subtitles_that_somebody_edited_stay(bench: Workbench) -> None:
    """They were replaced where the audio was newer: in a copy of the folder, or after a take."""
    bench.synth_once(ROWS, *SPLIT, "--subtitles", "srt")
    out = bench.out()
    (out.path / "short.srt").write_text("mended by hand")
    os.utime(out.path / "short.wav")  # as a copy of the folder may have it
    result = bench.synth(ROWS, *SPLIT, "--subtitles", "srt")
    assert "subtitles: 0 files written" in result.err
    assert "kept" not in result.err, "it is of this audio"
    again = ("--only", "short", "--overwrite", "--seed", 4)
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt", *again).expect(
        0, "1 file is kept, not written: edited since, or of an earlier version: short.srt"
    )
    assert out.files["short.srt"] == b"mended by hand"
    (out.path / "short.srt").unlink()
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt").expect(0)
    assert b"Stay {please}" in out.files["short.srt"]


def test_subtitles_of_an_earlier_version(bench: Workbench) -> None:
    """No list says which of them were edited: those that would be written now are taken over."""
    bench.synth_once(ROWS, *SPLIT, "--subtitles", "srt")
    out = bench.out()
    (out.path / "derived.jsonl").unlink()
    (out.path / "silent.srt").write_text("mine")
    result = bench.synth(ROWS, *SPLIT, "--subtitles", "srt")
    assert "subtitles: 0 files written" in result.err
    assert "earlier version: silent.srt; delete one to have it made again" in result.err
    row = {"id": "short", "text": "Go now."}
    bench.synth([row, *ROWS[1:]], *SPLIT, "--subtitles", "srt").expect(0)
    assert b"Go now." in out.files["short.srt"]
    assert out.files["silent.srt"] == b"mine"


def test_a_run_that_dies_before_a_file_is_written_knows_it_as_its_own(bench: Workbench) -> None:
    bench.synth_once(ROWS, *SPLIT, "--subtitles", "srt")
    out = bench.out()
    lines = (out.path / "derived.jsonl").read_text()
    line = next(line for line in lines.splitlines() if "short.srt" in line)
    sha256 = json.loads(line)["sha256"]
    torn = line.replace(sha256, "0" * 64).replace('"audio": "', '"audio": "0')
    (out.path / "derived.jsonl").write_text(f"{lines}{torn}\n{{torn")
    before = out.files
    bench.synth(ROWS, *SPLIT, "--subtitles", "srt").expect(0)
    assert out.files == before
    last = (out.path / "derived.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["sha256"] == sha256
