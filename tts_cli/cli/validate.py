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
from tts_cli.manifest.ids import REMOVED
from tts_cli.manifest.manifest import open_manifests
from tts_cli.named import counted
from tts_cli.setting import Topic

if TYPE_CHECKING:
    from tts_cli.app.look import Looked
    from tts_cli.named import Named
    from tts_cli.plan.tally import ManifestSummary, Survey

MAX_VOICES = 20  # that are listed
_DUE = {"done": "done, again for --overwrite"}  # what there is of rows to speak


@click.command("validate", cls=SectionedCommand)
@manifests_argument
@settings(Topic.MODEL, Topic.ROWS, *SPEAKING)
@settings(Topic.OUTPUT, out=OUT)
@common_options
def command(manifests: tuple[str, ...], **options: Any) -> int:
    """Check a manifest without loading a model.

    \b
    Examples:
      tts-cli validate lines.jsonl
      tts-cli validate script.xlsx --map "Line ID=id,Dialogue=text" --extra keep

    Reads every row of MANIFEST, reports bad rows, ids that are taken twice, and voices and
    languages that the checkpoint does not have, and estimates how much audio and disk space it all
    takes. With --out DIR it also estimates the time, from the last run there. `synth --dry-run`
    tells what is already done in DIR. The options are those of `synth`, so you can try a command
    line here.

    Exit code 1: some rows would fail. 2: `synth` would refuse the manifest.
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
        lines[-2:-2] = _folder_lines(survey, orphans, is_pruned=config.prune)
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
        ("selected", counted(summary.selected, "row")),
        ("text", counted(summary.chars, "character")),
        ("audio", f"about {shown_duration(summary.audio_s)}"),
        ("disk", f"about {shown_size(summary.disk_bytes)}"),
    ]
    if summary.longest_chars:
        longest = f"{counted(summary.longest_chars, 'character')}, id {summary.longest_id}"
        lines.insert(3, ("longest text", longest))
    if summary.selected == summary.rows:
        del lines[1]  # it would say the same again
    if summary.split:
        lines.append(("in parts", f"{counted(summary.split, 'row')}, {summary.parts:,} parts"))
    lines += _voice_lines(summary)
    if summary.wordless:
        lines.append(("without a word", counted(summary.wordless, "row")))
    return lines


def _voice_lines(summary: ManifestSummary) -> list[tuple[str, str]]:
    """Voices that are made for rows without one."""
    found = [
        (
            "voice, made" if one["is_made"] else "voice to be made",
            f"{counted(one['rows'], 'row')}: {one['of']}"
            + (f"; says {one['says']!r}" if one["says"] else f"; {one['voice']}.wav"),
        )
        for one in summary.made_voices[:MAX_VOICES]
    ]
    if (more := len(summary.made_voices) - MAX_VOICES) > 0:
        found.append(("more voices", f"{more:,}"))
    return found


def _folder_lines(survey: Survey, orphans: Named, *, is_pruned: bool) -> list[tuple[str, str]]:
    counts = survey.reasons.items()
    reasons = ", ".join(f"{count:,} {_DUE.get(name, name)}" for name, count in counts if count)
    lines = [
        ("to speak", counted(survey.pending, "row") + (f": {reasons}" if reasons else "")),
        *_kept_lines(survey),
        ("not spoken", f"{survey.skipped:,} done or left out, {survey.bad:,} that will fail"),
    ]
    if survey.early:
        lines.append(("of an early version", f"{survey.early:,} of those; their audio stays"))
    if survey.reread:
        lines.append(("read otherwise", f"{survey.reread:,} of those, for signs in their texts"))
    if survey.takes:
        lines.append(("more takes", f"{survey.takes:,} of {counted(survey.with_takes, 'row')}"))
    fallen = sum(survey.fallen.values())
    if survey.held or fallen:
        lines.append(("chosen takes", f"{survey.held:,} hold, {fallen:,} do not fit any more"))
    if survey.back:
        lines.append(
            ("back from removed/", f"{counted(len(survey.back), 'row')}, as spoken before")
        )
    if survey.strays is not None and survey.left:
        fate = f"moved to {REMOVED}/" if is_pruned else "kept without --prune"
        named = f"{counted(survey.left, 'row')}, {fate}: {survey.strays.left}"
        lines.append(("no longer in the manifest", named))
    others = orphans.count - survey.left * is_pruned
    if others > 0:
        named = "" if others < orphans.count else f": {orphans}"
        lines.append(("orphans", f"{counted(others, 'id')} that no row has, kept{named}"))
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
