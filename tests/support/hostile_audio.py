"""Recordings that must not be used: how to make each on the fly, and words of the reason.

A maker gets a path to write to and returns the path a row would name. All are small on disk.
"""

from __future__ import annotations

import functools
import io
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

RATE_HZ = 24_000
Samples = np.ndarray[Any, Any]
Maker = Callable[[Path], Path]


def tone(
    seconds: float = 1.5, rate_hz: int = RATE_HZ, channels: int = 1, hz: float = 150.0
) -> Samples:
    """(n,) or (n, channels) float32: a tone that swells, different for each frequency."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    wave = 0.3 * np.sin(2 * np.pi * hz * t) * (1 + 0.3 * np.sin(2 * np.pi * 3 * t))
    wave = wave.astype(np.float32)
    return wave if channels == 1 else np.stack([wave] * channels, axis=1)


def encoded(
    samples: Samples, format: str = "WAV", subtype: str | None = None, rate_hz: int = RATE_HZ
) -> bytes:
    """The bytes of an audio file; long ones are written in blocks."""
    buffer = io.BytesIO()
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    with soundfile.SoundFile(buffer, "w", rate_hz, channels, subtype, format=format) as file:
        for start in range(0, len(samples), 65_536):
            file.write(samples[start : start + 65_536])
    return buffer.getvalue()


def raw_wav(
    data: bytes, tag: int = 1, channels: int = 1, rate_hz: int = RATE_HZ, **claims: int
) -> bytes:
    """A WAV file byte by byte; `bits`, `align` and `size` may claim what is not so."""
    bits = claims.get("bits", 16)
    align = claims.get("align", max(1, channels * bits // 8))
    header = struct.pack(
        "<HHIIHH", tag, channels, rate_hz, min(rate_hz * align, 2**32 - 1), align, bits
    )
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(header)) + header
    body += b"data" + struct.pack("<I", claims.get("size", len(data))) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pcm(samples: Samples) -> bytes:
    """16-bit samples."""
    data: bytes = (samples * 32767).astype("<i2").tobytes()
    return data


def _file(content: Callable[[], bytes]) -> Maker:
    kept = functools.cache(content)

    def make(path: Path) -> Path:
        path.write_bytes(kept())
        return path

    return make


def _cut(format: str, subtype: str | None, share: float, rate_hz: int = RATE_HZ) -> Maker:
    def content() -> bytes:
        data = encoded(tone(4.0, rate_hz), format, subtype, rate_hz)
        return data[: int(len(data) * share)]

    return _file(content)


def _floats(change: Callable[[Samples], Samples]) -> Maker:
    return _file(lambda: encoded(change(tone()), subtype="FLOAT"))


def _with(samples: Samples, index: int, value: float) -> Samples:
    samples[index] = value
    return samples


def _forged_flac(total: int, seconds: float) -> bytes:
    """Silence whose STREAMINFO claims another number of samples: bits 108 to 143 of the block."""
    data = bytearray(encoded(np.zeros(round(seconds * RATE_HZ), np.float32), "FLAC"))
    start = data.index(b"fLaC") + 8 + 13
    data[start] = (data[start] & 0xF0) | (total >> 32)
    data[start + 1 : start + 5] = struct.pack(">I", total & 0xFFFFFFFF)
    return bytes(data)


def _damaged(format: str, subtype: str | None = None) -> bytes:
    data = bytearray(encoded(tone(4.0), format, subtype))
    middle = len(data) // 2
    data[middle : middle + len(data) // 3] = bytes(len(data) // 3)
    return bytes(data)


def _sparse(path: Path) -> Path:
    path.write_bytes(raw_wav(pcm(tone())))
    os.truncate(path, 10 * 2**30)
    return path


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _socket(path: Path) -> Path:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path may have 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)
    return path


def _link(target: str) -> Maker:
    def make(path: Path) -> Path:
        path.symlink_to(target)
        return path

    return make


def _noise(seed: int, size: int = 100_000, head: bytes = b"") -> Maker:
    return _file(lambda: head + np.random.default_rng(seed).bytes(size))


CUT = "cut off"
BROKEN = "cannot be decoded"
HOSTILE: dict[str, tuple[Maker, str]] = {
    # no audio at all
    "missing": (lambda path: path, "does not exist"),
    "missing-folder": (lambda path: path / "a.wav", "does not exist"),
    "long-name": (lambda path: path.with_name("x" * 300), "cannot be opened: File name too long"),
    "empty": (_file(lambda: b""), "is empty"),
    "one-byte": (_file(lambda: b"R"), BROKEN),
    "text": (_file(lambda: b"This is no audio.\n" * 100), BROKEN),
    "json": (_file(lambda: b'{"text": "hello"}'), BROKEN),
    "png": (_noise(1, 5000, b"\x89PNG\r\n\x1a\n"), BROKEN),
    "zip": (_noise(2, 5000, b"PK\x03\x04"), BROKEN),
    "random": (_noise(3, 100_000, b"\x00"), BROKEN),
    "wrong-magic": (_file(lambda: b"JUNK" + raw_wav(pcm(tone()))[4:]), BROKEN),
    # not plain files
    "folder": (_folder, "is a folder"),
    "fifo": (_fifo, "is not a regular file"),
    "socket": (_socket, "is not a regular file"),
    "device-zero": (lambda path: Path("/dev/zero"), "is not a regular file"),
    "device-by-link": (_link("/dev/zero"), "is not a regular file"),
    "dangling-link": (_link("nowhere.wav"), "does not exist"),
    "link-loop": (_link("link-loop"), "cannot be opened"),
    # wrong headers
    "riff-only": (_file(lambda: b"RIFF"), BROKEN),
    "no-data-chunk": (_file(lambda: raw_wav(b"")[:36]), BROKEN),
    "no-samples": (_file(lambda: raw_wav(b"")), "contains no audio"),
    "no-channels": (_file(lambda: raw_wav(pcm(tone()), channels=0, align=2)), BROKEN),
    "8-channels": (_file(lambda: encoded(tone(channels=8))), "has 8 channels; the maximum is 6"),
    "many-channels": (
        _file(lambda: raw_wav(bytes(10**6), channels=65_535, align=65_534)),
        "too many channels",
    ),
    "384-khz": (
        _file(lambda: encoded(tone(rate_hz=384_000), rate_hz=384_000)),
        "a sample rate of 384000 Hz",
    ),
    "2-khz": (
        _file(lambda: encoded(tone(rate_hz=2_000), rate_hz=2_000)),
        "a sample rate of 2000 Hz",
    ),
    "4-ghz": (_file(lambda: raw_wav(pcm(tone()), rate_hz=2**32 - 1)), BROKEN),
    "zero-hz": (_file(lambda: raw_wav(pcm(tone()), rate_hz=0)), BROKEN),
    "unknown-coding": (_file(lambda: raw_wav(pcm(tone()), tag=0x7777)), BROKEN),
    "forged-length": (
        _file(lambda: raw_wav(pcm(tone()), size=2**31)),
        "is shorter than its header states",
    ),
    "streamed-length": (
        _file(lambda: raw_wav(pcm(tone()), size=2**32 - 1)),
        "is shorter than its header states",
    ),
    "forged-flac": (_file(lambda: _forged_flac(48_000, 600)), "is silent"),
    "endless-flac": (_file(lambda: _forged_flac(2**36 - 1, 2)), "is 2863311.5 s"),
    "unknown-flac": (_file(lambda: _forged_flac(0, 600)), "is longer than 30 s"),
    # cut off or damaged
    "cut-wav": (_cut("WAV", "PCM_16", 0.5), CUT),
    "cut-rf64": (_cut("RF64", "PCM_16", 0.5), CUT),
    "cut-w64": (_cut("W64", "PCM_16", 0.9), CUT),
    "cut-aiff": (_cut("AIFF", "PCM_16", 0.5), CUT),
    "cut-au": (_cut("AU", "PCM_16", 0.5), CUT),
    "cut-caf": (_cut("CAF", "PCM_16", 0.5), BROKEN),
    "cut-flac": (_cut("FLAC", "PCM_16", 0.5), BROKEN),
    "cut-vorbis": (_cut("OGG", "VORBIS", 0.6), CUT),
    "cut-opus": (_cut("OGG", "OPUS", 0.6, 48_000), CUT),
    "cut-mp3": (_cut("MP3", "MPEG_LAYER_III", 0.5), CUT),
    "damaged-flac": (_file(lambda: _damaged("FLAC")), BROKEN),
    # too much, too little, no voice
    "flac-bomb": (_file(lambda: encoded(np.zeros(3600 * RATE_HZ, np.int16), "FLAC")), "is 3600.0"),
    "long": (_file(lambda: encoded(tone(30.1))), "is 30.1 s long; the maximum is 30 s"),
    "wide": (
        _file(lambda: encoded(tone(12, 192_000, 6), "FLAC", "PCM_16", 192_000)),
        "MiB once decoded; the maximum is 64",
    ),
    "sparse": (_sparse, "has 10,737,418,240 bytes; the maximum is 67,108,864"),
    "short": (_file(lambda: encoded(tone(0.9))), "is 0.90 s long; the minimum is 1 s"),
    "nan": (_floats(lambda wave: _with(wave, 30_000, np.nan)), "values that are not numbers"),
    "infinity": (_floats(lambda wave: _with(wave, -1, -np.inf)), "values that are not numbers"),
    "integers-as-floats": (_floats(lambda wave: wave * 32_768), "full scale is 1"),
    "zeros": (_file(lambda: encoded(0 * tone())), "is silent (nothing but zeros"),
    "whisper": (_file(lambda: encoded(1e-4 * tone(), subtype="FLOAT")), "is silent (-"),
    "dc": (_file(lambda: encoded(0 * tone() + 0.5)), "only a constant offset of 0.5"),
    "cancelling": (
        _file(lambda: encoded(tone(channels=2) * np.float32([1, -1]))),
        "cancel each other out",
    ),
}
