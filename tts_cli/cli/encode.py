"""`tts-cli encode`: new files for what was spoken, from what the folder keeps."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import SectionedCommand, common_options, group, settings
from tts_cli.cli.screen import long_step, show_or_warn
from tts_cli.config import RunConfig
from tts_cli.setting import Topic

MAX_NAMED = 5  # rows that are left, without --json


@click.command("encode", cls=SectionedCommand)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@settings(
    Topic.OUTPUT,
    without=("save_codes", "subtitles"),
    out={"show_default": "beside the old files"},
)
@group(Topic.OUTPUT.heading, settings("take_over"))
@settings(Topic.MODEL, "device", "dtype", "progress")
@common_options
def command(folder: Path, **options: Any) -> int:
    """Make new files of rows that were spoken, without speaking: another format, rate or level.

    FOLDER is one that `synth` has spoken into. A row's file is made of its audio, if that is
    without loss and had no level, filter, trim or padding (files that this command replaces stay as
    NAME.original), else of its codes (`synth --save-codes`), which takes the checkpoint that spoke.
    Of rows with several takes the chosen one is made anew, the others stay as they are.
    Rows of which neither is left are named, and the exit code is 1. Run again, it makes what is
    missing; `synth` with the same format finds the rows done.

    \b
    Examples:
      tts-cli encode wavs/ --format opus --out opus/
      tts-cli encode wavs/ --subtype ULAW --sample-rate 8000 --loudness -19 --out phone/
      tts-cli encode wavs/ --loudness podcast --trim --pad 0.3
    """
    from tts_cli.app.encode import encode

    config = RunConfig.from_options(options)
    out = config.out or folder
    out = folder if out.resolve() == folder.resolve() else out
    made, found = encode(folder, out, config, partial(long_step, progress=config.progress))
    exit_code = int(bool(found.left))
    if config.json:
        left = [{"id": row_id, "reason": reason} for row_id, reason in found.left]
        facts = {
            "made": made.count,
            "done": found.done,
            "left": left,
            "audio_s": round(made.audio_s, 3),
            "out": str(out),
            "journal": str(out / "timings.jsonl"),
        }
        return show_or_warn(json.dumps(facts, indent=2), exit_code, is_json=True)
    if config.verbosity < 0:
        return exit_code
    lines = [f"{made.count} files made, {found.done} were done already, {len(found.left)} left"]
    lines += [f"left: {row_id}: {reason}" for row_id, reason in found.left[:MAX_NAMED]]
    if len(found.left) > MAX_NAMED:
        lines.append(f"left: {len(found.left) - MAX_NAMED} more; --json has them all")
    lines.append(f"files and timings.jsonl are in {out}/")
    return show_or_warn("\n".join(lines), exit_code)
