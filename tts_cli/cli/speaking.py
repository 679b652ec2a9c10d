"""Speaking the rows of a plan: model or workers are made ready, rows recorded, the run reported."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tts_cli import signals, startup
from tts_cli.cli.command import Invocation
from tts_cli.cli.screen import Progress, long_step, show_or_warn
from tts_cli.config import RunConfig
from tts_cli.errors import Interrupted
from tts_cli.folder.run_file import Totals, build_report, new_run_id

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.app.tally import Failures
    from tts_cli.engine.local import WarmModel
    from tts_cli.engine.session import Speakers
    from tts_cli.folder.folder import Folder
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.tally import Survey

log = logging.getLogger(__name__)


def speakers_of(
    config: RunConfig, info: ModelInfo, plan: Plan, survey: Survey, model: WarmModel | None
) -> Speakers:
    """Who speaks a run's rows: this process, or workers."""
    from tts_cli.engine.session import OneProcess

    if not config.has_workers:
        is_int16 = plan.folder.writer.takes_int16
        return OneProcess(config, survey.needs, plan.planner.cloning, model, is_int16=is_int16)
    from tts_cli.audio.tags import synthetic
    from tts_cli.workers.session import Crew

    drop = plan.folder.writer.drop
    return Crew(config, info, survey.needs, plan.planner.cloning, synthetic(info), drop)


def speak(
    config: RunConfig,
    info: ModelInfo,
    plan: Plan,
    survey: Survey,
    folder: Folder,
    model: WarmModel | None = None,
) -> int:
    """Make ready, speak the pending rows, report, print the summary. Returns the exit code.

    Args:
        model: one that is loaded already; None: none is.
    """
    from tts_cli.app.tally import RunTally
    from tts_cli.plan.checkpoint import model_facts

    signals.check()
    startup.reach("checked_s")
    if not config.has_workers:
        startup.use_device(config.device)
    started = datetime.now(timezone.utc)
    run_id = new_run_id(started)
    if survey.summary.split:
        log.info("rows spoken in parts: %d, %d parts", survey.summary.split, survey.summary.parts)
    speakers = speakers_of(config, info, plan, survey, model)
    totals = totals_of(survey)
    error: BaseException | None = None
    try:
        for what, step in speakers.steps():
            with long_step(what, config.progress):
                step()
            signals.check()
        log.debug("model: %s", listed(model_facts(config, info)))
        log.debug("device: %s", listed(speakers.device_facts()))
        folder.note_run(first_report(plan, run_id, started))
        started_s = time.perf_counter()
        num_rows = survey.pending + survey.takes + survey.bad
        with Progress(num_rows, config.progress, config.verbosity < 0) as progress:
            tally = RunTally(
                folder,
                info.frame_s,
                totals,
                progress.update,
                config.failures_allowed(survey.pending + survey.takes),
            )
            for record in survey.unmade:
                tally.failures.add(record)
            try:
                with signals.stopping(speakers.stop):
                    speakers.speak(partial(plan.due, tally.keep, tally.fail), tally.keep)
            except (Exception, Interrupted) as caught:
                error = caught
        totals.wall_s = time.perf_counter() - started_s
        startup.reach("spoken_s")
    finally:
        speakers.close()
    totals.is_interrupted = error is not None
    totals = speakers.counted(totals)
    exit_code = getattr(error, "exit_code", 4) if error else int(totals.failed > 0)
    report = build_report(
        plan.planner.maker.config,
        totals,
        run_id=run_id,
        device=speakers.device_facts(),
        workers=speakers.worker_facts(),
        started=started,
        start=startup.moments(),
        exit_code=exit_code,
        **plan_facts(plan),
    )
    report = folder.end_run(report)
    if config.json:
        exit_code = show_report(report, exit_code)
    elif config.verbosity >= 0:
        show_summary(config, plan, survey, totals, tally.failures, is_stopped=error is not None)
    if error is not None:
        raise error
    return exit_code


def totals_of(survey: Survey) -> Totals:
    """What there is to count before a row is spoken."""
    from tts_cli.plan.strays import Stray

    strays = survey.strays
    return Totals(
        rows=survey.pending + survey.bad + survey.skipped + survey.remade + len(survey.unmade),
        failed=len(survey.unmade),
        skipped=survey.skipped,
        remade=survey.remade,
        strays=0 if strays is None else strays.found[Stray.LEFT].count,
        removed=0 if strays is None else strays.removed,
    )


def show_summary(
    config: RunConfig,
    plan: Plan,
    survey: Survey,
    totals: Totals,
    failures: Failures,
    *,
    is_stopped: bool,
) -> None:
    """What came of a run, and what to do next."""
    from tts_cli.cli.summary import (
        early_lines,
        next_step,
        reread_lines,
        stray_lines,
        summary_lines,
        take_lines,
    )

    out = plan.folder.out
    left_out = "had not failed" if config.retry_failed else "were done already"
    lines = summary_lines(totals, out, failures, left_out)
    lines[1:1] = early_lines(survey.early) + reread_lines(survey.reread)
    lines[-1:-1] = stray_lines(survey.strays, plan.source.name, out)
    lines[-1:-1] = take_lines(totals, survey.with_takes, plan.folder.num_same, out)
    num_bad = totals.failed - failures.count
    args = click.get_current_context().ensure_object(Invocation).args
    if step := next_step(args, config, failures, num_bad, is_stopped):
        lines.append(step)
    show_or_warn("\n".join(lines))


def listed(values: Mapping[str, Any]) -> str:
    """Values with their names, those that are None left out."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def setting_origins() -> dict[str, str]:
    """Where the settings of this command come from that are not built in."""
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else ctx.ensure_object(Invocation).origins


def plan_facts(plan: Plan) -> dict[str, Any]:
    """What the report says of a run before a row of it is spoken, as `build_report` takes it."""
    from tts_cli.plan.checkpoint import model_facts

    return {
        "model": model_facts(plan.config, plan.info),
        "text": plan.planner.care.facts(),
        "manifests": plan.source.paths,
        "read_as": plan.source.facts(),
        "cast": plan.rows.casting.cast.facts(),
        "origins": setting_origins(),
        "voice_model": model_facts(*plan.planner.maker) if plan.voices.is_two else None,
        "made_voices": plan.voices.facts(),
    }


def first_report(plan: Plan, run_id: str, started: datetime) -> dict[str, Any]:
    """What is known of a run before a row of it is spoken."""
    return build_report(
        plan.planner.maker.config,
        None,
        run_id=run_id,
        device={},
        started=started,
        exit_code=None,
        **plan_facts(plan),
    )


def show_report(report: Mapping[str, Any], exit_code: int) -> int:
    """Print a report as JSON, in the form of run.json. Returns the exit code."""
    return show_or_warn(json.dumps(report, indent=2), exit_code, is_json=True)
