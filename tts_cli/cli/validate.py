"""`tts-cli validate`: all checks of `synth`, without a model. Also prints the plan of a dry run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli import messages as msg
from tts_cli.cli.options import OUT, SPEAKING, common_options, manifests_argument, settings
from tts_cli.cli.progress import RunScreen
from tts_cli.cli.remember import RememberingCommand
from tts_cli.cli.screen import echo, echo_json, show_grid, shown_duration
from tts_cli.config import RunConfig
from tts_cli.events import Count, Event
from tts_cli.named import counted, shown_size
from tts_cli.setting import Topic
from tts_cli.sources.open import open_manifests

if TYPE_CHECKING:
    from tts_cli.app.look import DryRunReport
    from tts_cli.plan.plan import Plan

MAX_VOICES = 20  # voices that are listed
_DUE = {"done": "done (--redo all)"}  # labels of reasons, if not their names


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

        report = validate(source, config, RunScreen(config))
    show_plan(report, config)
    if report.plan.events.num(Event.INVALID) and not config.skip_invalid:
        return 2
    return int(report.plan.events.total(Event.FAILING, "is_valid") > 0)


def show_plan(report: DryRunReport, config: RunConfig) -> None:
    """Print what a run would do: JSON, a table on a terminal, or plain lines."""
    plan, xrt = report.plan, report.xrt
    if config.json:
        found = _as_dict(report)
        found["xrt"], found["time_s"] = xrt, round(plan.audio_s / xrt, 3) if xrt else None
        if report.orphans is not None:
            found |= _folder_dict(report, report.orphans)
        echo_json(found)
        return
    lines = _lines(plan)
    if report.orphans is not None:
        lines[-2:-2] = _folder_lines(report, report.orphans, is_pruned=config.prune)
    if xrt:
        time = shown_duration(plan.audio_s / xrt)
        lines.append(_line(msg.PLAN_TIME, time=time, xrt=xrt))
    if sys.stdout.isatty():
        show_grid(plan.source.name, (), lines)
        return
    for name, value in lines:
        echo(f"{name}: {value}")


def _lines(plan: Plan) -> list[tuple[str, str]]:
    num, selected = plan.events.num, plan.events.of(Event.SELECTED)
    lines = [
        _line(msg.PLAN_ROWS, good=num(Event.VALID), invalid=num(Event.INVALID)),
        ("selected", counted(selected.count, "row")),
        ("text", counted(_chars(selected), "character")),
        ("audio", f"about {shown_duration(plan.audio_s)}"),
        ("disk", f"about {shown_size(plan.disk_bytes)}"),
    ]
    if selected.count:
        chars, row_id = _longest(selected)
        lines.insert(3, ("longest text", f"{counted(chars, 'character')}, id {row_id}"))
    if selected.count == num(Event.VALID):
        del lines[1]  # all rows are selected
    split = plan.events.of(Event.SPLIT)
    if split.count:
        pieces = int(split.sums["pieces"])
        lines.append(_line(msg.PLAN_SPLIT, rows=msg.rows(split.count), pieces=pieces))
    lines += _voice_lines(plan)
    if wordless := num(Event.WORDLESS_SELECTED):
        lines.append(_line(msg.PLAN_SILENT, rows=msg.rows(wordless)))
    return lines


def _chars(selected: Count) -> int:
    return int(selected.sums.get("chars", 0))


def _longest(selected: Count) -> tuple[int, str]:
    chars, row_id = selected.largest.get("chars", (0, ""))
    return int(chars), row_id


def _voice_lines(plan: Plan) -> list[tuple[str, str]]:
    found, voices = [], plan.voices.facts()
    for one in voices[:MAX_VOICES]:
        text = msg.PLAN_VOICE if one["is_made"] else msg.PLAN_NEW_VOICE
        facts = {"rows": msg.rows(one["rows"]), "of": one["of"]}
        found.append(_line(text, **facts, voice=one["voice"], text=one["says"]))
    if (more := len(voices) - MAX_VOICES) > 0:
        found.append(_line(msg.PLAN_MORE_VOICES, count=more))
    return found


def _folder_lines(
    report: DryRunReport, orphans: Count, *, is_pruned: bool
) -> list[tuple[str, str]]:
    plan, num = report.plan, report.plan.events.num
    counts = plan.reasons.items()
    reasons = ", ".join(f"{count:,} {_DUE.get(name, name)}" for name, count in counts if count)
    pending = msg.rows(plan.num_pending) + (f": {reasons}" if reasons else "")
    lines = [
        _line(msg.PLAN_PENDING, rows=pending),
        *_converted_lines(plan),
        _line(msg.PLAN_NOT_PENDING, skipped=num(Event.DONE), invalid=num(Event.FAILING)),
    ]
    if early := num(Event.EARLY):
        lines.append(_line(msg.PLAN_EARLY, count=early))
    if reread := num(Event.REREAD):
        lines.append(_line(msg.PLAN_REREAD, count=reread))
    if takes := plan.num_takes:
        rows = msg.rows(num(Event.EXTRA_TAKES))
        lines.append(_line(msg.PLAN_TAKES, count=takes, rows=rows))
    if num(Event.PINNED) or num(Event.UNPINNED):
        lines.append(_line(msg.PLAN_PINNED, held=num(Event.PINNED), fallen=num(Event.UNPINNED)))
    if plan.back:
        lines.append(_line(msg.PLAN_RESTORED, rows=msg.rows(len(plan.back))))
    left = Count() if report.strays is None else report.strays.left
    if left.count:
        text = msg.PLAN_PRUNED if is_pruned else msg.PLAN_STRAYS
        lines.append(_line(text, rows=msg.rows(left.count), ids=left))
    others = orphans.count - left.count * is_pruned
    if others > 0:
        named = "" if others < orphans.count else f": {orphans}"
        lines.append(_line(msg.PLAN_ORPHANS, count=counted(others, "id"), ids=named))
    return lines


def _converted_lines(plan: Plan) -> list[tuple[str, str]]:
    texts = {"audio": msg.PLAN_FROM_AUDIO, "codes": msg.PLAN_FROM_CODES}
    found = plan.events.groups(Event.REENCODE)
    parts = [texts[kind].format(count=one.count) for kind, one in found.items()]
    return [_line(msg.PLAN_CONVERTED, parts=", ".join(parts))] if parts else []


def _line(line: tuple[str, str], /, **facts: object) -> tuple[str, str]:
    return line[0], line[1].format(**facts)


def _as_dict(report: DryRunReport) -> dict[str, Any]:
    plan, num = report.plan, report.plan.events.num
    selected, split = plan.events.of(Event.SELECTED), plan.events.of(Event.SPLIT)
    chars, row_id = _longest(selected)
    return {
        "manifest": plan.source.name,
        "rows": num(Event.VALID),
        "selected": selected.count,
        "wordless": num(Event.WORDLESS_SELECTED),
        "due": plan.num_pending,
        "takes": plan.num_takes,
        "split": split.count,
        "parts": int(split.sums.get("pieces", 0)),
        "chars": _chars(selected),
        "longest_id": row_id,
        "longest_chars": chars,
        "audio_s": round(plan.audio_s, 3),
        "disk_bytes": plan.disk_bytes,
        "warnings": [*msg.note_lines(plan.events, plan.source.name), *report.warnings],
        "bad_rows": num(Event.INVALID),
        "bad": [
            {**({"file": row.file} if row.file else {}), "line": row.line, "id": row.id}
            | {"message": row.message}
            for row in plan.invalid
        ],
        "strangers": list(plan.voiceless),
        "made_voices": plan.voices.facts(),
    }


def _folder_dict(report: DryRunReport, orphans: Count) -> dict[str, Any]:
    plan, num = report.plan, report.plan.events.num
    kept = plan.events.groups(Event.REENCODE)
    return {
        "pending": plan.num_pending,
        "reasons": plan.reasons,
        "remade": {kind: found.count for kind, found in kept.items()},
        "reread": num(Event.REREAD),
        "takes": plan.num_takes,
        "held": num(Event.PINNED),
        "fallen": num(Event.UNPINNED),
        "back": len(plan.back),
        "strays": 0 if report.strays is None else report.strays.left.count,
        "skipped": num(Event.DONE),
        "failing": num(Event.FAILING),
        "orphans": orphans.count,
        "first_orphans": orphans.first,
    }
