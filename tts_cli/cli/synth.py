"""`tts-cli synth`: synthesize a manifest into a folder of audio files and a journal."""

from __future__ import annotations

import logging
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from tts_cli.app.again import short_command
from tts_cli.cli.align import as_dict, show
from tts_cli.cli.options import (
    REQUIRED_OUT,
    SPEAKING,
    Invocation,
    SectionedOption,
    common_options,
    manifests_argument,
    settings,
)
from tts_cli.cli.progress import RunScreen
from tts_cli.cli.remember import RememberingCommand
from tts_cli.cli.screen import can_ask
from tts_cli.cli.summary import show_result
from tts_cli.cli.validate import show_plan
from tts_cli.config import REDO_CHANGED, RunConfig
from tts_cli.errors import SettingsChanged, UsageError
from tts_cli.plan.remembered import BookFacts, is_remembered
from tts_cli.setting import Topic
from tts_cli.sources.item import Manifest
from tts_cli.sources.open import open_manifests

log = logging.getLogger(__name__)


def ask_about_changes(config: RunConfig, error: SettingsChanged) -> RunConfig:
    """Ask on a terminal what to do about done rows that given settings would change.

    Raises SettingsChanged if the user wants to stop, or without a terminal.
    """
    if not can_ask():
        raise error
    log.warning("%s", error.message)
    question = "Synthesize them again (redo), keep them (keep), or stop?"
    choice = click.Choice(("redo", "keep", "stop"))
    answer = click.prompt(question, type=choice, default="stop", err=True)
    if answer == "stop":
        raise error
    return replace(config, **({"keep_done": True} if answer == "keep" else {"redo": REDO_CHANGED}))


def _point_at_say(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        raise UsageError(
            "synth has no --text: it synthesizes the rows of a manifest",
            remedy=f"to synthesize one text, use: tts-cli say {shlex.quote(value)}",
        )


@click.command("synth", cls=RememberingCommand)
@click.option(
    "--text",
    hidden=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,
    cls=SectionedOption,
    callback=_point_at_say,
)
@manifests_argument
@settings(Topic.OUTPUT, out=REQUIRED_OUT)
@settings(Topic.MODEL, Topic.DEVICE, Topic.ROWS, *SPEAKING)
@settings(Topic.VERIFY, Topic.WORDS, Topic.AGAIN, Topic.FAILURES, "progress")
@common_options
def command(manifests: tuple[str, ...], out: Path, **options: Any) -> int:
    """Synthesize every row of a manifest into a folder.

    \b
    Examples:
      tts-cli synth lines.jsonl --out wavs/
      tts-cli synth lines.txt --out wavs/ --voice clara --seed 7 --format flac
      tts-cli synth script.xlsx --out wavs/ --map "Line ID=id,Dialogue=text" --extra keep

    MANIFEST is one or more files: JSONL (one object per line: id, text, voice, language, seed,
    ...), a JSON array, a table with a header (CSV, TSV, .xlsx), subtitles, or .txt with one text
    per line; - is JSONL on stdin. DIR gets one audio file and one line of timings.jsonl per row.
    Run the same command again to synthesize only rows that are missing, changed or failed.
    """
    config = RunConfig.from_options({**options, "out": out})
    with open_manifests(manifests, config) as source:
        return run(source, config, out)


def run(
    source: Manifest, config: RunConfig, out: Path, own: str = "", book: BookFacts | None = None
) -> int:
    """Synthesize, or only plan for a dry run, and print the result. Return the exit code. For `own`
    and `book` see `app.synthesize.synthesize`.
    """
    from tts_cli.app.synthesize import look, synthesize

    screen = RunScreen(config)
    if config.dry_run:
        show_plan(look(source, config, out, screen, own=own), config)
        return 0
    given = click.get_current_context().ensure_object(Invocation)
    start = partial(synthesize, source, out=out, screen=screen, own=own, book=book)
    try:
        result = start(config, origins=given.origins)
    except SettingsChanged as error:
        result = start(ask_about_changes(config, error), origins=given.origins)
    if result.words is not None and config.json:
        result.report["words"] = as_dict(result.words)
    elif result.words is not None:
        show(config, out, result.words)
    return show_result(result, rerun_words(given, out))


def rerun_words(given: Invocation, out: Path) -> list[str]:
    """Return `again DIR` if the folder remembers all flags, or else the command as it was given."""
    flags = {name for name, origin in given.origins.items() if origin == "flag"} - {"out"}
    short = short_command(out) if all(map(is_remembered, flags)) else None
    return short or given.args
