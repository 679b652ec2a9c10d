"""Synthesize a manifest into a folder: the one way from rows to audio files and journal entries.

`synth`, `book` and `say` call `synthesize`. Nothing is printed here. The caller passes a `Screen`
that shows the progress, and gets a `RunResult`.
"""

from __future__ import annotations

import logging
import os
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
from tts_cli.app.totals import (
    Hook,
    ResultRecorder,
    add_result,
    log_result,
    num_failed,
    run_totals,
)
from tts_cli.audio.tags import comment_of
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Status, Step
from tts_cli.engine.session import LocalSession, Session, SessionFacts, make_ready
from tts_cli.errors import Interrupted, without_user_info
from tts_cli.events import Event
from tts_cli.named import counted
from tts_cli.plan.checkpoint import model_facts
from tts_cli.plan.estimate import measured_xrt
from tts_cli.plan.plan import Plan
from tts_cli.plan.remembered import BookFacts, working_folder
from tts_cli.plan.strays import Strays, settle_strays
from tts_cli.sources.item import Manifest
from tts_cli.store.entry import JournalEntry, iso_time
from tts_cli.store.orphans import find_orphans
from tts_cli.store.run_file import new_run_id
from tts_cli.store.store import Store, takes_bytes
from tts_cli.versions import OWN_PACKAGE, versions
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
        """Return the totals of run.json."""
        return run_totals(
            self.plan.events,
            self.facts,
            wall_s=self.wall_s,
            is_interrupted=self.error is not None,
            strays=self.strays,
        )

    @property
    def takes_bytes(self) -> int:
        """Bytes of the alternative takes."""
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
) -> RunResult:
    """Synthesize the rows of a manifest that a folder does not have yet.

    Args:
        hooks: called with the task, result and entry of every row, after its commit.
        voices: None: voice files of the user and generated voices of the folder.
        own: prefix of ids that belong to this manifest whichever run they are from; empty: none.
        origins: origin of each setting that is not built in.
        book: the book that the rows come from; None: a manifest.
    Raises:
        TtsCliError, Interrupted: the run ended before its first row.
    """
    aligned = None
    if config.words is not None and not config.voices_only:
        from tts_cli.app.align import align, aligner_of

        aligned = partial(align, opened=aligner_of(config.words, config, "--words"), screen=screen)
    config, info, maker = approved(config)
    with Store(out, config, info) as folder:
        plan = Plan(source, config, info, folder, maker=maker, voices=voices)
        read_plan(plan, screen)
        while plan.back:
            bring_back(plan)
            plan.read()
        screen.due(plan)
        if plan.needs_model:
            startup.reach("checked_s")
            device.require_device(config)
        folder.open()  # nothing was made on disk before
        plan.voices.made.bring(plan.voices.asks)
        with closing(session_of(plan, is_int16=folder.writer.accepts_int16)) as session:
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
            write_subtitles(result)
    if aligned is not None and result.error is None:
        align_words(result, aligned)
    return result


def look(
    source: Manifest, config: RunConfig, out: Path, screen: Screen, *, own: str = ""
) -> DryRunReport:
    """Plan a run without writing anything."""
    config, info, maker = approved(config)
    folder = Store(out, config, info)
    plan = Plan(source, config, info, folder, maker=maker, keeps=False)
    read_plan(plan, screen)
    report = DryRunReport(plan, measured_xrt(out))
    if folder.is_new:
        return report
    strays = Strays(folder, source, plan.rows, own)
    orphans = find_orphans(out, folder.journal, plan.rows.has_id)
    return report._replace(strays=strays, orphans=orphans)


def bring_back(plan: Plan) -> None:
    """Restore removed rows that the manifest has again. Raises StoppedEarly."""
    plan.folder.restore(plan.back)
    rows = counted(len(plan.back), "row is", "rows are")
    log.info("%s restored", rows)


def session_of(plan: Plan, *, is_int16: bool) -> LocalSession:
    """Return the session that synthesizes in this process."""
    return LocalSession(plan.config, plan.info, plan.planner.cloning, is_int16=is_int16)


def make_missing_voices(plan: Plan, session: LocalSession, step: Step) -> None:
    """Generate the missing voices."""
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
    """Convert files of done rows to another format or level."""
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
    session: LocalSession,
    screen: Screen,
    hooks: Sequence[Hook],
    report: Callable[..., dict[str, Any]],
) -> None:
    """Synthesize, commit and check the rows that are due, and record the run in its folder.

    Args:
        hooks: see `synthesize`.
        report: see `report_of`.
    """
    plan = result.plan
    with ExitStack() as stack:
        speaker = cache(lambda: stack.enter_context(closing(speaker_of(plan, session))))
        verification = None
        if plan.config.verify is not None:
            from tts_cli.app.verify import Verification

            verification = stack.enter_context(closing(Verification(plan, screen, hooks)))
            hooks = verification.hooks
        allowed = plan.config.failures_allowed(plan.num_pending + plan.num_takes)
        recorder = ResultRecorder(plan.folder, plan.info.frame_s, plan.events, allowed, hooks)

        def note() -> None:
            if plan.folder.run_id is None:
                plan.folder.start_run(report(None))
            if verification is not None:
                verification.begin()

        signals.check()
        if plan.needs_model:
            split = plan.events.of(Event.SPLIT)
            if split.count:
                log.info("rows split into pieces: %d, %d pieces", split.count, split.sums["pieces"])
            make_ready(speaker(), plan.needs, screen.step)
            log.debug("model: %s", listed(model_facts(plan.config, plan.info)))
            log.debug("device: %s", listed(speaker().facts().device))
            note()
        result.is_spoken = plan.needs_model
        is_served = plan.events.num(Event.SERVED) > 0
        try:
            if plan.needs_model:
                speak_due(result, speaker(), screen, recorder)
            else:
                record(plan, recorder, note)
            if verification is not None:
                result.verified = verification.end(speaker, note)
        except (Exception, Interrupted) as caught:
            result.error = caught
        if verification is not None:
            result.wall_s += verification.retake_s
            result.is_spoken |= verification.is_spoken
            is_served |= verification.is_served
        result.is_run |= result.is_spoken or is_served
        if result.is_spoken:
            result.facts = speaker().facts()
    conclude(result, report if result.is_run else partial(report, run_id=None))


def conclude(result: RunResult, report: Callable[..., dict[str, Any]]) -> None:
    """Record the end of a run in its folder."""
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


def speaker_of(plan: Plan, session: LocalSession) -> Session:
    """Return the session of the workers, or else that of this process."""
    if not plan.config.has_workers:
        return session
    from tts_cli.workers.session import WorkerSession

    session.close()  # theirs are their own
    folder, comment = plan.folder, comment_of(plan.info)
    cloning = plan.planner.cloning
    return WorkerSession(plan.config, plan.info, cloning, folder.out, comment, folder.writer.drop)


def speak_due(
    result: RunResult, session: Session, screen: Screen, recorder: ResultRecorder
) -> None:
    """Synthesize all rows that are due."""
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


def record(plan: Plan, recorder: ResultRecorder, note: Callable[[], None]) -> None:
    """Commit silent and invalid rows, where no other row is left.

    Args:
        note: records the run, before the first row; not called if all rows are recorded.
    """
    if not all(isinstance(row, BadRow) and recorder.is_recorded(row) for row in plan):
        note()
    for _ in plan.due(recorder.keep, recorder.fail):
        pass


def report_of(
    plan: Plan,
    origins: Mapping[str, str] | None,
    totals: Mapping[str, Any] | None,
    facts: SessionFacts | None = None,
    *,
    run_id: str | None,
    started: datetime,
    book: BookFacts | None = None,
    exit_code: int | None = None,
    verified: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return run.json of a run that ends now, or its first line in `runs.jsonl`.

    Args:
        origins, book: see `synthesize`.
        totals: see `run_totals`; None, like the exit code, at the start.
        facts: of the session; None: no model was opened.
        run_id: None: the run synthesized nothing and is not recorded.
        started: start time in UTC.
    """
    voices, facts = plan.voices, facts or SessionFacts()
    return {
        "run_id": run_id,  # [text] id of the run; null in `--json` if nothing was synthesized
        "started": iso_time(started),  # [time] time when the manifest was checked and the run began
        # [time] time when the run ended; null in the first line of a run, like `exit_code` and
        # `totals`
        "ended": None if totals is None else iso_time(datetime.now(timezone.utc)),
        "exit_code": exit_code,  # [0 to 143] exit code of the command
        # [text] working folder of the command, which relative paths of `settings` start from; null:
        # it was removed (since 0.5)
        "working_folder": working_folder(),
        # [text] absolute path of the book; null: not a book (since 0.5)
        "book": None if book is None else os.path.abspath(book.path),
        # [list of text] absolute paths of the manifests; empty: a pipe
        "manifests": plan.source.paths,
        # [object] value of every setting, by the name of its flag
        "settings": _told(plan.planner.maker.config if book is None else book.config),
        # [object] origin of values other than defaults: `flag`, a variable, file and line, or
        # `folder`: the last run
        "settings_from": dict(origins or {}),
        # [list of objects] format of each manifest: path, format, and encoding, separator, sheet
        "read_as": plan.source.facts(),
        # [object] file, SHA-256 and characters of `--cast`; null: no cast
        "cast": plan.planner.validator.cast.facts(),
        # [object] source, family, type, size, identity, licence, default voice
        "model": model_facts(plan.config, plan.info),
        # [object] the same for the checkpoint that generates voices, with `--clone-model`; null:
        # none (since 0.4)
        "voice_model": model_facts(*voices.maker) if voices.is_two else None,
        "text": plan.planner.care.facts(),  # [object] settings of text care, see below
        # [object] time when each step of the start was finished; empty: nothing was synthesized
        # (since 0.4)
        "start": startup.moments() if facts.device else {},
        # [list of objects] voices for rows without one, see below (since 0.4)
        "made_voices": voices.facts(),
        # [object] device, memory and kernels; empty: nothing was synthesized
        "device": facts.device,
        # [list of objects] workers of `--workers`; empty without it (since 0.3)
        "workers": facts.workers,
        # [object] versions of Python and packages; null: not installed; only Python and tts-cli in
        # the first line of a run
        "versions": versions() if totals is not None else versions(OWN_PACKAGE),
        # [object] rows that `--verify` found right, fixed by retries, or still suspect; null: run
        # without `--verify` (since 0.4)
        "verified": verified,
        "totals": totals,  # [object] totals of this run
    }


def _told(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run, without passwords in URLs."""
    settings = config.as_dict()
    return {n: without_user_info(v) if isinstance(v, str) else v for n, v in settings.items()}


def write_subtitles(result: RunResult) -> None:
    """Write missing subtitles of the rows."""
    from tts_cli.app.subtitles import write_row_subtitles

    try:
        made = write_row_subtitles(result.plan)
    except (Exception, Interrupted) as caught:
        result.error = caught
    else:
        result.exit_code = max(result.exit_code, int(made.failed > 0))


def align_words(result: RunResult, aligned: Callable[..., FolderAlignment]) -> None:
    """Align the words of the run's rows."""
    plan = result.plan
    config = replace(plan.config, lexicon=None)  # texts have been through it
    try:
        words = aligned(plan.folder.out, config, names=plan.has)
    except (Exception, Interrupted) as caught:
        result.error = caught
    else:
        result.words = words
        result.exit_code = max(result.exit_code, int(bool(words.problems)))
