"""The outline of a row's audio in a few hundred bytes, for a page to draw.

It has one letter per bucket: 64 steps of the square root of the peak, so that steps are finer where
speech is soft.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import soundfile

from tts_cli.audio.file import in_blocks

BUCKETS = 160
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_MAX_THREADS = 8
_BLOCK = 1 << 16
_MAX_PEAKS = 1 << 22  # in memory; of a longer file the loudest of several samples


def outlines(paths: Sequence[Path | None]) -> list[str | None]:
    """Return the outline of each file; None for files that do not exist or cannot be read."""

    def outline_or_none(path: Path | None) -> str | None:
        try:
            return None if path is None else outline(path)
        except (OSError, ValueError, RuntimeError):  # the last: errors of libsndfile
            return None

    workers = min(_MAX_THREADS, os.cpu_count() or 1, len(paths))
    if workers < 2:
        return list(map(outline_or_none, paths))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(outline_or_none, paths))


def outline(path: Path) -> str:
    """Return the outline of a file, `BUCKETS` letters; empty if it has no samples. Raises
    OSError, ValueError, RuntimeError: it cannot be read.
    """
    found = [np.zeros(0, np.float32)]
    with soundfile.SoundFile(path) as file:
        step = 1 + file.frames // _MAX_PEAKS
        for block in in_blocks(file, _BLOCK):
            loudest = np.abs(block.T).max(axis=0)
            padded = np.pad(loudest, (0, -len(loudest) % step))
            found.append(padded.reshape(-1, step).max(axis=1))
    peaks = np.concatenate(found)
    if not len(peaks):
        return ""
    starts = np.arange(BUCKETS) * len(peaks) // BUCKETS
    shares = np.sqrt(np.fmin(np.maximum.reduceat(peaks, starts), 1.0))  # 1 for NaN
    return "".join(LETTERS[step] for step in np.rint((len(LETTERS) - 1) * shares).astype(int))
