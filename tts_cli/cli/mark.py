"""`tts-cli mark`: verify the marks of files, and make a key for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import SectionedCommand, common_options, help_of_group
from tts_cli.cli.screen import echo, echo_json
from tts_cli.config import SUBTYPES, RunConfig
from tts_cli.errors import UsageError
from tts_cli.named import counted


@click.group("mark", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Verify the marks of generated audio, and make a key for them.

    \b
    Examples:
      tts-cli mark key mark.pem
      tts-cli synth lines.jsonl --out wavs/ --mark c2pa --mark-key mark.pem
      tts-cli mark verify wavs/
    """
    return help_of_group(ctx)


@command.command("key", cls=SectionedCommand)
@click.argument("path", metavar="FILE.pem", type=click.Path(path_type=Path))
@common_options
def key_command(path: Path, **options: Any) -> int:
    """Make a key and certificates of an unknown signer, in one file that only you can read.

    Such a signature shows that a file was not changed, but not who made it. For a known signer, put
    certificates from a certification authority and your private key into one PEM file instead.
    """
    from tts_cli.audio.content_credentials import new_key_file

    RunConfig.from_options(options)
    data = new_key_file()
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "choose another name") from error
    echo(f"{path}: give it as --mark-key; files that are signed with it have an unknown signer")
    return 0


@command.command("verify", cls=SectionedCommand)
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True),
)
@common_options
def verify_command(paths: tuple[Path, ...], **options: Any) -> int:
    """Verify the marks of audio files, or of all audio files in folders.

    Content Credentials are read with the extra mark, watermarks with the extra watermark.

    Exit code 1: a file has neither valid credentials nor a watermark.
    """
    from tts_cli.app.marks import found_marks

    config = RunConfig.from_options(options)
    suffixes = (*(f".{name}" for name in SUBTYPES), ".m4b")
    files = [
        file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file() and (file == path or file.suffix in suffixes)
    ]
    if not files:
        raise UsageError(f"{paths[0]}: has no audio files", "give files or another folder")
    facts = found_marks(files)
    num_marked = sum(one["is_marked"] for one in facts)
    if config.json:
        echo_json({"files": facts, "marked": num_marked})
        return int(num_marked < len(facts))
    for one in facts:
        score = one["watermark"]
        watermark = "" if score is None else f"; watermark score {score:.2f}"
        echo(f"{one['path']}: {credentials_line(one)}{watermark}")
    echo(f"{num_marked} of {counted(len(facts), 'file')} marked")
    return int(num_marked < len(facts))


def credentials_line(one: dict[str, Any]) -> str:
    if "signer" not in one:
        return "no credentials" if one["credentials_read"] else "credentials not read (extra mark)"
    state = "valid" if one["is_valid"] else f"NOT VALID ({', '.join(one['problems'])})"
    kind = "generated audio" if one["is_generated"] else "of unknown origin"
    trust = "" if one["is_trusted"] else ", which is on no trust list"
    return f"{state}, {kind}, signed by {one['signer']}{trust}"
