"""The steps between a row's samples and its file: high-pass, trim, pad, level.

Rumble goes first, because it hides where speech begins; silence is put on before the level is
measured, and the level last of all, at the rate of the file: what is measured is what is handed
over. A row's audio depends on the row alone.

What is taken out of a row's sound: rumble and DC below its speech.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tts_cli import extras
from tts_cli.audio.join import FADE_S, Array, fade_in_, speech
from tts_cli.audio.loudness import Levelling, LevelTarget, level
from tts_cli.core import Remark

if TYPE_CHECKING:
    from tts_cli.config import RunConfig


TRIM_MARGIN_S = 0.05  # of silence kept at a trimmed end


@dataclass(frozen=True)
class Applied:
    """What was done to one row's samples, under the names of its line of the journal."""

    highpass_hz: float | None = None  # frequency of the high-pass filter
    trimmed_start_s: float = 0.0  # silence cut off at the start
    trimmed_end_s: float = 0.0  # silence cut off at the end
    pad_start_s: float = 0.0  # silence added at the start
    pad_end_s: float = 0.0  # silence added at the end
    level: Levelling = field(default_factory=Levelling)

    @property
    def start_shift_s(self) -> float:
        """How much later in the file everything is."""
        return self.pad_start_s - self.trimmed_start_s

    @property
    def added_s(self) -> float:
        """How much longer the file is."""
        cut_s = self.trimmed_start_s + self.trimmed_end_s
        return self.pad_start_s + self.pad_end_s - cut_s

    def as_dict(self) -> dict[str, Any]:
        """Flat, as a line has it."""
        values = asdict(self)
        level = values.pop("level")
        return _rounded(values | level)


@dataclass(frozen=True)
class Treatment:
    """What a run does to every row."""

    highpass_hz: float | None = None
    is_trimmed: bool = False
    pad_s: tuple[float, float] = (0.0, 0.0)  # silence in front and behind
    target: LevelTarget | None = None

    @classmethod
    def of(cls, config: RunConfig) -> Treatment:
        """What flags ask for."""
        return cls(
            config.highpass,
            config.trim,
            config.pad or (0.0, 0.0),
            None if config.loudness is None else LevelTarget.of(config.loudness),
        )

    @property
    def is_none(self) -> bool:
        """Whether samples stay as they come from the model."""
        return self == Treatment()

    def require_packages(self) -> None:
        """Raise SetupError if one is missing."""
        if self.target is not None:
            require_levels("--loudness")
        if self.highpass_hz is not None:
            require_levels("--highpass")

    def shape(self, samples: Array, rate_hz: int) -> tuple[Array, Applied]:
        """High-pass, trim and pad (n,) float32 samples, n >= 1, at the model's rate."""
        if self.highpass_hz is not None:
            samples = highpass(samples, rate_hz, self.highpass_hz)
        applied = Applied(self.highpass_hz)
        if self.is_trimmed:
            start, end = trim(samples, rate_hz)
            applied = replace(
                applied,
                trimmed_start_s=start / rate_hz,
                trimmed_end_s=(len(samples) - end) / rate_hz,
            )
            samples = _cut(samples, start, end, rate_hz)
        if any(self.pad_s):
            front, behind = (round(seconds * rate_hz) for seconds in self.pad_s)
            samples = np.pad(samples, (front, behind))
            applied = replace(applied, pad_start_s=front / rate_hz, pad_end_s=behind / rate_hz)
        return samples, applied

    def level(self, samples: Array, rate_hz: int, applied: Applied) -> tuple[Array, Applied]:
        """Bring (n,) float32 samples at the file's rate to the level that is asked for."""
        if self.target is None:
            return samples, applied
        samples, levelling = level(samples, rate_hz, self.target)
        return samples, replace(applied, level=levelling)

    def misses(self, applied: Applied) -> list[Remark]:
        """What a row's audio should be listened to for, because it is not as it was asked for."""
        return [] if self.target is None else applied.level.misses(self.target)


def trim(samples: Array, rate_hz: int) -> tuple[int, int]:
    """First sample and the one behind the last of speech with a margin of silence at both ends;
    all of it where there is no sound.
    """
    start, end = speech(samples, rate_hz)
    margin = round(TRIM_MARGIN_S * rate_hz)
    return max(0, start - margin), min(len(samples), end + margin)


def _cut(samples: Array, start: int, end: int, rate_hz: int) -> Array:
    """A stretch of samples, which fades where it was cut."""
    kept: Array = samples[start:end].copy()
    fade = round(FADE_S * rate_hz)
    if start > 0:
        fade_in_(kept[:fade])
    if end < len(samples):
        fade_in_(kept[::-1][:fade])
    return kept


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 3 if "_db" in name else 6) if isinstance(value, float) else value
        for name, value in values.items()
    }


ORDER = 2  # of the Butterworth filter, which runs forwards and backwards: 24 dB an octave in all


def require_levels(flag: str) -> None:
    """Raise SetupError if the package of the extra `levels` is missing. Imports nothing."""
    extras.require("levels", "pyloudnorm", flag)


def highpass(samples: Array, rate_hz: int, cutoff_hz: float) -> Array:
    """Take out what lies below a frequency, where 6 dB are lost.

    Forwards and backwards, so that nothing is shifted in time, and DC at the first sample makes no
    thump.

    Args:
        samples: (n,) float32.
    Returns:
        (n,) float32; it may lie outside of [-1, 1].
    """
    # Long enough for what the filter's own start leaves to have died away.
    pad = min(len(samples) - 1, round(3 * rate_hz / cutoff_hz))
    filtered = _filter(rate_hz, cutoff_hz)(samples, padlen=pad)
    return np.asarray(filtered, dtype=np.float32)


@lru_cache(maxsize=8)
def _filter(rate_hz: int, cutoff_hz: float) -> Callable[..., Array]:
    from scipy.signal import butter, sosfiltfilt

    sections = butter(ORDER, cutoff_hz, "highpass", fs=rate_hz, output="sos")
    return partial(sosfiltfilt, sections)
