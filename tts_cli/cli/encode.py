"""`tts-cli encode`: new files for what was spoken, from what the folder keeps."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import OUT, SectionedCommand, common_options, group, settings
from tts_cli.cli.screen import long_step, show_or_warn
from tts_cli.config import RunConfig
from tts_cli.named import counted
from tts_cli.setting import Topic

MAX_NAMED = 5  # rows that are left, without --json


@click.command("encode", cls=SectionedCommand)
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@settings(
    Topic.OUTPUT,
    without=("save_codes", "subtitles"),
    out={**OUT, "help": "Folder for the new files.", "show_default": "DIR itself"},
)
@group(Topic.OUTPUT.heading, settings("take_over"))
@settings(Topic.MODEL, "device", "dtype", "progress")
@common_options
def command(folder: Path, **options: Any) -> int:
    """Make files in another format, sample rate or level, without speaking again.

    \b
    Examples:
      tts-cli encode wavs/ --format opus --out opus/
      tts-cli encode wavs/ --subtype ULAW --sample-rate 8000 --loudness -19 --out phone/
      tts-cli encode wavs/ --loudness podcast --trim --pad 0.3

    DIR is the output folder of `synth`, `book` or `merge`. Each file is made from the row's audio,
    if that is lossless and has no level, filter, trim or padding yet. Otherwise it is made from the
    row's codes (`synth --save-codes`), with the checkpoint that spoke. The old files stay, as
    NAME.original, where new ones take their place. Only the chosen take of a row is made anew.
    Subtitles and times of words go along. Run the same command again to make what is missing.
    `synth` with the same format finds the rows done.

    Exit code 1: some rows have neither such audio nor codes. They are named.
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
            "removed": found.gone,
            "audio_s": round(made.audio_s, 3),
            "out": str(out),
            "journal": str(out / "timings.jsonl"),
        }
        return show_or_warn(json.dumps(facts, indent=2), exit_code, is_json=True)
    if config.verbosity < 0:
        return exit_code
    files = counted(made.count, "file")
    lines = [f"{files} made, {found.done} done already, {len(found.left)} left"]
    lines += [f"left: {row_id}: {reason}" for row_id, reason in found.left[:MAX_NAMED]]
    if len(found.left) > MAX_NAMED:
        lines.append(f"left: {len(found.left) - MAX_NAMED} more; --json has them all")
    if found.left:
        lines.append(
            "next, for rows that are left: run their `synth` again with these flags, which speaks "
            "them again; with --save-codes every later delivery is made without speaking"
        )
    if made.count or found.done:
        lines.append(f"files and timings.jsonl are in {out}/")
    if out == folder and config.format != "wav" and made.count:
        lines.append(f"later runs of `synth` into {out}/: with --format {config.format}, as these")
    return show_or_warn("\n".join(lines), exit_code)
