"""Audio for recognizers: its rate, its bounds, and where long rows are cut."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.recognizer import RATE_HZ, load, quietest, windows


def noise(seconds: float, level: float = 0.1) -> sound.Array:
    draw = np.random.default_rng(0)
    return draw.normal(0, level, round(seconds * RATE_HZ)).astype(np.float32)


@pytest.mark.parametrize(
    ("rate_hz", "channels"), [(16_000, 1), (24_000, 1), (44_100, 2), (8_000, 1)]
)
def test_any_rate_becomes_ours(tmp_path: Path, rate_hz: int, channels: int) -> None:
    path = tmp_path / "a.wav"
    times = np.arange(rate_hz) / rate_hz
    tone = np.sin(2 * np.pi * 440 * times)
    soundfile.write(path, np.stack([tone] * channels, axis=1), rate_hz)
    found = load(path)
    assert found.samples.dtype == np.float32
    assert len(found.samples) == pytest.approx(RATE_HZ, abs=2)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    spectrum = np.abs(np.fft.rfft(found.samples[:RATE_HZ]))
    assert abs(int(spectrum.argmax()) - 440) <= 1


def test_what_cannot_be_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.wav"
    with pytest.raises(OSError, match="No such file"):
        load(path)
    path.write_bytes(b"RIFF and no more")
    with pytest.raises(ValueError, match="is not audio"):
        load(path)
    soundfile.write(path, np.zeros((9, 3)), 16_000)
    with pytest.raises(ValueError, match="3 channels"):
        load(path)
    soundfile.write(path, np.zeros(0), 16_000)
    with pytest.raises(ValueError, match="no samples"):
        load(path)
    monkeypatch.setattr(sound, "MAX_AUDIO_S", 1.0)
    soundfile.write(path, np.zeros(16_001), 16_000)
    with pytest.raises(ValueError, match="longer than"):
        load(path)


def test_a_short_row_is_one_window() -> None:
    samples = noise(28.0)
    (window,) = windows(samples)
    assert window is not None
    assert len(window) == len(samples)


def test_long_rows_are_cut_where_parts_meet() -> None:
    samples = noise(60.0)
    cut = list(windows(samples, [(9.0, 9.5), (20.0, 20.4), (25.0, 25.6), (44.0, 45.0)]))
    assert [len(part) / RATE_HZ for part in cut] == pytest.approx([25.3, 19.2, 15.5])
    assert np.array_equal(np.concatenate(cut), samples)


def test_long_rows_without_parts_are_cut_where_they_are_quiet() -> None:
    samples = noise(45.0)
    samples[round(21 * RATE_HZ) : round(21.3 * RATE_HZ)] *= 0.01
    first, second = windows(samples)
    assert len(first) / RATE_HZ == pytest.approx(21.15, abs=0.06)
    assert len(first) + len(second) == len(samples)
    assert max(len(part) for part in windows(noise(200.0))) <= sound.WINDOW_S * RATE_HZ


def test_quietest() -> None:
    samples = noise(2.0)
    samples[RATE_HZ : RATE_HZ + 3200] = 0
    assert quietest(samples) == pytest.approx(RATE_HZ + 1600, abs=320)
