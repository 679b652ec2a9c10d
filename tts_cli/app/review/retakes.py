"""Retakes on the spot: further takes of a row, also with another text, voice or style.

A retake is a run of `synthesize` with the folder's manifest and remembered settings. Its takes
never become a row's file until a user chooses them. The model stays loaded between two retakes. The
main thread runs them one by one, as signals require.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from tts_cli import signals
from tts_cli.app.again import outside_of, reruns_of
from tts_cli.app.book import book_order, row_config
from tts_cli.app.look import Screen
from tts_cli.app.review.folder import ReviewFolder
from tts_cli.app.review.manifest import edit_of
from tts_cli.app.synthesize import look, synthesize
from tts_cli.app.totals import log_result
from tts_cli.book.utterances import MANIFEST_NAME
from tts_cli.config import SETTINGS, RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.engine.session import LocalSession, SessionFacts
from tts_cli.errors import TtsCliError, UsageError
from tts_cli.events import Event
from tts_cli.plan.checkpoint import read_info
from tts_cli.plan.remembered import BookFacts
from tts_cli.sources.item import Manifest
from tts_cli.sources.open import open_manifests, read_rows
from tts_cli.sources.row import build_row

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.voices.needs import Cloning

MAX_TAKES = 20  # of a retake
Editable = Annotated[str, msgspec.Meta(pattern="^(text|voice|instruct|lexicon)$")]
_SAME_MODEL = attrgetter("model", "revision", "device", "dtype", "max_batch")

log = logging.getLogger(__name__)


class Retake(msgspec.Struct, forbid_unknown_fields=True):
    id: str  # of the row
    takes: Annotated[int, msgspec.Meta(ge=1, le=MAX_TAKES)] = 1
    edits: dict[Editable, str] = {}  # fields of the row that differ from the manifest
    number: int = 0
    state: str = "waiting"  # waiting, running, done or failed
    num_done: int = 0  # takes that are finished
    error: str = ""


class Rewording(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    text: str
    diff: str | None = None  # the change that was shown; None: only show it


class WarmSession(LocalSession):
    """A session that outlives its run. Only the run that loads the model reports that time."""

    is_reused = False  # whether an earlier run has loaded the model

    def facts(self) -> SessionFacts:
        found = super().facts()
        return replace(found, load_s=0.0, capture_s=0.0) if self.is_reused else found

    def close(self) -> None:
        """Stay open for the next run."""
        self.is_reused = True


@dataclass
class Retakes:
    """The retakes of a folder. Any thread may call `start` and `reword`."""

    folder: ReviewFolder
    machine: Mapping[str, Any]  # settings of this machine and command, by name
    screen: Screen  # shows notes on rows, and the progress
    is_confirmed: bool  # the user allows files elsewhere that the folder names, and downloads
    jobs: list[Retake] = field(default_factory=list)
    _mutex: threading.Lock = field(default_factory=threading.Lock)  # guards adding to `jobs`
    _session: WarmSession | None = None

    def start(self, request: Retake) -> int:
        with self._mutex:
            job = Retake(request.id, request.takes, request.edits, len(self.jobs) + 1)
            self.jobs.append(job)
        return job.number

    def run(self) -> None:
        """Make retakes until a signal comes. Raises Interrupted."""
        try:
            while True:
                signals.check()
                job = next((one for one in self.jobs if one.state == "waiting"), None)
                if job is None:
                    time.sleep(0.2)
                    continue
                job.state = "running"
                try:
                    self._make(job)
                    job.state = "done"
                except Exception as error:
                    if not isinstance(error, TtsCliError):
                        log.exception("the retake of %s failed", job.id)
                        self._drop_session()
                    job.error, job.state = str(error), "failed"
        finally:
            self._drop_session()

    def _make(self, job: Retake) -> None:
        def count(*_: Any) -> None:
            job.num_done += 1

        out, screen = self.folder.out, self.screen
        with ExitStack() as stack:
            source, config, row, book, remembered = self._open(job.id, stack)
            config = replace(config, only=(job.id,), takes=job.takes, retry_failed=True)
            edits = {job.id: _edited(row, job.edits)}
            plan = look(source, config, out, screen, edits=edits).plan
            if plan.events.num(Event.FAILING):  # so that no failure is recorded
                facts = plan.events.of(Event.HOPELESS).facts
                reason = plan.invalid[0].message if plan.invalid else facts.get("what", "")
                raise UsageError(f"{job.id}: {reason}")
            stack.enter_context(self.folder.retaking())
            result = synthesize(
                *(source, config, out, screen, (log_result, count)),
                origins=dict.fromkeys(remembered, "folder"),  # so that the folder keeps them
                book=book,
                edits=edits,
                open_session=self._warm_session,
            )
        if result.error is not None:
            raise result.error
        if failed := result.plan.events.num(Event.FAILED):
            raise UsageError(f"{job.id}: {failed} of {job.takes} takes failed")

    def reword(self, request: Rewording) -> str:
        """Return the change that writes a text into the manifest, and write it if requested.

        Raises UsageError if that is not possible, and DiskFull or StoppedEarly.
        """
        with ExitStack() as stack:
            source, _, row, book, _ = self._open(request.id, stack)
            if book is not None:
                raise UsageError("the text of a book is changed in the book's own file")
            edit = edit_of(source, row, _edited(row, {"text": request.text}).text)
        diff = edit.diff()
        if request.diff not in (None, diff):
            raise UsageError(f"{edit.path} has changed since", "look at the change again")
        if request.diff is not None:
            edit.write()
        return diff

    def _open(
        self, row_id: str, stack: ExitStack
    ) -> tuple[Manifest, RunConfig, Row, BookFacts | None, Mapping[str, Any]]:
        """Find a row in the manifests that filled the folder. Raises UsageError, ManifestError."""
        out = self.folder.out
        reruns = reruns_of(out, [])
        if not self.is_confirmed and (problem := outside_of(out, reruns)):
            raise UsageError(problem, "if this folder is yours, start `tts-cli review` with --yes")
        for rerun in reruns:
            given = {**rerun.settings, "sheet": rerun.sheet, **self.machine}
            values = {name: SETTINGS[name].read(value) for name, value in given.items()}
            config = RunConfig.from_options({**values, "out": out, "skip_invalid": True})
            book = None
            paths: list[str] = list(rerun.paths)
            if rerun.is_book:
                book = BookFacts(Path(paths[0]), config)
                config = row_config(config, book_order(config, read_info(config), is_m4b=False))
                paths = [str(out / MANIFEST_NAME)]
            source = stack.enter_context(open_manifests(paths, config))
            for row in read_rows(source):
                if row.id == row_id and isinstance(row, Row):
                    return source, config, row, book, rerun.settings
        raise UsageError(f"{row_id}: no manifest of {out} has this row")

    def _warm_session(
        self, config: RunConfig, info: ModelInfo, cloning: Cloning, *, is_int16: bool
    ) -> LocalSession:
        """Return the session of the last retake if it has the same model, or else a new one."""
        session = self._session
        if session is None or _SAME_MODEL(session.config) != _SAME_MODEL(config):
            self._drop_session()
            self._session = session = WarmSession(config, info)
        session.config, session.cloning, session.is_int16 = config, cloning, is_int16
        return session

    def _drop_session(self) -> None:
        if self._session is not None:
            LocalSession.close(self._session)
        self._session = None


def _edited(row: Row, edits: Mapping[str, str]) -> Row:
    """Return a row with other fields. Raises UsageError if a value is not valid."""
    if row.lexicon and edits.get("lexicon"):
        edits = {**edits, "lexicon": f"{edits['lexicon']}; {row.lexicon}"}
    values = {"id": row.id, "text": row.text, **edits}
    made = build_row(values, line=row.line, number=row.number, folder="")
    if isinstance(made, BadRow):
        raise UsageError(f"{row.id}: {made.message}")
    return replace(row, **{name: getattr(made, name) for name in edits})
