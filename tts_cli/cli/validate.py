"""`tts-cli validate`: everything `synth` checks, without a model in memory. What a plan says stands
here, which `synth --dry-run` shows too.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import (
    OUT,
    SPEAKING,
    SectionedCommand,
    common_options,
    manifests_argument,
    settings,
)
from tts_cli.cli.screen import RunScreen, show_grid, shown_duration
from tts_cli.config import RunConfig
from tts_cli.folder.files import shown_size
from tts_cli.manifest.manifest import open_manifests
from tts_cli.setting import Topic

if TYPE_CHECKING:
    from tts_cli.app.look import Looked
    from tts_cli.named import Named
    from tts_cli.plan.tally import ManifestSummary, Survey

MAX_VOICES = 20  # that are listed


@click.command("validate", cls=SectionedCommand)
@manifests_argument
@settings(Topic.MODEL, Topic.ROWS, *SPEAKING)
@settings(Topic.OUTPUT, out=OUT)
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
        from tts_cli.app.look import validate

        looked = validate(source, config, RunScreen(config))
    show_plan(looked, config)
    if looked.survey.summary.bad_rows and not config.skip_invalid:
        return 2
    return int(looked.survey.hopeless > 0)


def show_plan(looked: Looked, config: RunConfig) -> None:
    """Print what a run would do: JSON, a table on a terminal, or plain lines."""
    survey, xrt, orphans = looked
    summary = survey.summary
    if config.json:
        found = _as_dict(summary)
        found["xrt"], found["time_s"] = xrt, round(summary.audio_s / xrt, 3) if xrt else None
        if orphans is not None:
            found |= _folder_dict(survey, orphans)
        click.echo(json.dumps(found, indent=2))
        return
    lines = _lines(summary)
    if orphans is not None:
        lines[-2:-2] = _folder_lines(survey, orphans)
    if xrt:
        time = f"about {shown_duration(summary.audio_s / xrt)}"
        lines.append(("time", f"{time}, at the {xrt:,.4g} s of audio a second of the last run"))
    if sys.stdout.isatty():
        show_grid(summary.manifest, (), lines)
        return
    for name, value in lines:
        click.echo(f"{name}: {value}")


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
    reasons = ", ".join(f"{count:,} {name}" for name, count in survey.reasons.items() if count)
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
    if survey.strays is not None and survey.left:
        named = f"{survey.left:,} rows: {survey.strays.left}"
        lines.append(("no longer in the manifest", named))
    if orphans.count:
        lines.append(("orphans", f"{orphans.count:,} ids that no row has, kept: {orphans}"))
    return lines


def _kept_lines(survey: Survey) -> list[tuple[str, str]]:
    """Files to be made without speaking."""
    names = {"audio": "audio without loss", "codes": "codes"}
    told = [f"{count:,} of kept {names[kind]}" for kind, count in survey.kept.items()]
    return [("not spoken, but made anew", ", ".join(told))] if told else []


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
    return {
        "pending": survey.pending,
        "reasons": survey.reasons,
        "remade": dict(survey.kept),
        "reread": survey.reread,
        "takes": survey.takes,
        "held": survey.held,
        "fallen": sum(survey.fallen.values()),
        "back": len(survey.back),
        "strays": survey.left,
        "skipped": survey.skipped,
        "failing": survey.bad,
        "orphans": orphans.count,
        "first_orphans": orphans.first,
    }
