"""Figures for the charts of the page: where time went, and how voices speak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tts_cli.checks.baselines import letters_per_second
from tts_cli.checks.folder_rows import STAGES, FolderRow, SpokenFolder
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.store.take import Take

MOST_RUNS = 4
MOST_VOICES = 12
MOST_OUTLIERS = 60  # that a voice shows
WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)


def charts_of(
    folder: SpokenFolder, checks: Mapping[tuple[str, int], TakeVerdict]
) -> dict[str, Any]:
    """All charts. Outliers name their rows by place."""
    rows = folder.rows

    def mos(speech: Take) -> float | None:
        check = checks.get((speech.id, speech.take))
        if check is None or check.mos is None or not check.fits(speech.sha256):
            return None
        return check.mos.mos

    return {
        "stages": ["loading", "graphs", *STAGES, "other"],
        "time": _times(folder),
        "rate": _by_voice(rows, letters_per_second),
        "level": _by_voice(rows, lambda speech: speech.level_dbfs),
        "mos": _by_voice(rows, mos),
    }


def _times(folder: SpokenFolder) -> list[dict[str, Any]]:
    """Seconds of each stage: of all runs together, then of the last ones.

    On a GPU stages overlap. What is left of the wall time is waiting, attempts that were not kept
    and the host.
    """
    found: list[dict[str, Any]] = []
    for number, run in enumerate(folder.runs, 1):
        totals = run.get("totals")
        if not isinstance(totals, dict):
            continue
        wall_s, load_s, capture_s = (
            float(value) if isinstance(value := totals.get(name), (int, float)) else 0.0
            for name in ("wall_s", "load_s", "capture_s")
        )
        stages = folder.stages_s.get(str(run.get("run_id")), [0.0] * len(STAGES))
        other = max(0.0, wall_s - sum(stages))
        seconds = [load_s, capture_s, *stages, other]
        ok = totals.get("ok")
        found.append(
            {
                "name": f"run {number}",
                "rows": ok if isinstance(ok, int) else None,
                "wall_s": round(wall_s, 3),
                "seconds": [round(value, 3) for value in seconds],
            }
        )
    if len(found) < 2:
        return found
    columns = zip(*(run["seconds"] for run in found), strict=True)
    everything = {
        "name": f"all {len(found)} runs",
        "rows": sum(run["rows"] or 0 for run in found),
        "wall_s": round(sum(run["wall_s"] for run in found), 3),
        "seconds": [round(sum(column), 3) for column in columns],
    }
    return [everything, *found[-MOST_RUNS:]]


def _by_voice(
    rows: Sequence[FolderRow], value_of: Callable[[Take], float | None]
) -> dict[str, Any]:
    """Quantiles of a measure for the voices with most rows, and the rows outside of them."""
    values: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for place, row in enumerate(rows):
        speech = row.take
        value = value_of(speech) if speech.is_ok and speech.frames else None
        if value is not None:
            values[speech.voice_name or "(no voice)"].append((value, place))
    names = sorted(values, key=lambda name: (-len(values[name]), name))
    entries = []
    for name in names[:MOST_VOICES]:
        found = sorted(values[name])
        marks = [_quantile([value for value, _ in found], share) for share in WHISKERS]
        low, high = marks[0], marks[-1]
        outside = [entry for entry in found if not low <= entry[0] <= high]
        outside.sort(key=lambda entry: -abs(entry[0] - marks[2]))
        entries.append(
            {
                "voice": name,
                "rows": len(found),
                "marks": [round(mark, 2) for mark in marks],
                "outliers": [[round(value, 2), place] for value, place in outside[:MOST_OUTLIERS]],
            }
        )
    return {"voices": entries, "left_out": max(0, len(names) - MOST_VOICES)}


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted numbers, between neighbours by their distance."""
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])
