"""What `check` asks of a recogniser: takes go in, words come out, in any order.

Audio as recognisers take it: one channel at 16 kHz, long rows in windows that end in silence.

A file may be anybody's: its length is bounded before it is read, and it is read in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tts_cli.audio.file import in_blocks
from tts_cli.checks.verdicts import Opinion
from tts_cli.store.files import hash_of

POCKETSPHINX = "pocketsphinx"


class Asked(NamedTuple):
    """A take to be heard. Its text is not among what is told."""

    place: int  # in the list of what is to be heard
    path: Path
    language: str | None  # code, such as `en`; None: not known
    gaps_s: tuple[tuple[float, float], ...] = ()  # pauses between its parts


class Answer(NamedTuple):
    """What was heard in one."""

    place: int
    text: str = ""
    sha256: str = ""  # of the file that was heard
    problem: str | None = None  # why nothing could be heard
    opinion: Opinion | None = None  # of what predicts one, in place of a text


@dataclass(frozen=True)
class Identity:
    """Which recogniser: answers of another one are not its own."""

    name: str  # with version, and the sum of its weights
    languages: tuple[str, ...] = ()  # codes that it hears; empty: any
    least_score: float = 0.0  # of an aligner: what has less is unsure, whatever its voice
    spellings: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Recogniser(Protocol):
    """A recogniser with its weights in memory, to be closed."""

    identity: Identity

    def hear(self, asked: Iterable[Asked | None]) -> Iterator[Answer]:
        """Every take, as it is heard; a file that cannot be read answers with its problem.

        Args:
            asked: None among them: none has come for a while, so nobody waits for more of them.
        """
        ...

    def close(self) -> None:
        """Give back processes and memory."""
        ...


Array = np.ndarray[Any, Any]

RATE_HZ = 16_000
MAX_AUDIO_S = 2 * 3600.0
WINDOW_S = 28.0  # at most; Whisper hears 30 s at once
LEAST_WINDOW_S = 14.0  # a window is cut behind this, at the best place
FRAME_S = 0.02
_BLOCK = 1 << 18


class Sound(NamedTuple):
    """A file's audio."""

    samples: Array  # (n,) float32
    sha256: str  # of the file


def load(path: Path, rate_hz: int = RATE_HZ) -> Sound:
    """Read a file, at a rate.

    Raises:
        ValueError: it holds no audio, or more than `MAX_AUDIO_S`.
        OSError: it cannot be read.
    """
    import soundfile
    import soxr

    with open(path, "rb") as raw:
        digest = hash_of(raw)
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
    """A row's audio in windows that a recogniser hears at once: cut in the middle of a pause
    between parts where one lies at the right place, else where it is quietest.

    Args:
        samples: (n,) float32 at 16 kHz.
        gaps_s: start and end of the pauses between a row's parts, seconds.
    """
    most, least = round(WINDOW_S * RATE_HZ), round(LEAST_WINDOW_S * RATE_HZ)
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
    """The middle of the quietest fifth of a second of (n,) samples, n of a second and more."""
    frame = round(FRAME_S * RATE_HZ)
    count = len(samples) // frame
    energies = np.square(samples[: count * frame].reshape(count, frame)).sum(axis=1)
    width = min(10, count)
    sums = np.convolve(energies, np.ones(width), "valid")
    return (int(sums.argmin()) + width // 2) * frame
