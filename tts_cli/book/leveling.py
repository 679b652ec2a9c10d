"""Level a chapter with one gain per voice.

One gain per row would make a whisper as loud as a shout, and a short "No." louder than its context.
One gain for the chapter would leave one voice louder than another. So each voice gets the gain that
its speech in this chapter needs, and a limiter reduces peaks. Rows are measured one by one, so that
a chapter of hours needs as much memory as its longest row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tts_cli.audio.loudness import (
    GATE_S,
    MAX_GAIN_DB,
    Array,
    LevelTarget,
    LoudnessReport,
    block_lufs,
    floor_dbfs,
    gated_lufs,
    limit,
    measured,
    oversampled_peaks,
)

STRETCH_S = 30.0  # measured together
SETTLING_BLOCKS = 5  # 0.5 s, after which the start of the filters has no effect


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


class _Meter:
    """Measures audio that arrives in pieces: RMS, or loudness by gating blocks."""

    def __init__(self, rate_hz: int, by: str) -> None:
        self._rate_hz, self._by = rate_hz, by
        self._step = round(rate_hz * GATE_S / 4)  # from block to block
        self._length, self._energy = 0, 0.0
        self._waiting: list[Array] = []
        self._num_waiting = 0
        self._front = 0  # blocks at the start of the waiting samples that were already counted
        self._blocks: list[float] = []

    def add(self, samples: Array) -> None:
        """Add the next samples."""
        values = samples.astype(np.float64)
        self._length += len(values)
        self._energy += float(values @ values)
        if self._by == "rms":
            return
        self._waiting.append(samples)
        self._num_waiting += len(samples)
        if self._num_waiting >= STRETCH_S * self._rate_hz:
            self._measure()

    def level_db(self) -> float | None:
        """Return the level of all samples."""
        if self._by == "rms" or self._length < GATE_S * self._rate_hz:
            power = self._energy / max(1, self._length)
            return 10 * math.log10(power) if power > 0 else None
        self._measure()
        return gated_lufs(self._blocks)

    def _measure(self) -> None:
        """Measure the blocks of the waiting samples. The last ones are measured again with the next
        samples, because the filters need some time before the first new block.
        """
        stretch = np.concatenate(self._waiting)
        steps = len(stretch) // self._step
        if steps < 4:
            return
        blocks = block_lufs(stretch[: steps * self._step], self._rate_hz)
        self._blocks += blocks[self._front :]
        done = max(0, len(blocks) - SETTLING_BLOCKS)
        self._front = len(blocks) - done
        self._waiting = [stretch[done * self._step :]]
        self._num_waiting = len(self._waiting[0])


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
    _meter: _Meter = field(init=False)

    def __post_init__(self) -> None:
        self._meter = _Meter(self.rate_hz, self.target.by)

    def find_gains(self, pieces: Iterable[Array], voices: Sequence[str]) -> None:
        """Set gains that bring each voice to the target.

        Args:
            pieces: samples of the rows in order, (n,) float32 each.
            voices: of the pieces.
        """
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
        """Return a piece with its gain, limited."""
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
        """Raise all gains by the difference that pauses and the limiter cause."""
        level_db = self._meter.level_db()
        if level_db is not None:
            missing_db = self.target.level_db - level_db
            gains = {voice: gain_db + missing_db for voice, gain_db in self.gains_db.items()}
            self.gains_db = {voice: min(MAX_GAIN_DB, db) for voice, db in gains.items()}
        self._meter = _Meter(self.rate_hz, self.target.by)
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
