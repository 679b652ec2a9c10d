"""`--preset`: chapters and rows that a recipient accepts, and `check --preset`, which says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from workbench import Workbench

from tts_cli.plan.checkpoint import sample_voice

pytestmark = pytest.mark.slow

BOOK = """# One

The ferryman had not slept, and the river was high that night.

# Two

He waited for her on the bank until the snow came.
"""


LINE = [{"id": "a", "text": "He waited for her on the bank."}]


@pytest.fixture
def checkpoint() -> Path:
    return sample_voice()  # chapters need speech, not a tenth of a second of noise


@pytest.fixture
def book(bench: Workbench) -> Path:
    path = bench.folder / "story.md"
    path.write_text(BOOK, encoding="utf-8")
    return path


def speak(bench: Workbench, book: Path, *flags: object) -> Any:
    out = bench.folder / "novel"
    return bench.run("book", book, "--out", out, "--model", bench.model, *flags)


def test_a_book_for_acx_and_then_for_broadcast(bench: Workbench, book: Path) -> None:
    speak(bench, book, "--preset", "acx").expect(0)
    novel = bench.folder / "novel"
    info = soundfile.info(novel / "01-one.mp3")
    assert (info.samplerate, info.channels) == (44_100, 1)
    checked = bench.run("check", novel, "--preset", "acx", "--json").expect(0)
    files = json.loads(checked.out)["files"]
    assert [one["path"] for one in files] == ["01-one.mp3", "02-two.mp3"]
    values = {one["name"]: one["value"] for one in files[0]["checks"]}
    assert values["constant bit rate"] == "192"
    rows = {path: path.read_bytes() for path in novel.glob("sentences/*")}
    made = json.loads((novel / "book.json").read_text())["chapters"][0]
    assert made["sample_rate_hz"] == 44_100
    assert made["samples"] == pytest.approx(info.frames, abs=2)
    start_s = made["sentences"][0]["start_s"]
    assert 0.6 < start_s < 0.8

    # The noise floor between the first and the last word, without the room tone that we added.
    for path in novel.glob("*.mp3"):
        samples, rate_hz = soundfile.read(path)
        speech = samples[round(0.9 * rate_hz) : -round(3.2 * rate_hz)]
        windows = speech[: len(speech) // 2205 * 2205].reshape(-1, 2205)  # of 0.05 s
        rms = np.sqrt((windows**2).mean(axis=1))
        assert len(rms) > 20
        assert rms.max() > 0.05, "there is speech"
        assert 20 * np.log10(rms[rms > 0].min()) < -60

    # Another preset makes other chapters, and no row changes.
    speak(bench, book, "--preset", "broadcast").expect(0)
    assert soundfile.info(novel / "01-one.wav").subtype == "PCM_24"
    bench.run("check", novel, "--preset", "broadcast").expect(0)
    assert {path: path.read_bytes() for path in novel.glob("sentences/*")} == rows

    bench.run("check", novel, "--preset", "acx").expect(
        1, out=["format wav, must be mp3", "0 of 2 files meet acx"]
    )


def test_flags_beside_a_preset(bench: Workbench) -> None:
    for flags, word in (
        (("--format", "wav"), "needs mp3"),
        (("--bitrate", 64), "needs 192"),
        (("--loudness", "-19"), "needs acx"),
        (("--sample-rate", 22_050), "needs 44100"),
    ):
        bench.synth(LINE, "--preset", "acx", *flags).expect(2, word)
        assert not bench.out().path.exists()
    bench.synth(LINE, "--preset", "game", "--format", "wav", "--sample-rate", 44_100).expect(0)
    assert soundfile.info(bench.out().path / "a.wav").samplerate == 44_100
    bench.run("check", bench.out().path, "--preset", "game").expect(0)


def test_encode_converts_to_a_preset(bench: Workbench) -> None:
    bench.synth_once(LINE)
    out = bench.out().path
    bench.run("encode", out, "--preset", "podcast", "--out", bench.folder / "pod").expect(0)
    bench.run("check", bench.folder / "pod", "--preset", "podcast").expect(0)
    (bench.folder / "pod" / "a.mp3").unlink()
    bench.run("check", bench.folder / "pod", "--preset", "podcast").expect(
        1, out="a.mp3: is missing"
    )


def test_a_check_of_files_takes_no_recognizer(bench: Workbench) -> None:
    bench.synth_once(LINE)
    bench.run("check", bench.out().path, "--preset", "acx", "--asr", "pocketsphinx").expect(
        2, "run `check` twice"
    )


def test_a_bit_rate_is_part_of_the_delivery(bench: Workbench, longer: Path) -> None:
    bench.model = longer
    bench.synth(LINE, "--format", "wav")
    bench.synth(LINE, "--format", "mp3", "--bitrate", 160).expect(0)
    large = (bench.out().path / "a.mp3").stat().st_size
    bench.synth(LINE, "--bitrate", 32).expect(0)
    assert (bench.out().path / "a.mp3").stat().st_size < large / 3
    bench.synth(LINE, "--bitrate", 33).expect(2, "--bitrate 33")


def test_labels_of_a_book(bench: Workbench, book: Path, longer: Path) -> None:
    bench.model = longer
    flags = ("--format", "wav", "--labels", "audacity,reaper,cue")
    speak(bench, book, *flags).expect(0)
    novel = bench.folder / "novel"
    made = json.loads((novel / "book.json").read_text())["chapters"][0]["sentences"]
    lines = (novel / "01-one.labels.txt").read_text().splitlines()
    starts = [float(line.split("\t")[0]) for line in lines]
    assert starts == pytest.approx([one["start_s"] for one in made], abs=1e-5)
    assert (novel / "01-one.regions.csv").read_text().startswith("#,Name,Start")
    assert 'FILE "02-two.wav" WAVE' in (novel / "book.cue").read_text()
    before = {path: path.stat().st_mtime_ns for path in novel.glob("*.*")}
    speak(bench, book).expect(0)
    assert (novel / "book.cue").stat().st_mtime_ns == before[novel / "book.cue"]
    speak(bench, book, "--labels", "logic").expect(2)
