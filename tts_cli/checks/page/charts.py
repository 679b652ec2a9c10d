"""Figures for the charts of the page: time by stage, and measures by voice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tts_cli.checks.baselines import letters_per_second
from tts_cli.checks.folder_rows import STAGES, FolderAudio, FolderRow
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.store.entry import JournalEntry

MAX_RUNS = 4
MAX_VOICES = 12
MAX_OUTLIERS = 60  # of a voice
WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)


def charts_of(folder: FolderAudio, checks: Mapping[tuple[str, int], TakeVerdict]) -> dict[str, Any]:
    """Return all charts. Outliers refer to rows by index."""
    rows = folder.rows

    def mos(speech: JournalEntry) -> float | None:
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


def _times(folder: FolderAudio) -> list[dict[str, Any]]:
    """Return seconds of each stage: of all runs together, then of the last ones.

    Stages overlap on a GPU. The rest of the wall time is waiting, discarded attempts and the host.
    """
    found: list[dict[str, Any]] = []
    for number, run in enumerate(folder.runs, 1):
        if (totals := run.get("totals")) is None:
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
    return [everything, *found[-MAX_RUNS:]]


def _by_voice(
    rows: Sequence[FolderRow], value_of: Callable[[JournalEntry], float | None]
) -> dict[str, Any]:
    """Return quantiles of a measure for the voices with most rows, and the rows outside of them."""
    values: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for place, row in enumerate(rows):
        speech = row.take
        value = value_of(speech) if speech.is_ok and speech.frames else None
        if value is not None:
            values[speech.voice_name or "(no voice)"].append((value, place))
    names = sorted(values, key=lambda name: (-len(values[name]), name))
    entries = []
    for name in names[:MAX_VOICES]:
        found = sorted(values[name])
        marks = [float(one) for one in np.quantile([value for value, _ in found], WHISKERS)]
        low, high = marks[0], marks[-1]
        outside = [entry for entry in found if not low <= entry[0] <= high]
        outside.sort(key=lambda entry: -abs(entry[0] - marks[2]))
        entries.append(
            {
                "voice": name,
                "rows": len(found),
                "marks": [round(mark, 2) for mark in marks],
                "outliers": [[round(value, 2), place] for value, place in outside[:MAX_OUTLIERS]],
            }
        )
    return {"voices": entries, "left_out": max(0, len(names) - MAX_VOICES)}
