"""`tts-cli synth`: a manifest in, audio files, a timing log and a report out."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from tts_cli import signals
from tts_cli.commands.options import (
    common_options,
    device_options,
    manifest_argument,
    model_options,
    output_options,
    reference_options,
    row_options,
    run_options,
    sampling_options,
)
from tts_cli.commands.streams import show_or_warn
from tts_cli.config import RunConfig
from tts_cli.errors import Interrupted, StoppedEarly, UsageError
from tts_cli.manifest.reader import Source, open_source

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.output.journal import Journal
    from tts_cli.output.run_file import Totals
    from tts_cli.output.run_log import FolderTotals, RunLog
    from tts_cli.run.load import Session
    from tts_cli.run.plan import RowPlan, Survey

log = logging.getLogger(__name__)

WRITERS = 8  # most of a writer's time is waiting for the disk


@click.command("synth")
@manifest_argument
@output_options(is_out_required=True)
@model_options
@device_options
@row_options
@sampling_options
@reference_options
@run_options
@common_options
def command(manifest: str, **options: Any) -> int:
    """Speak every row of a manifest; resumes by itself.

    MANIFEST is JSONL (one object a line: id, text, voice, language, instruct, seed, ...), CSV or
    TSV with a header, plain .txt with one text a line, or - for JSONL on stdin. DIR gets one audio
    file a row, timings.jsonl with one line a row, run.json and runs.jsonl. Run the same command
    again and only rows that are missing, changed or failed are spoken.

    \b
    Examples:
      tts-cli synth lines.jsonl --out wavs/
      tts-cli synth lines.txt --out wavs/ --voice clara --seed 7 --format flac
      tts-cli synth book.csv --out wavs/ --language english \\
        --model Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice
    """
    config = RunConfig.from_options(options)
    with open_source(manifest, config.manifest_format) as source:
        return run(source, config)


def run(source: Source, config: RunConfig) -> int:
    """Check, then speak. Returns the exit code."""
    from tts_cli.commands.validate import inspect_manifest, show_summary
    from tts_cli.output.atomic import remove_stale_parts
    from tts_cli.output.folder_lock import FolderLock
    from tts_cli.output.journal import Journal
    from tts_cli.output.leftovers import unrecorded_rows
    from tts_cli.output.run_file import REPORT_NAME, with_folder
    from tts_cli.output.run_log import RunLog
    from tts_cli.output.writer import AudioWriter, prepare_folder
    from tts_cli.run.consent import approved_info
    from tts_cli.run.load import choose_device
    from tts_cli.run.model_source import read_info
    from tts_cli.run.plan import RowPlan

    signals.check()  # after the imports, which may have swallowed one
    choose_device(config)
    info = read_info(config) if config.dry_run else approved_info(config)
    summary = inspect_manifest(source, config, info)
    if not config.skip_invalid:
        summary.require_good()
    if config.dry_run:
        show_summary(summary, is_json=config.json)
        return 0
    assert config.out is not None
    prepare_folder(config.out)
    if (config.out / REPORT_NAME).is_dir():
        raise UsageError(
            f"{config.out / REPORT_NAME}: is a folder", remedy="move it, or choose another --out"
        )
    started = datetime.now(timezone.utc)
    runs = RunLog(config.out)
    lock = FolderLock(config.out, config.take_over)
    with lock, Journal(config.out, has_sums=config.verify_files) as journal:
        remove_stale_parts(config.out)
        if lock.crashed_ns is not None:
            journal.append(*unrecorded_rows(config.out, lock.crashed_ns, journal))
        writer = AudioWriter(config.out, config, info.sample_rate_hz)
        plan = RowPlan(source, config, info, journal, writer)
        survey = plan.survey()
        survey.require_own_files()
        signals.check()
        if survey.pending:
            return speak(config, info, plan, survey, runs)
        record_bad_rows(plan)
        if config.json:
            report = idle_report(config, info, survey, started)
            show_report(with_folder(report, folder_totals(runs, journal)))
        else:
            say_nothing_to_do(config, survey)
        return int(survey.bad > 0)


def record_bad_rows(plan: RowPlan) -> None:
    """Record the bad rows as failed, where no model is needed because no other row is left."""
    from tts_cli.manifest.row import BadRow
    from tts_cli.output.record import RowRecord

    for row in plan:
        if isinstance(row, BadRow) and plan.journal.status(row.record_id) != "failed":
            plan.journal.append(RowRecord(row.record_id, "failed", error=row.message))


def idle_report(
    config: RunConfig, info: ModelInfo, survey: Survey, started: datetime
) -> dict[str, Any]:
    """The report of a run with nothing to do; run.json of the run that did it stays."""
    from tts_cli.output.run_file import Totals, build_report
    from tts_cli.run.load import model_facts

    return build_report(
        config,
        Totals(
            rows=survey.skipped + survey.bad,
            skipped=survey.skipped,
            failed=survey.bad,
            bad_rows=survey.bad,
        ),
        run_id=None,
        model=model_facts(config, info),
        device={},
        started=started,
        exit_code=int(survey.bad > 0),
    )


def say_nothing_to_do(config: RunConfig, survey: Survey) -> None:
    """Tell that every row is done."""
    reason = f"all {survey.skipped} rows are done already"
    if config.retry_failed:
        reason = "no row of this manifest is recorded as failed"
    elif not survey.skipped and not survey.bad:
        reason = "no row of this manifest is in this shard"
    elif not survey.skipped:
        reason = "no good row"
    show_result(f"nothing to do: {reason}" + (f"; {survey.bad} are bad" if survey.bad else ""))


def show_report(report: dict[str, Any]) -> None:
    """Print a report as JSON, in the form of run.json."""
    show_result(json.dumps(report, indent=2))


def show_result(text: str) -> None:
    """Print what came of the rows. The folder has it as well, so a lost stdout fails nothing."""
    if problem := show_or_warn(text):
        log.warning("%s", problem)


def speak(config: RunConfig, info: ModelInfo, plan: RowPlan, survey: Survey, runs: RunLog) -> int:
    """Load the model, speak the pending rows, report, print the summary."""
    from tts_cli.commands.progress import Progress
    from tts_cli.output.run_file import Totals, build_report, summary_lines
    from tts_cli.output.run_log import new_run_id
    from tts_cli.run.load import device_facts, model_facts, open_session, prepare
    from tts_cli.run.records import Recorder
    from tts_cli.run.retry import RetryPolicy
    from tts_cli.run.threads import SpeechRun

    signals.check()
    started = datetime.now(timezone.utc)
    run_id = new_run_id(started)
    session = open_session(config)
    signals.check()
    prepare(session, survey.needs)
    signals.check()
    totals = Totals(
        rows=survey.pending + survey.bad + survey.skipped,
        skipped=survey.skipped,
        load_s=session.load_s,
        capture_s=session.capture_s,
    )
    error: BaseException | None = None
    started_s = time.perf_counter()
    with Progress(survey.pending + survey.bad, config.verbosity < 0) as progress:
        recorder = Recorder(
            plan.writer,
            plan.journal,
            run_id,
            info.frame_s,
            totals,
            progress.update,
            config.failures_allowed(survey.pending),
        )
        speech = SpeechRun(
            session,
            recorder.take,
            RetryPolicy.of(config),
            cloning=plan.cloning,
            is_int16=plan.writer.takes_int16,
            takers=WRITERS,
        )
        try:
            with signals.stopping(speech.stop):
                speech.run(plan.due(recorder.fail, speech.is_stopped))
        except (Exception, Interrupted) as caught:
            error = caught
    totals.wall_s = time.perf_counter() - started_s
    totals.is_interrupted = error is not None
    add_device_totals(totals, session)
    totals = replace(totals, **speech.reference_facts())
    facts = device_facts(session) | speech.engine.facts()
    if session.device.type == "cuda" and error is None:
        facts |= {"busy": speech.engine.busy.summary()}
    exit_code = getattr(error, "exit_code", 4) if error else int(totals.failed > 0)
    report = build_report(
        config,
        totals,
        run_id=run_id,
        model=model_facts(config, info),
        device=facts,
        started=started,
        exit_code=exit_code,
    )
    report = keep_report(plan, runs, report)
    if config.json:
        show_report(report)
    elif config.verbosity >= 0:
        left_out = "had not failed" if config.retry_failed else "were done already"
        show_result("\n".join(summary_lines(totals, left_out)))
    if error is not None:
        raise error
    return exit_code


def keep_report(plan: RowPlan, runs: RunLog, report: dict[str, Any]) -> dict[str, Any]:
    """Add a run's line to runs.jsonl and write run.json; returns what the second is to hold."""
    from tts_cli.output.run_file import with_folder, write_report

    try:
        runs.append(report)
    except (OSError, StoppedEarly) as problem:
        log.warning("runs.jsonl lacks this run: %s", problem)
    report = with_folder(report, folder_totals(runs, plan.journal))
    try:
        write_report(plan.writer.out, report)
    except (OSError, StoppedEarly) as problem:
        log.warning("run.json is missing: %s", problem)
    return report


def folder_totals(runs: RunLog, journal: Journal) -> FolderTotals | None:
    """What the folder holds; None where runs.jsonl cannot be read."""
    try:
        return runs.totals(journal.rows())
    except OSError as problem:
        log.warning("%s cannot be read: %s", runs.path, problem.strerror or problem)
        return None


def add_device_totals(totals: Totals, session: Session) -> None:
    """Graph counts and peak memory."""
    import torch

    for runner in session.model.graph_runners():
        totals.graph_hits += runner.stats.hits
        totals.graph_misses += runner.stats.misses
        if runner.stats.misses:
            totals.graph_misses_by[runner.name] = runner.stats.misses
    if session.device.type == "cuda":
        totals.peak_memory_bytes = torch.cuda.max_memory_allocated(session.device)
