"""One file with chapter marks, read back by FFmpeg's own library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from m4b_marks import read_marks

from tts_cli.book.m4b import PAUSE_S, M4bChapter, write_m4b
from tts_cli.errors import RowError, SetupError

av = pytest.importorskip("av", reason="PyAV (extra m4b) is not installed")


def chapter(path: Path, seconds: float, rate_hz: int = 24_000) -> Path:
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * 300 * time), rate_hz)
    return path


@pytest.mark.parametrize("rate_hz", [24_000, 44_100, 18_000])
def test_marks_and_sound(tmp_path: Path, rate_hz: int) -> None:
    titles = ["One & two", "Ünd “drei”", "四"]
    lengths = [1.5, 0.7, 2.25]
    parts = [
        M4bChapter(title, chapter(tmp_path / f"{index}.wav", seconds, rate_hz))
        for index, (title, seconds) in enumerate(zip(titles, lengths, strict=True))
    ]
    path = tmp_path / "book.m4b"
    write_m4b(path, parts, {"title": "The Mill", "artist": "A. Writer", "comment": "synthetic"})
    marks = read_marks(path)
    assert [mark.title for mark in marks] == titles
    starts = [0.0, lengths[0] + PAUSE_S, lengths[0] + lengths[1] + 2 * PAUSE_S]
    assert [mark.start_s for mark in marks] == pytest.approx(starts, abs=0.002)
    assert [mark.end_s for mark in marks[:2]] == pytest.approx(starts[1:], abs=0.002)
    with av.open(str(path)) as container:
        assert container.metadata["title"] == "The Mill"
        assert container.metadata["artist"] == "A. Writer"
        assert container.streams.audio[0].codec_context.name == "aac"
        frames = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
        found_hz = container.streams.audio[0].rate
    samples = np.concatenate(frames)
    for start, length in zip(starts, lengths, strict=True):
        inside = samples[round((start + 0.1) * found_hz) : round((start + length - 0.1) * found_hz)]
        assert 0.15 < inside.std() < 0.25
    between = samples[round((lengths[0] + 0.2) * found_hz) : round((starts[1] - 0.2) * found_hz)]
    assert between.std() < 0.001
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_chapters_of_two_rates_are_refused(tmp_path: Path) -> None:
    parts = [
        M4bChapter(str(rate), chapter(tmp_path / f"{rate}.wav", 0.5, rate))
        for rate in (24_000, 16_000)
    ]
    with pytest.raises(RowError, match="chapters have different sample rates"):
        write_m4b(tmp_path / "book.m4b", parts, {})
    assert not (tmp_path / "book.m4b").exists()


def test_the_extra_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(SetupError, match='av is not installed; pip install "av>='):
        write_m4b(tmp_path / "book.m4b", [M4bChapter("a", tmp_path / "a.wav")], {})
