"""One `synth` over rows, as `run.json` has it, and several of them put together.

`xrt` is what `synth` says: seconds of audio on disk by seconds from the first row on. Graphs that
are recorded while rows are spoken are part of it; how long that took stands beside it, and what
would be left without. Loading weights, making slots and recording the first graphs are not in it.
"""

from __future__ import annotations

import json
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process import Commands

GIB = 2**30
REPEATS = 3

Figures = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where and how a part is measured."""

    folder: Path
    commands: Commands
    flags: tuple[str, ...]  # of every command
    repeats: int = REPEATS


def speak(commands: Commands, manifest: Path, out: Path, *flags: object) -> Figures:
    """Speak all rows into an empty folder. Raises CommandFailed."""
    shutil.rmtree(out, ignore_errors=True)
    always = ("--progress", "none", "--accept-truncated", "--free-voice", "each")
    answer = commands.run("synth", manifest, "--out", out, *always, *flags)
    report = json.loads((out / "run.json").read_text())
    stages = stage_seconds(out)
    shutil.rmtree(out)  # gigabytes of audio in all
    return facts(report) | stages | {"command_s": answer["seconds"]}


def facts(report: dict[str, Any]) -> Figures:
    """The figures of one run."""
    totals, device = report["totals"], report["device"]
    late_s = device.get("graphs_while_speaking_ms", 0.0) / 1000
    speaking_s = totals["wall_s"] - late_s
    memory = device.get("memory", {})
    found: Figures = {
        "xrt": totals["xrt"],
        "xrt_without_recording": totals["audio_s"] / speaking_s if speaking_s > 0 else None,
        "audio_s": totals["audio_s"],
        "frames": totals["frames"],
        "wall_s": totals["wall_s"],
        "recorded_while_speaking": device.get("graphs_while_speaking"),
        "recorded_while_speaking_s": late_s,
        "load_s": totals["load_s"],
        "capture_s": totals["capture_s"],
        "reference_s": totals["reference_ms"] / 1000,
        "failed": totals["failed"],
        "graph_misses": totals["graph_misses"],
        "max_batch": device.get("max_batch"),
        "step_downs": device.get("memory_step_downs", 0) + device.get("setup_step_downs", 0),
        "steps": device.get("steps"),
        "padded_steps": device.get("padded_steps"),
        "busy_share": device.get("busy_share"),
    }
    return found | {f"{name}_gib": size / GIB for name, size in memory.items()}


def stage_seconds(out: Path) -> Figures:
    """Device seconds of each stage: the rows' shares of it, added up. Retries are not included."""
    with open(out / "timings.jsonl") as file:
        rows = [json.loads(line) for line in file]
    stages = {"prefill_s": "prefill_ms", "frames_s": "decode_ms", "vocoder_s": "vocoder_ms"}
    return {
        name: sum(row.get(field) or 0.0 for row in rows) / 1000 for name, field in stages.items()
    }


def shares(report: Figures, stages: Figures) -> Figures:
    """Return the parts of `wall_s` in seconds, which add up to it.

    Frames count as long as they took next to the vocoder, which is in the rest.
    """
    device, wall_s = report["device"], report["totals"]["wall_s"]
    sparse_s = stages["frames_s"] * device["sparse_steps"] / max(1, device["steps"])
    frames_s = stages["frames_s"] - sparse_s
    return {
        "prefill": stages["prefill_s"],
        "frames": frames_s,
        "sparse": sparse_s,  # frames with rows in fewer than half of the slots
        "rest": wall_s - stages["prefill_s"] - frames_s - sparse_s,
    }


def median(runs: list[Figures]) -> Figures:
    """The median of each figure, and all of the two that matter."""
    found: Figures = {}
    for name in runs[0]:
        values = [run[name] for run in runs if run[name] is not None]
        found[name] = statistics.median(values) if values else None
    found["xrt_of_each"] = [run["xrt"] for run in runs]
    found["wall_s_of_each"] = [run["wall_s"] for run in runs]
    return found
