"""Compile kernels into the cache, and compare every graph with eager steps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernels.launch.compilation import cache_folder
from kernels.launch.dispatch import using
from models.device.graphs import GraphRunner
from tts_cli.app.profile import sample_prompts
from tts_cli.config import MANY_ROWS, RunConfig
from tts_cli.engine.kernels import with_fallback
from tts_cli.engine.load import Loaded, open_checkpoint
from tts_cli.plan.checkpoint import approved_info
from tts_cli.plan.checks import require_speakable
from tts_cli.plan.room import Needs
from tts_cli.voices.recording import MAX_SECONDS

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

LONGEST_S = 30.0  # longest row that fits into the slots without --max-seconds
CHECK_FRAMES = 16


def warm_up(config: RunConfig) -> tuple[Loaded, list[dict[str, Any]], Path]:
    """Compile kernels, and capture and check graphs. Return model, `coverage` and kernel folder."""
    require_speakable(approved_info(config))
    loaded = open_checkpoint(config)
    info = loaded.model.info
    frames = min(int((config.max_seconds or LONGEST_S) / info.frame_s), info.max_frames)
    reference = math.ceil(MAX_SECONDS / info.frame_s) if info.can_clone else 0
    needs = Needs(
        rows=max(loaded.batch.rows, MANY_ROWS),  # as in a large run
        max_positions=min(frames + 256 + reference, info.max_positions),
        max_frames=frames,
        max_trailing=len(sample_prompts(loaded.model, 1, 1)[0].trailing_ids),
        max_reference_frames=reference,
    )
    loaded.prepare(needs, is_whole=True)
    graphs = with_fallback(lambda: coverage(loaded), loaded.model, loaded.batch.is_fixed)
    return loaded, graphs, cache_folder()


def coverage(loaded: Loaded) -> list[dict[str, Any]]:
    """Return one entry per graph: capture time, memory and the result of its check."""
    runners = loaded.model.graph_runners()
    found = []
    for runner in runners:
        if runner.capturer is None:
            continue
        check = check_frames if runner.name == "frame" else check_output
        captured = {entry["key"]: entry for entry in runner.stats.captures}
        for key in runner.keys:
            found.append({**captured[str(key)], "check": check(loaded.model, runner, key)})
        for key, reason in runner.stats.failures.items():
            entry = {"graph": runner.name, "key": key, "capture_ms": "-", "mib": "-"}
            found.append({**entry, "check": f"not captured: {reason}"})
    return found


def check_frames(model: SpeechModel, runner: GraphRunner[Any], bucket: int) -> str:
    """Synthesize the same rows with a graph and eagerly, and compare every code."""
    slots = list(range(bucket))
    prompts = sample_prompts(model, bucket, CHECK_FRAMES)

    def speak(step: Any) -> list[torch.Tensor]:
        model.prefill(prompts, slots)
        with torch.inference_mode():
            for _ in range(CHECK_FRAMES):
                step(bucket)
        statuses = model.status(model.poll(), slots)
        codes = [model.codes(slot, status.frames) for slot, status in enumerate(statuses)]
        model.release(slots)
        return codes

    graph, eager = speak(runner.run), speak(runner.function)
    for row, (ours, theirs) in enumerate(zip(graph, eager, strict=True)):
        if ours.shape != theirs.shape:
            return f"row {row}: {len(ours)} frames against {len(theirs)}"
        if not torch.equal(ours, theirs):
            frame, codebook = (ours != theirs).nonzero()[0].tolist()
            return f"row {row} differs first at frame {frame}, codebook {codebook}"
    return "equal"


def check_output(model: SpeechModel, runner: GraphRunner[Any], key: Any) -> str:
    """Compare the output of a graph with the eager one on the same static input."""
    with torch.inference_mode(), using(model.kernels):
        if runner.sample is not None:
            runner.sample(key)
        graph = runner.run(key).clone()
        eager = runner.function(key)
    worst = float((graph - eager).abs().max())
    return "equal" if worst == 0 else f"differs by up to {worst:.2e}"
