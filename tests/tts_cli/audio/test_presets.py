"""Files of presets as they arrive, and presets that cannot be met."""

from __future__ import annotations

import io

import numpy as np
import pytest
from sounds import Array, bursts

from tts_cli.audio.encode import Encoder
from tts_cli.audio.inspection import inspect
from tts_cli.audio.presets import MAX_ATTEMPTS, preset_of
from tts_cli.config import PRESETS, RunConfig
from tts_cli.core import Encoded, Kind

pytestmark = pytest.mark.slow

RATE_HZ = 24_000


def encoded(name: str, samples: Array, **settings: object) -> Encoded:
    config = RunConfig.from_options({**preset_of(name).settings, "preset": name, **settings})
    return Encoder(config, RATE_HZ).encode(samples)


def spiky(seconds: float) -> Array:
    """Speech-like noise with clicks that a limiter must lower by far."""
    samples = bursts(seconds)
    samples[1000 :: RATE_HZ // 3] = 0.99
    return samples


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("gain", [0.1, 0.6])
def test_the_encoded_file_meets_every_limit(name: str, gain: float) -> None:
    for samples in (bursts(6, gain=gain), gain * spiky(6)):
        made = encoded(name, samples)
        assert isinstance(made.audio, bytes)
        facts = inspect(io.BytesIO(made.audio))
        assert [one for one in preset_of(name).checks(facts) if not one.is_met] == []
        assert made.remarks == ()


def test_room_tone_is_faint_noise_and_always_the_same() -> None:
    first, second = encoded("acx", bursts(3)), encoded("acx", bursts(3))
    assert first.sha256 == second.sha256
    assert isinstance(first.audio, bytes)
    facts = inspect(io.BytesIO(first.audio))
    assert facts.floor_dbfs == pytest.approx(-75, abs=6)
    assert 0.5 <= facts.head_s <= 1
    assert 1 <= facts.tail_s <= 5


def test_attempts_end_and_what_is_missed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voice with noise above the floor of ACX: no gain removes it."""
    noise = np.random.default_rng(0).normal(0, 0.01, 6 * RATE_HZ).astype(np.float32)
    calls = []
    plain = Encoder.encode.__globals__["encode"]
    monkeypatch.setitem(
        Encoder.encode.__globals__, "encode", lambda *args: calls.append(1) or plain(*args)
    )
    # Without room tone the quietest part is the voice's own.
    made = encoded("acx", bursts(6) + noise, pad=(0.0, 0.0), trim=False)
    assert {remark.kind for remark in made.remarks} == {Kind.NOISE_FLOOR, Kind.LEVEL}
    assert any("noise floor" in remark.text for remark in made.remarks)
    assert any("head" in remark.text for remark in made.remarks)
    assert len(calls) <= MAX_ATTEMPTS


def test_a_silent_row_is_no_fault() -> None:
    made = encoded("podcast", np.zeros(RATE_HZ, np.float32))
    assert made.remarks == ()


def test_other_settings_that_a_preset_accepts() -> None:
    acx, game = preset_of("acx"), preset_of("game")
    assert acx.accepts("bitrate", 256)
    assert not acx.accepts("bitrate", 128)
    assert not acx.accepts("format", "wav")
    assert not acx.accepts("loudness", "-19")
    assert acx.accepts("pad", (1.0, 2.0))
    assert game.accepts("format", "opus")
    assert game.accepts("sample_rate", 22_050)
