"""Rows joined to a chapter's file: places, silence, clicks, memory and failures."""

from __future__ import annotations

import errno
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tts_cli.audio.encode import Encoder
from tts_cli.book import chapter_audio
from tts_cli.book.chapter_audio import RowAudio, write_chapter
from tts_cli.config import RunConfig
from tts_cli.errors import DiskFull, RowError, UsageError

RATE_HZ = 24_000
WAV = Encoder(RunConfig(), RATE_HZ)


def tone(path: Path, seconds: float, before_s: float = 0.3, behind_s: float = 0.2) -> Path:
    """A file of a tone between silences, with some DC as the sample voice has it."""
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    sound = 0.3 * np.sin(2 * np.pi * 220 * time)
    silence = [np.zeros(round(length * RATE_HZ)) for length in (before_s, behind_s)]
    samples = np.concatenate([silence[0], sound, silence[1]]) + 0.01
    subtype = "FLOAT" if "float" in path.name else "PCM_16"
    soundfile.write(path, samples.astype(np.float32), RATE_HZ, subtype=subtype)
    return path


def loud(samples: np.ndarray[Any, Any]) -> list[tuple[float, float]]:
    """SpeechSegments of sound in seconds, told by windows of 5 ms."""
    window = RATE_HZ // 200
    frames = samples[: len(samples) // window * window].reshape(-1, window)
    edges = np.flatnonzero(np.diff(np.r_[False, frames.std(axis=1) > 0.01, False].astype(int)))
    return [(a * 0.005, b * 0.005) for a, b in edges.reshape(-1, 2)]


@pytest.mark.parametrize("format", ["wav", "flac", "ogg", "mp3"])
def test_rows_stand_where_the_spans_say(tmp_path: Path, format: str) -> None:
    pauses = [0.35, 1.5, 0.8]
    takes = [
        RowAudio(tone(tmp_path / f"{index}.wav", 0.5 + index / 4), pause)
        for index, pause in enumerate(pauses)
    ]
    path = tmp_path / f"chapter.{format}"
    joined = write_chapter(path, takes, Encoder(RunConfig(format=format), RATE_HZ))
    samples, rate_hz = soundfile.read(path, dtype="float32")
    assert (rate_hz, len(samples)) == (joined.rate_hz, joined.num_samples)
    found = loud(samples)
    assert len(found) == 3
    for span, (start, end) in zip(joined.spans, found, strict=True):
        assert span.start_s == pytest.approx(start, abs=0.06 if format == "mp3" else 0.011)
        assert span.end_s == pytest.approx(end, abs=0.06 if format == "mp3" else 0.011)
    gaps = [b.start_s - a.end_s for a, b in zip(joined.spans, joined.spans[1:], strict=False)]
    assert gaps == pytest.approx(pauses[:2], abs=1e-3)
    assert joined.spans[0].start_s == pytest.approx(0.3, abs=0.011)  # as it was spoken
    assert joined.seconds - joined.spans[-1].end_s == pytest.approx(0.2, abs=0.011)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_no_click_at_a_cut(tmp_path: Path) -> None:
    # DC makes a step where silence begins, unless edges are faded.
    takes = [RowAudio(tone(tmp_path / f"{index}.wav", 0.4), 0.35) for index in range(4)]
    write_chapter(tmp_path / "c.wav", takes, WAV)
    samples, _ = soundfile.read(tmp_path / "c.wav", dtype="float32")
    steps = np.abs(np.diff(samples))
    assert steps.max() < 1.05 * 0.3 * 2 * np.pi * 220 / RATE_HZ + 0.001


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_wav_files_are_the_same_byte_for_byte(tmp_path: Path, subtype: str) -> None:
    takes = [
        RowAudio(tone(tmp_path / "float1.wav", 0.3), 0.1),
        RowAudio(tone(tmp_path / "2.wav", 0.3), 1),
    ]
    contents = set()
    for name in ("a.wav", "b.wav"):
        joined = write_chapter(tmp_path / name, takes, Encoder(RunConfig(subtype=subtype), RATE_HZ))
        contents.add((tmp_path / name).read_bytes())
    assert len(contents) == 1
    info = soundfile.info(tmp_path / "a.wav")
    assert (info.subtype, info.frames) == (subtype, joined.num_samples)


def test_memory_does_not_grow_with_the_chapter(tmp_path: Path) -> None:
    path = tone(tmp_path / "1.wav", 10.0)
    peaks = []
    for number in (3, 60):
        tracemalloc.start()
        write_chapter(tmp_path / "c.wav", [RowAudio(path, 0.3)] * number, WAV)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1_000_000, peaks


def test_rows_that_cannot_be_joined(tmp_path: Path) -> None:
    first = RowAudio(tone(tmp_path / "1.wav", 0.3), 0.3)
    soundfile.write(tmp_path / "other.wav", np.zeros(8000), 8000)
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    for name, message in (
        ("other.wav", "is not mono audio of 24000 Hz"),
        ("broken.wav", "cannot be read"),
        ("none.wav", "cannot be read"),
    ):
        with pytest.raises(RowError, match=message):
            write_chapter(tmp_path / "c.wav", [first, RowAudio(tmp_path / name, 0)], WAV)
    with pytest.raises(RowError, match="cannot be read"):
        write_chapter(tmp_path / "c.wav", [RowAudio(tmp_path / "none.wav", 0)], WAV)
    assert not [one for one in tmp_path.iterdir() if one.name.startswith((".", "c."))]


def test_a_chapter_too_long_for_wav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter_audio, "MAX_WAV_BYTES", 40_000)
    takes = [RowAudio(tone(tmp_path / "1.wav", 0.5), 0.3)] * 2
    with pytest.raises(UsageError, match="--format flac"):
        write_chapter(tmp_path / "c.wav", takes, WAV)
    write_chapter(tmp_path / "c.flac", takes, Encoder(RunConfig(format="flac"), RATE_HZ))
    assert not (tmp_path / "c.wav").exists()


class FullDisk:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if self._file.tell() > 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))


def open_on_full_disk(path: Path, mode: str) -> FullDisk:
    return FullDisk(open(path, mode))


@pytest.mark.parametrize("format", ["wav", "flac", "ogg", "mp3"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    # libsndfile says "unspecified internal error" of a write that failed in Python.
    takes = [RowAudio(tone(tmp_path / "1.wav", 2.0), 0.3)] * 2
    monkeypatch.setattr(chapter_audio, "open", open_on_full_disk, raising=False)
    with pytest.raises(DiskFull, match="No space left"):
        write_chapter(tmp_path / f"c.{format}", takes, Encoder(RunConfig(format=format), RATE_HZ))
    assert [one.name for one in tmp_path.iterdir()] == ["1.wav"]
