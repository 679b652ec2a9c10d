"""The one table of sampling settings: each is a line of `Sampling`.

Manifest rows, flags, `RunConfig`, the hash of a request, the slots' buffers and the kernels'
arguments all follow from it. A further setting is a line here and an argument of its kernel. A
setting added to a released version has `as_before=...`: the value for which nothing changes (see
`tts_cli.store.hashes`).

Settings of codebooks 1..K-1 begin with `subtalker_`; the arguments of their kernel have the same
names without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

SUBTALKER = "subtalker_"
ENDLESS = 2**63 - 1  # the limit of an integer's width, not a real one


@dataclass(frozen=True)
class Range:
    """The allowed values of a number, both ends included unless `is_low_open`."""

    low: float
    high: float
    is_integer: bool = False
    is_low_open: bool = False  # low itself is refused
    hint: str = ""  # added to the message, in brackets

    def problem(self, value: float) -> str | None:
        """Return why `value` is wrong, or None."""
        is_low_ok = value > self.low if self.is_low_open else value >= self.low
        is_finite = abs(value) < math.inf  # for any integer too; NaN is not
        if is_finite and is_low_ok and value <= self.high:
            return None
        span = f"over {self.low:g} and at most {self.high:g}"
        if self.is_integer:
            span = f"{self.low} to {self.high}" if self.high < ENDLESS else f"at least {self.low}"
        elif not self.is_low_open:
            span = f"{self.low:g} to {self.high:g}"
        return f"must be {span}, not {value}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True)
class Setting:
    """The properties of a setting in the table, without name and default."""

    kind: type[float]  # float, int or bool
    limits: Range | None  # None for bool
    help: str  # of its flag; empty where only rows can give it
    metavar: str | None


def _setting(
    default: float,
    limits: Range | None = None,
    help: str = "",
    metavar: str | None = None,
    **more: Any,
) -> Any:
    setting = Setting(type(default), limits, help, metavar)
    return field(default=default, metadata={"setting": setting, **more})


_TEMPERATURE = Range(0.001, 100.0, hint="for the likeliest code at every step use greedy")
_TOP_K = Range(0, 2**31 - 1, is_integer=True, hint="0 is off")
_TOP_P = Range(0.0, 1.0, is_low_open=True, hint="1 is off")
_PENALTY = Range(0.01, 100.0, hint="1 is off")


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of one row. The defaults are the official package's."""

    temperature: float = _setting(
        0.9, _TEMPERATURE, "Spread of the first codebook's draws, 0.001 to 100.", "T"
    )
    top_k: int = _setting(50, _TOP_K, "Draw from the K likeliest codes; 0 is off.", "K")
    top_p: float = _setting(
        1.0, _TOP_P, "Draw from the likeliest codes that hold this share; 1 is off.", "P"
    )
    repetition_penalty: float = _setting(
        1.05, _PENALTY, "Penalty on first codes already used; 1 is off.", "R"
    )
    greedy: bool = _setting(False, help="Always take the likeliest code instead of drawing one.")
    subtalker_temperature: float = _setting(
        0.9, _TEMPERATURE, "Temperature of the other codebooks, 0.001 to 100.", "T"
    )
    subtalker_top_k: int = _setting(50, _TOP_K, "Top-k of the other codebooks; 0 is off.", "K")
    subtalker_top_p: float = _setting(1.0, _TOP_P, "Top-p of the other codebooks; 1 is off.", "P")
    subtalker_greedy: bool = _setting(False)

    @property
    def draws_nothing(self) -> bool:
        """Whether every code is the likeliest one, so that another seed changes nothing."""
        return self.greedy and self.subtalker_greedy


SETTINGS: dict[str, Setting] = {entry.name: entry.metadata["setting"] for entry in fields(Sampling)}
