"""Synthesize a manifest into a folder: the one way from rows to audio files and journal entries.

`synth`, `book` and `say` call `synthesize`. The caller passes a `Screen` that shows the progress,
and gets a `RunResult`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli import signals, startup
from tts_cli.app import device
from tts_cli.app.look import DryRunReport, Screen, approved, listed, read_plan
from tts_cli.app.run_report import report_of
from tts_cli.app.totals import Hook, ResultRecorder, add_result, log_result, num_failed, run_totals
from tts_cli.audio.tags import comment_of
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row, Status, Step
from tts_cli.engine.session import LocalSession, Session, SessionFacts, make_ready
from tts_cli.errors import Interrupted
from tts_cli.events import Event
from tts_cli.named import counted
from tts_cli.plan.checkpoint import model_facts
from tts_cli.plan.estimate import measured_xrt
from tts_cli.plan.plan import Plan
from tts_cli.plan.remembered import BookFacts
from tts_cli.plan.strays import Strays, settle_strays
from tts_cli.sources.item import Manifest
from tts_cli.store.entry import JournalEntry
from tts_cli.store.orphans import find_orphans
from tts_cli.store.run_file import new_run_id
from tts_cli.store.store import Store, takes_bytes
from tts_cli.voices.voice_store import VoiceStore

if TYPE_CHECKING:
    from tts_cli.app.align import FolderAlignment
    from tts_cli.app.verify import Verified

log = logging.getLogger(__name__)


@dataclass
class RunResult:
    """The result of a run; its counts are the events of the plan."""

    plan: Plan
    strays: Strays | None = None  # rows that the manifest no longer has; None: not determined
    facts: SessionFacts = field(default_factory=SessionFacts)
    wall_s: float = 0.0  # time for synthesizing and writing
    verified: Verified | None = None  # with --verify
    words: FolderAlignment | None = None  # with --words
    report: dict[str, Any] = field(default_factory=dict)  # run.json; empty: not written
    error: BaseException | None = None  # the error that ended the run early
    exit_code: int = 0
    is_spoken: bool = False  # whether a model synthesized a row
    is_run: bool = False  # whether the run is recorded in runs.jsonl

    def totals(self) -> dict[str, Any]:
        return run_totals(
            self.plan.events,
            self.facts,
            wall_s=self.wall_s,
            is_interrupted=self.error is not None,
            strays=self.strays,
        )

    @property
    def takes_bytes(self) -> int:
        return takes_bytes(self.plan.folder.out)


def synthesize(
    source: Manifest,
    config: RunConfig,
    out: Path,
    screen: Screen,
    hooks: Sequence[Hook] = (log_result,),
    *,
    voices: VoiceStore | None = None,
    own: str = "",
    origins: Mapping[str, str] | None = None,
    book: BookFacts | None = None,
    edits: Mapping[str, Row] | None = None,
    open_session: Callable[..., LocalSession] = LocalSession,
) -> RunResult:
    """Synthesize the rows of a manifest that a folder does not have yet.

    Args:
        hooks: called with the task, result and entry of every row, after its commit.
        voices: None: voice files of the user and generated voices of the folder.
        own: prefix of ids that belong to this manifest whichever run they are from; empty: none.
        origins: origin of each setting that is not built in.
        book: the book that the rows come from; None: a manifest.
        edits: rows in place of those of the manifest, by id.
        open_session: makes the session, or returns one that is open already.
    Raises:
        TtsCliError, Interrupted: the run ended before its first row.
    """
    aligned = None
    if config.words is not None and not config.voices_only:
        from tts_cli.app.align import align, aligner_of

        aligned = partial(align, opened=aligner_of(config.words, config, "--words"), screen=screen)
    config, info, maker = approved(config)
    with Store(out, config, info) as folder:
        plan = Plan(source, config, info, folder, maker=maker, voices=voices, edits=edits)
        read_plan(plan, screen)
        while plan.back:  # removed rows that the manifest has again
            folder.restore(plan.back)
            log.info("%s restored", counted(len(plan.back), "row is", "rows are"))
            plan.read()
        screen.due(plan)
        if plan.needs_model:
            startup.reach("checked_s")
            device.require_device(config)
        folder.open()  # nothing was made on disk before
        plan.voices.made.bring(plan.voices.asks)
        is_int16 = folder.writer.accepts_int16
        local = open_session(config, info, plan.planner.cloning, is_int16=is_int16)
        with closing(local) as session:
            if plan.voices.to_make():
                make_missing_voices(plan, session, screen.step)
                plan.read()
            result = RunResult(plan)
            if config.voices_only:
                return result
            if not folder.is_new:
                pruned = config.prune
                result.strays = settle_strays(folder, source, plan.rows, own, is_pruned=pruned)
            started = datetime.now(timezone.utc)
            report = partial(report_of, plan, origins, book=book, started=started)
            report = partial(report, run_id=new_run_id(started))
            if not folder.is_new and plan.changes.is_news(report(None)):
                folder.start_run(report(None))  # so that later runs have these settings
                result.is_run = True
            if plan.events.num(Event.REENCODE):  # no row is synthesized
                remake(result, session, screen.step)
            speak(result, session, screen, hooks, report)
        if config.subtitles and result.error is None:
            derive(result, write_subtitles)
    if aligned is not None and result.error is None:
        derive(result, partial(align_words, aligned=aligned))
    return result


def look(
    source: Manifest,
    config: RunConfig,
    out: Path,
    screen: Screen,
    *,
    own: str = "",
    edits: Mapping[str, Row] | None = None,
) -> DryRunReport:
    """Plan a run without writing anything. See `synthesize`."""
    config, info, maker = approved(config)
    folder = Store(out, config, info)
    plan = Plan(source, config, info, folder, maker=maker, edits=edits, keeps=False)
    read_plan(plan, screen)
    report = DryRunReport(plan, measured_xrt(out))
    if folder.is_new:
        return report
    strays = Strays(folder, source, plan.rows, own)
    orphans = find_orphans(out, folder.journal, plan.rows.has_id)
    return report._replace(strays=strays, orphans=orphans)


def make_missing_voices(plan: Plan, session: LocalSession, step: Step) -> None:
    from tts_cli.engine.made_voices import make_voices, run_in

    count = len(plan.voices.to_make())
    with ExitStack() as stack:
        run_work = run_in(session)
        if plan.config.has_workers:
            from tts_cli.workers.session import elsewhere

            run_work = stack.enter_context(elsewhere(plan.config))
        stack.enter_context(step("making " + counted(count, "voice")))
        make_voices(plan.voices, plan.voices.to_make(), plan.planner.cloning, run_work)


def remake(result: RunResult, session: LocalSession, step: Step) -> None:
    plan, events = result.plan, result.plan.events
    folder, decode = plan.folder, None
    if events.num(Event.REENCODE, "codes"):
        make_ready(session, None, step)
        from tts_cli.engine.vocoder import decoder_of

        decode = decoder_of(session.loaded.model)
    with step("converting existing files"):
        made = folder.reencode(plan.orders(), decode)
    for _ in range(made.count):
        events.add(Event.CONVERTED)
    log.info("%s converted without synthesis", counted(made.count, "file"))
    failed = [JournalEntry(row_id, Status.FAILED, error=reason) for row_id, reason in made.failed]
    for take in failed:
        again = "run the same command again to synthesize it"
        log.warning("row %s: %s; %s", take.id, take.error, again)
        events.add(Event.NOT_CONVERTED, take.id)
        add_result(events, Event.FAILED, take)
    folder.journal.append(*failed)


def speak(
    result: RunResult,
    local: LocalSession,
    screen: Screen,
    hooks: Sequence[Hook],
    report: Callable[..., dict[str, Any]],
) -> None:
    """Synthesize, commit and check the rows that are due, and record the run in its folder."""
    plan = result.plan
    result.is_spoken, is_served = plan.needs_model, plan.events.num(Event.SERVED) > 0
    with ExitStack() as stack:
        session = cache(lambda: stack.enter_context(closing(session_of(plan, local))))
        verification = None
        if plan.config.verify is not None:
            from tts_cli.app.verify import Verification

            verification = stack.enter_context(closing(Verification(plan, screen, hooks)))
            hooks = verification.hooks
        allowed = plan.config.failures_allowed(plan.num_pending + plan.num_takes)
        recorder = ResultRecorder(plan.folder, plan.info.frame_s, plan.events, allowed, hooks)

        def begin() -> None:
            if plan.folder.run_id is None:
                plan.folder.start_run(report(None))
            if verification is not None:
                verification.begin()

        signals.check()
        if plan.needs_model:
            prepare(plan, session(), screen.step)
            begin()
        try:
            if plan.needs_model:
                speak_due(result, session(), screen, recorder)
            else:  # silent and invalid rows
                if not all(isinstance(row, BadRow) and recorder.is_recorded(row) for row in plan):
                    begin()
                for _ in plan.due(recorder.keep, recorder.fail):
                    pass
            if verification is not None:
                result.verified = verification.end(session, begin)
        except (Exception, Interrupted) as caught:
            result.error = caught
        if verification is not None:
            result.wall_s += verification.retake_s
            result.is_spoken |= verification.is_spoken
            is_served |= verification.is_served
        result.is_run |= result.is_spoken or is_served
        if result.is_spoken:
            result.facts = session().facts()
    conclude(result, report if result.is_run else partial(report, run_id=None))


def prepare(plan: Plan, session: Session, step: Step) -> None:
    """Load the model and allocate its slots. Raises SetupError, Interrupted."""
    split = plan.events.of(Event.SPLIT)
    if split.count:
        log.info("rows split into pieces: %d, %d pieces", split.count, split.sums["pieces"])
    make_ready(session, plan.needs, step)
    log.debug("model: %s", listed(model_facts(plan.config, plan.info)))
    log.debug("device: %s", listed(session.facts().device))


def conclude(result: RunResult, report: Callable[..., dict[str, Any]]) -> None:
    config, folder, events = result.plan.config, result.plan.folder, result.plan.events
    error, verified, strays = result.error, result.verified, result.strays
    exit_code = int(num_failed(events) > 0) if error is None else getattr(error, "exit_code", 4)
    if verified is not None and verified.suspects:
        exit_code = max(exit_code, 1)
    if result.is_run or config.json:
        told = None if verified is None else verified.as_dict()
        ran = report(result.totals(), result.facts, exit_code=exit_code, verified=told)
        result.report = folder.end_run(ran, is_spoken=result.is_spoken)
    if not result.is_spoken:
        folder.update_totals()
    result.exit_code = max(exit_code, int(strays is not None and bool(strays.stayed)))


def session_of(plan: Plan, local: LocalSession) -> Session:
    if not plan.config.has_workers:
        return local
    from tts_cli.workers.session import WorkerSession

    local.close()  # workers have their own sessions
    folder, comment = plan.folder, comment_of(plan.info)
    cloning = plan.planner.cloning
    return WorkerSession(plan.config, plan.info, cloning, folder.out, comment, folder.writer.drop)


def speak_due(
    result: RunResult, session: Session, screen: Screen, recorder: ResultRecorder
) -> None:
    plan = result.plan
    started_s = time.perf_counter()
    num_rows = plan.num_pending + plan.num_takes + plan.events.num(Event.FAILING)
    try:
        with screen.progress(num_rows) as shown, signals.stopping(session.stop):
            recorder.on_row = shown.update
            session.speak(plan.due(recorder.keep, recorder.fail), recorder.keep)
    finally:
        result.wall_s = time.perf_counter() - started_s
        startup.reach("spoken_s")


def derive(result: RunResult, make: Callable[[RunResult], int]) -> None:
    """Run `make`, which returns the number of rows without such files, and set the exit code."""
    try:
        result.exit_code = max(result.exit_code, int(make(result) > 0))
    except (Exception, Interrupted) as caught:
        result.error = caught


def write_subtitles(result: RunResult) -> int:
    from tts_cli.app.subtitles import write_row_subtitles

    return write_row_subtitles(result.plan).num(Event.NOT_DERIVED)


def align_words(result: RunResult, aligned: Callable[..., FolderAlignment]) -> int:
    plan = result.plan
    config = replace(plan.config, lexicon=None)  # already applied to the texts
    result.words = aligned(plan.folder.out, config, names=plan.has)
    return len(result.words.problems)
