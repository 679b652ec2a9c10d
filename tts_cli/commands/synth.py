"""`tts-cli synth`: a manifest in, audio files, a timing log and a report out."""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from tts_cli import signals
from tts_cli.commands import device
from tts_cli.commands.options import (
    Invocation,
    common_options,
    device_options,
    manifests_argument,
    model_options,
    output_options,
    reference_options,
    reproducible_option,
    row_options,
    run_options,
    sampling_options,
)
from tts_cli.commands.sections import SectionedCommand, SectionedOption
from tts_cli.commands.streams import show_or_warn
from tts_cli.config import RunConfig
from tts_cli.errors import Interrupted, StoppedEarly, UsageError
from tts_cli.manifest.reader import Manifest, open_manifests

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.output.journal import Journal
    from tts_cli.output.run_file import Totals
    from tts_cli.output.run_log import FolderTotals, RunLog
    from tts_cli.run.load import Session
    from tts_cli.run.plan.found import Survey
    from tts_cli.run.plan.row_plan import RowPlan

log = logging.getLogger(__name__)

WRITERS = 8  # most of a writer's time is waiting for the disk


def _point_at_say(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """`--text` is not there; what does it is."""
    if value is not None and not ctx.resilient_parsing:
        raise UsageError(
            "synth has no --text: it speaks the rows of a manifest",
            remedy=f"a text is spoken by: tts-cli say {shlex.quote(value)}",
        )


@click.command("synth", cls=SectionedCommand)
@click.option(
    "--text",
    hidden=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,
    cls=SectionedOption,
    callback=_point_at_say,
)
@manifests_argument
@output_options(is_out_required=True)
@model_options
@device_options
@reproducible_option
@row_options
@sampling_options
@reference_options
@run_options
@common_options
def command(manifests: tuple[str, ...], **options: Any) -> int:
    """Speak every row of a manifest; resumes by itself.

    MANIFEST is JSONL (one object a line: id, text, voice, language, instruct, seed, ...) or an
    array of JSON, CSV, TSV or .xlsx with a header, plain .txt with one text a line, or - for JSONL
    on stdin; several are spoken as if they were one. DIR gets one audio file a row, timings.jsonl
    with one line a row, run.json and runs.jsonl. Run the same command again and only rows that are
    missing, changed or failed are spoken.

    \b
    Examples:
      tts-cli synth lines.jsonl --out wavs/
      tts-cli synth lines.txt --out wavs/ --voice clara --seed 7 --format flac
      tts-cli synth script.xlsx --out wavs/ --map "Line ID=id,Dialogue=text" --extra keep
      tts-cli synth book.csv --out wavs/ --language en \\
        --model Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice
    """
    config = RunConfig.from_options(options)
    with open_manifests(manifests, config) as source:
        return run(source, config)


def run(source: Manifest, config: RunConfig) -> int:
    """Check, then speak. Returns the exit code."""
    from tts_cli.commands.dry_run import say_choices, show_plan
    from tts_cli.commands.output_folder import close_takes, open_folder
    from tts_cli.commands.progress import long_step
    from tts_cli.commands.validate import (
        check_settings,
        has_journal,
        say_kept,
        say_problems,
        say_space,
    )
    from tts_cli.output.run_file import versions
    from tts_cli.output.writer import AudioWriter
    from tts_cli.run.consent import approved_info
    from tts_cli.run.model_source import read_info
    from tts_cli.run.plan.row_plan import RowPlan
    from tts_cli.run.plan.standing import State

    signals.check()  # after the imports, which may have swallowed one
    log.debug("versions: %s", _listed(versions()))
    log.debug("settings: %s", _listed(config.as_dict()))
    device.refuse_absent(config)
    info = read_info(config) if config.dry_run else approved_info(config)
    check_settings(config, info)
    assert config.out is not None
    if config.dry_run:
        return show_plan(source, config, info)
    with ExitStack() as stack:
        # Nothing is written to a folder without a journal before the manifest is known to be good.
        is_ours = has_journal(config.out)
        journal, runs = open_folder(config, stack) if is_ours else (None, None)
        if journal is not None:
            stack.callback(close_takes, config, journal)
        writer = AudioWriter(config.out, config, info.sample_rate_hz)
        plan = RowPlan(source, config, info, journal, writer)
        with long_step("checking the manifest, and which rows are done", config.progress):
            survey = plan.survey()
        log.debug("left to do: %s", survey)
        signals.check()
        say_problems(survey.summary, config)
        say_kept(survey)
        if not config.skip_invalid:
            survey.summary.require_good()
        say_choices(survey, config)
        survey.require_own_files()
        if not (is_ours and config.overwrite):  # which replaces files, so more fits than is free
            say_space(survey.summary, config.out)
        if survey.needs.rows:
            device.require(config)
        if not is_ours:
            journal, runs = open_folder(config, stack, is_new=True)
            stack.callback(close_takes, config, journal)
            plan.journal = journal
            plan.writer = AudioWriter(config.out, config, info.sample_rate_hz)
        if survey.damaged:
            log.warning(
                "audio that is gone, cut or not what was written is spoken again: %s%s",
                ", ".join(survey.damaged),
                ", ..." if survey.due[State.DAMAGED] > len(survey.damaged) else "",
            )
        assert runs is not None
        session = remake(config, info, plan, survey) if survey.kept else None
        if survey.needs.rows:
            exit_code = speak(config, info, plan, survey, runs, session)
        else:
            exit_code = record_unspoken(config, info, plan, survey, runs)
        return max(exit_code, keep_subtitles(plan)) if config.subtitles else exit_code


def keep_subtitles(plan: RowPlan) -> int:
    """Write the rows' subtitles that are missing. Returns 1 if some could not be written."""
    from tts_cli.run.row_subtitles import write_row_subtitles

    made = write_row_subtitles(plan)
    if made.failed:
        log.warning("subtitles of %d rows could not be written", made.failed)
    log.info("subtitles: %d files written", made.written)
    return int(made.failed > 0)


def remake(config: RunConfig, info: ModelInfo, plan: RowPlan, survey: Survey) -> Session | None:
    """Make the files that only their delivery sets apart. The session, if codes needed a model."""
    from tts_cli.commands.progress import long_step
    from tts_cli.deliver.metadata import synthetic
    from tts_cli.output.record import RowRecord
    from tts_cli.run.remake.recode import Recoder

    assert plan.journal is not None
    assert plan.writer is not None
    session = None
    if survey.kept["codes"]:
        from tts_cli.run.load import open_session

        with long_step("loading the model", config.progress):
            session = open_session(config)
    model = None if session is None else session.model
    out = plan.writer.out
    recoder = Recoder(out, plan.writer, plan.journal, synthetic(info), model)
    with long_step("making files of what is kept, without speaking", config.progress):
        made = recoder.run(plan.orders())
    survey.remade = made.count
    log.info("%d files made of what is kept, without speaking", made.count)
    for row_id, reason in made.failed:
        log.warning("row %s: %s; run the same command again to speak it", row_id, reason)
        survey.unmade.append(RowRecord(row_id, "failed", error=reason))
    plan.journal.append(*survey.unmade)
    return session


def record_unspoken(
    config: RunConfig, info: ModelInfo, plan: RowPlan, survey: Survey, runs: RunLog
) -> int:
    """Record what needs no model, where no other row is left: silence, and bad rows as failed."""
    from tts_cli.deliver.metadata import synthetic
    from tts_cli.manifest.row import BadRow
    from tts_cli.output.run_file import Totals, build_report, with_folder
    from tts_cli.run.records import Recorder

    assert plan.journal is not None
    assert plan.writer is not None
    started = datetime.now(timezone.utc)
    totals = Totals(
        rows=survey.skipped + survey.pending + survey.bad + survey.remade + len(survey.unmade),
        failed=len(survey.unmade),
        skipped=survey.skipped,
        remade=survey.remade,
    )
    recorder = Recorder(
        plan.writer,
        plan.journal,
        None,
        info.frame_s,
        totals,
        lambda _: None,
        comment=synthetic(info),
    )
    for row in plan:
        if not isinstance(row, BadRow):
            recorder.take(row)
        elif plan.journal.status(row.record_id) != "failed":
            recorder.fail(row)
        else:
            totals.failed += 1
            totals.bad_rows += 1
    exit_code = int(totals.failed > 0)
    if config.json:
        from tts_cli.run.model_source import model_facts

        report = build_report(
            config,
            totals,
            run_id=None,
            model=model_facts(config, info),
            text=plan.care.facts(),
            device={},
            started=started,
            exit_code=exit_code,
            manifests=plan.source.paths,
            read_as=plan.source.facts(),
            cast=plan.rows.casting.cast.facts(),
            origins=setting_origins(),
            anchor=anchor_facts(plan),
        )
        show_report(with_folder(report, folder_totals(runs, plan.journal)))
    else:
        say_nothing_to_do(config, survey)
    return exit_code


def setting_origins() -> dict[str, str]:
    """Where the settings of this command come from that are not built in."""
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else ctx.ensure_object(Invocation).origins


def say_nothing_to_do(config: RunConfig, survey: Survey) -> None:
    """Tell that no row is left to speak; run.json of the run that spoke the others stays."""
    reason = f"all {survey.skipped} rows are done already"
    if survey.remade or survey.unmade:
        made = f"{survey.remade} files made of what is kept"
        more = [f"{survey.skipped} rows are done already"] if survey.skipped else []
        more += [f"{len(survey.unmade)} files could not be made"] if survey.unmade else []
        show_result("; ".join([f"nothing to speak: {made}", *more]))
        return
    if config.only and not survey.summary.selected:
        reason = "no row is suspect or failed" if "suspects" in config.only else "no row"
    elif config.only and survey.skipped and not survey.silent and not config.retry_failed:
        reason = (
            f"{_done(survey.skipped)}; --takes N speaks more takes, "
            "--overwrite with another --seed speaks anew"
        )
    elif survey.silent:
        rows = "1 row is" if survey.silent == 1 else f"{survey.silent} rows are"
        reason = f"{rows} silent for want of words, {survey.skipped} were done already"
    elif config.retry_failed:
        reason = "no row of this manifest is recorded as failed"
    elif not survey.skipped and not survey.bad:
        reason = "no row of this manifest is in this shard"
    elif not survey.skipped:
        reason = "no good row"
    show_result(f"nothing to do: {reason}" + (f"; {survey.bad} are bad" if survey.bad else ""))


def _done(rows: int) -> str:
    return "1 row is done already" if rows == 1 else f"all {rows} rows are done already"


def show_report(report: Mapping[str, Any]) -> None:
    """Print a report as JSON, in the form of run.json."""
    show_result(json.dumps(report, indent=2))


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def show_result(text: str) -> None:
    """Print what came of the rows. The folder has it as well, so a lost stdout fails nothing."""
    if problem := show_or_warn(text):
        log.warning("%s", problem)


def speak(
    config: RunConfig,
    info: ModelInfo,
    plan: RowPlan,
    survey: Survey,
    runs: RunLog,
    session: Session | None = None,
) -> int:
    """Load the model, unless that was done, speak the pending rows, report, print the summary."""
    from tts_cli.commands.progress import Progress, long_step
    from tts_cli.commands.summary import next_step, summary_lines, take_lines
    from tts_cli.deliver.metadata import synthetic
    from tts_cli.output.run_file import Totals, build_report
    from tts_cli.output.run_log import new_run_id
    from tts_cli.run.load import device_facts, open_session, prepare
    from tts_cli.run.model_source import model_facts
    from tts_cli.run.records import Recorder
    from tts_cli.run.retry import RetryPolicy
    from tts_cli.run.threads import SpeechRun

    assert plan.journal is not None
    assert plan.writer is not None
    signals.check()
    started = datetime.now(timezone.utc)
    run_id = new_run_id(started)
    if survey.summary.split:
        log.info("rows spoken in parts: %d, %d parts", survey.summary.split, survey.summary.parts)
    if session is None:
        with long_step("loading the model", config.progress):
            session = open_session(config)
    signals.check()
    with long_step("making slots and graphs", config.progress):
        prepare(session, survey.needs)
    log.debug("model: %s", _listed(model_facts(config, info)))
    log.debug("device: %s", _listed(device_facts(session)))
    signals.check()
    say_anchor(survey, config, session.device.type == "cuda")
    totals = Totals(
        rows=survey.pending + survey.bad + survey.skipped + survey.remade + len(survey.unmade),
        failed=len(survey.unmade),
        skipped=survey.skipped,
        remade=survey.remade,
        load_s=session.load_s,
        capture_s=session.capture_s,
    )
    error: BaseException | None = None
    started_s = time.perf_counter()
    num_rows = survey.pending + survey.takes + survey.bad
    with Progress(num_rows, config.progress, config.verbosity < 0) as progress:
        recorder = Recorder(
            plan.writer,
            plan.journal,
            run_id,
            info.frame_s,
            totals,
            progress.update,
            config.failures_allowed(survey.pending + survey.takes),
            config.takes,
            comment=synthetic(info),
        )
        for record in survey.unmade:
            recorder.failures.add(record)
        speech = SpeechRun(
            session,
            recorder.take,
            RetryPolicy.of(config),
            cloning=plan.cloning,
            is_int16=plan.writer.takes_int16,
            takers=WRITERS,
            pauses=plan.split_rule.pauses,
        )
        try:
            with signals.stopping(speech.stop):
                speech.run(plan.due(recorder, speech.is_stopped))
            plan.source.require_same()
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
        text=plan.care.facts(),
        device=facts,
        started=started,
        exit_code=exit_code,
        manifests=plan.source.paths,
        read_as=plan.source.facts(),
        cast=plan.rows.casting.cast.facts(),
        origins=setting_origins(),
        anchor=anchor_facts(plan),
    )
    report = keep_report(plan, runs, report)
    if config.json:
        show_report(report)
    elif config.verbosity >= 0:
        left_out = "had not failed" if config.retry_failed else "were done already"
        lines = summary_lines(totals, plan.writer.out, recorder.failures, left_out)
        lines[-1:-1] = take_lines(totals, survey.with_takes, recorder.num_same, plan.writer.out)
        num_bad = totals.failed - recorder.failures.count
        is_stopped = error is not None
        args = click.get_current_context().ensure_object(Invocation).args
        if step := next_step(args, config, recorder.failures, num_bad, is_stopped):
            lines.append(step)
        show_result("\n".join(lines))
    if error is not None:
        raise error
    return exit_code


def anchor_facts(plan: RowPlan) -> dict[str, Any] | None:
    """What the report says of the row whose voice others have; no digest: it was not spoken."""
    anchor = plan.anchor
    return None if anchor is None else {"id": anchor.id, "digest": anchor.need.digest or None}


def say_anchor(survey: Survey, config: RunConfig, is_gpu: bool) -> None:
    """Tell whose voice rows have."""
    found = survey.summary
    if not found.anchor:
        return
    when = "as it was spoken" if found.is_anchor_spoken else "spoken first"
    log.info("anchor: row '%s', %s; %d rows follow its voice", found.anchor, when, found.anchored)
    if config.shard is not None and is_gpu and not found.is_anchor_spoken:
        log.warning(
            "--anchor with --shard: on a GPU the anchor may come out otherwise in another shard's "
            "folder; make a voice of it with `tts-cli voices add`, and give all shards --voice"
        )


def keep_report(plan: RowPlan, runs: RunLog, report: dict[str, Any]) -> dict[str, Any]:
    """Add a run's line to runs.jsonl and write run.json; returns what the second is to hold."""
    from tts_cli.output.run_file import with_folder, write_report

    try:
        runs.append(report)
    except (OSError, StoppedEarly) as problem:
        log.warning("runs.jsonl lacks this run: %s", problem)
    assert plan.journal is not None
    assert plan.writer is not None
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
