"""What a row's audio says about it."""

from __future__ import annotations

import numpy as np
import pytest

from tts_cli.audio.levels import Array
from tts_cli.core import Kind, Remark
from tts_cli.engine.pieces import AudioMetrics, measure

RATE_HZ = 24_000
FRAME_S = 0.08
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.int16])


def speech(seconds: float, level: float = 0.3) -> Array:
    rng = np.random.default_rng(0)
    return (level * rng.uniform(-1, 1, round(seconds * RATE_HZ))).astype(np.float32)


def found(samples: Array, codes: Array | None = None, expected_s: float = 0.0) -> AudioMetrics:
    frames = round(len(samples) / RATE_HZ / FRAME_S)
    if codes is None:
        codes = np.arange(2 * frames).reshape(frames, 2)
    return measure(samples, codes, FRAME_S, expected_s)


@DTYPES
@pytest.mark.parametrize(
    ("silence_s", "suspect", "is_stuck"),
    [
        (0.0, [], False),
        (1.9, [], False),
        (2.1, ["near silence for 2.1 s"], False),
        (3.9, ["near silence for 3.9 s"], False),
        (4.1, ["near silence for 4.1 s"], True),
    ],
)
def test_near_silence(dtype: type, silence_s: float, suspect: list[str], is_stuck: bool) -> None:
    samples = np.concatenate([speech(1.1), speech(silence_s, 0.0005), speech(0.8 + 4 - silence_s)])
    if dtype is np.int16:
        samples = (samples * 32767).astype(np.int16)
    metrics = found(samples)
    assert metrics.levels.silence_inside_s == pytest.approx(silence_s, abs=0.041)
    assert [remark.text for remark in metrics.remarks] == suspect
    assert metrics.is_stuck is is_stuck


@pytest.mark.parametrize(
    ("silence_s", "is_stuck"), [(2.1, False), (3.9, False), (4.1, True), (6.0, True)]
)
@pytest.mark.parametrize("where", ["start", "end"])
def test_silence_at_the_ends(silence_s: float, is_stuck: bool, where: str) -> None:
    """Two seconds of it once made a row suspect: only silence inside does, or four of any."""
    pieces = [speech(silence_s, 0.0005), speech(2)]
    metrics = found(np.concatenate(pieces if where == "start" else pieces[::-1]))
    shown = f"near silence for {silence_s:.1f} s at the {where}"
    assert metrics.remarks == ([Remark(Kind.SILENCE, shown)] if is_stuck else [])
    assert metrics.is_stuck is is_stuck


@DTYPES
def test_nothing_at_all_is_silence(dtype: type) -> None:
    metrics = found(np.zeros(8 * RATE_HZ, dtype))
    assert metrics.levels.silence_start_s == pytest.approx(8)
    assert metrics.is_stuck
    assert metrics.remarks == [Remark(Kind.SILENCE, "near silence for 8.0 s at the start")]


@pytest.mark.parametrize(
    ("frames", "suspect", "is_stuck"),
    [
        (12, [], False),
        (13, ["the same first code for 1.0 s"], False),
        (50, ["the same first code for 4.0 s"], True),
    ],
)
def test_one_first_code(frames: int, suspect: list[str], is_stuck: bool) -> None:
    codes = np.arange(200).reshape(100, 2)
    codes[20 : 20 + frames, 0] = 7
    metrics = found(speech(8), codes)
    assert [remark.text for remark in metrics.remarks] == suspect
    assert metrics.is_stuck is is_stuck
    assert not found(speech(8), codes[:, ::-1]).remarks  # another codebook may stay


@pytest.mark.parametrize(("expected_s", "is_long"), [(0.0, False), (2.0, True), (3.0, False)])
def test_much_too_long(expected_s: float, is_long: bool) -> None:
    metrics = found(speech(8), expected_s=expected_s)
    long = Remark(Kind.LONG, "8.0 s long, expected about 2.0 s")
    assert metrics.remarks == ([long] if is_long else [])
    assert not metrics.is_stuck
