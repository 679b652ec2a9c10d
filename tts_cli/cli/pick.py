"""`tts-cli pick`: choose the current take of a row. Imports no model and no torch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tts_cli.app.again import short_command
from tts_cli.cli.options import SectionedCommand, common_options, group, settings
from tts_cli.cli.screen import echo, echo_json, show_table
from tts_cli.config import RunConfig


@click.command("pick", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("choices", metavar="[ID=TAKE]...", nargs=-1)
@group("Folder", settings("take_over"))
@common_options
def command(folder: Path, choices: tuple[str, ...], **options: Any) -> int:
    """Choose the current take of a row. Without a choice, list the rows that have several takes.

    \b
    Examples:
      tts-cli synth lines.jsonl --out wavs/ --only intro/003 --takes 3
      tts-cli pick wavs/ intro/003=2
      tts-cli pick wavs/ intro/003=seed:9 intro/004=1
      tts-cli pick wavs/

    DIR is the output folder of `synth` or `book`. TAKE is a number, or seed:N for the take with
    that seed: the row's own, as in timings.jsonl, or the run's, as in --seed. The chosen take is
    pinned: no later run replaces it, whatever its seed, until the row's text, voice or other
    settings change. DIR/takes.json lists the pinned takes.
    """
    config = RunConfig.from_options({**options, "out": folder})
    from tts_cli.app.pick import describe_take, list_takes, pick

    if not choices:
        show_takes(folder, config, list_takes(folder))
        return 0
    picked, has_other_chapters = pick(folder, config, choices)
    if config.json:
        echo_json(picked)
    elif config.verbosity >= 0:
        for take in picked:
            ending = "" if take["is_new"] else ", as before"
            echo(f"{take['id']}: {describe_take(take)}{ending}")
        if has_other_chapters:
            short = short_command(folder)
            echo(
                f"next, to update the chapters: {shlex.join(['tts-cli', *short])}"
                if short
                else "to update the chapters, run the tts-cli book command again"
            )
    return 0


def show_takes(out: Path, config: RunConfig, found: Sequence[Mapping[str, Any]]) -> None:
    if config.json:
        echo_json(found)
        return
    if not found:
        if config.verbosity >= 0:
            echo(f"no row of {out} has several takes or a pinned one")
        return
    rows = [
        (
            str(take["id"]),
            str(take["take"]),
            str(take["chosen"] or ""),
            str(take["seed"]),
            f"{take['audio_s'] or 0:.2f}",
            str(take["voice"] or ""),
            str(take["error"] or ", ".join(map(str, take["suspect"] or []))),
        )
        for take in found
    ]
    columns = ("row", "take", "chosen", "seed", "seconds", "voice", "remarks")
    show_table(f"takes in {out}", columns, rows)
