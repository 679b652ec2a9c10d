"""What a command that speaks rows says at its end: the report in its files, results on stdout."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import Invocation
from tts_cli.cli.screen import show_or_warn
from tts_cli.errors import SetupError, StoppedEarly
from tts_cli.folder.run_file import (
    REPORT_NAME,
    build_report,
    read_report,
    with_folder,
    write_report,
)

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tts_cli.folder.folder import Folder
    from tts_cli.folder.journal import Journal
    from tts_cli.folder.run_file import FolderTotals, RunLog
    from tts_cli.plan.plan import RowPlan

log = logging.getLogger(__name__)


def setting_origins() -> dict[str, str]:
    """Where the settings of this command come from that are not built in."""
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else ctx.ensure_object(Invocation).origins


def plan_facts(plan: RowPlan) -> dict[str, Any]:
    """What the report says of a run before a row of it is spoken, as `build_report` takes it."""
    from tts_cli.plan.checkpoint import model_facts

    return {
        "model": model_facts(plan.config, plan.info),
        "text": plan.care.facts(),
        "manifests": plan.source.paths,
        "read_as": plan.source.facts(),
        "cast": plan.rows.casting.cast.facts(),
        "origins": setting_origins(),
        "voice_model": model_facts(*plan.maker) if plan.voices.is_two else None,
        "made_voices": plan.voices.facts(),
    }


def note_run(plan: RowPlan, runs: RunLog, run_id: str, started: datetime) -> None:
    """Add a run's first line to runs.jsonl, before a row of it is recorded: by its id rows are
    known to be of these manifests, even if the run is killed. Raises DiskFull.
    """
    report = build_report(
        plan.maker.config,
        None,
        run_id=run_id,
        device={},
        started=started,
        exit_code=None,
        **plan_facts(plan),
    )
    try:
        runs.append(report)
    except OSError as problem:
        log.warning("runs.jsonl lacks this run: %s", problem)


def keep_report(folder: Folder, report: dict[str, Any]) -> dict[str, Any]:
    """Add a run's line to runs.jsonl and write run.json; returns what the second is to hold."""
    log_run(folder.runs, report)
    report = with_folder(report, folder_totals(folder.runs, folder.journal))
    try:
        write_report(folder.out, report)
    except (OSError, StoppedEarly) as problem:
        log.warning("run.json is missing: %s", problem)
    return report


def log_run(runs: RunLog, report: dict[str, Any]) -> None:
    """Add a run's line to runs.jsonl; a failure is told."""
    try:
        runs.append(report)
    except (OSError, StoppedEarly) as problem:
        log.warning("runs.jsonl lacks this run: %s", problem)


def folder_totals(runs: RunLog, journal: Journal) -> FolderTotals | None:
    """What the folder holds; None where runs.jsonl cannot be read."""
    try:
        return runs.totals(journal.rows())
    except OSError as problem:
        log.warning("%s cannot be read: %s", runs.path, problem.strerror or problem)
        return None


def renew_totals(out: Path, runs: RunLog, journal: Journal) -> None:
    """Bring what run.json says of the folder up to date, where no run is reported."""
    try:
        before = read_report(out)
        after = with_folder(before, folder_totals(runs, journal))
        if before and after != before:
            write_report(out, after)
    except (OSError, StoppedEarly, SetupError) as problem:
        log.warning("%s keeps its old totals: %s", REPORT_NAME, problem)


def show_report(report: Mapping[str, Any], exit_code: int) -> int:
    """Print a report as JSON, in the form of run.json. Returns the exit code."""
    return show_or_warn(json.dumps(report, indent=2), exit_code, is_json=True)
