"""Outlines show where audio is loud, for every kind of file; what cannot be read has none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from cases import cases

from tts_cli.audio.file import encode
from tts_cli.checks.waveform import BUCKETS, LETTERS, outline, outlines

CASES = cases(__file__)["waveform"]

RATE_HZ = 24_000


def ramp() -> np.ndarray:
    """Two seconds of a tone that grows from nothing to 0.81 of full scale."""
    times = np.arange(2 * RATE_HZ) / RATE_HZ
    shape = 0.81 * times / 2
    return (shape * np.sin(2 * np.pi * 1000 * times)).astype(np.float32)


def steps(letters: str) -> list[int]:
    return [LETTERS.index(letter) for letter in letters]


@pytest.mark.parametrize(("format", "subtype", "slack"), CASES["every_format"])
def test_every_format(tmp_path: Path, format: str, subtype: str, slack: int) -> None:
    path = tmp_path / f"a.{format}"
    path.write_bytes(encode(ramp(), RATE_HZ, format, subtype))
    found = steps(outline(path))
    assert len(found) == BUCKETS
    # The root of 0.81 is 0.9; a bucket is half way loudest at its end.
    wanted = [round(63 * (0.81 * (place + 1) / BUCKETS) ** 0.5) for place in range(BUCKETS)]
    assert np.abs(np.subtract(found, wanted)).max() <= 1 + slack


def test_other_wav_files_go_through_libsndfile(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    both = np.stack([np.zeros_like(ramp()), ramp()], axis=1)
    soundfile.write(path, both, RATE_HZ, "PCM_U8")
    found = steps(outline(path))
    assert found[-1] == pytest.approx(57, abs=1)
    assert found[:2] == pytest.approx([3, 6], abs=5)


@pytest.mark.parametrize("count", [1, 7, BUCKETS - 1, BUCKETS + 1])
def test_short_files(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(encode(np.full(count, -1, np.float32), RATE_HZ, "wav", "PCM_16"))
    assert outline(path) == LETTERS[-1] * BUCKETS


def test_a_cut_file_shows_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(encode(ramp(), RATE_HZ, "wav", "PCM_16")[:40_001])
    assert len(outline(path)) == BUCKETS


def test_what_is_no_number_is_drawn_as_loud(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    data = encode(ramp(), RATE_HZ, "wav", "FLOAT")
    path.write_bytes(data[:58] + np.array([np.nan, np.inf, -np.inf], "<f4").tobytes() + data[70:])
    assert outline(path)[0] == LETTERS[-1]


def test_what_cannot_be_read_has_no_outline(tmp_path: Path) -> None:
    good, empty, text, header = (tmp_path / name for name in ("a.wav", "b.wav", "c.mp3", "d.wav"))
    good.write_bytes(encode(ramp(), RATE_HZ, "wav", "PCM_16"))
    empty.touch()
    text.write_text("no audio")
    header.write_bytes(good.read_bytes()[:44])
    found = outlines([good, None, empty, text, tmp_path / "gone.wav", header])
    assert found == [outline(good), None, None, None, None, ""]
