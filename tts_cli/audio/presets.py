"""The presets of `--preset`: settings, and limits that the encoded file must meet.

Encoding changes levels, and MP3 raises peaks by up to 1.8 dB. So a file is measured after encoding,
and made again with another target, at most `MAX_ATTEMPTS` times in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from tts_cli.audio.loudness import LevelTarget
from tts_cli.core import Kind, Remark
from tts_cli.plain import read_table

if TYPE_CHECKING:
    from tts_cli.audio.inspection import AudioFacts

MAX_ATTEMPTS = 3
HEADROOM_DB = 0.1  # below the peak limit, for the next attempt

T = TypeVar("T")


class LimitCheck(NamedTuple):
    name: str
    value: str
    limit: str
    unit: str
    is_met: bool

    @property
    def text(self) -> str:
        return f"{self.name} {self.value} {self.unit}".rstrip()


@dataclass(frozen=True)
class Preset:
    """A named set of settings and limits; see `presets.toml`."""

    name: str
    settings: dict[str, Any]
    formats: tuple[str, ...]
    rates_hz: tuple[int, ...]  # none: any
    measure: str  # of the level: rms or lufs
    level_db: tuple[float, float]
    peak_dbtp: float
    floor_dbfs: float = inf
    cbr_kbps: float = -inf  # lowest constant bit rate
    head_s: tuple[float, float] | None = None
    tail_s: tuple[float, float] | None = None
    length_s: float = inf
    room_tone_dbfs: float | None = None  # level of the noise at both ends; None: silence

    def accepts(self, setting: str, value: Any) -> bool:
        """Return whether another value of one of the settings may meet the limits."""
        if setting == "format":
            return value in self.formats
        if setting == "sample_rate":
            return not self.rates_hz or value in self.rates_hz
        if setting == "bitrate":
            return bool(value >= self.cbr_kbps)
        return setting != "loudness" or bool(value == self.settings[setting])

    def next_target(self, target: LevelTarget, facts: AudioFacts) -> LevelTarget | None:
        """Return the target of another attempt, by this one's; None: none would help."""
        level_db, better = facts.level_db(self.measure), target
        over_db = (facts.peak_dbtp or self.peak_dbtp) - self.peak_dbtp
        if over_db > 0:
            better = replace(better, ceiling_dbtp=target.ceiling_dbtp - over_db - HEADROOM_DB)
        if level_db is not None and not self.level_db[0] <= level_db <= self.level_db[1]:
            middle_db = sum(self.level_db) / 2
            better = replace(better, level_db=target.level_db + middle_db - level_db)
        return None if better == target else better

    def checks(self, facts: AudioFacts) -> list[LimitCheck]:
        kbps = facts.mp3_kbps[0] if len(facts.mp3_kbps) == 1 else 0
        found = [
            _one_of("format", facts.format, self.formats),
            _one_of("sample rate", facts.rate_hz, self.rates_hz, "Hz"),
            _one_of("channels", facts.channels, (1,)),
        ]
        level_name = ("RMS", "dB") if self.measure == "rms" else ("loudness", "LUFS")
        for name, value, span, unit in (
            (level_name[0], facts.level_db(self.measure), self.level_db, level_name[1]),
            ("true peak", facts.peak_dbtp, (-inf, self.peak_dbtp), "dBTP"),
            ("noise floor", facts.floor_dbfs, (-inf, self.floor_dbfs), "dB"),
            ("constant bit rate", kbps, (self.cbr_kbps, inf), "kbit/s"),
            ("head", facts.head_s, self.head_s, "s"),
            ("tail", facts.tail_s, self.tail_s, "s"),
            ("length", facts.seconds, (-inf, self.length_s), "s"),
        ):
            if span is not None and span != (-inf, inf):
                found.append(_compared(name, value, unit, *span))
        return found

    def misses(self, facts: AudioFacts) -> list[Remark]:
        """Return remarks if a file misses the limits."""
        return [
            Remark(
                Kind.NOISE_FLOOR if one.name == "noise floor" else Kind.LEVEL,
                f"{one.text} after encoding, {self.name} requires {one.limit}",
            )
            for one in self.checks(facts)
            if not one.is_met
        ]

    def meet(
        self,
        target: LevelTarget,
        make: Callable[[LevelTarget], T],
        file_of: Callable[[T], Path | BinaryIO],
    ) -> tuple[T, AudioFacts]:
        """Make a file until it meets the limits, `MAX_ATTEMPTS` times at most.

        Args:
            make: makes the file with a target.
            file_of: returns the encoded file.
        """
        from tts_cli.audio.inspection import inspect  # and soundfile with it

        attempt = replace(target, ceiling_dbtp=self.peak_dbtp - HEADROOM_DB)
        for _ in range(MAX_ATTEMPTS):
            made = make(attempt)
            facts = inspect(file_of(made))
            if (better := self.next_target(attempt, facts)) is None:
                break
            attempt = better
        return made, facts


@cache
def preset_of(name: str) -> Preset:
    table = read_table(Path(__file__).with_suffix(".toml"))[name]
    settings, limits = _with_tuples(table["settings"]), _with_tuples(table["limits"])
    return Preset(name, settings, **limits)


def _with_tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in table.items()}


def _one_of(name: str, value: Any, allowed: tuple[Any, ...], unit: str = "") -> LimitCheck:
    limit = " or ".join(map(str, allowed)) or "any"
    return LimitCheck(name, str(value), limit, unit, not allowed or value in allowed)


def _compared(name: str, value: float | None, unit: str, low: float, high: float) -> LimitCheck:
    """Compare a measurement with its limits. Silence is quiet enough, but has no level."""
    limit = f"at most {high:g}" if low == -inf else f"at least {low:g}"
    limit = limit if inf in (-low, high) else f"{low:g} to {high:g}"
    is_met = low == -inf if value is None else low <= value <= high
    return LimitCheck(name, "silence" if value is None else f"{value:.4g}", limit, unit, is_met)
