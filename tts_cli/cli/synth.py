"""`tts-cli synth`: a manifest in, audio files, a timing log and a report out."""

from __future__ import annotations

import json
import logging
import shlex
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli import signals, startup
from tts_cli.app import device
from tts_cli.cli.command import SectionedCommand, SectionedOption
from tts_cli.cli.options import (
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
    worker_options,
)
from tts_cli.cli.screen import long_step, show_or_warn
from tts_cli.cli.speaking import (
    first_report,
    listed,
    plan_facts,
    show_report,
    speak,
    totals_of,
)
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Status
from tts_cli.errors import SetupError, UsageError
from tts_cli.folder.run_file import build_report, new_run_id, versions, with_folder
from tts_cli.manifest.manifest import open_manifests
from tts_cli.manifest.source import Manifest

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.engine.local import WarmModel
    from tts_cli.engine.made_voices import Studio
    from tts_cli.folder.folder import Folder
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.strays import Strays
    from tts_cli.plan.tally import Survey

log = logging.getLogger(__name__)


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
@worker_options
@reproducible_option
@row_options
@sampling_options
@reference_options
@run_options
@common_options
def command(manifests: tuple[str, ...], out: Path, **options: Any) -> int:
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
    config = RunConfig.from_options({**options, "out": out})
    with open_manifests(manifests, config) as source:
        return run(source, config, out)


def run(source: Manifest, config: RunConfig, out: Path, own: str = "") -> int:
    """Check, then speak. Returns the exit code.

    Args:
        own: what ids begin with that are of this manifest, whichever run spoke them; empty: none.
    """
    from tts_cli.cli.dry_run import say_choices, show_plan
    from tts_cli.cli.validate import check_settings, say_kept, say_problems, say_space
    from tts_cli.folder.folder import Folder
    from tts_cli.plan.checkpoint import approved_info, read_info, require_consent
    from tts_cli.plan.free_voices import who_speaks
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.standing import State

    signals.check()  # after the imports, which may have swallowed one
    if log.isEnabledFor(logging.DEBUG):  # reading them takes a while
        log.debug("versions: %s", listed(versions()))
    log.debug("settings: %s", listed(config.as_dict()))
    device.refuse_absent(config)
    info = read_info(config) if config.dry_run else approved_info(config)
    config, info, maker = who_speaks(config, info)
    check_settings(config, info)
    if config.dry_run:
        return show_plan(source, config, out, info, maker, own)
    require_consent(info.licence, config)
    with Folder.at(out, config, info) as folder:
        plan = Plan(source, config, info, folder, maker=maker)
        with long_step("checking the manifest, and which rows are done", config.progress):
            survey = plan.survey()
        log.debug("left to do: %s", survey)
        signals.check()
        say_problems(survey.summary, config)
        say_kept(survey)
        if not config.skip_invalid:
            survey.summary.require_good()
        plan.voices.require_there()
        say_choices(survey, config, plan.voices.is_two)
        survey.require_own_files()
        if folder.is_new or not config.overwrite:  # which replaces files, so more fits than is free
            say_space(survey.summary, out)
        while survey.back:
            bring_back(folder, survey)
            survey = plan.survey()
        if survey.needs.rows > 1 and (hint := plan.voices.hint()):
            log.info("%s", hint)
        if survey.needs_model:
            startup.reach("checked_s")
            device.require(config)
        folder.begin()
        if survey.damaged:
            log.warning(
                "audio that is gone, cut or not what was written is spoken again: %s%s",
                ", ".join(survey.damaged),
                ", ..." if survey.due[State.DAMAGED] > len(survey.damaged) else "",
            )
        model = None
        plan.voices.made.bring(plan.voices.asks)
        if plan.voices.to_make():
            model = make_missing_voices(plan)
            survey = plan.survey()
        if config.voices_only:
            return show_voices(plan)
        if not folder.is_new:
            survey.strays = settle_strays(plan, folder, own)
        if survey.kept:
            model = remake(config, info, plan, folder, survey, model)
        if config.has_workers:
            model = None  # theirs are their own
        if survey.needs_model:
            exit_code = speak(config, info, plan, survey, folder, model)
        else:
            exit_code = record_unspoken(config, info, plan, survey, folder)
        if survey.strays is not None and survey.strays.stayed:
            exit_code = max(exit_code, 1)
        return max(exit_code, keep_subtitles(plan)) if config.subtitles else exit_code


def make_missing_voices(plan: Plan) -> WarmModel | None:
    """Make what rows lack. Returns the model, if it was loaded for that."""
    from tts_cli.engine.made_voices import Here, make_voices

    count = len(plan.voices.to_make())
    what = "making a voice" if count == 1 else f"making {count} voices"
    here = Here(plan.voices.is_two, stopping=signals.stopping)
    with ExitStack() as stack:
        studio: Studio = here
        if plan.config.has_workers:
            from tts_cli.workers.elsewhere import elsewhere

            studio = stack.enter_context(elsewhere(plan.config))
        stack.enter_context(long_step(what, plan.config.progress))
        make_voices(plan.voices, plan.voices.to_make(), plan.planner.cloning, studio)
    return here.model


def show_voices(plan: Plan) -> int:
    """Tell where the voices are that were made. Returns the exit code."""
    made = plan.voices.made
    if plan.config.json:
        voices = plan.voices.facts()
        found = [{**facts, "path": made.wav(facts["voice"])} for facts in voices]
        return show_or_warn(json.dumps(found, indent=2), is_json=True)
    paths = [made.wav(voice) for voice in plan.voices.asks]
    return show_or_warn("\n".join(paths or ["no voice is to be made for these rows"]))


def bring_back(folder: Folder, survey: Survey) -> None:
    """Give rows that the manifest has again what was removed of them. Raises StoppedEarly."""
    folder.mark(back=survey.back)
    rows = "1 row is" if len(survey.back) == 1 else f"{len(survey.back)} rows are"
    log.info("%s back from removed/, as spoken before", rows)


def settle_strays(plan: Plan, folder: Folder, own: str) -> Strays:
    """Look for rows that the manifest no longer has, and take them out where that is asked for;
    records of bad rows that are mended are, in any case.

    Raises:
        SetupError: the folder's files cannot be read.
        StoppedEarly: a row cannot be marked.
    """
    from tts_cli.plan.strays import Stray, Strays

    try:
        strays = Strays(folder, plan.source, plan.rows, own)
        if strays.found[Stray.GHOST].count:
            folder.mark(gone=strays.ids(Stray.GHOST))
        left = strays.found[Stray.LEFT].count
        if left and plan.config.prune:
            if plan.rows.has_nameless:
                log.warning("no row is taken out before the bad ones have ids that can be read")
            else:
                strays.stayed = folder.mark(gone=strays.ids(Stray.LEFT))
                strays.removed = left - len(strays.stayed)
    except OSError as error:
        raise SetupError(f"{error.filename or folder.out}: {error.strerror or error}") from error
    return strays


def keep_subtitles(plan: Plan) -> int:
    """Write the rows' subtitles that are missing. Returns 1 if some could not be written."""
    from tts_cli.app.subtitles import write_row_subtitles

    made = write_row_subtitles(plan)
    if made.failed:
        log.warning("subtitles of %d rows could not be written", made.failed)
    log.info("subtitles: %d files written", made.written)
    return int(made.failed > 0)


def remake(
    config: RunConfig,
    info: ModelInfo,
    plan: Plan,
    folder: Folder,
    survey: Survey,
    model: WarmModel | None,
) -> WarmModel | None:
    """Make the files that only their delivery sets apart. The model, if codes needed one."""
    from tts_cli.folder.take import Take

    if survey.kept["codes"] and model is None:
        from tts_cli.engine.local import WarmModel

        with long_step("loading the model", config.progress):
            model = WarmModel(config, info)
    decode = None
    if model is not None:
        from tts_cli.engine.vocoder import decoder_of

        decode = decoder_of(model.session.model)
    with long_step("making files of what is kept, without speaking", config.progress):
        made = folder.remake(plan.orders(), decode)
    survey.remade = made.count
    log.info("%d files made of what is kept, without speaking", made.count)
    for row_id, reason in made.failed:
        log.warning("row %s: %s; run the same command again to speak it", row_id, reason)
        survey.unmade.append(Take(row_id, Status.FAILED, error=reason))
    folder.journal.append(*survey.unmade)
    return model


def record_unspoken(
    config: RunConfig, info: ModelInfo, plan: Plan, survey: Survey, folder: Folder
) -> int:
    """Record what needs no model, where no other row is left: silence, and bad rows as failed."""
    from tts_cli.app.tally import RunTally
    from tts_cli.plan.planner import silence_of

    started = datetime.now(timezone.utc)
    totals = totals_of(survey)
    tally = RunTally(folder, info.frame_s, totals)
    for row in plan:
        if isinstance(row, BadRow) and folder.journal.status(row.record_id) == "failed":
            totals.failed += 1
            totals.bad_rows += 1
            continue
        if folder.run_id is None:
            folder.note_run(first_report(plan, new_run_id(started), started))
        if isinstance(row, BadRow):
            tally.fail(row)
        else:
            tally.keep(row, silence_of(row, info))
    folder.renew_totals()
    exit_code = int(totals.failed > 0)
    if config.json or survey.served:
        report = build_report(
            plan.planner.maker.config,
            totals,
            run_id=new_run_id(started) if survey.served else None,
            device={},
            started=started,
            exit_code=exit_code,
            **plan_facts(plan),
        )
        report = with_folder(report, folder.totals())
        if survey.served:  # else takes of the run before would count for ever
            folder.add_run(report)
    if config.json:
        exit_code = show_report(report, exit_code)
    else:
        say_nothing_to_do(config, survey, plan, folder.out)
    return exit_code


def say_nothing_to_do(config: RunConfig, survey: Survey, plan: Plan, out: Path) -> None:
    """Tell that no row is left to speak; run.json of the run that spoke the others stays."""
    from tts_cli.cli.summary import stray_lines

    strays = stray_lines(survey.strays, plan.source.name, out)
    show_or_warn("\n".join([_nothing_to_do(config, survey), *strays]))


def _nothing_to_do(config: RunConfig, survey: Survey) -> str:
    reason = f"all {survey.skipped} rows are done already"
    if survey.remade or survey.unmade:
        made = f"{survey.remade} files made of what is kept"
        more = [f"{survey.skipped} rows are done already"] if survey.skipped else []
        more += [f"{len(survey.unmade)} files could not be made"] if survey.unmade else []
        return "; ".join([f"nothing to speak: {made}", *more])
    if survey.served:
        reason = (
            "the takes were all spoken when the last run was cut short; the same command again "
            "speaks as many more"
        )
    elif config.only and not survey.summary.selected:
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
    return f"nothing to do: {reason}" + (f"; {survey.bad} are bad" if survey.bad else "")


def _done(rows: int) -> str:
    return "1 row is done already" if rows == 1 else f"all {rows} rows are done already"
