"""Manifests to measure with: rows that are only as long as they are told to be, and recordings to
clone.

Random weights never end a row by themselves, so `max_frames` is each row's length; texts grow with
it, as real ones do. The same arguments give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FRAMES = "62-187"  # 5 to 15 s of Qwen3-TTS
FISH_FRAMES = "108-323"  # of Fish Speech
MAX_CHARS = 103  # of the longest row
TEXT = (
    "It was late, and the rain had not stopped since the morning, so nobody came to the harbour. "
)
REFERENCES = 8
ONE_REFERENCE_S = 10.0
REFERENCE_TEXT = "Somebody has left the lamp in the window, and the boats are still out at sea."
RATE_HZ = 24_000

Row = dict[str, Any]


def rows(count: int, lengths: str = FRAMES) -> Iterator[Row]:
    """Rows of the benchmark; `lengths` is "SHORTEST-LONGEST" in frames."""
    shortest, longest = map(int, lengths.split("-"))
    for row in range(count):
        frames = shortest + row * 7919 % (longest - shortest + 1)
        text = (TEXT * 3)[: round(MAX_CHARS / longest * frames)]
        yield {"id": f"{row:05d}", "text": text, "max_frames": frames}


def cloned(count: int, modes: str, folder: Path) -> Iterator[Row]:
    """The same rows over the recordings in `folder`, which are made where they are missing.

    Args:
        modes: xvec, icl, or mixed: half the recordings are cloned by the one, half by the other,
            so that as many are encoded as in a run of one mode.
    """
    write_references(folder)
    for number, row in enumerate(rows(count)):
        reference = number % REFERENCES
        mode = ("xvec", "icl")[reference % 2] if modes == "mixed" else modes
        row["ref_audio"] = str(folder / f"reference-{reference}.wav")
        row["clone_mode"] = mode
        if mode == "icl":
            row["ref_text"] = REFERENCE_TEXT
        yield row


def behind_one(count: int, lengths: str, folder: Path) -> Iterator[Row]:
    """The same rows, all behind one recording of 10 s in `folder`, made where it is missing."""
    path = folder / f"reference-{ONE_REFERENCE_S:g}s.wav"
    folder.mkdir(parents=True, exist_ok=True)
    hum(path, ONE_REFERENCE_S, 110.0)
    for row in rows(count, lengths):
        yield row | {"ref_audio": str(path), "ref_text": REFERENCE_TEXT}


def write_references(folder: Path) -> None:
    """Recordings of 5 to 7 s."""
    for number in range(REFERENCES):
        seconds = 5 + 2 * number / (REFERENCES - 1)
        hum(folder / f"reference-{number}.wav", seconds, 110.0 + 12 * number)


def hum(path: Path, seconds: float, usual_hz: float) -> None:
    """A recording as a machine would hum it, unless it is there."""
    import numpy as np
    import soundfile

    if path.exists():
        return
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    pitch_hz = usual_hz + 6 * np.sin(2 * np.pi * 1.5 * time_s)
    phase = 2 * np.pi * np.cumsum(pitch_hz) / RATE_HZ
    loudness = 0.6 + 0.4 * np.sin(2 * np.pi * 3.1 * time_s)
    wave = loudness * sum(np.sin(k * phase) / k for k in range(1, 9))
    soundfile.write(path, (0.2 * wave).astype(np.float32), RATE_HZ)


def write(rows: Iterable[Row], path: Path) -> Path:
    """Write a manifest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
