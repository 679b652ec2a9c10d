"""Level a chapter: one gain for each of its voices.

A gain a row would make a whisper as loud as a shout, and a short "No." louder than what stands
around it; one for the whole chapter would leave one voice louder than the other. So each voice gets
what its speech in this chapter needs all together, and the sounds that stick out are limited. Rows
are looked at one by one, so that a chapter of hours takes no more than its longest row.
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

STRETCH_S = 30.0  # measured at once
SETTLING_BLOCKS = 5  # 0.5 s: the filters of the meter have forgotten by then how they began


@dataclass
class _Mean:
    """The level of pieces all together: the mean of their powers, by their lengths."""

    length: int = 0
    power: float = 0.0

    def add(self, length: int, level_db: float | None) -> None:
        if level_db is not None:
            self.length += length
            self.power += length * 10 ** (level_db / 10)

    def level_db(self) -> float | None:
        return 10 * math.log10(self.power / self.length) if self.power > 0 else None


class _Meter:
    """The level of audio that comes piece by piece: RMS, or loudness from the blocks that the meter
    of `audio.loudness` finds in stretches of it.
    """

    def __init__(self, rate_hz: int, by: str) -> None:
        self._rate_hz, self._by = rate_hz, by
        self._step = round(rate_hz * GATE_S / 4)  # from block to block
        self._length, self._energy = 0, 0.0
        self._waiting: list[Array] = []
        self._num_waiting = 0
        self._front = 0  # blocks at the start of what waits that were counted before
        self._blocks: list[float] = []

    def add(self, samples: Array) -> None:
        """Take in what comes next."""
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
        """Of all that came."""
        if self._by == "rms" or self._length < GATE_S * self._rate_hz:
            power = self._energy / max(1, self._length)
            return 10 * math.log10(power) if power > 0 else None
        self._measure()
        return gated_lufs(self._blocks)

    def _measure(self) -> None:
        """Blocks of what waits. Its end waits on: for blocks that begin there, and for the filters,
        which have to come to rest before the first that counts.
        """
        stretch = np.concatenate(self._waiting)
        steps = len(stretch) // self._step
        if steps < 4:
            return
        blocks = block_lufs(stretch[: steps * self._step], self._rate_hz)
        self._blocks += blocks[self._front :]
        kept = max(0, len(blocks) - SETTLING_BLOCKS)
        self._front = len(blocks) - kept
        self._waiting = [stretch[kept * self._step :]]
        self._num_waiting = len(self._waiting[0])


@dataclass
class ChapterLevel:
    """The gains of a chapter's voices, and what comes of them.

    The order of calls: `look_at`; `apply` and `hear` for all of the chapter, `settle`; and both
    again while it is written.
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

    def look_at(self, pieces: Iterable[Array], voices: Sequence[str]) -> None:
        """Find gains that make all voices the same.

        Args:
            pieces: what rows leave in the chapter, in their order, (n,) float32 each.
            voices: of every piece.
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
        """A piece at its level."""
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

    def hear(self, samples: Array) -> None:
        """Take in what the chapter's file gets next, pauses too."""
        self._meter.add(samples)

    def settle(self) -> None:
        """Give all voices what the chapter lacks: what pauses and the limiter have taken."""
        level_db = self._meter.level_db()
        if level_db is not None:
            missing_db = self.target.level_db - level_db
            gains = {voice: gain_db + missing_db for voice, gain_db in self.gains_db.items()}
            self.gains_db = {voice: min(MAX_GAIN_DB, db) for voice, db in gains.items()}
        self._meter = _Meter(self.rate_hz, self.target.by)
        self.limited_db, self.peak, self.floor_db = 0.0, 0.0, None

    def levelling(self) -> LoudnessReport:
        """What came of it, as a meter has it of the whole file; the gain is the first voice's."""
        return LoudnessReport(
            self.target.by,
            self.before_db,
            next(iter(self.gains_db.values()), 0.0),
            self.limited_db,
            self._meter.level_db(),
            20 * math.log10(self.peak) if self.peak else None,
            self.floor_db,
        )
