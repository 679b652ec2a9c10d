"""`tts-cli models`: list, download and convert checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from models.checkpoint.files import CheckpointError
from models.registry import convert
from tts_cli.cli.options import common_options, help_of_group, settings
from tts_cli.cli.screen import echo, echo_json, show_table
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.named import shown_size


@click.group("models", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """List, download and convert checkpoints.

    \b
    Examples:
      tts-cli models list
      tts-cli models download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice
      tts-cli models convert fishaudio/s2-pro
    """
    return help_of_group(ctx)


@command.command("list")
@common_options
def list_command(**options: Any) -> int:
    """List the checkpoints on this machine: the sample voice, and those in the Hugging Face cache.

    For a checkpoint in another folder use `tts-cli voices --model DIR`.
    """
    config = RunConfig.from_options(options)
    from tts_cli.plan.checkpoint import stored_models

    found = stored_models()
    if config.json:
        echo_json([model.facts() for model in found])
        return 0
    rows = [
        [model.name, model.family, shown_size(model.size_bytes), model.licence_state, model.path]
        for model in found
    ]
    show_table(
        "checkpoints on this machine", ["model", "family", "size", "licence", "folder"], rows
    )
    return 0


@command.command("download")
@click.argument("model", metavar="REPO")
@settings("revision", "accept_licence")
@common_options
def download_command(model: str, **options: Any) -> int:
    """Download a checkpoint into the Hugging Face cache, without files that are not needed.

    \b
    Example:
      tts-cli models download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice

    The model family and the licence are checked before the weights are downloaded. Run the same
    command again to continue a stopped download.
    """
    config = replace(RunConfig.from_options(options), model=model)
    from tts_cli.plan.checkpoint import download

    done = download(model, config)
    if config.json:
        found = {"model": model, "family": done.family, "folder": str(done.folder)}
        echo_json({**found, "next": done.next_step})
        return 0
    echo(f"{model} is in {done.folder}")
    if done.next_step:
        echo(f"next: {done.next_step}")
    return 0


@command.command("convert")
@click.argument("model", metavar="PATH|REPO")
@settings("revision")
@common_options
def convert_command(model: str, **options: Any) -> int:
    """Convert the pickled weights of a checkpoint into safetensors, once.

    \b
    Example:
      tts-cli models convert fishaudio/s2-pro

    Fish Speech needs this; other checkpoints do not. Loading a pickle can run code, so no other
    command loads one. This command uses PyTorch's loader that creates only tensors, and accepts
    only tensors with the names and shapes of the codec. It writes codec.safetensors and codec.json
    next to codec.pth, which is then no longer needed.
    """
    config = RunConfig.from_options(options)
    try:
        done = convert(model, config.revision)
    except CheckpointError as error:
        raise SetupError(str(error)) from None
    if config.json:
        found: dict[str, Any] = {"model": model, "is_new": False, "target": None}
        if done is not None:
            found |= {"source": str(done.source), "target": str(done.target)}
            found |= {"source_sha256": done.sha256, "is_new": done.is_new}
        echo_json(found)
    elif done is None:
        echo(f"{model}: nothing to convert, all weights are safetensors")
    elif done.is_new:
        echo(f"wrote {done.target}\nfrom {done.source}, SHA-256 {done.sha256}")
    else:
        echo(f"{done.target} already exists, converted from a file with SHA-256 {done.sha256}")
    return 0
