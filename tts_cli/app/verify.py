"""`synth --verify`: rows are heard while others are spoken, suspects are spoken again, and the best
take becomes the row's file.

What one run does so is what four commands do behind each other: `synth`, `check --asr`, `synth
--only suspects --takes N`, `check --asr --pick best`. It has their rules and their files, and ends
as they do, but for the model and the recogniser, which are loaded once.

What is usual of a voice is known once all rows are heard, so that is when verdicts are given: in
whatever order they were heard, they are the same. Until then a line of `checks.jsonl` has what was
heard, and a verdict by fixed bounds. Each is written as its take is heard, so that a run which is
killed hears nothing twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from tts_cli import signals
from tts_cli.app import device
from tts_cli.app.check import FolderCheck, Judged, Step, open_recogniser, require_packages
from tts_cli.app.look import Screen
from tts_cli.app.tally import Failures, RunTally
from tts_cli.engine.session import LocalSession
from tts_cli.errors import Cancelled, RowError, StoppedEarly, disk_full, is_disk_error
from tts_cli.folder.files import CHECKS_NAME
from tts_cli.folder.run_file import Totals
from tts_cli.folder.take import Take
from tts_cli.listen.hearing.listener import Listener
from tts_cli.listen.hearing.recogniser import Answer, Asked
from tts_cli.listen.judgement import Ears, judge
from tts_cli.listen.suspicion import severity
from tts_cli.listen.usual import Voices
from tts_cli.listen.verdicts import OK, SUSPECT, Check
from tts_cli.plan.plan import Plan
from tts_cli.plan.room import Needs

log = logging.getLogger(__name__)

Note = Callable[[], None]

IDLE_S = 0.25  # without a further take, until those before are heard by themselves
LOOK_S = 0.05  # between two looks whether all are heard


class _Waiting(NamedTuple):
    """A take that is to be heard."""

    speech: Take
    before: Judged | None  # what is known of it; None: it was spoken just now


class HearingThread:
    """A recogniser, and a thread that hands it takes and writes down what it heard.

    Raises:
        SetupError: it cannot be had.
    """

    def __init__(self, plan: Plan, step: Step) -> None:
        config = plan.config
        device = config.verify_device or config.device
        require_packages()
        with step("loading the recogniser"):
            self.recogniser = open_recogniser(replace(config, asr=config.verify, device=device))
        self.listener = Listener(self.recogniser.identity, plan.planner.care.facts())
        self.count = 0  # heard by this run
        self._out: Path = plan.folder.out
        self._feed: SimpleQueue[Asked] = SimpleQueue()
        self._waiting: dict[int, _Waiting] = {}
        self._num_put = 0
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._hear, name="hearing", daemon=True)

    def put(self, speech: Take, before: Judged | None = None) -> None:
        """Have a take heard, if there is anything to hear; one thread at a time.

        Args:
            before: what is known of it; None: it was spoken just now.
        """
        if self.listener.has_words(speech) and self.listener.is_fluent(speech):
            place, self._num_put = self._num_put, self._num_put + 1
            self._waiting[place] = _Waiting(speech, before)
            path = self._out / (speech.path or "") if before is None else before.path
            self._feed.put(self.listener.asked(place, path, speech))

    def begin(self, found: FolderCheck) -> None:
        """Start, with what earlier runs have left unheard."""
        for one in found.judged:
            if one.is_named and not self.listener.knows(one.heard):
                self.put(one.file.take, one)
        self._thread.start()

    def settle(self) -> None:
        """Wait until all that was put is heard. Raises Interrupted, StoppedEarly, DiskFull."""
        while self._waiting and self._thread.is_alive():
            self._is_over.wait(LOOK_S)
            signals.check()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Hear no more, and give back processes and memory."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.recogniser.close()

    def _hear(self) -> None:
        """The thread."""
        try:
            for answer in self.recogniser.hear(self._asked()):
                waiting = self._waiting[answer.place]
                if answer.problem is not None:
                    log.warning("row %s cannot be heard: %s", waiting.speech.id, answer.problem)
                else:
                    line = self._line(answer, *waiting)
                    with open(self._out / CHECKS_NAME, "a", encoding="utf-8") as file:
                        file.write(line)  # of a file that another takes the place of, see `end`
                    self.count += 1
                del self._waiting[answer.place]
        except OSError as error:
            path = self._out / CHECKS_NAME
            full = disk_full(error, path) if is_disk_error(error) else None
            self._error = full or StoppedEarly(f"cannot write {path}: {error.strerror or error}")
        except BaseException as error:
            self._error = error

    def _asked(self) -> Iterator[Asked | None]:
        while not self._is_over.is_set():
            try:
                yield self._feed.get(timeout=IDLE_S)
            except Empty:
                yield None
        if self._waiting:
            raise Cancelled("nothing more is to be heard")  # what is left is not waited for

    def _line(self, answer: Answer, speech: Take, before: Judged | None) -> str:
        """What was heard, judged by fixed bounds, beside what else is known of this audio."""
        heard = self.listener.heard(speech, answer)
        known = None if heard is None else (heard, Ears(()))
        reasons = tuple(judge(speech, Voices(()), known))
        verdict = SUSPECT if reasons else OK
        sums = answer.sha256, verdict, reasons, severity(reasons)
        if before is None or answer.sha256 != before.sha256:
            return Check(speech.id, speech.take, *sums, heard).to_line()
        return Check(speech.id, speech.take, *sums, heard, before.drift, before.opinion).to_line()


class HeardTally(RunTally):
    """Has every take heard that comes out well, by one thread at a time."""

    hear: Callable[[Take], None]

    def _count(self, take: Take, usual_s: float) -> None:
        super()._count(take, usual_s)
        self.hear(take)


@dataclass
class Verified:
    """What came of the rows of a run that were heard, its own and those that were there."""

    recogniser: str
    rows: int = 0
    heard: int = 0  # takes, by this run
    mended: list[str] = field(default_factory=list)  # ids
    again: int = 0  # rows that were spoken again
    suspects: list[Judged] = field(default_factory=list)  # the worst first
    failed: list[str] = field(default_factory=list)  # ids

    @property
    def right(self) -> int:
        """Rows without a remark at once."""
        return self.rows - len(self.mended) - len(self.suspects) - len(self.failed)

    def as_dict(self) -> dict[str, Any]:
        """As run.json has it."""
        return {
            "recogniser": self.recogniser,
            "rows": self.rows,
            "heard": self.heard,
            "right": self.right,
            "again": self.again,
            "mended": self.mended,
            "suspect": [one.row.id for one in self.suspects],
            "failed": self.failed,
        }


class Verification:
    """The verdicts of a run's rows, and what follows from them.

    Raises:
        SetupError: there is no such recogniser.
    """

    def __init__(self, plan: Plan, screen: Screen) -> None:
        self._plan = plan
        self._screen = screen
        self._hearing = HearingThread(plan, screen.step)
        self._has_begun = False
        self.is_spoken = False  # a row again
        self.is_served = False  # or an earlier run has, which did not come to its end

    def tally(self, totals: Totals, allowed: int | None = None) -> HeardTally:
        """Counts rows that are spoken, and has them heard; see `RunTally`."""
        plan = self._plan
        tally = HeardTally(plan.folder, plan.info.frame_s, totals, allowed)
        tally.hear = self._hearing.put
        return tally

    def begin(self) -> None:
        """Hear, from now on. Raises SetupError."""
        if not self._has_begun:
            self._has_begun = True
            self._hearing.begin(self._found())

    def end(
        self, session: LocalSession, totals: Totals, failures: Failures, note: Note
    ) -> Verified:
        """Judge all rows, once all are spoken; have suspects spoken and judged again, and choose.

        Args:
            session: that has spoken the others, or nothing yet.
            totals, failures: of the others; what came of these is counted in.
            note: tells of the run, before anything of it is recorded.
        Raises:
            Interrupted, StoppedEarly, SetupError, DiskFull: run again, it goes on.
        """
        plan = self._plan
        self.begin()
        found = self._verdicts()
        suspects, failed = _ids(found.suspects), self._failed(found)
        if suspects or failed:
            self._speak({*suspects, *failed}, session, totals, note)
            found = self._verdicts()
            found.pick(nullcontext(plan.folder))
        verified = Verified(self._hearing.recogniser.identity.name)
        verified.rows = sum(plan.has(row.id) for row in found.folder.rows)
        verified.heard = self._hearing.count
        verified.suspects, verified.failed = found.suspects, self._failed(found)
        bad = {*_ids(found.suspects), *verified.failed}
        verified.mended = [row_id for row_id in (*suspects, *failed) if row_id not in bad]
        if self.is_spoken or self.is_served:
            verified.again = len(suspects) + len(failed)
        num_mended = len(set(failed) - set(verified.failed))
        totals.failed -= num_mended
        totals.ok += num_mended
        failures.count -= num_mended
        failures.first = [one for one in failures.first if one[0] in bad]
        return verified

    def close(self) -> None:
        """Give back what hears."""
        self._hearing.close()

    def _found(self) -> FolderCheck:
        return FolderCheck(self._plan.folder.out, names=self._plan.has)

    def _verdicts(self) -> FolderCheck:
        """All takes, judged by what is usual of all rows, once all are heard."""
        with self._screen.step("hearing what is spoken"):
            self._hearing.settle()
        found = self._found()
        found.write()
        return found

    def _failed(self, found: FolderCheck) -> list[str]:
        return [row.id for row in found.failed if self._plan.has(row.id)]

    def _speak(self, ids: set[str], session: LocalSession, totals: Totals, note: Note) -> None:
        """Speak rows again."""
        retakes = self._plan.config.retakes
        if not retakes:
            return
        plan = self._plan.again(ids, retakes)
        survey = plan.survey()
        self.is_served = survey.served > 0
        if not survey.needs_model:
            return
        rows = "1 row is" if len(ids) == 1 else f"{len(ids)} rows are"
        log.info("%s spoken again, in %d takes", rows, survey.pending + survey.takes)
        self._make_room(session, survey.needs)
        if plan.folder.run_id is None:
            note()
        self.is_spoken = True
        again = Totals()
        tally = self.tally(again)
        started_s = time.perf_counter()
        try:
            with self._screen.progress(survey.pending + survey.takes) as shown:
                tally.on_row = shown.update
                with signals.stopping(session.stop):
                    session.speak(plan.due(tally.keep, lambda row: None), tally.keep)
        finally:
            totals.wall_s += time.perf_counter() - started_s
            for name in ("takes", "frames", "audio_s", "expected_s", "decoded_s", "retried"):
                setattr(totals, name, getattr(totals, name) + getattr(again, name))

    def _make_room(self, session: LocalSession, needs: Needs) -> None:
        """Load what speaks, or see that there is room in it. Raises SetupError."""
        if session.is_loaded:
            with suppress(RowError):  # rows that find no room fail, and say so
                session.widen(needs)
            return
        device.require(self._plan.config)
        for what, step in session.steps(needs):
            with self._screen.step(what):
                step()
            signals.check()


def _ids(found: list[Judged]) -> list[str]:
    return [one.row.id for one in found]
