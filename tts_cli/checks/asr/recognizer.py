"""The interface of recognizers: takes go in and transcripts come out, in any order.

Audio has one channel at 16 kHz, and long rows are cut into windows that end in silence. A file may
be untrusted: its length is bounded before it is read, and it is read in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tts_cli.audio.file import in_blocks
from tts_cli.checks.verdicts import MosScores
from tts_cli.store.files import file_sha256

POCKETSPHINX = "pocketsphinx"


class AsrRequest(NamedTuple):
    """A take to be transcribed. The recognizer does not get its text."""

    place: int  # in the list of the caller
    path: Path
    language: str | None  # code, such as `en`; None: unknown
    gaps_s: tuple[tuple[float, float], ...] = ()  # pauses between its parts


class AsrResult(NamedTuple):
    place: int
    text: str = ""
    sha256: str = ""  # of the file
    problem: str | None = None  # reason why the transcript is missing
    mos: MosScores | None = None  # from a model that predicts scores instead of a text


@dataclass(frozen=True)
class Identity:
    """The identity of a recognizer. Results of different recognizers are not comparable."""

    name: str  # with the version, and a digest of the weights
    languages: tuple[str, ...] = ()  # codes that it supports; empty: any
    least_score: float = 0.0  # of an aligner: words with a lower one are unsure in any voice
    spellings: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Recognizer(Protocol):
    """A recognizer with its weights in memory; the caller closes it."""

    identity: Identity

    def run(self, requests: Iterable[AsrRequest | None]) -> Iterator[AsrResult]:
        """Yield the result of every request, as they finish. A file that cannot be read gives a
        problem. None among the requests: no request is ready, so do not wait for a full batch.
        """
        ...

    def close(self) -> None: ...


Array = np.ndarray[Any, Any]

RATE_HZ = 16_000
MAX_AUDIO_S = 2 * 3600.0
WINDOW_S = 28.0  # at most; Whisper takes 30 s at a time
MIN_WINDOW_S = 14.0  # a window is cut after this, at the best place
FRAME_S = 0.02
_BLOCK = 1 << 18


class Sound(NamedTuple):
    samples: Array  # (n,) float32
    sha256: str  # of the file


def load(path: Path, rate_hz: int = RATE_HZ) -> Sound:
    """Read a file and resample it.

    Raises:
        ValueError: it has no audio, or more than `MAX_AUDIO_S`.
        OSError: it cannot be read.
    """
    import soundfile
    import soxr

    with open(path, "rb") as raw:
        digest = file_sha256(raw)
    try:
        with soundfile.SoundFile(path) as file:
            if file.frames > MAX_AUDIO_S * file.samplerate:
                raise ValueError(f"is longer than {MAX_AUDIO_S / 3600:g} hours")
            if file.channels > 2:
                raise ValueError(f"has {file.channels} channels")
            stream = soxr.ResampleStream(file.samplerate, rate_hz, 1, dtype="float32")
            blocks = [
                stream.resample_chunk(block.mean(axis=1)) for block in in_blocks(file, _BLOCK)
            ]
            blocks.append(stream.resample_chunk(np.zeros(0, np.float32), last=True))
    except soundfile.LibsndfileError as error:
        raise ValueError(f"is not audio: {error}") from None
    samples = np.nan_to_num(np.concatenate(blocks), posinf=0.0, neginf=0.0)
    if not len(samples):
        raise ValueError("contains no samples")
    return Sound(samples, digest)


def windows(samples: Array, gaps_s: Sequence[tuple[float, float]] = ()) -> Iterator[Array]:
    """Yield the audio of a row in windows of at most `WINDOW_S`, cut in the middle of a pause
    between parts if one is at the right place, else at the quietest place.

    Args:
        samples: (n,) float32 at 16 kHz.
        gaps_s: start and end of the pauses between a row's parts, seconds.
    """
    most, least = round(WINDOW_S * RATE_HZ), round(MIN_WINDOW_S * RATE_HZ)
    middles = [round((start + end) / 2 * RATE_HZ) for start, end in gaps_s]
    start = 0
    while len(samples) - start > most:
        fitting = [place for place in middles if start + least <= place <= start + most]
        if fitting:
            end = fitting[-1]
        else:
            end = start + least + quietest(samples[start + least : start + most])
        yield samples[start:end]
        start = end
    yield samples[start:]


def quietest(samples: Array) -> int:
    """Return the middle of the quietest fifth of a second of (n,) samples, n at least a second."""
    frame = round(FRAME_S * RATE_HZ)
    count = len(samples) // frame
    energies = np.square(samples[: count * frame].reshape(count, frame)).sum(axis=1)
    width = min(10, count)
    sums = np.convolve(energies, np.ones(width), "valid")
    return (int(sums.argmin()) + width // 2) * frame
