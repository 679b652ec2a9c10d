"""Bit rates of lossy formats, as FFmpeg reads them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from sounds import bursts

from tts_cli.audio.bit_rate import mp3_kbps
from tts_cli.audio.file import check_format, encode
from tts_cli.audio.inspection import inspect
from tts_cli.errors import UsageError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("rate_hz", "kbps"), [(44_100, 192), (48_000, 32), (24_000, 64), (16_000, 160), (8_000, 8)]
)
def test_mp3_has_the_constant_rate_that_was_asked_for(rate_hz: int, kbps: int) -> None:
    av = pytest.importorskip("av")
    coding = check_format("mp3", "PCM_16", rate_hz, kbps)
    data = encode(bursts(3, rate_hz), rate_hz, "mp3", coding, kbps=kbps)
    assert inspect(io.BytesIO(data)).mp3_kbps == (kbps,)
    with av.open(io.BytesIO(data)) as file:
        stream = file.streams.audio[0]
        sizes = {packet.size for packet in file.demux(stream) if packet.size}
    assert max(sizes) - min(sizes) <= 1, "frames of one size: constant"
    assert len(data) * 8 / 3000 == pytest.approx(kbps, rel=0.06)


def test_without_a_rate_mp3_varies() -> None:
    data = encode(bursts(3, 44_100), 44_100, "mp3", "MPEG_LAYER_III")
    assert len(inspect(io.BytesIO(data)).mp3_kbps) > 1


@pytest.mark.parametrize("format", ["opus", "ogg"])
def test_opus_and_vorbis_come_near_their_rate(format: str) -> None:
    coding = check_format(format, "PCM_16", 48_000)
    noise = np.random.default_rng(0).normal(0, 0.1, 480_000).astype(np.float32)
    sizes = [
        len(encode(noise, 48_000, format, coding, kbps=kbps)) * 8 / 10_000 for kbps in (64, 128)
    ]
    assert sizes[0] == pytest.approx(64, rel=0.25)
    assert sizes[1] == pytest.approx(128, rel=0.25)


@pytest.mark.parametrize(
    ("format", "rate_hz", "kbps", "remedy"),
    [
        ("mp3", 44_100, 100, "96, 112"),
        ("mp3", 24_000, 192, "one of 8, 16"),
        ("mp3", 8_000, 128, "8000 Hz"),
        ("opus", 48_000, 300, "6 to 256"),
        ("ogg", 48_000, 32, "at least 48"),
        ("ogg", 8_000, 64, "at most 42"),
        ("wav", 48_000, 64, "leave --bitrate out"),
    ],
)
def test_a_rate_that_a_format_does_not_have(
    format: str, rate_hz: int, kbps: int, remedy: str
) -> None:
    with pytest.raises(UsageError, match="--bitrate") as caught:
        check_format(format, "PCM_16", rate_hz, kbps)
    assert remedy in str(caught.value.remedy)


def test_every_rate_of_mp3_is_one_that_lame_makes() -> None:
    for rate_hz in (44_100, 22_050, 11_025):
        for kbps in mp3_kbps(rate_hz):
            data = encode(bursts(0.5, rate_hz), rate_hz, "mp3", "MPEG_LAYER_III", kbps=kbps)
            assert inspect(io.BytesIO(data)).mp3_kbps == (kbps,), (rate_hz, kbps)
