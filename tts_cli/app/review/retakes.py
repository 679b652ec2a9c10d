"""Retakes on the spot: further takes of a row, also with another text, voice or style.

A retake is a run of `synthesize` with the folder's manifest and remembered settings, so its takes
go through the store like all others, and never become a row's file until a user chooses them. The
model stays loaded between two retakes. The main thread runs them one by one, as signals require.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from tts_cli import signals
from tts_cli.app.again import Rerun, reruns_of
from tts_cli.app.book import book_order, row_config
from tts_cli.app.look import Screen
from tts_cli.app.review.folder import ReviewFolder
from tts_cli.app.review.manifest import edit_of
from tts_cli.app.synthesize import look, synthesize
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
MAX_JOBS = 200  # that wait or are remembered
_WAIT_S = 0.2

log = logging.getLogger(__name__)


class Edits(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Fields of the row that differ in a retake; None: as in the manifest."""

    text: str | None = None
    voice: str | None = None
    instruct: str | None = None
    lexicon: str | None = None  # entries that come before those of the manifest


class Retake(msgspec.Struct, forbid_unknown_fields=True):
    """A request for further takes of a row, and the state of the work."""

    id: str  # of the row
    takes: Annotated[int, Meta(ge=1, le=MAX_TAKES)] = 1
    edits: Edits = msgspec.field(default_factory=Edits)
    number: int = 0
    state: str = "waiting"  # waiting, running, done or failed
    step: str = ""  # what is being done
    num_done: int = 0  # takes that are finished
    error: str = ""


class Rewording(msgspec.Struct, forbid_unknown_fields=True):
    """A request to write a text into the manifest."""

    id: str
    text: str
    digest: str | None = None  # of the change that was shown; None: only show it


class WarmSession(LocalSession):
    """A session that outlives a run, until `end`."""

    is_reused = False  # whether an earlier run has loaded the model

    def facts(self) -> SessionFacts:
        """See `LocalSession`; only the run that loads the model reports the time for it."""
        found = super().facts()
        return replace(found, load_s=0.0, capture_s=0.0) if self.is_reused else found

    def close(self) -> None:
        """Stay open for the next run."""

    def end(self) -> None:
        """Drop the model and free the device's memory."""
        super().close()


class Retakes:
    """The retakes of a folder. Any thread may call `start`, `state` and `reword`.

    Args:
        machine: settings of this machine and command, by name.
        screen: shows notes on rows.
        is_confirmed: the user allows files elsewhere that the folder names, and downloads.
    """

    def __init__(
        self,
        folder: ReviewFolder,
        machine: Mapping[str, Any],
        screen: Screen,
        *,
        is_confirmed: bool,
    ) -> None:
        self._folder, self._machine, self._screen = folder, machine, screen
        self._is_confirmed = is_confirmed
        self._mutex = threading.Lock()  # guards `_jobs`
        self._jobs: list[Retake] = []
        self._queue: SimpleQueue[Retake] = SimpleQueue()
        self._session: tuple[tuple[Any, ...], WarmSession] | None = None

    def start(self, request: Retake) -> int:
        """Queue a retake. Return its number. Raises UsageError: too many wait."""
        with self._mutex:
            if sum(job.state in ("waiting", "running") for job in self._jobs) >= MAX_JOBS:
                raise UsageError("too many retakes wait", "wait until some are finished")
            number = self._jobs[-1].number + 1 if self._jobs else 1
            job = Retake(request.id, request.takes, request.edits, number)
            self._jobs = [*self._jobs[-MAX_JOBS:], job]
            self._queue.put(job)
        return number

    def state(self) -> list[dict[str, Any]]:
        """Return the retakes, the last one at the end."""
        with self._mutex:
            return [msgspec.to_builtins(job) for job in self._jobs]

    def run(self) -> None:
        """Make retakes until a signal comes. Raises Interrupted."""
        try:
            while True:
                signals.check()
                try:
                    job = self._queue.get(timeout=_WAIT_S)
                except Empty:
                    continue
                self._run(job)
        finally:
            self._drop_session()

    def _run(self, job: Retake) -> None:
        job.state = "running"
        try:
            self._make(job)
            job.state = "done"
        except Exception as error:
            if not isinstance(error, TtsCliError):
                log.exception("the retake of %s failed", job.id)
                self._drop_session()
            job.error, job.state = str(error), "failed"

    def _make(self, job: Retake) -> None:
        """Synthesize the takes. Raises TtsCliError."""
        out, screen = self._folder.out, _JobScreen(job, self._screen)
        with ExitStack() as stack:
            found = self._open(job.id, stack)
            config = replace(found.config, only=(job.id,), takes=job.takes, retry_failed=True)
            edits = {job.id: _edited(found.row, msgspec.to_builtins(job.edits))}
            plan = look(found.source, config, out, screen, edits=edits).plan
            if plan.events.num(Event.FAILING):  # so that no failure is recorded
                facts = plan.events.of(Event.HOPELESS).facts
                reason = plan.invalid[0].message if plan.invalid else facts.get("what", "")
                raise UsageError(f"{job.id}: {reason}")
            stack.enter_context(self._folder.retaking())
            start = partial(synthesize, found.source, config, out, screen, edits=edits)
            result = start(book=found.book, open_session=self._warm_session)
        if result.error is not None:
            raise result.error
        if failed := result.plan.events.num(Event.FAILED):
            raise UsageError(f"{job.id}: {failed} of {job.takes} takes failed")

    def reword(self, request: Rewording) -> dict[str, Any]:
        """Return the change that writes a text into the manifest. Write it if the request has the
        digest of the change.

        Raises:
            UsageError: that is not possible, or the manifest has changed since.
            DiskFull, StoppedEarly: it is as before.
        """
        with ExitStack() as stack:
            found = self._open(request.id, stack)
            if found.book is not None:
                raise UsageError("the text of a book is changed in the book's own file")
            text = _edited(found.row, {"text": request.text}).text
            edit = edit_of(found.source, found.row, text)
        if request.digest not in (None, edit.digest):
            raise UsageError(f"{edit.path} has changed since", "look at the change again")
        if request.digest is not None:
            edit.write()
        return {"diff": edit.diff(), "digest": edit.digest}

    def _open(self, row_id: str, stack: ExitStack) -> _Found:
        """Find a row in the manifests that filled the folder. Raises UsageError, ManifestError."""
        out = self._folder.out
        for rerun in reruns_of(out):
            if rerun.outside and not self._is_confirmed:
                raise UsageError(
                    f"{out} names files elsewhere, or models to download: "
                    + ", ".join(rerun.outside),
                    "if this folder is yours, start `tts-cli review` with --yes",
                )
            config, book = self._config(rerun), None
            paths: list[str] = list(rerun.paths)
            if rerun.is_book:
                book = BookFacts(Path(paths[0]), config)
                config = row_config(config, book_order(config, read_info(config), is_m4b=False))
                paths = [str(out / MANIFEST_NAME)]
            source = stack.enter_context(open_manifests(paths, config))
            for row in read_rows(source):
                if row.id == row_id and isinstance(row, Row):
                    return _Found(source, config, row, book)
        raise UsageError(f"{row_id}: no manifest of {out} has this row")

    def _config(self, rerun: Rerun) -> RunConfig:
        """Return the settings that the folder remembers, with those of this machine."""
        values = {}
        given = {**rerun.settings, "sheet": rerun.sheet, **self._machine}
        for name, value in given.items():
            read = Path if SETTINGS[name].kind is Path else SETTINGS[name].parse
            is_text = isinstance(value, str) and read is not None
            values[name] = read(value) if is_text and read is not None else value
        return RunConfig.from_options(
            {**values, "out": self._folder.out, "skip_invalid": True, "progress": "none"}
        )

    def _warm_session(
        self, config: RunConfig, info: ModelInfo, cloning: Cloning, *, is_int16: bool
    ) -> LocalSession:
        """Return the session of the last retake if it has the same model."""
        key = (config.model, config.revision, config.device, config.dtype, config.max_batch)
        if self._session is None or self._session[0] != key:
            self._drop_session()
            self._session = key, WarmSession(config, info, cloning, is_int16=is_int16)
            return self._session[1]
        session = self._session[1]
        session.config, session.cloning, session.is_int16 = config, cloning, is_int16
        session.is_reused = True
        return session

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session[1].end()
        self._session = None


class _Found(NamedTuple):
    """A row, and how it was synthesized."""

    source: Manifest
    config: RunConfig
    row: Row
    book: BookFacts | None


class _JobScreen:
    """Shows the progress of a retake in its job; implements `app.look.Screen`."""

    def __init__(self, job: Retake, screen: Screen) -> None:
        self._job = job
        self.problems, self.choices, self.due = screen.problems, screen.choices, screen.due

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        self._job.step = what
        yield

    @contextmanager
    def progress(self, num_rows: int) -> Iterator[_JobScreen]:
        self._job.step = "synthesizing"
        yield self

    def update(self, ended: int, failed: int, audio_s: float) -> None:
        """Show how many takes have ended."""
        self._job.num_done = ended


def _edited(row: Row, edits: Mapping[str, str]) -> Row:
    """Return a row with other fields. Raises UsageError: a value is not valid."""
    if row.lexicon and edits.get("lexicon"):
        edits = {**edits, "lexicon": f"{edits['lexicon']}; {row.lexicon}"}
    values = {"id": row.id, "text": row.text, **edits}
    made = build_row(values, line=row.line, number=row.number, folder="")
    if isinstance(made, BadRow):
        raise UsageError(f"{row.id}: {made.message}")
    return replace(row, **{name: getattr(made, name) for name in edits})
