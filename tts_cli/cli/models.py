"""`tts-cli models`: which checkpoints are at hand, fetch others, prepare them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from models.checkpoint.files import CheckpointError
from models.registry import convert
from tts_cli.cli.options import common_options, refuse_misplaced, settings
from tts_cli.cli.screen import show_table
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.folder.files import shown_size


@click.group("models", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """List, fetch and prepare checkpoints.

    \b
    Examples:
      tts-cli models list
      tts-cli models download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice
      tts-cli models convert fishaudio/s2-pro
    """
    if ctx.invoked_subcommand is not None:
        refuse_misplaced(ctx)
        return 0
    click.echo(ctx.get_help())
    return 0


@command.command("list")
@common_options
def list_command(**options: Any) -> int:
    """List the checkpoints that are at hand: the sample voice, and those in the hub's cache.

    Folders elsewhere are looked at by `tts-cli voices --model FOLDER`.
    """
    config = RunConfig.from_options(options)
    from tts_cli.plan.checkpoint import stored_models

    found = stored_models()
    if config.json:
        click.echo(json.dumps([model.facts() for model in found], indent=2))
        return 0
    rows = [
        [model.name, model.family, shown_size(model.size_bytes), model.licence_state, model.path]
        for model in found
    ]
    show_table("checkpoints at hand", ["model", "family", "size", "licence", "folder"], rows)
    return 0


@command.command("download")
@click.argument("model", metavar="REPO")
@settings("revision", "accept_licence")
@common_options
def download_command(model: str, **options: Any) -> int:
    """Fetch a checkpoint into the hub's cache, with no more files than are read.

    What the repository is, and whether its licence is accepted, is looked at before its weights
    are fetched. A download that was stopped goes on where it ended.

    \b
    Example:
      tts-cli models download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice
    """
    config = replace(RunConfig.from_options(options), model=model)
    from tts_cli.plan.checkpoint import download

    done = download(model, config)
    if config.json:
        found = {"model": model, "family": done.family, "folder": str(done.folder)}
        click.echo(json.dumps({**found, "next": done.next_step}, indent=2))
        return 0
    click.echo(f"{model} is in {done.folder}")
    if done.next_step:
        click.echo(f"next: {done.next_step}")
    return 0


@command.command("convert")
@click.argument("model", metavar="PATH|REPO")
@settings("revision")
@common_options
def convert_command(model: str, **options: Any) -> int:
    """Convert the pickled weights of a checkpoint into safetensors, once.

    A pickle can run code when it is read, so no other command reads one. This one does, with
    PyTorch's reader that builds nothing but tensors, and takes only what has the names and shapes
    of the codec. It writes codec.safetensors, with the SHA-256 of codec.pth, and codec.json beside
    codec.pth, which is then needed no more. Fish Speech needs it; other checkpoints do not.

    \b
    Example:
      tts-cli models convert fishaudio/s2-pro
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
        click.echo(json.dumps(found, indent=2))
    elif done is None:
        click.echo(f"{model}: nothing to convert, all of it is safetensors")
    elif done.is_new:
        click.echo(f"wrote {done.target}\nof {done.source}, SHA-256 {done.sha256}")
    else:
        click.echo(f"{done.target} is there already, made of a file with SHA-256 {done.sha256}")
    return 0
