"""`tts-cli validate`: all checks of `synth`, without a model. Also prints the plan of a dry run."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli import messages as msg
from tts_cli.cli.options import (
    OUT,
    SPEAKING,
    common_options,
    manifests_argument,
    settings,
)
from tts_cli.cli.remember import RememberingCommand
from tts_cli.cli.screen import RunScreen, echo, show_grid, shown_duration
from tts_cli.config import RunConfig
from tts_cli.named import counted, shown_size
from tts_cli.setting import Topic
from tts_cli.sources.open import open_manifests

if TYPE_CHECKING:
    from tts_cli.app.look import Looked
    from tts_cli.named import Named
    from tts_cli.plan.tally import ManifestSummary, Survey

MAX_VOICES = 20  # that are listed
_DUE = {"done": "done (--redo all)"}  # labels of reasons that need more than their name


@click.command("validate", cls=RememberingCommand)
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

    Reads every row of MANIFEST and reports invalid rows, duplicate ids, and voices and languages
    that the model does not have. Estimates the length of the audio and the disk space. With --out
    DIR it also estimates the time, from the last run in DIR. `synth --dry-run` also shows what is
    already done in DIR. The options are those of `synth`.

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
        echo(json.dumps(found, indent=2))
        return
    lines = _lines(summary)
    if orphans is not None:
        lines[-2:-2] = _folder_lines(survey, orphans, is_pruned=config.prune)
    if xrt:
        time = shown_duration(summary.audio_s / xrt)
        lines.append(_line(msg.PLAN_TIME, time=time, xrt=xrt))
    if sys.stdout.isatty():
        show_grid(summary.manifest, (), lines)
        return
    for name, value in lines:
        echo(f"{name}: {value}")


def _lines(summary: ManifestSummary) -> list[tuple[str, str]]:
    lines = [
        _line(msg.PLAN_ROWS, good=summary.rows, invalid=summary.bad_rows),
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
        lines.append(_line(msg.PLAN_SPLIT, rows=msg.rows(summary.split), pieces=summary.parts))
    lines += _voice_lines(summary)
    if summary.wordless:
        lines.append(_line(msg.PLAN_SILENT, rows=msg.rows(summary.wordless)))
    return lines


def _voice_lines(summary: ManifestSummary) -> list[tuple[str, str]]:
    """Return the lines about generated voices."""
    found = []
    for one in summary.made_voices[:MAX_VOICES]:
        text = msg.PLAN_VOICE if one["is_made"] else msg.PLAN_NEW_VOICE
        facts = {"rows": msg.rows(one["rows"]), "of": one["of"]}
        found.append(_line(text, **facts, voice=one["voice"], text=one["says"]))
    if (more := len(summary.made_voices) - MAX_VOICES) > 0:
        found.append(_line(msg.PLAN_MORE_VOICES, count=more))
    return found


def _folder_lines(survey: Survey, orphans: Named, *, is_pruned: bool) -> list[tuple[str, str]]:
    counts = survey.reasons.items()
    reasons = ", ".join(f"{count:,} {_DUE.get(name, name)}" for name, count in counts if count)
    pending = msg.rows(survey.pending) + (f": {reasons}" if reasons else "")
    lines = [
        _line(msg.PLAN_PENDING, rows=pending),
        *_converted_lines(survey),
        _line(msg.PLAN_NOT_PENDING, skipped=survey.skipped, invalid=survey.bad),
    ]
    if survey.early:
        lines.append(_line(msg.PLAN_EARLY, count=survey.early))
    if survey.reread:
        lines.append(_line(msg.PLAN_REREAD, count=survey.reread))
    if survey.takes:
        lines.append(_line(msg.PLAN_TAKES, count=survey.takes, rows=msg.rows(survey.with_takes)))
    fallen = sum(survey.fallen.values())
    if survey.held or fallen:
        lines.append(_line(msg.PLAN_PINNED, held=survey.held, fallen=fallen))
    if survey.back:
        lines.append(_line(msg.PLAN_RESTORED, rows=msg.rows(len(survey.back))))
    if survey.strays is not None and survey.left:
        text = msg.PLAN_PRUNED if is_pruned else msg.PLAN_STRAYS
        lines.append(_line(text, rows=msg.rows(survey.left), ids=survey.strays.left))
    others = orphans.count - survey.left * is_pruned
    if others > 0:
        named = "" if others < orphans.count else f": {orphans}"
        lines.append(_line(msg.PLAN_ORPHANS, count=counted(others, "id"), ids=named))
    return lines


def _converted_lines(survey: Survey) -> list[tuple[str, str]]:
    """Return the line about files that are converted without synthesis."""
    texts = {"audio": msg.PLAN_FROM_AUDIO, "codes": msg.PLAN_FROM_CODES}
    parts = [texts[kind].format(count=count) for kind, count in survey.kept.items()]
    return [_line(msg.PLAN_CONVERTED, parts=", ".join(parts))] if parts else []


def _line(line: tuple[str, str], /, **facts: object) -> tuple[str, str]:
    """Return a label and its text."""
    return line[0], line[1].format(**facts)


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
