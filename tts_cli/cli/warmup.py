"""`tts-cli warmup`: compile kernels, capture graphs, and check them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from tts_cli.cli.options import UNNAMED, SectionedCommand, common_options, group, settings
from tts_cli.cli.screen import echo, echo_json, show_table
from tts_cli.config import RunConfig
from tts_cli.named import counted
from tts_cli.setting import Topic


@click.command("warmup", cls=SectionedCommand)
@settings(
    *(Topic.MODEL, Topic.DEVICE),
    without=("workers", "ray_address"),
    max_batch={"show_default": "512 on cuda, or 256 if memory is short; 16 on a CPU"},
)
@group(UNNAMED, settings("max_seconds", max_seconds={"show_default": "30"}))
@common_options
def command(**options: Any) -> int:
    """Compile kernels and capture graphs before a run, and check them.

    \b
    Examples:
      tts-cli warmup
      tts-cli warmup --model Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice --max-batch 64

    Compiled kernels are stored in the kernel cache (`tts-cli doctor` shows its folder), so later
    runs start faster. Every run captures its own graphs. Each graph is compared with the same step
    without a graph, and listed with its batch size, time, memory and the result.

    Exit code 1: a graph is missing or differs.
    """
    config = RunConfig.from_options(options)
    from tts_cli.app.warmup import warm_up

    session, graphs, cache = warm_up(config)
    if config.json:
        report = {"device": str(session.device), "load_s": round(session.load_s, 3)}
        report |= {"capture_s": round(session.capture_s, 3), "graphs": graphs}
        report |= {"kernels": {**asdict(session.kernels), "cache": str(cache)}}
        echo_json(report)
    elif not graphs:
        reason = "--no-graphs" if session.device.type == "cuda" else "graphs need a CUDA device"
        echo(f"{session.device}: no graphs to capture ({reason}); the model loads and works")
    else:
        rows = [
            [g["graph"], g["key"], str(g["capture_ms"]), str(g["mib"]), g["check"]] for g in graphs
        ]
        count = counted(len(graphs), "graph")
        title = f"{count} on {session.device}, captured in {session.capture_s:.1f} s"
        show_table(title, ["graph", "bucket", "capture ms", "MiB", "graph against eager"], rows)
        kernels = session.kernels
        echo(
            f"  {counted(kernels.compiled, 'kernel')} compiled in {kernels.compile_s:.1f} s, "
            f"{kernels.cached} were in {cache}"
        )
    return int(any(graph["check"] != "equal" for graph in graphs))
