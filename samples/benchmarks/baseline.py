"""Compare a table with an earlier one: `samples/benchmark.py table --baseline`."""

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
    """An earlier measurement.

    Args:
        name: the flag and its file, for messages.
        conditions: conditions that must be equal, by name.
        times: times by stage.
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
        """Read a report.

        Args:
            conditions, times: functions that extract them from a report.
        Raises:
            UsageError: the file is not a table of this script, or the tolerance is not a
                percentage.
        """
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
                f"--baseline {path}: is not a table of this script",
                "use table.json of samples/benchmark.py",
            ) from None
        return cls(f"--baseline {path}", *found, float(share[1]) / 100)

    def require_like(self, now: Mapping[str, object]) -> None:
        """Raise UsageError if the conditions differ."""
        for what, value in now.items():
            if (before := self.conditions.get(what)) != value:
                raise UsageError(
                    f"{self.name}: was measured with another {what}: {before}, now {value}",
                    "measure both with the same settings",
                )

    def slower(self, now: Mapping[str, float]) -> list[dict[str, Any]]:
        """Return the stages that take longer than allowed: both times, and the additional share.

        Raises:
            UsageError: the measurements have no stage in common.
        """
        both = [what for what in now if what in self.times]
        if not both:
            raise UsageError(f"{self.name}: has no stage in common with this measurement")
        return [
            {"what": what, "before": before, "now": now[what], "more": now[what] / before - 1}
            for what in both
            if now[what] > (before := self.times[what]) * (1 + self.tolerance)
        ]
