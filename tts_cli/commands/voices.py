"""`tts-cli voices`: what a checkpoint can speak as, from its small files."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tts_cli.commands.options import common_options, model_options
from tts_cli.config import RunConfig

if TYPE_CHECKING:
    from models.base import ModelInfo

MODES = {
    "custom_voice": "custom voice: rows name a voice",
    "voice_design": "voice design: instruct describes the voice",
    "base": "base: clones a reference recording",
}


@click.command("voices")
@model_options
@common_options
def command(**options: Any) -> int:
    """List the speakers, languages and modes of a checkpoint.

    --model takes a folder, a repository id such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice (its small
    files are enough once they are in the hub's cache), or synthetic:qwen3-tts-0.6b. Left out, it
    is the sample voice.
    """
    config = RunConfig.from_options(options)
    from tts_cli.session import read_info
    from tts_cli.sources import model_label

    info = read_info(config)
    if config.json:
        click.echo(json.dumps({"source": model_label(config.model), **asdict(info)}, indent=2))
        return 0
    for name, value in describe(info, model_label(config.model)):
        click.echo(f"{name}: {value}")
    return 0


def describe(info: ModelInfo, source: str) -> list[tuple[str, str]]:
    """Lines about a checkpoint."""
    instruct = "taken" if info.takes_instruct else "ignored by this checkpoint"
    cloning = "yes" if info.can_clone else "no"
    if info.type == "base":
        cloning = "its only mode; this version of tts-cli does not clone yet"
    sampling = ", ".join(f"{name} {value}" for name, value in asdict(info.sampling).items())
    return [
        ("model", f"{source} ({info.family}, {info.size}, {info.identity})"),
        ("mode", MODES.get(info.type, info.type)),
        ("voices", ", ".join(info.voices) or "none by name"),
        ("languages", ", ".join(info.languages)),
        ("instruct", instruct),
        ("cloning", cloning),
        ("audio", f"{info.sample_rate_hz} Hz, frames of {1000 * info.frame_s:g} ms"),
        ("longest row", f"{info.max_frames} frames ({info.max_frames * info.frame_s:.0f} s)"),
        ("sampling", sampling),
    ]
