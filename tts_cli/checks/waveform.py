"""The outline of a row's audio, in a few hundred bytes, for a page to draw.

One letter a bucket, 64 steps of the root of its peak: steps are finer where speech is soft. WAV as
we write it is mapped and read by numpy, 1 ms for ten seconds; other files go through libsndfile.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tts_cli.audio.file import in_blocks

Array = np.ndarray[Any, Any]

BUCKETS = 160
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_STEPS = len(LETTERS) - 1
_MAX_THREADS = 8
_MAX_CHUNKS = 64  # in front of the samples of a WAV file
_BLOCK = 1 << 16
_SMALL_BYTES = 1 << 23
_GRAIN = 64  # samples that become one where a file is read in blocks
_TAGS = {(1, 16), (1, 24), (3, 32)}  # format tag, bits a sample: what `file.py` writes


def outlines(paths: Sequence[Path | None]) -> list[str | None]:
    """The outline of every file; None for those that are not there or cannot be read."""
    workers = min(_MAX_THREADS, os.cpu_count() or 1, len(paths))
    if workers < 2:
        return [_outline_or_none(path) for path in paths]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(_outline_or_none, paths, chunksize=32))


def outline(path: Path) -> str:
    """The outline of one file.

    Returns:
        `BUCKETS` letters; empty where the file has no sample.
    Raises:
        OSError, ValueError: it cannot be read.
    """
    mapped = _map_wav(path)
    if mapped is None:
        mapped = _decoded(path), 1.0
    samples, unit = mapped
    return _letters(_peaks(samples) * unit if len(samples) else samples)


def _outline_or_none(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return outline(path)
    except (OSError, ValueError, RuntimeError):  # the last: libsndfile's errors
        return None


def _letters(peaks: Array) -> str:
    """(n,) peaks, not negative, as letters."""
    if not len(peaks):
        return ""
    shares = np.sqrt(np.fmin(peaks, 1.0))  # of what is no number: 1
    steps = np.rint(_STEPS * shares).astype(np.uint8)
    letters: bytes = np.frombuffer(LETTERS.encode(), np.uint8)[steps].tobytes()
    return letters.decode()


def _peaks(samples: Array) -> Array:
    """(BUCKETS,) float64 loudest samples of (n,) signed ones, n >= 1."""
    starts = np.arange(BUCKETS) * len(samples) // BUCKETS
    high = np.maximum.reduceat(samples, starts).astype(np.float64)
    low = np.minimum.reduceat(samples, starts).astype(np.float64)
    loudest: Array = np.maximum(high, -low)
    return loudest


def _map_wav(path: Path) -> tuple[Array, float] | None:
    """The samples of a mono WAV file of our kinds, and their unit; None for other files."""
    if path.suffix != ".wav":
        return None
    with open(path, "rb") as file:
        found = _wav_layout(file)
        if found is None:
            return None
        bits, start, num_bytes = found
        if bits == 24:  # the upper two of three bytes
            raw = np.fromfile(file, np.uint8, num_bytes // 3 * 3, offset=start - file.tell())
            return np.ascontiguousarray(raw.reshape(-1, 3)[:, 1:]).view("<i2").ravel(), 1 / 32768
        kind, unit = ("<i2", 1 / 32768) if bits == 16 else ("<f4", 1.0)
        count = num_bytes * 8 // bits
        if num_bytes < _SMALL_BYTES:  # quicker than mapping
            return np.fromfile(file, kind, count, offset=start - file.tell()), unit
        samples: Array = np.memmap(file, kind, "r", start, (count,))
        return samples, unit


def _wav_layout(file: BinaryIO) -> tuple[int, int, int] | None:
    """Bits a sample, where samples start and how many bytes of them are there."""
    size = os.fstat(file.fileno()).st_size
    head = file.read(12)
    if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    bits = 0
    for _ in range(_MAX_CHUNKS):
        chunk = file.read(8)
        if len(chunk) < 8:
            return None
        name, length = chunk[:4], int.from_bytes(chunk[4:], "little")
        if name == b"fmt ":
            content = file.read(length + length % 2) if length < _BLOCK else b""
            if len(content) < 16:
                return None
            tag, channels, _, _, _, bits = struct.unpack_from("<HHIIHH", content)
            if channels != 1 or (tag, bits) not in _TAGS:
                return None
        elif name == b"data":
            start = file.tell()
            return (bits, start, min(length, size - start)) if bits else None
        else:
            file.seek(length + length % 2, os.SEEK_CUR)
    return None


def _decoded(path: Path) -> Array:
    """(n / 64,) loudest samples of any file that libsndfile reads."""
    import soundfile

    def blocks() -> Iterator[Array]:
        with soundfile.SoundFile(path) as file:
            for block in in_blocks(file, _BLOCK):
                loudest = np.abs(block).max(axis=1)
                padded = np.pad(loudest, (0, -len(loudest) % _GRAIN))
                yield padded.reshape(-1, _GRAIN).max(axis=1)

    found = list(blocks())
    return np.concatenate(found) if found else np.zeros(0, np.float32)
