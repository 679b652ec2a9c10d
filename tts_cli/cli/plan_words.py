"""What is said of a plan: by a run before it speaks, by `--dry-run` and by `validate`."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.screen import Progress, long_step, shown_duration
from tts_cli.config import RunConfig
from tts_cli.folder.files import shown_size

if TYPE_CHECKING:
    from tts_cli.app.look import Looked
    from tts_cli.named import Named
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.tally import ManifestSummary, Survey

log = logging.getLogger(__name__)

MAX_VOICES = 20  # that are listed


class RunScreen:
    """Shows a run on stderr while it goes on; see `app.run.Screen`."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def step(self, what: str) -> AbstractContextManager[None]:
        """See `Screen`."""
        return long_step(what, self._config.progress)

    def progress(self, num_rows: int) -> Progress:
        """See `Screen`."""
        return Progress(num_rows, self._config.progress, self._config.verbosity < 0)

    def problems(self, survey: Survey) -> None:
        """Tell of bad rows, of odd ones, and of those whose speech is not there for another format
        or level.
        """
        level = logging.WARNING if self._config.skip_invalid else logging.ERROR
        for line in survey.summary.bad_lines():
            log.log(level, "%s", line)
        for line in survey.summary.warnings:
            log.warning("%s", line)
        if survey.again:
            rows = "1 row is" if survey.again == 1 else f"{survey.again} rows are"
            log.warning(
                "%s spoken again for another format or level: nothing is kept that it could be "
                "made of without; first %s",
                rows,
                survey.first_again,
            )

    def choices(self, plan: Plan, survey: Survey) -> None:
        """Tell of chosen takes that do not fit their rows any more, of rows that have one take, of
        voices that nothing keeps, and of audio that is damaged.
        """
        fallen = sum(survey.fallen.values())
        if fallen:
            named = ", ".join(filter(None, survey.fallen)) + ", ..." * ("" in survey.fallen)
            what = "text, voice or other settings have changed since a take was chosen"
            fate = "would be spoken again" if self._config.dry_run else "spoken again"
            log.warning("%s; %s, and the old take kept in takes/: %s", what, fate, named)
        if survey.served and survey.takes:
            takes = "1 take counts" if survey.served == 1 else f"{survey.served} takes count"
            log.info("%s that a run has spoken which was cut short", takes)
        if survey.unfixed:
            rows = "1 row was" if survey.unfixed == 1 else f"{survey.unfixed} rows were"
            log.warning(
                "%s spoken in a voice that nothing fixed, and %s spoken again in one that is kept; "
                "%s leaves those that were spoken in one as they are",
                *(rows, "would be" if self._config.dry_run else "will be"),
                "a run without --clone-model" if plan.voices.is_two else "--free-voice each",
            )
        if survey.one_take:
            rows = "1 row draws" if survey.one_take == 1 else f"{survey.one_take} rows draw"
            why = "nothing (greedy), so every take would be the same: none is spoken"
            log.warning("%s %s", rows, why)
        if self._config.dry_run:
            return
        if survey.needs.rows > 1 and (hint := plan.voices.hint()):
            log.info("%s", hint)
        if survey.damaged:
            log.warning(
                "audio that is gone, cut or not what was written is spoken again: %s%s",
                ", ".join(survey.damaged),
                ", ..." * (survey.reasons["damaged"] > len(survey.damaged)),
            )


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
