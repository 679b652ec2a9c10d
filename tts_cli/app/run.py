"""Run `synth` from end to end: a manifest comes in, audio files and journal lines come out.

Nothing is printed here. What shows that a run goes on is handed in, a `Screen`; what came of it is
an `Outcome`, for whoever tells it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli import signals, startup
from tts_cli.app import device
from tts_cli.app.look import DryRunReport, Screen, approved, listed, read_plan
from tts_cli.app.tally import Failures, RunTally, Totals, take_in, totals_of
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
from tts_cli.plan.resolve import silence_of
from tts_cli.plan.strays import Strays, settle_strays
from tts_cli.sources.item import Manifest
from tts_cli.store.entry import JournalEntry, iso_time
from tts_cli.store.orphans import find_orphans
from tts_cli.store.records import writer_threads
from tts_cli.store.run_file import new_run_id
from tts_cli.store.store import Store, takes_bytes
from tts_cli.versions import OWN_PACKAGE, versions

if TYPE_CHECKING:
    from tts_cli.app.align import Alignment
    from tts_cli.app.verify import Verification, Verified

log = logging.getLogger(__name__)


@dataclass
class Outcome:
    """What came of a run."""

    plan: Plan
    strays: Strays | None = None  # rows that the manifest no longer has, if they were looked for
    totals: Totals = field(default_factory=Totals)
    failures: Failures = field(default_factory=Failures)
    verified: Verified | None = None  # with --verify, at its end
    words: Alignment | None = None  # with --words, at its end
    report: dict[str, Any] = field(default_factory=dict)  # as run.json; none where nobody asks
    error: BaseException | None = None  # that has ended it early
    exit_code: int = 0
    is_spoken: bool = False  # a row was, by a model
    is_run: bool = False  # it is told of in runs.jsonl

    @property
    def takes_bytes(self) -> int:
        """Bytes of the takes that are not chosen."""
        return takes_bytes(self.plan.folder.out)


def run(
    source: Manifest,
    config: RunConfig,
    out: Path,
    screen: Screen,
    *,
    own: str = "",
    origins: Mapping[str, str] | None = None,
    book: BookFacts | None = None,
) -> Outcome:
    """Make of every row of a manifest what a folder has not yet.

    Args:
        own: what ids begin with that are of this manifest, whichever run spoke them; empty: none.
        origins: where settings come from that are not built in.
        book: that the rows are of; None: they are of manifests.
    Raises:
        TtsCliError, Interrupted: there is nothing to be told but that.
    """
    aligned = None
    if config.words is not None and not config.voices_only:
        from tts_cli.app.align import align, aligner_of

        aligned = partial(align, opened=aligner_of(config.words, config, "--words"), screen=screen)
    config, info, maker = approved(config)
    with Store(out, config, info) as folder:
        plan = Plan(source, config, info, folder, maker=maker)
        read_plan(plan, screen)
        while plan.back:
            bring_back(plan)
            plan.read()
        screen.due(plan)
        if plan.needs_model:
            startup.reach("checked_s")
            device.require(config)
        folder.open()  # nothing was made on disk before
        plan.voices.made.bring(plan.voices.asks)
        with closing(session_of(plan, is_int16=folder.writer.accepts_int16)) as session:
            if plan.voices.to_make():  # nothing else fixes the voice of these rows
                make_missing_voices(plan, session, screen.step)
                plan.read()
            outcome = Outcome(plan)
            if config.voices_only:
                return outcome
            if not folder.is_new:
                pruned = config.prune
                outcome.strays = settle_strays(folder, source, plan.rows, own, is_pruned=pruned)
            started = datetime.now(timezone.utc)
            report = partial(report_of, plan, origins, book=book, started=started)
            report = partial(report, run_id=new_run_id(started))
            if not folder.is_new and plan.changes.is_news(report(None)):
                folder.start_run(report(None))  # so that later runs have these settings
                outcome.is_run = True
            if plan.events.num(Event.REENCODE):  # no row is synthesized
                remake(outcome, session, screen.step)
            outcome.totals = totals_of(plan, outcome.strays)
            speak(outcome, session, screen, report)
        if config.subtitles and outcome.error is None:
            write_subtitles(outcome)
    if aligned is not None and outcome.error is None:
        align_words(outcome, aligned)
    return outcome


def look(
    source: Manifest, config: RunConfig, out: Path, screen: Screen, *, own: str = ""
) -> DryRunReport:
    """Plan a run, and write nothing."""
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
    """The checkpoint that rows are spoken with, in this process."""
    return LocalSession(plan.config, plan.info, plan.planner.cloning, is_int16=is_int16)


def make_missing_voices(plan: Plan, session: LocalSession, step: Step) -> None:
    """Make what rows lack."""
    from tts_cli.engine.made_voices import make_voices, studio_of

    count = len(plan.voices.to_make())
    with ExitStack() as stack:
        studio = studio_of(session)
        if plan.config.has_workers:
            from tts_cli.workers.session import elsewhere

            studio = stack.enter_context(elsewhere(plan.config))
        stack.enter_context(step("making " + counted(count, "voice")))
        make_voices(plan.voices, plan.voices.to_make(), plan.planner.cloning, studio)


def remake(outcome: Outcome, session: LocalSession, step: Step) -> None:
    """Convert files of done rows to another format or level."""
    plan, events = outcome.plan, outcome.plan.events
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
        outcome.failures.add(take)
    folder.journal.append(*failed)


def speak(
    outcome: Outcome, session: LocalSession, screen: Screen, report: Callable[..., dict[str, Any]]
) -> None:
    """Have rows spoken, recorded and verified, and tell of the run in its folder.

    Args:
        report: see `report_of`.
    """
    plan = outcome.plan
    with ExitStack() as stack:
        speaker = cache(lambda: stack.enter_context(closing(speaker_of(plan, session))))
        verification, hear = None, None
        if plan.config.verify is not None:
            from tts_cli.app.verify import Verification

            verification = stack.enter_context(closing(Verification(plan, screen)))
            hear = verification.hear
        allowed = plan.config.failures_allowed(plan.num_pending + plan.num_takes)
        totals, failures = outcome.totals, outcome.failures
        tally = RunTally(plan.folder, plan.info.frame_s, totals, failures, allowed, hear)

        def note() -> None:
            if plan.folder.run_id is None:
                plan.folder.start_run(report(None))
            if verification is not None:
                verification.begin()

        signals.check()
        if plan.needs_model:
            speak_due(outcome, speaker(), screen, tally, note)
        else:  # no model is opened
            record(plan, tally, note)
        outcome.is_spoken = plan.needs_model
        outcome.is_run |= plan.needs_model or plan.events.num(Event.SERVED) > 0
        if verification is not None and outcome.error is None:
            verify(outcome, verification, speaker, note)
        facts = speaker().facts() if outcome.is_spoken else SessionFacts()
    conclude(outcome, facts, report if outcome.is_run else partial(report, run_id=None))


def conclude(outcome: Outcome, facts: SessionFacts, report: Callable[..., dict[str, Any]]) -> None:
    """Record how a run has ended."""
    config, folder, totals = outcome.plan.config, outcome.plan.folder, outcome.totals
    error, verified, strays = outcome.error, outcome.verified, outcome.strays
    take_in(totals, facts)
    exit_code = int(totals.failed > 0) if error is None else getattr(error, "exit_code", 4)
    if verified is not None and verified.suspects:
        exit_code = max(exit_code, 1)
    if outcome.is_run or config.json:
        told = None if verified is None else verified.as_dict()
        ran = report(totals, facts, exit_code=exit_code, verified=told)
        outcome.report = folder.end_run(ran, is_spoken=outcome.is_spoken)
    if not outcome.is_spoken:
        folder.update_totals()
    outcome.exit_code = max(exit_code, int(strays is not None and bool(strays.stayed)))


def speaker_of(plan: Plan, session: LocalSession) -> Session:
    """Who speaks: this process, or workers."""
    if not plan.config.has_workers:
        return session
    from tts_cli.workers.session import WorkerSession

    session.close()  # theirs are their own
    folder, comment = plan.folder, comment_of(plan.info)
    cloning = plan.planner.cloning
    return WorkerSession(plan.config, plan.info, cloning, folder.out, comment, folder.writer.drop)


def speak_due(
    outcome: Outcome, session: Session, screen: Screen, tally: RunTally, note: Callable[[], None]
) -> None:
    """Have all rows spoken that are due."""
    plan, totals, split = outcome.plan, outcome.totals, outcome.plan.events.of(Event.SPLIT)
    if split.count:
        log.info("rows split into pieces: %d, %d pieces", split.count, split.sums["pieces"])
    make_ready(session, plan.needs, screen.step)
    log.debug("model: %s", listed(model_facts(plan.config, plan.info)))
    log.debug("device: %s", listed(session.facts().device))
    note()
    started_s = time.perf_counter()
    num_rows = plan.num_pending + plan.num_takes + plan.events.num(Event.FAILING)
    with screen.progress(num_rows) as shown:
        tally.on_row = shown.update
        try:
            with signals.stopping(session.stop):
                session.speak(plan.due(tally.keep, tally.fail), tally.keep)
        except (Exception, Interrupted) as caught:
            outcome.error = caught
    totals.wall_s = time.perf_counter() - started_s
    totals.is_interrupted = outcome.error is not None
    startup.reach("spoken_s")


def verify(
    outcome: Outcome,
    verification: Verification,
    speaker: Callable[[], Session],
    note: Callable[[], None],
) -> None:
    """Have rows judged that were heard, and suspects spoken again."""
    totals, failures = outcome.totals, outcome.failures
    try:
        outcome.verified = verification.end(speaker, totals, failures, note)
    except (Exception, Interrupted) as caught:
        outcome.error = caught
    totals.is_interrupted = outcome.error is not None
    outcome.is_spoken = outcome.is_spoken or verification.is_spoken
    outcome.is_run = outcome.is_run or verification.is_spoken or verification.is_served


def record(plan: Plan, tally: RunTally, note: Callable[[], None]) -> None:
    """Record silence and bad rows, where no other is left; what was recorded so is only counted.

    Args:
        note: tells of the run, before the first line of it.
    """
    folder = plan.folder
    with writer_threads() as write:
        for row in plan:
            known = folder.journal.row(row.record_id) if isinstance(row, BadRow) else None
            if known is not None and known.status is Status.FAILED:
                tally.count_bad()
                continue
            if folder.run_id is None:
                note()
            if isinstance(row, BadRow):
                write(partial(tally.fail, row))
            else:
                write(partial(tally.keep, row, silence_of(row, plan.info)))


def report_of(
    plan: Plan,
    origins: Mapping[str, str] | None,
    totals: Totals | None,
    facts: SessionFacts | None = None,
    *,
    run_id: str | None,
    started: datetime,
    book: BookFacts | None = None,
    exit_code: int | None = None,
    verified: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What is to be known of a run that ends now, or begins.

    Args:
        origins, book: see `run`.
        totals: None, as the exit code: nothing is spoken yet.
        facts: of who spoke, where something was spoken.
        run_id: None for one that spoke nothing; its rows have none, and no file tells of it.
        started: in UTC.
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
        "cast": plan.planner.judge.cast.facts(),
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
        "totals": None if totals is None else totals.as_dict(),  # [object] totals of this run
    }


def _told(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run, without passwords in addresses."""
    settings = config.as_dict()
    return {n: without_user_info(v) if isinstance(v, str) else v for n, v in settings.items()}


def write_subtitles(outcome: Outcome) -> None:
    """Write the rows' subtitles that are missing."""
    from tts_cli.app.subtitles import write_row_subtitles

    try:
        made = write_row_subtitles(outcome.plan)
    except (Exception, Interrupted) as caught:
        outcome.error = caught
    else:
        outcome.exit_code = max(outcome.exit_code, int(made.failed > 0))


def align_words(outcome: Outcome, aligned: Callable[..., Alignment]) -> None:
    """Align what the run has in its folder."""
    plan = outcome.plan
    config = replace(plan.config, lexicon=None)  # texts have been through it
    try:
        words = aligned(plan.folder.out, config, names=plan.has)
    except (Exception, Interrupted) as caught:
        outcome.error = caught
    else:
        outcome.words = words
        outcome.exit_code = max(outcome.exit_code, int(bool(words.problems)))
