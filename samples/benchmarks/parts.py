"""The parts of the table: what is measured, and how it is shown. Each returns its figures, and
raises CommandFailed where a command did.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import manifests
import memory
from whole_run import Figures, Place, median, speak

SMALL, LARGE, FISH = "synthetic:qwen3-tts-0.6b", "synthetic:qwen3-tts-1.7b", "synthetic:fish-s2-pro"
FRAME_BATCHES = (1, 64, 256)
VOCODER_ROWS, VOCODER_FRAMES = 32, 125
MIXED_ROWS, MIXED_BATCH = 512, 256


@dataclass(frozen=True)
class Part:
    """One part of the table."""

    name: str
    measure: Callable[[Place], Figures]
    lines: Callable[[Figures], dict[str, str]]  # what it measured -> the figure, for the table
    is_usual: bool = True  # measured where nobody names parts
    is_for_portable: bool = False  # likewise, with the portable kernels


def frames(place: Place) -> Figures:
    """A replayed frame of 0.6B half-way through rows of 125, its launches, and peak memory."""
    batches = ",".join(map(str, FRAME_BATCHES))
    return _profile(place, "--batches", batches, "--stages", "frame")


def vocoder(place: Place) -> Figures:
    """The vocoder of 0.6B over 32 rows of 125 frames."""
    return _profile(place, "--batches", VOCODER_ROWS, "--stages", "vocoder")


def _profile(place: Place, *flags: object) -> Figures:
    args = ("--synthetic", SMALL.removeprefix("synthetic:"), "--json", "--frames", VOCODER_FRAMES)
    answer = place.commands.run("profile", *args, *flags, *place.flags)
    report = json.loads(answer["out"])
    results = [
        {"batch": result["batch"], **stage, "vocoder_xrt": result["vocoder_xrt"]}
        for result in report["results"]
        for stage in result["stages"]
    ]
    keys = ("batch", "stage", "p50_ms", "p95_ms", "launches", "vocoder_xrt")
    return {
        "results": [{key: result[key] for key in keys} for result in results],
        "peak_gib": report["peak_memory_bytes"] / 2**30 if report["peak_memory_bytes"] else None,
    }


def _frame_lines(figures: Figures) -> dict[str, str]:
    return {
        f"frame of 0.6B, B = {one['batch']}": f"{one['p50_ms']:.2f} ms, {one['launches']} launches"
        for one in figures["results"]
    }


def _vocoder_lines(figures: Figures) -> dict[str, str]:
    (one,) = figures["results"]
    name = f"vocoder, {VOCODER_ROWS} x {VOCODER_FRAMES} frames"
    return {name: f"{one['vocoder_xrt']:,.0f} xRT ({one['p50_ms']:.1f} ms)"}


def whole(
    model: str, batch: int, count: int, lengths: str, has_voice: bool = False
) -> Callable[[Place], Figures]:
    """Whole runs: one over fewer rows to warm the process up, and the median of several.

    Args:
        has_voice: all rows clone one recording.
    """

    def measure(place: Place) -> Figures:
        name = f"{model.rpartition(':')[2].replace('/', '_')}-{batch}"
        made = manifests.rows(count, lengths)
        if has_voice:
            name, made = f"{name}-one", manifests.behind_one(count, lengths, place.folder)
        manifest = manifests.write(made, place.folder / f"{name}.jsonl")
        flags = ("--model", model, "--max-batch", batch, "--accept-licence", *place.flags)
        out = place.folder / name
        # As many rows as refill every slot, so that all graphs of the long run come up.
        speak(place.commands, manifest, out, *flags, "--limit", min(count, 2 * batch))
        runs = [speak(place.commands, manifest, out, *flags) for _ in range(place.repeats)]
        return median(runs)

    return measure


def _whole_lines(name: str) -> Callable[[Figures], dict[str, str]]:
    def lines(figures: Figures) -> dict[str, str]:
        late, late_s = figures["recorded_while_speaking"], figures["recorded_while_speaking_s"]
        cell = f"{figures['xrt']:,.0f} xRT"
        if late:
            cell += f" ({figures['xrt_without_recording']:,.0f} without {late:.0f} graphs recorded"
            cell += f" meanwhile, {late_s:.2f} s)"
        if "peak_gib" in figures:
            cell += f", {figures['peak_gib']:.1f} of {figures['reserved_gib']:.1f} GiB"
        if figures["failed"] or figures["graph_misses"] or figures["step_downs"]:
            cell += f"; {figures['failed']} failed, {figures['graph_misses']} graph misses, "
            cell += f"{figures['step_downs']} step-downs"
        return {name: cell}

    return lines


def mixed(place: Place) -> Figures:
    """Rows that clone by embedding, by codes, and half by each: the same texts, lengths, seeds and
    number of recordings, one run of each in turn. A run of both should take the mean of the others.
    """
    flags = ("--model", f"{SMALL}-base", "--max-batch", MIXED_BATCH, *place.flags)
    kinds = ("xvec", "icl", "mixed")
    made = {}
    for kind in kinds:
        rows = manifests.cloned(MIXED_ROWS, kind, place.folder)
        made[kind] = manifests.write(rows, place.folder / f"clone-{kind}.jsonl")
    for kind in kinds:
        out = place.folder / f"clone-{kind}"
        speak(place.commands, made[kind], out, *flags, "--limit", MIXED_BATCH)
    runs: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    for _ in range(place.repeats):
        for kind in kinds:
            out = place.folder / f"clone-{kind}"
            runs[kind].append(speak(place.commands, made[kind], out, *flags))
    found: Figures = {kind: median(runs[kind]) for kind in kinds}
    found["cost"] = {
        name: _cost(found, name)
        for name in ("wall_s", "prefill_s", "frames_s", "vocoder_s", "steps", "padded_steps")
    }
    for kind in kinds:
        speaking_s = found[kind]["wall_s"] - found[kind]["recorded_while_speaking_s"]
        found[kind]["speaking_s"] = speaking_s
    found["cost"]["speaking_s"] = _cost(found, "speaking_s")
    return found


def _cost(found: Figures, name: str) -> float | None:
    """How much more of it rows of both kinds take than the mean of the runs of one kind."""
    one, other, both = (found[kind].get(name) for kind in ("xvec", "icl", "mixed"))
    return both / ((one + other) / 2) - 1 if one and other and both else None


def _mixed_lines(figures: Figures) -> dict[str, str]:
    cost = figures["cost"]
    cells = {
        f"0.6B Base, {kind}, B = {MIXED_BATCH}": _whole_lines("")(figures[kind])[""]
        for kind in ("xvec", "icl", "mixed")
    }
    said = [f"{name} {value:+.1%}" for name, value in cost.items() if value is not None]
    return cells | {"mixed against the mean of both": ", ".join(said)}


def _qwen(name: str, model: str, size: str, batch: int, **flags: bool) -> Part:
    text = f"whole run, {size}, 1,024 rows, B = {batch}"
    run = whole(model, batch, 1024, manifests.FRAMES)
    return Part(name, run, _whole_lines(text), **flags)


def _fish(batch: int, has_voice: bool = False) -> Part:
    run = whole(FISH, batch, 256, manifests.FISH_FRAMES, has_voice)
    text = "whole run, Fish S2 Pro, 256 rows"
    if has_voice:
        text += f" behind one reference of {manifests.ONE_REFERENCE_S:g} s"
    name = f"whole-fish-one-{batch}" if has_voice else f"whole-fish-{batch}"
    return Part(name, run, _whole_lines(f"{text}, B = {batch}"))


# In the order of what is wanted most, as minutes may run out.
PARTS = (
    Part("frames", frames, _frame_lines, is_for_portable=True),
    Part("vocoder", vocoder, _vocoder_lines, is_for_portable=True),
    _qwen("whole-0.6b-256", SMALL, "0.6B", 256, is_for_portable=True),
    _qwen("whole-0.6b-64", SMALL, "0.6B", 64),
    _qwen("whole-0.6b-512", SMALL, "0.6B", 512),
    _qwen("whole-1.7b-256", LARGE, "1.7B", 256),
    _qwen("whole-1.7b-512", LARGE, "1.7B", 512),
    _fish(64),
    _fish(256),
    _fish(64, has_voice=True),
    _fish(256, has_voice=True),
    Part("mixed", mixed, _mixed_lines, is_usual=False),
    Part("memory", memory.measure, memory.lines, is_usual=False),
)
