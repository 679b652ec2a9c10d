"""`tts-cli profile`: measure the latency of each stage, and xRT."""

from __future__ import annotations

from typing import Any

import click

from models.registry import SYNTHETIC_PREFIX, synthetic_names
from tts_cli.cli.options import SectionedCommand, common_options, settings
from tts_cli.cli.screen import echo, echo_json, show_table
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.setting import Topic


@click.command("profile", cls=SectionedCommand)
@settings(Topic.MODEL)
@click.option(
    "--synthetic",
    type=click.Choice(synthetic_names()),
    help="Measure random weights of a released size, without a download.",
)
@settings(
    Topic.DEVICE,
    without=("workers", "ray_address", "reproducible"),
    max_batch={"show_default": "the largest of --batches"},
)
@click.option(
    "--batches",
    metavar="N,N,...",
    show_default="1,16,64,256 on cuda, 1,4,16 on cpu",
    help="Batch sizes to measure, powers of two.",
)
@click.option(
    "--frames",
    type=click.IntRange(1, 2000),
    default=125,
    show_default=True,
    help="Length of the rows in frames.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    show_default="50 on cuda, 5 on cpu",
    help="Number of measurements of each stage.",
)
@click.option(
    "--stages",
    metavar="NAME,NAME,...",
    show_default="all",
    help="Measure only these stages, which is faster: prompt, prefill, parts (of a frame), frame, "
    "eager (the frame without its graph), vocoder, write, reference.",
)
@common_options
def command(
    synthetic: str | None,
    batches: str | None,
    frames: int,
    repeats: int | None,
    stages: str | None,
    **options: Any,
) -> int:
    """Measure how fast this machine synthesizes, stage by stage.

    \b
    Examples:
      tts-cli profile --synthetic qwen3-tts-0.6b --batches 1,64,256
      tts-cli profile --device cpu --json

    Shows, for each batch size, the p50, p95 and p99 in ms of building a prompt, the prefill, the
    code predictor, the talker, sampling, a whole frame (with and without its graph), the vocoder
    and writing a file. For each stage it also lists its share of the frame and the number of
    kernels. xRT is seconds of audio per second; RTF is its inverse. "together" adds the times of
    frames and vocoder; on a GPU `synth` runs both concurrently.
    """
    if synthetic and options.get("model"):
        raise UsageError("--synthetic and --model exclude each other", "give only one")
    if synthetic:
        options["model"] = SYNTHETIC_PREFIX + synthetic
    config = RunConfig.from_options(options)
    from tts_cli.app.profile import profile

    results, report = profile(config, batches, frames, repeats, stages)
    if config.json:
        echo_json(report)
        return 0
    for result in results:
        show(result)
    return 0


def show(result: dict[str, Any]) -> None:
    rows = [
        [
            stage["stage"],
            f"{stage['p50_ms']:.3f}",
            f"{stage['p95_ms']:.3f}",
            f"{stage['p99_ms']:.3f}",
            "-" if stage["share"] is None else f"{100 * stage['share']:.0f}%",
            "-" if stage["launches"] is None else str(stage["launches"]),
        ]
        for stage in result["stages"]
    ]
    columns = ["stage", "p50 ms", "p95 ms", "p99 ms", "of frame", "kernels"]
    shown = [i for i in range(len(columns)) if i == 0 or any(row[i] != "-" for row in rows)]
    show_table(
        f"batch {result['batch']}",
        [columns[i] for i in shown],
        [[row[i] for i in shown] for row in rows],
    )
    speedup = result["graph_speedup"]
    against = "" if speedup is None else f", graph {speedup:.1f} times faster than eager"
    shown_rates = [
        f"{name} {result[key]:.1f} xRT"
        for name, key in (("codes", "codes_xrt"), ("vocoder", "vocoder_xrt"), ("together", "xrt"))
        if result[key] is not None
    ]
    if shown_rates:
        rtf = "" if result["rtf"] is None else f" (RTF {result['rtf']:.4f})"
        echo(f"  {', '.join(shown_rates)}{rtf}{against}")
