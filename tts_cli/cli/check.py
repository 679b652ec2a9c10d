"""`tts-cli check`: find takes to listen to. Without --asr no audio is read and no torch used."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.app.again import short_command
from tts_cli.checks.page.build import MORE_TAKES, UNKNOWN_MANIFEST, spoken_by
from tts_cli.cli.messages import log_skipped
from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group, settings
from tts_cli.cli.progress import RunScreen
from tts_cli.cli.screen import echo, echo_json, show_table, shown_duration
from tts_cli.config import PRESETS, RunConfig
from tts_cli.core import Role
from tts_cli.errors import UsageError
from tts_cli.events import Event
from tts_cli.named import capped, counted, first_few, shortened
from tts_cli.setting import Scope, Topic, flag
from tts_cli.store.files import CHECKS_NAME

if TYPE_CHECKING:
    from tts_cli.app.check import CheckedTake, FolderCheck, UnfixedRows
    from tts_cli.events import Events

log = logging.getLogger(__name__)

_MAX_SHOWN = 20  # suspect takes in the table
_MAX_PICKS = 10  # choices in a printed command line
_MAX_TEXT = 48  # characters in a cell
MAX_PROBLEMS = 5  # problems that are listed

_delivery_options = group(
    "Delivery",
    click.option(
        "--preset",
        "limits",  # no settings file may turn a check into another one
        cls=SectionedOption,
        scope=Scope.ONE_RUN,
        allow_from_autoenv=False,
        type=click.Choice(PRESETS),
        help="Measure the finished files, and list which meet the limits of this recipient.",
    ),
)


@click.command("check", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@settings(Topic.RECOGNISER, Topic.DRIFT, Topic.TAKES)
@group(
    "Model, for --drift",
    settings(Topic.MODEL, model={"show_default": "the one that made the folder"}),
)
@settings("device")
@_delivery_options
@group("Rows", settings("only", "take_over"))
@settings("progress")
@common_options
def command(folder: Path, **options: Any) -> int:
    """Flag rows that may sound wrong, for you to listen to.

    \b
    Examples:
      tts-cli check wavs/
      tts-cli check wavs/ --asr pocketsphinx
      tts-cli check wavs/ --asr openai/whisper-large-v3-turbo --device cuda
      tts-cli check wavs/ --drift --model Qwen/Qwen3-TTS-12Hz-0.6B-Base
      tts-cli check wavs/ --mos
      tts-cli check novel/ --preset acx
      tts-cli synth lines.jsonl --out wavs/ --only suspects --takes 3
      tts-cli check wavs/ --asr pocketsphinx --pick best

    DIR is the output folder of `synth` or `book`. Without --asr no audio is read: `check` compares
    each row's speed, loudness and pauses with the other rows of its voice, and finds clipping,
    silence and stuck speech. With --asr a recognizer transcribes every take without knowing its
    text. `check` then compares the transcript with the text, and finds wrong letters, missing or
    repeated words, and garbled passages in long rows. The results are in DIR/checks.jsonl. If you
    run `check` again, only new or replaced audio is transcribed.

    With --preset, `check` instead measures the finished files, of a book its chapters, and lists
    which of them meet the limits.

    Exit code 1: the current take of a row is suspect or its file is missing, a row has failed, or a
    file does not meet a limit.
    """
    from tts_cli.app.check import FolderCheck, pick_best, transcribe_takes

    limits = options.pop("limits")
    config = RunConfig.from_options({**options, "out": folder})
    if limits is not None:
        return inspect_files(folder, limits, config)
    found = FolderCheck(folder, config.only)
    if config.pick and not found.is_kept:
        raise UsageError(f"--pick: {folder} is read-only", remedy="copy it and check the copy")
    if not found.is_kept:
        log.warning("%s is read-only: the results are shown, but not stored", folder)
    screen = RunScreen(config)
    if config.asr is not None:
        name = transcribe_takes(found, config, screen.step, screen.progress)
        log_results(found.transcribed, name, "transcribed")
        log_problems(found.take_problems(), "transcribed")
    if config.mos:
        log_results(found.rated, found.rate(screen.progress), "rated")
        log_problems(found.take_problems(), "rated")
    if config.drift:
        found.compare_voices(config, screen.step, screen.progress)
        log_problems(found.take_problems(), "compared with its voice")
    found.write()
    picked = pick_best(found, config) if config.pick else []
    show(config, found, picked)
    return int(bool(found.suspects or found.failed or found.missing))


def inspect_files(folder: Path, preset: str, config: RunConfig) -> int:
    """Measure the finished files of a folder. Return 1 if one does not meet the preset."""
    from tts_cli.app.inspect import inspect_folder
    from tts_cli.audio.presets import preset_of

    others = [name for name in ("asr", "mos", "drift", "pick", "only") if getattr(config, name)]
    if others:
        raise UsageError(
            f"--preset measures finished files, {flag(others[0])} takes", "run `check` twice"
        )
    files = list(inspect_folder(folder, preset_of(preset)))
    if not files:
        raise UsageError(f"{folder}: has no finished files", "synthesize it first")
    failing = [one for one in files if one.failures]
    if config.json:
        facts: list[dict[str, Any]] = []
        for one in files:
            checks = [check._asdict() for check in one.checks]
            facts.append({"path": one.name, "failures": one.failures, "checks": checks})
        echo_json({"preset": preset, "files": facts})
        return int(bool(failing))
    if measured := [one for one in files if one.checks][:_MAX_SHOWN]:
        limits = measured[0].checks
        table = [("limits", *(one.limit for one in limits))]
        for file in measured:
            table.append(
                (file.name, *(one.value + " (!)" * (not one.is_met) for one in file.checks))
            )
        heads = ("", *(f"{one.name} {one.unit}".rstrip() for one in limits))
        show_table(f"files in {folder}", heads, table)
    lines = [f"{one.name}: {', '.join(one.failures)}" for one in failing]
    for line in capped(lines, _MAX_SHOWN, "{} more files; --json lists all"):
        echo(line)
    echo(f"{len(files) - len(failing)} of {counted(len(files), 'file')} meet {preset}")
    return int(bool(failing))


def log_results(events: Events, name: str, did: str) -> None:
    measured, before = events.of(Event.MEASURED), events.num(Event.MEASURED_BEFORE)
    line = f"{name}: {counted(measured.count, 'take')} {did}"
    if measured.count:
        audio_s, wall_s = measured.sums["audio_s"], max(measured.sums["wall_s"], 1e-9)
        line += f", {shown_duration(audio_s)} of audio at {audio_s / wall_s:.1f} xRT"
    if before:
        line += f"; {before} {did} earlier"
    log.info("%s", line)
    log_skipped(events, "take", "recognizer")
    if changed := events.num(Event.CHANGED_FILE):
        takes = counted(changed, "take")
        log.warning("%s changed since the run: the current content was %s", takes, did)


def log_problems(problems: list[tuple[str, str]], did: str) -> None:
    lines = [f"row {row_id} could not be {did}: {text}" for row_id, text in problems]
    for line in capped(lines, MAX_PROBLEMS, f"{{}} more could not be {did}"):
        log.warning("%s", line)


def show(config: RunConfig, found: FolderCheck, picked: list[dict[str, Any]]) -> None:
    """Print the suspect takes, worst first, and what to type next."""
    suspects, failed, best = found.suspects, found.failed, found.best_takes()
    path, left = found.folder.path / CHECKS_NAME, found.unfixed()
    commands = next_commands(found, best, left)
    if config.json:
        facts = {
            "checks": str(path) if found.is_kept else None,
            "rows": len(found.folder.rows),
            "takes": sum(one.is_named for one in found.judged),
            "heard": found.transcribed.num(Event.MEASURED),
            "kept": found.transcribed.num(Event.MEASURED_BEFORE),
            "rated": found.rated.num(Event.MEASURED),
            "failed": [row.id for row in failed],
            "missing": [row.id for row in found.missing],
            "suspects": [suspect_as_dict(one, best) for one in suspects],
            "picked": [{"id": one["id"], "take": one["take"]} for one in picked],
            "no_take_passed": [row.id for row in left.tried],
            "next": [shlex.join(["tts-cli", *args]) for args in commands],
        }
        echo_json(facts)
        return
    if suspects:
        show_table(
            f"suspect rows in {found.folder.path}, worst first",
            ("row", "take", "reason", "error", "transcript"),
            [table_row(one) for one in suspects[:_MAX_SHOWN]],
        )
    if len(suspects) > _MAX_SHOWN:
        echo(f"  {len(suspects) - _MAX_SHOWN} more; --json and {CHECKS_NAME} list all")
    for one in picked:
        echo(f"{one['id']}: take {one['take']} is now the current take")
    rows = sum(one.is_named and one.is_chosen for one in found.judged)
    line = f"{counted(rows, 'row')} checked, {len(suspects)} suspect"
    if failed:
        line += f", {len(failed)} failed (no audio)"
    if missing := [row.id for row in found.missing]:
        line += f", {len(missing)} without the audio file ({first_few(missing)})"
    where = f"results: {path}" if found.is_kept else "not stored: the folder is read-only"
    echo(f"{line}; {where}")
    if not config.asr and not any(one.heard for one in found.judged):
        echo("only loudness, length and pauses were checked; add --asr to check the words")
    for line in unfixed_lines(left):
        echo(line)
    for args in commands:
        hint = " (with your manifest in place of MANIFEST)" * (UNKNOWN_MANIFEST in args)
        echo(f"next: {shlex.join(['tts-cli', *args])}{hint}")


def suspect_as_dict(one: CheckedTake, best: dict[str, CheckedTake]) -> dict[str, Any]:
    assert one.check is not None
    better = best.get(one.row.id)
    return {
        "id": one.row.id,
        "take": one.file.take.take,
        "severity": round(one.check.severity, 2),
        "reasons": [reason._asdict() for reason in one.check.reasons],
        "error": None if one.heard is None else round(one.heard.wer, 4),
        "heard": None if one.heard is None else one.heard.text,
        "mos": None if one.mos is None else round(one.mos.mos, 2),
        "text": one.file.take.text,
        "better_take": None if better is None else better.file.take.take,
    }


def table_row(one: CheckedTake) -> tuple[str, ...]:
    assert one.check is not None
    error = "-" if one.heard is None else f"{100 * one.heard.wer:.0f}%"
    reasons = [f"{reason.kind} ({reason.text})" for reason in one.check.reasons]
    heard = "" if one.heard is None else one.heard.text
    take = str(one.file.take.take)
    why = shortened(", ".join(reasons), 2 * _MAX_TEXT)
    return one.row.id, take, why, error, shortened(heard, _MAX_TEXT)


def unfixed_lines(left: UnfixedRows) -> Iterator[str]:
    """Yield the rows for which more takes do not help, and what does."""
    tried = [
        f"no take of {row.id} passed, of {len(row.files)}; look at its text" for row in left.tried
    ]
    yield from capped(tried, MAX_PROBLEMS, "no take of {} more rows passed; --json names them")
    failed = [
        f"not synthesized: {row.id}: {row.take.error}; fix that first" for row in left.unspoken
    ]
    yield from capped(failed, MAX_PROBLEMS, "not synthesized: {} more rows")


def next_commands(
    found: FolderCheck, best: dict[str, CheckedTake], left: UnfixedRows
) -> Sequence[list[str]]:
    """Return the commands that fix the folder: they choose takes or synthesize others."""
    commands = []
    folder = str(found.folder.path)
    choices = [f"{row_id}={one.file.take.take}" for row_id, one in best.items()]
    if choices:
        shown = choices[:_MAX_PICKS]
        dash = ["--"] * any(choice.startswith("-") for choice in shown)
        commands.append(["pick", folder, *dash, *shown])
    if sum(one.row.take.role is not Role.HELD for one in best.values()) > _MAX_PICKS:
        commands.append(["check", folder, "--pick", "best"])
    again = short_command(found.folder.path)
    again = again or [*spoken_by(found.folder.last_run), "--out", folder]
    if left.untried:
        ids = ",".join(row.id for row in left.untried)
        is_all = not (left.tried or left.unspoken) or len(left.untried) > _MAX_PICKS
        only = ["--only", "suspects"] if is_all else [f"--only={ids}"]
        commands.append([*again, *only, "--takes", str(MORE_TAKES)])
    elif left.unspoken or found.missing:
        commands.append(again)
    return commands
