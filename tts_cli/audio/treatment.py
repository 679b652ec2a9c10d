"""The steps between a row's samples and its file: high-pass, trim, pad, loudness.

The high-pass comes first, because rumble hides where speech starts. Loudness comes last, after
padding and at the rate of the file, so that the level of the delivered file is measured. A row's
audio does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tts_cli import extras
from tts_cli.audio.join import FADE_S, Array, fade_in_, speech_span
from tts_cli.audio.loudness import LevelTarget, LoudnessReport, level
from tts_cli.audio.presets import Preset, preset_of
from tts_cli.audio.stretch import stretch
from tts_cli.config import MAX_FIT_SPEED
from tts_cli.core import AS_SYNTHESIZED, FilePace, Kind, Remark

if TYPE_CHECKING:
    from tts_cli.config import RunConfig


TRIM_MARGIN_S = 0.05  # silence left at a trimmed end
SLOT_TOLERANCE_S = 0.01


@dataclass(frozen=True)
class PostProcessReport:
    """The changes to one row's samples, with the field names of the journal."""

    highpass_hz: float | None = None  # frequency of the high-pass filter
    trimmed_start_s: float = 0.0  # silence cut off at the start
    trimmed_end_s: float = 0.0  # silence cut off at the end
    pad_start_s: float = 0.0  # silence added at the start
    pad_end_s: float = 0.0  # silence added at the end
    speed: float = 1.0  # [number] speed of the speech compared with its synthesis (since 0.4)
    # length that the file had to fit into; null: none was requested (since 0.4)
    fit_s: float | None = None
    is_own_pace: bool = False  # whether `speed` or `fit_s` is the row's own field (since 0.5)
    level: LoudnessReport = field(default_factory=LoudnessReport)

    @property
    def start_shift_s(self) -> float:
        """How much later the audio starts in the file."""
        return self.pad_start_s - self.trimmed_start_s / self.speed

    def length_s(self, samples_s: float) -> float:
        kept_s = samples_s - self.trimmed_start_s - self.trimmed_end_s
        return self.pad_start_s + kept_s / self.speed + self.pad_end_s

    def as_dict(self) -> dict[str, Any]:
        values = asdict(self)
        level = values.pop("level")
        if not self.is_own_pace:
            del values["is_own_pace"]
        return {
            name: round(value, 3 if "_db" in name else 6) if isinstance(value, float) else value
            for name, value in (values | level).items()
        }


@dataclass(frozen=True)
class PostProcessing:
    highpass_hz: float | None = None
    is_trimmed: bool = False
    pad_s: tuple[float, float] = (0.0, 0.0)  # silence before and after
    target: LevelTarget | None = None
    # Limits that the file must meet. This field and later ones are not in the repr, which is a part
    # of the keys of chapters.
    preset: Preset | None = field(default=None, repr=False)
    pace: FilePace = field(default=AS_SYNTHESIZED, repr=False)  # of one row

    @classmethod
    def of(cls, config: RunConfig) -> PostProcessing:
        return cls(
            config.highpass,
            config.trim,
            config.pad or (0.0, 0.0),
            None if config.loudness is None else LevelTarget.of(config.loudness),
            None if config.preset is None else preset_of(config.preset),
        )

    def hashed_values(self) -> dict[str, Any]:
        """Return the values in which two files of the same speech can differ, by the names in
        their hash. A step that is not used has None, and the hash does not contain it.
        """
        target, pace = self.target, self.pace
        return {
            "highpass_hz": self.highpass_hz,
            "trim": f"{TRIM_MARGIN_S:g} s" if self.is_trimmed else None,
            "pad_s": self.pad_s if any(self.pad_s) else None,
            "level": None if target is None else (target.by, target.level_db, target.ceiling_dbtp),
            "preset": None if self.preset is None else self.preset.name,
            "pace": None if pace == AS_SYNTHESIZED else (pace.speed, pace.fit_s),
        }

    @cached_property
    def is_none(self) -> bool:
        """Whether samples stay as the model made them."""
        return self == PostProcessing()

    def require_packages(self) -> None:
        if self.target is not None:
            require_levels("--loudness")
        if self.highpass_hz is not None:
            require_levels("--highpass")

    def shape(self, samples: Array, rate_hz: int) -> tuple[Array, PostProcessReport]:
        """High-pass, trim, stretch and pad (n,) float32 samples, n >= 1, at the model's rate."""
        if self.highpass_hz is not None:
            samples = highpass(samples, rate_hz, self.highpass_hz)
        applied, (speed, fit_s, is_own) = PostProcessReport(self.highpass_hz), self.pace
        is_too_long = fit_s is not None and len(samples) > fit_s * rate_hz
        if self.is_trimmed or is_too_long:
            start, end = trim(samples, rate_hz)
            applied = replace(
                applied,
                trimmed_start_s=start / rate_hz,
                trimmed_end_s=(len(samples) - end) / rate_hz,
            )
            samples = _cut(samples, start, end, rate_hz)
        before, after = (round(seconds * rate_hz) for seconds in self.pad_s)
        if fit_s is not None:
            room = max(1, round(fit_s * rate_hz) - before - after)
            speed = min(MAX_FIT_SPEED, max(1.0, len(samples) / room))
            after += max(0, room - round(len(samples) / speed))
        if speed != 1:
            samples = stretch(samples, rate_hz, speed)
        if before or after:
            samples = np.pad(samples, (before, after))
        applied = replace(applied, pad_start_s=before / rate_hz, pad_end_s=after / rate_hz)
        return samples, replace(applied, speed=speed, fit_s=fit_s, is_own_pace=is_own)

    def level(
        self, samples: Array, rate_hz: int, applied: PostProcessReport
    ) -> tuple[Array, PostProcessReport]:
        """Bring (n,) float32 samples at the file's rate to the requested level."""
        if self.target is None:
            return samples, applied
        samples, levelling = level(samples, rate_hz, self.target)
        before, after = (round(s * rate_hz) for s in (applied.pad_start_s, applied.pad_end_s))
        if self.has_room_tone and before + after:
            samples[:before] = self.quiet(before)
            samples[len(samples) - after :] = self.quiet(after)
        return samples, replace(applied, level=levelling)

    @property
    def has_room_tone(self) -> bool:
        """Whether added silence is a faint noise."""
        return self.preset is not None and self.preset.room_tone_dbfs is not None

    def quiet(self, num_samples: int) -> Array:
        """Return (n,) float32: the silence to add at an end, always the same."""
        if self.preset is None or self.preset.room_tone_dbfs is None:
            return np.zeros(num_samples, np.float32)
        peak = 10 ** (self.preset.room_tone_dbfs / 20) * np.sqrt(3)
        noise = np.random.default_rng(0).random(num_samples, np.float32)
        return np.asarray((2 * noise - 1) * peak, np.float32)

    def misses(self, applied: PostProcessReport) -> list[Remark]:
        """Return remarks if a row's audio misses the requested level."""
        return [] if self.target is None else applied.level.misses(self.target)

    @staticmethod
    def slot_misses(applied: PostProcessReport, samples_s: float) -> list[Remark]:
        length_s, fit_s = applied.length_s(samples_s), applied.fit_s
        if fit_s is None or length_s <= fit_s + SLOT_TOLERANCE_S:
            return []
        text = f"{length_s:.2f} s at {applied.speed:g} times the speed, for a slot of {fit_s:.2f} s"
        return [Remark(Kind.SLOT, text)]


def trim(samples: Array, rate_hz: int) -> tuple[int, int]:
    """Return the start and end of speech with a margin of silence; (0, n) for a silent row."""
    start, end = speech_span(samples, rate_hz)
    margin = round(TRIM_MARGIN_S * rate_hz)
    return max(0, start - margin), min(len(samples), end + margin)


def _cut(samples: Array, start: int, end: int, rate_hz: int) -> Array:
    segment: Array = samples[start:end].copy()
    fade = round(FADE_S * rate_hz)
    if start > 0:
        fade_in_(segment[:fade])
    if end < len(samples):
        fade_in_(segment[::-1][:fade])
    return segment


ORDER = 2  # of the Butterworth filter; run forwards and backwards it has 24 dB per octave


def require_levels(flag: str) -> None:
    """Raise SetupError if the package of the extra `levels` is missing. Imports nothing."""
    extras.require("levels", "pyloudnorm", flag)


def highpass(samples: Array, rate_hz: int, cutoff_hz: float) -> Array:
    """Attenuate frequencies below a cutoff, by 6 dB there: (n,) float32 to (n,) float32, which may
    exceed [-1, 1].

    The filter runs forwards and backwards: it adds no delay, and a DC offset makes no thump at the
    first sample.
    """
    # Long enough for the filter's own transient to decay.
    pad = min(len(samples) - 1, round(3 * rate_hz / cutoff_hz))
    filtered = _filter(rate_hz, cutoff_hz)(samples, padlen=pad)
    return np.asarray(filtered, dtype=np.float32)


@lru_cache(maxsize=8)
def _filter(rate_hz: int, cutoff_hz: float) -> Callable[..., Array]:
    from scipy.signal import butter, sosfiltfilt

    sections = butter(ORDER, cutoff_hz, "highpass", fs=rate_hz, output="sos")
    return partial(sosfiltfilt, sections)
