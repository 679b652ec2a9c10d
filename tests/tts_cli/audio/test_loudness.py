"""Levels beside pyloudnorm as it comes, another resampler, and what the standard says of tones."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile
from scipy import signal
from sounds import Array, bursts, tone

from tts_cli.audio.file import check_format, encode
from tts_cli.audio.loudness import (
    NAMED,
    LevelTarget,
    floor_dbfs,
    level,
    limit,
    measured,
    oversampled_peaks,
    rms_dbfs,
    true_peak_dbtp,
)
from tts_cli.config import SETTINGS
from tts_cli.core import Kind

RATE_HZ = 24_000


def peer_lufs(samples: Array, rate_hz: int) -> float:
    """Loudness by pyloudnorm as it comes. At 8 kHz its filters are 0.1 dB off: at 48 there."""
    values = samples.astype(np.float64)
    if rate_hz < 16_000:
        values, rate_hz = signal.resample_poly(values, 6, 1), 6 * rate_hz
    return float(pyloudnorm.Meter(rate_hz).integrated_loudness(values))


def peer_peak_dbtp(samples: Array) -> float:
    """True peak by scipy's polyphase filter instead of soxr."""
    fine = signal.resample_poly(samples.astype(np.float64), 4, 1)
    return float(20 * np.log10(np.abs(fine).max()))


def test_the_standards_own_tone() -> None:
    """BS.1770: a sine of 997 Hz at full scale in one channel has -3.01 LUFS."""
    for rate_hz in (8_000, 24_000, 44_100, 48_000):
        by, found = measured(tone(5, 997, rate_hz, 1.0), rate_hz, "lufs")
        assert (by, found) == ("lufs", pytest.approx(-3.01, abs=0.02))


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 44_100])
@pytest.mark.parametrize("text", ["ebu", "podcast", "-19", "-14"])
def test_loudness_is_what_was_asked_for(rate_hz: int, text: str) -> None:
    target = LevelTarget.of(text)
    for seed, seconds in enumerate((0.41, 1.0, 5.0)):
        samples = bursts(seconds, rate_hz, seed)
        louder, found = level(samples, rate_hz, target)
        assert peer_lufs(louder, rate_hz) == pytest.approx(target.level_db, abs=0.1)
        assert found.after_db == pytest.approx(target.level_db, abs=0.06)
        assert found.level_by == "lufs"
        assert peer_peak_dbtp(louder) <= target.ceiling_dbtp + 0.1
        assert found.true_peak_dbtp == pytest.approx(peer_peak_dbtp(louder), abs=0.1)
        assert found.misses(target) == []


def test_levels_of_a_voice() -> None:
    """What people hear is a voice, not noise in bursts: a row of the sample voice."""
    from models.registry import load_model
    from tts_cli.plan.checkpoint import sample_voice

    model = load_model(str(sample_voice()))
    codes = np.load(Path(__file__).with_name("voice_codes.npy"))
    import torch

    (wave,) = model.decode_audio([torch.from_numpy(codes.astype(np.int64))])
    samples = wave.numpy()
    for text in ("ebu", "podcast", "acx"):
        target = LevelTarget.of(text)
        louder, found = level(samples, RATE_HZ, target)
        assert found.true_peak_dbtp == pytest.approx(peer_peak_dbtp(louder), abs=0.1)
        assert peer_peak_dbtp(louder) <= target.ceiling_dbtp + 0.1
        if text == "acx":
            assert -23 <= float(10 * np.log10(np.mean(louder.astype(np.float64) ** 2))) <= -18
            mp3 = encode(louder, RATE_HZ, "mp3", check_format("mp3", "PCM_16", RATE_HZ))
            decoded, _ = soundfile.read(io.BytesIO(mp3), dtype="float32")
            assert true_peak_dbtp(decoded, RATE_HZ) <= -3
            assert found.floor_dbfs is not None
            assert found.floor_dbfs < -60
        else:
            assert peer_lufs(louder, RATE_HZ) == pytest.approx(target.level_db, abs=0.1)


def test_short_audio_goes_by_its_rms() -> None:
    samples = bursts(0.39)
    louder, found = level(samples, RATE_HZ, LevelTarget.of("ebu"))
    assert found.level_by == "rms"
    assert rms_dbfs(louder) == pytest.approx(-23, abs=0.03)


def test_what_is_hardly_there_is_not_blown_up() -> None:
    noise = 1e-5 * np.random.default_rng(0).standard_normal(RATE_HZ).astype(np.float32)
    target = LevelTarget.of("acx")
    _, found = level(noise, RATE_HZ, target)
    assert found.gain_db == 40.0
    assert found.misses(target)[0].text.startswith("loudness -60.")


def test_a_spike_is_limited_and_the_rest_is_not() -> None:
    samples = bursts(3, gain=0.05)
    samples[RATE_HZ] = 0.9
    target = LevelTarget.of("podcast")
    louder, found = level(samples, RATE_HZ, target)
    assert found.limited_db > 10
    assert found.after_db == pytest.approx(-16, abs=0.1)
    factor = 10 ** (found.gain_db / 20)
    reach = round(0.011 * RATE_HZ)
    far = np.r_[0 : RATE_HZ - reach, RATE_HZ + reach : len(samples)]
    quiet = np.abs(samples * factor) < 0.5
    kept = far[quiet[far]]
    shares = louder[kept] / (samples[kept] * factor + 1e-12)
    assert np.median(shares) == pytest.approx(1, abs=1e-3)


def test_the_limiter_leaves_no_step() -> None:
    samples = tone(1, 100, amplitude=0.5)
    samples[RATE_HZ // 2 : RATE_HZ // 2 + 200] *= 2.5
    peaks = oversampled_peaks(samples, RATE_HZ)
    limited, limited_db = limit(samples, peaks, RATE_HZ, -3.0)
    gain = limited[np.abs(samples) > 0.01] / samples[np.abs(samples) > 0.01]
    assert np.abs(np.diff(gain)).max() < 0.03
    assert limited_db == pytest.approx(20 * math.log10(peaks.max()) + 3.0, abs=0.1)
    assert (limited[: RATE_HZ // 2 - 400] == samples[: RATE_HZ // 2 - 400]).all()


def test_peaks_between_samples_count() -> None:
    """A quarter of the rate, halfway between its samples: they never show how high it goes."""
    samples = np.sin(np.pi / 2 * np.arange(4_000) + np.pi / 4).astype(np.float32)
    assert 20 * math.log10(np.abs(samples).max()) == pytest.approx(-3.01, abs=0.01)
    assert true_peak_dbtp(samples[200:-200], RATE_HZ) == pytest.approx(0, abs=0.2)


def test_the_floor_is_that_of_the_pauses() -> None:
    noise = 10 ** (-70 / 20) * np.random.default_rng(0).standard_normal(RATE_HZ)
    samples = np.concatenate([tone(1, 220), noise, np.zeros(RATE_HZ)]).astype(np.float32)
    assert floor_dbfs(samples, RATE_HZ) == pytest.approx(-70, abs=1.5)
    assert floor_dbfs(np.zeros(RATE_HZ, np.float32), RATE_HZ) is None
    target = LevelTarget.of("acx")
    hiss = 10 ** (-45 / 20) * np.random.default_rng(1).standard_normal(len(samples))
    _, found = level((samples + hiss).astype(np.float32), RATE_HZ, target)
    assert any(miss.kind is Kind.NOISE_FLOOR for miss in found.misses(target))


def test_help_and_guide_name_the_limits_of_the_code() -> None:
    """They named three different ones."""
    wanted = f"up to {NAMED['ebu'].ceiling_dbtp:g} dBTP, {NAMED['acx'].ceiling_dbtp:g} with acx"
    assert wanted in SETTINGS["loudness"].help
    guide = Path(__file__).parents[3] / "samples" / "guide" / "delivery.md"
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| (\S+) dBTP \|", guide.read_text(encoding="utf-8"), re.M
    )
    assert {name: float(limit) for name, limit in rows} == {
        name: target.ceiling_dbtp for name, target in NAMED.items()
    }
