"""Samples to bytes: exact values, every format read back, no NaN in a file."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load

from tts_cli.audio.file import (
    FORMATS,
    check_format,
    encode,
    encode_codes,
    in_blocks,
    resample,
    to_float,
    to_int16,
)
from tts_cli.config import SUBTYPES
from tts_cli.errors import RowError, SetupError, UsageError

RATE = 24_000
TONE = (0.5 * np.sin(np.arange(RATE) * 2 * np.pi * 220 / RATE)).astype(np.float32)
TOLERANCE = {"PCM_16": 1.6e-5, "PCM_24": 1e-7, "FLOAT": 0.0}
FILES = [
    (format, subtype)
    for format, subtypes in SUBTYPES.items()
    for subtype in subtypes
    if subtype in TOLERANCE
]


def test_every_format_has_its_facts() -> None:
    assert FORMATS.keys() == SUBTYPES.keys()


@pytest.mark.parametrize(("format", "subtype"), FILES)
def test_read_back(format: str, subtype: str) -> None:
    coding = check_format(format, subtype, RATE)
    data = encode(TONE, RATE, format, coding)
    samples, rate = soundfile.read(io.BytesIO(data), dtype="float64")
    assert rate == RATE
    if not FORMATS[format].is_lossy:
        assert samples.shape == TONE.shape
        scale = 1.0 if subtype == "FLOAT" else {"PCM_16": 32768 / 32767, "PCM_24": 1.0}[subtype]
        assert np.abs(samples * scale - TONE).max() <= TOLERANCE[subtype]
        assert soundfile.info(io.BytesIO(data)).subtype == subtype
    else:
        assert abs(len(samples) - RATE) < 3000  # an mp3 is padded to its frames
        assert samples.std() == pytest.approx(TONE.std(), rel=0.05)  # Opus overshoots a tone
        assert soundfile.info(io.BytesIO(data)).subtype == FORMATS[format].coding


@pytest.mark.parametrize("format", ["wav", "flac", "ogg", "mp3"])
def test_blocks_are_the_whole(format: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A seek behind each block made other samples of an MP3, and complaints on stderr."""
    noise = np.random.default_rng(0).normal(0, 0.2, 3 * RATE).astype(np.float32)
    data = encode(noise.clip(-1, 1), RATE, format, check_format(format, "PCM_16", RATE))
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        found = np.concatenate(list(in_blocks(file, 5_000)))
    whole, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    assert found.shape == whole.shape
    assert np.abs(found - whole).max() < 1e-6
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    ("format", "subtype"), [one for one in FILES if FORMATS[one[0]].container != "OGG"]
)
def test_same_samples_same_bytes(format: str, subtype: str) -> None:
    """libsndfile puts the time into float WAV files; ours must not."""
    coding = check_format(format, subtype, RATE)
    assert encode(TONE, RATE, format, coding) == encode(TONE.copy(), RATE, format, coding)


def test_wav_equals_libsndfile() -> None:
    buffer = io.BytesIO()
    soundfile.write(buffer, to_int16(TONE), RATE, subtype="PCM_16", format="WAV")
    assert encode(TONE, RATE, "wav", "PCM_16") == buffer.getvalue()


def test_rounding_and_clipping() -> None:
    step = 1 / 32767
    values = np.array([0, 0.4 * step, 0.6 * step, -0.6 * step, 1, -1, 1.5, -9], np.float32)
    assert to_int16(values).tolist() == [0, 0, 1, -1, 32767, -32767, 32767, -32767]


def test_int16_passes_through() -> None:
    values = np.array([-32768, -1, 0, 32767], np.int16)
    assert to_int16(values) is values
    data = encode(values, RATE, "wav", "PCM_16")
    assert soundfile.read(io.BytesIO(data), dtype="int16")[0].tolist() == values.tolist()
    assert to_float(values).tolist() == [-1.0, -1 / np.float32(32767), 0.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("format", "subtype"), FILES)
def test_not_a_number_is_refused(bad: float, format: str, subtype: str) -> None:
    values = TONE.copy()
    values[7] = bad
    with pytest.raises(RowError, match="not numbers"):
        encode(values, RATE, format, check_format(format, subtype, RATE))


def test_long_vorbis() -> None:
    """Handing minutes to libsndfile's Vorbis encoder at once has overflown its stack."""
    data = encode(np.tile(TONE, 120), RATE, "ogg", "VORBIS")
    assert soundfile.info(io.BytesIO(data)).frames == 120 * RATE


@pytest.mark.parametrize("rate", [44_056, 96_000])
def test_rates_of_mp3(rate: int) -> None:
    with pytest.raises(UsageError, match="--sample-rate with one of"):
        check_format("mp3", "PCM_16", rate)


@pytest.mark.parametrize("rate", [8_000, 44_100, 192_000])
def test_resampling(rate: int) -> None:
    check_format("wav", "PCM_16", rate)
    changed = resample(TONE, RATE, rate)
    assert abs(len(changed) - len(TONE) * rate / RATE) <= 1
    assert resample(TONE, RATE, RATE) is TONE


def test_an_old_libsndfile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundfile, "check_format", lambda *_: False)
    with pytest.raises(SetupError, match="cannot write mp3"):
        check_format("mp3", "PCM_16", RATE)


def test_codes() -> None:
    codes = np.arange(32).reshape(2, 16)
    tensor = load(encode_codes(codes))["codes"]
    assert tensor.dtype == np.int16
    assert (tensor == codes).all()
    assert load(encode_codes(codes.T))["codes"].shape == (16, 2)
