"""Level a chapter with one gain per voice, followed by a limiter.

One gain per row would make a whisper as loud as a shout, and a short "No." louder than its context.
One gain for the chapter would leave one voice louder than another. Rows are measured one by one, so
that a chapter of hours needs as much memory as its longest row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tts_cli.audio.loudness import (
    MAX_GAIN_DB,
    Array,
    LevelTarget,
    LoudnessReport,
    Meter,
    floor_dbfs,
    limit,
    measured,
    oversampled_peaks,
)


@dataclass
class _Mean:
    """The level of several pieces: the mean of their powers, weighted by length."""

    length: int = 0
    power: float = 0.0

    def add(self, length: int, level_db: float | None) -> None:
        if level_db is not None:
            self.length += length
            self.power += length * 10 ** (level_db / 10)

    def level_db(self) -> float | None:
        return 10 * math.log10(self.power / self.length) if self.power > 0 else None


@dataclass
class ChapterLevel:
    """The gains of the voices of a chapter, and the resulting levels.

    Order of calls: `find_gains`; `apply` and `measure` for the whole chapter, `adjust_gains`; then
    `apply` and `measure` again while the chapter is written.
    """

    rate_hz: int
    target: LevelTarget
    gains_db: dict[str, float] = field(default_factory=dict)
    before_db: float | None = None
    limited_db: float = 0.0
    peak: float = 0.0
    floor_db: float | None = None
    _meter: Meter = field(init=False)

    def __post_init__(self) -> None:
        self._meter = Meter(self.rate_hz, self.target.by)

    def find_gains(self, pieces: Iterable[Array], voices: Sequence[str]) -> None:
        """Set gains that bring each voice to the target, from (n,) float32 samples of each row."""
        whole = _Mean()
        by_voice: dict[str, _Mean] = {}
        for piece, voice in zip(pieces, voices, strict=True):
            level_db = measured(piece, self.rate_hz, self.target.by)[1]
            whole.add(len(piece), level_db)
            by_voice.setdefault(voice, _Mean()).add(len(piece), level_db)
        self.before_db = whole.level_db()
        for voice, mean in by_voice.items():
            level_db = mean.level_db()
            needed_db = 0.0 if level_db is None else self.target.level_db - level_db
            self.gains_db[voice] = min(MAX_GAIN_DB, needed_db)

    def apply(self, piece: Array, voice: str) -> Array:
        louder = piece * np.float32(10 ** (self.gains_db[voice] / 20))
        peaks = oversampled_peaks(louder, self.rate_hz)
        louder, limited_db = limit(louder, peaks, self.rate_hz, self.target.ceiling_dbtp)
        if limited_db:
            peaks = oversampled_peaks(louder, self.rate_hz)
        self.limited_db = max(self.limited_db, limited_db)
        self.peak = max(self.peak, float(peaks.max()))
        floor = floor_dbfs(louder, self.rate_hz)
        if floor is not None:
            self.floor_db = floor if self.floor_db is None else min(self.floor_db, floor)
        return louder

    def measure(self, samples: Array) -> None:
        """Measure the next samples of the file, including pauses."""
        self._meter.add(samples)

    def adjust_gains(self) -> None:
        """Raise all gains by the loudness lost to pauses and the limiter."""
        level_db = self._meter.level_db()
        if level_db is not None:
            missing_db = self.target.level_db - level_db
            gains = {voice: gain_db + missing_db for voice, gain_db in self.gains_db.items()}
            self.gains_db = {voice: min(MAX_GAIN_DB, db) for voice, db in gains.items()}
        self._meter = Meter(self.rate_hz, self.target.by)
        self.limited_db, self.peak, self.floor_db = 0.0, 0.0, None

    def levelling(self) -> LoudnessReport:
        """Return the levels of the whole file, with the gain of the first voice."""
        return LoudnessReport(
            self.target.by,
            self.before_db,
            next(iter(self.gains_db.values()), 0.0),
            self.limited_db,
            self._meter.level_db(),
            20 * math.log10(self.peak) if self.peak else None,
            self.floor_db,
        )
