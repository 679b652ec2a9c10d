"""Bit rates of lossy formats, as options of libsndfile.

libsndfile takes a compression level between 0 and 1, whose meaning differs between formats. MP3
gets a constant bit rate; Opus and Vorbis vary around theirs.
"""

from __future__ import annotations

import io
import struct
from functools import lru_cache
from typing import Any

from tts_cli.errors import UsageError

OPUS_KBPS = (6, 256)
# Of MP3, in the order of the index in a frame's header: MPEG-1, and MPEG-2 below 32 kHz.
MPEG1_KBPS = 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320
MPEG2_KBPS = 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160
MAX_LEVEL = 0.999  # libsndfile rejects 1 in MP3
_STEPS = 12  # of a search over levels
_NOMINAL = b"\x01vorbis", 20  # start of Vorbis' first header, and the place of its bit rate


def mp3_kbps(rate_hz: int) -> tuple[int, ...]:
    if rate_hz >= 32_000:
        return MPEG1_KBPS
    highest = 160 if rate_hz >= 16_000 else 64
    return tuple(kbps for kbps in MPEG2_KBPS if kbps <= highest)


def check_bit_rate(format: str, rate_hz: int, kbps: int | None) -> None:
    """Raise UsageError if a format does not support a bit rate at this sample rate."""
    if kbps is None:
        return
    if format == "mp3" and kbps not in (known := mp3_kbps(rate_hz)):
        which = f"one of {', '.join(map(str, known))} at {rate_hz} Hz"
    elif format == "opus" and not OPUS_KBPS[0] <= kbps <= OPUS_KBPS[1]:
        which = f"{OPUS_KBPS[0]} to {OPUS_KBPS[1]}"
    elif format == "ogg" and _vorbis_kbps(rate_hz, MAX_LEVEL) > kbps:
        which = f"at least {_vorbis_kbps(rate_hz, MAX_LEVEL)} at {rate_hz} Hz"
    elif format == "ogg" and _vorbis_kbps(rate_hz, 0.0) < kbps:
        which = f"at most {_vorbis_kbps(rate_hz, 0.0)} at {rate_hz} Hz"
    elif format not in ("mp3", "opus", "ogg"):
        raise UsageError(f"--bitrate {kbps}: {format} is lossless", "leave --bitrate out")
    else:
        return
    raise UsageError(f"--bitrate {kbps}: {format} does not have it", f"use {which}")


@lru_cache(maxsize=8)
def encoder_options(format: str, rate_hz: int, kbps: int | None) -> dict[str, Any]:
    """Return the keywords of `soundfile.SoundFile` that set a bit rate; None: the format's own."""
    if kbps is None:
        return {}
    if format == "ogg":
        return {"compression_level": _vorbis_level(rate_hz, kbps)}
    low, high = OPUS_KBPS if format == "opus" else (mp3_kbps(rate_hz)[0], mp3_kbps(rate_hz)[-1])
    level = min(MAX_LEVEL, (high - kbps) / (high - low))
    is_mp3 = format == "mp3"
    return {"compression_level": level} | ({"bitrate_mode": "CONSTANT"} if is_mp3 else {})


def _vorbis_level(rate_hz: int, kbps: int) -> float:
    """Return the compression level for a nominal bit rate, by bisection."""
    low, high = 0.0, MAX_LEVEL
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _vorbis_kbps(rate_hz, middle) > kbps else (low, middle)
    return high


@lru_cache(maxsize=64)
def _vorbis_kbps(rate_hz: int, level: float) -> int:
    """Return the nominal bit rate that libvorbis writes into a file's header."""
    import soundfile

    buffer, silence = io.BytesIO(), bytes(rate_hz // 10 * 2)
    options = {"format": "OGG", "compression_level": level}
    with soundfile.SoundFile(buffer, "w", rate_hz, 1, "VORBIS", **options) as file:
        file.buffer_write(silence, "int16")
    mark, place = _NOMINAL
    data = buffer.getvalue()
    bits: int = struct.unpack_from("<i", data, data.index(mark) + place)[0]
    return round(bits / 1000)
