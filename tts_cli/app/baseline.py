"""What was measured before, held against what is measured now: `profile --baseline`, and the table
of samples/benchmark.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_cli.errors import UsageError
from tts_cli.plain import read_given

_MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class Baseline:
    """What was measured before, to be held against what is measured now.

    Args:
        name: of the flag and its file.
        conditions: what must be alike, by what it is called; times: by what was timed.
        tolerance: share by which a time may be longer.
    """

    name: str
    conditions: Mapping[str, object]
    times: Mapping[str, float]
    tolerance: float

    @classmethod
    def read(
        cls,
        path: Path,
        tolerance: str,
        conditions: Callable[[Any], Mapping[str, object]],
        times: Callable[[Any], Mapping[str, float]],
    ) -> Baseline:
        """Read a report as two functions take it apart. Raises UsageError."""
        share = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%?", tolerance.strip())
        if share is None:
            raise UsageError(f"--tolerance {tolerance!r}: must be a percentage such as 5%")
        try:
            report = json.loads(read_given(path, _MAX_BYTES).decode("utf-8"))
            found = conditions(report), times(report)
        except OSError as error:
            raise UsageError(f"--baseline {path}: {error.strerror or error}") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise UsageError(
                f"--baseline {path}: is not a report of this command",
                "use the output of `profile --json`, or table.json of samples/benchmark.py",
            ) from None
        return cls(f"--baseline {path}", *found, float(share[1]) / 100)

    def require_like(self, now: Mapping[str, object]) -> None:
        """Raises UsageError where it was measured under other conditions."""
        for what, value in now.items():
            if (before := self.conditions.get(what)) != value:
                raise UsageError(
                    f"{self.name}: was measured with another {what}: {before}, now {value}",
                    "measure both with the same settings",
                )

    def slower(self, now: Mapping[str, float]) -> list[dict[str, Any]]:
        """What takes longer than it may, with its times and the share that it takes more.

        Raises:
            UsageError: nothing was timed both times.
        """
        both = [what for what in now if what in self.times]
        if not both:
            raise UsageError(f"{self.name}: has no stage in common with this measurement")
        return [
            {"what": what, "before": before, "now": now[what], "more": now[what] / before - 1}
            for what in both
            if now[what] > (before := self.times[what]) * (1 + self.tolerance)
        ]


def conditions_of(report: Any) -> dict[str, object]:
    """What must be alike for the times of two reports to be compared; not our own version."""
    device, installed = report["device"], report["versions"]
    found: dict[str, object] = {"GPU": device.get("name", "none"), "dtype": device["dtype"]}
    found |= {f"version of {name}": installed[name] for name in ("torch", "triton")}
    found |= {"version of CUDA": device.get("cuda"), "kernels": device["kernels"]}
    return found | {"model": report["model"], "number of --frames": report["frames"]}


def times_of(report: Any) -> dict[str, float]:
    """The median of each stage in ms, by its name and batch size."""
    return {
        f"{stage['stage']}, batch {result['batch']}": float(stage["p50_ms"])
        for result in report["results"]
        for stage in result["stages"]
    }
