"""`tts-cli validate`: everything `synth` checks, without a model in memory.

`synth --dry-run` shows the same through `say_problems` and `show_summary`, and what there is in the
folder besides.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.audio.file import check_format
from tts_cli.cli.command import SectionedCommand
from tts_cli.cli.options import (
    common_options,
    manifests_argument,
    model_options,
    output_options,
    reference_options,
    row_options,
    sampling_options,
)
from tts_cli.cli.screen import shown_duration
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.folder.files import check_space, shown_size
from tts_cli.folder.run_file import measured_xrt
from tts_cli.manifest.manifest import open_manifests

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.named import Named
    from tts_cli.plan.tally import ManifestSummary, Survey

log = logging.getLogger(__name__)

MAX_VOICES = 20  # that are listed


@click.command("validate", cls=SectionedCommand)
@manifests_argument
@model_options
@row_options
@sampling_options
@reference_options
@output_options()
@common_options
def command(manifests: tuple[str, ...], **options: Any) -> int:
    """Check manifests without a model in memory.

    Reads every row of MANIFEST (JSONL, CSV, TSV, .xlsx, .txt, or - for JSONL on stdin) and reports
    bad rows, duplicate ids, voices and languages the checkpoint lacks, and estimates of audio and
    disk. With --out DIR also how long speaking it all takes, at the speed of the last run there;
    what is done in DIR already is told by synth --dry-run. The options are those of synth, so its
    command line can be tried here. Exit code 1: some rows would fail, 2: synth would speak none.
    """
    config = RunConfig.from_options(options)
    with open_manifests(manifests, config) as source:
        from tts_cli.folder.folder import Folder
        from tts_cli.plan.checkpoint import read_info
        from tts_cli.plan.free_voices import who_speaks
        from tts_cli.plan.plan import Plan

        config, info, maker = who_speaks(config, read_info(config))
        check_settings(config, info)
        plan = Plan(source, config, info, maker=maker, is_heard=True, keeps=False)
        survey = plan.survey()
        summary = survey.summary
        is_whole = config.limit is None and config.shard is None and not config.only
        if is_whole and (unused := plan.planner.care.unused()):
            summary.warnings.append(unused)
        try:
            plan.voices.require_there()
        except UsageError as error:  # voices may be made before that run starts
            summary.warnings.append(str(error))
    say_problems(summary, config)
    if config.out is not None and not Folder.is_there(config.out):
        say_space(summary, config.out)
    show_summary(summary, config)
    if summary.bad_rows and not config.skip_invalid:
        return 2
    return int(survey.hopeless > 0)


def check_settings(config: RunConfig, info: ModelInfo) -> None:
    """Check what needs no manifest. Raises UsageError or SetupError: nothing can be spoken so."""
    from tts_cli.audio.treatment import Treatment
    from tts_cli.plan.checks import require_speakable

    require_speakable(info)
    check_format(config.format, config.subtype, config.sample_rate or info.sample_rate_hz)
    Treatment.of(config).require_packages()


def say_problems(summary: ManifestSummary, config: RunConfig) -> None:
    """Bad rows and warnings go to the log."""
    level = logging.WARNING if config.skip_invalid else logging.ERROR
    for line in summary.bad_lines():
        log.log(level, "%s", line)
    for line in summary.warnings:
        log.warning("%s", line)


def say_kept(survey: Survey) -> None:
    """Tell of rows whose speech is there, in another format or level."""
    if survey.again:
        rows = "1 row is" if survey.again == 1 else f"{survey.again} rows are"
        log.warning(
            "%s spoken again for another format or level: nothing is kept that it could be made "
            "of without; first %s",
            rows,
            survey.first_again,
        )


def say_space(summary: ManifestSummary, out: Path) -> None:
    """Warn of a disk with too little room for the rows to speak. Raises SetupError if it has not
    even half of it.
    """
    if problem := check_space(out, summary.disk_bytes):
        log.warning("%s", problem)


def show_summary(
    summary: ManifestSummary,
    config: RunConfig,
    survey: Survey | None = None,
    orphans: Named | None = None,
) -> None:
    """Print a summary on stdout: JSON, a table on a terminal, or plain lines.

    Args:
        survey, orphans: what is there already, where a folder was looked at.
    """
    xrt = None if config.out is None else measured_xrt(config.out)
    if config.json:
        found = _as_dict(summary)
        found["xrt"], found["time_s"] = xrt, round(summary.audio_s / xrt, 3) if xrt else None
        if survey is not None and orphans is not None:
            found |= _folder_dict(survey, orphans)
        click.echo(json.dumps(found, indent=2))
        return
    lines = _lines(summary)
    if survey is not None and orphans is not None:
        lines[-2:-2] = _folder_lines(survey, orphans)
    if xrt:
        time = f"about {shown_duration(summary.audio_s / xrt)}"
        lines.append(("time", f"{time}, at the {xrt:,.4g} s of audio a second of the last run"))
    if not sys.stdout.isatty():
        for name, value in lines:
            click.echo(f"{name}: {value}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, title=Text(summary.manifest))
    for name, value in lines:
        table.add_row(name, Text(value))
    Console().print(table)


def _lines(summary: ManifestSummary) -> list[tuple[str, str]]:
    lines = [
        ("rows", f"{summary.rows:,} good, {summary.bad_rows:,} bad"),
        ("selected", f"{summary.selected:,} rows"),
        ("text", f"{summary.chars:,} characters"),
        ("audio", f"about {shown_duration(summary.audio_s)}"),
        ("disk", f"about {shown_size(summary.disk_bytes)}"),
    ]
    if summary.longest_chars:
        longest = f"{summary.longest_chars:,} characters, id {summary.longest_id}"
        lines.insert(3, ("longest text", longest))
    if summary.selected == summary.rows:
        del lines[1]  # it would say the same again
    if summary.split:
        lines.append(("in parts", f"{summary.split:,} rows, {summary.parts:,} parts"))
    lines += _voice_lines(summary)
    if summary.wordless:
        lines.append(("without a word", f"{summary.wordless:,} rows"))
    return lines


def _voice_lines(summary: ManifestSummary) -> list[tuple[str, str]]:
    """Voices that are made for rows without one."""
    found = [
        (
            "voice, made" if one["is_made"] else "voice to be made",
            f"{one['rows']:,} row{'s' * (one['rows'] != 1)}: {one['of']}"
            + (f"; says {one['says']!r}" if one["says"] else f"; {one['voice']}.wav"),
        )
        for one in summary.made_voices[:MAX_VOICES]
    ]
    if (more := len(summary.made_voices) - MAX_VOICES) > 0:
        found.append(("more voices", f"{more:,}"))
    return found


def _folder_lines(survey: Survey, orphans: Named) -> list[tuple[str, str]]:
    from tts_cli.plan.strays import Stray

    reasons = ", ".join(f"{count:,} {name}" for name, count in _reasons(survey).items() if count)
    lines = [
        ("to speak", f"{survey.pending:,} rows" + (f": {reasons}" if reasons else "")),
        *_kept_lines(survey),
        ("not spoken", f"{survey.skipped:,} done or left out, {survey.bad:,} that will fail"),
    ]
    if survey.early:
        lines.append(("of an early version", f"{survey.early:,} of those; their audio stays"))
    if survey.reread:
        lines.append(("read otherwise", f"{survey.reread:,} of those, for signs in their texts"))
    if survey.takes:
        lines.append(("more takes", f"{survey.takes:,} of {survey.with_takes:,} rows"))
    fallen = sum(survey.fallen.values())
    if survey.held or fallen:
        lines.append(("chosen takes", f"{survey.held:,} hold, {fallen:,} do not fit any more"))
    if survey.back:
        lines.append(("back from removed/", f"{len(survey.back):,} rows, as spoken before"))
    strays = None if survey.strays is None else survey.strays.found[Stray.LEFT]
    if strays is not None and strays.count:
        lines.append(("no longer in the manifest", f"{strays.count:,} rows: {strays}"))
    if orphans.count:
        lines.append(("orphans", f"{orphans.count:,} ids that no row has, kept: {orphans}"))
    return lines


def _kept_lines(survey: Survey) -> list[tuple[str, str]]:
    """Files to be made without speaking."""
    names = {"audio": "audio without loss", "codes": "codes"}
    told = [f"{count:,} of kept {names[kind]}" for kind, count in survey.kept.items()]
    return [("not spoken, but made anew", ", ".join(told))] if told else []


def _reasons(survey: Survey) -> dict[str, int]:
    """Rows to speak, by what the folder holds of them."""
    from tts_cli.plan.standing import State

    apart = (State.KEPT, State.BACK)
    return {state.value: survey.due[state] for state in State if state not in apart}


def _as_dict(summary: ManifestSummary) -> dict[str, Any]:
    bad = [
        {**({"file": row.file} if row.file else {}), "line": row.line, "id": row.id}
        | {"message": row.message}
        for row in summary.bad
    ]
    found = {**vars(summary), "audio_s": round(summary.audio_s, 3), "bad": bad}
    del found["problems"]  # which stderr has
    return found


def _folder_dict(survey: Survey, orphans: Named) -> dict[str, Any]:
    from tts_cli.plan.strays import Stray

    return {
        "pending": survey.pending,
        "reasons": _reasons(survey),
        "remade": dict(survey.kept),
        "reread": survey.reread,
        "takes": survey.takes,
        "held": survey.held,
        "fallen": sum(survey.fallen.values()),
        "back": len(survey.back),
        "strays": 0 if survey.strays is None else survey.strays.found[Stray.LEFT].count,
        "skipped": survey.skipped,
        "failing": survey.bad,
        "orphans": orphans.count,
        "first_orphans": orphans.first,
    }
