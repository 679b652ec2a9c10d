"""Sessions turn tasks into speech: in this process (`LocalSession`), or in several others
(`tts_cli.workers`). Whoever wants speech goes through `steps`, and hands tasks to `speak`.

A checkpoint in this process, with room for rows that can be made anew. Torch is imported when it is
first wanted: a run that has nothing to speak does without.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from tts_cli import signals, startup
from tts_cli.config import RunConfig
from tts_cli.core import Keep, Task
from tts_cli.engine.pieces import RetryPolicy
from tts_cli.errors import Cancelled, RowError, SetupError
from tts_cli.plan.room import Needs, usual_needs

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.engine.load import Loaded
    from tts_cli.engine.speech_run import SpeechRun
    from tts_cli.voices.needs import Cloning
    from tts_cli.voices.stage import Voiced

log = logging.getLogger(__name__)

Step = tuple[str, Callable[[], object]]

# Of the room there was, and of what the row needs, so that it does not grow row by row.
GROWTH, SPARE = 1.5, 1.25


@dataclass(frozen=True)
class SessionFacts:
    """What a session can say of itself: what it speaks on, and what came of it so far."""

    load_s: float = 0.0
    capture_s: float = 0.0
    references: int = 0  # encoded; rows that name the same one share it
    reference_ms: float = 0.0  # on the device, all of them
    reference_load_ms: float = 0.0  # reading, checking, resampling; beside the device
    graph_hits: int = 0
    graph_misses: int = 0
    graph_misses_by: dict[str, int] = field(default_factory=dict)  # what missed -> how often
    peak_memory_bytes: int | None = None  # of the device; None where it is not counted
    # As run.json has them: the device, and behind the first row what it did; and each worker.
    device: dict[str, Any] = field(default_factory=dict)
    workers: list[dict[str, Any]] = field(default_factory=list)


class Session(Protocol):
    """Tasks in, spoken ones out."""

    def steps(self, needs: Needs | None = None) -> Iterator[Step]:
        """What is to be done before the first of rows that need so much, each step with its name:
        nothing where there is room for them. Steps raise SetupError.
        """
        ...

    def speak(self, tasks: Iterable[Task | None], keep: Keep) -> None:
        """Speak tasks, whose iterator is advanced in a thread of its own; None among them: none has
        come for a while. Raises StoppedEarly, and the first error of any thread.
        """
        ...

    def stop(self) -> None:
        """Ask for an orderly end; from any thread, and from a signal's handler."""
        ...

    def facts(self) -> SessionFacts:
        """What there is to be told of it, while it is open."""
        ...

    def close(self) -> None:
        """Give back what was taken; harmless when done before."""
        ...


def make_ready(
    session: Session, needs: Needs | None, show: Callable[[str], AbstractContextManager[Any]]
) -> None:
    """Take a session's steps, see `Session.steps`. Raises SetupError, Interrupted.

    Args:
        show: a step is taken inside of what it gives for the step's name.
    """
    for what, step in session.steps(needs):
        with show(what):
            step()
        signals.check()


class LocalSession:
    """A checkpoint in this process, loaded when it is first wanted. One thread at a time, but for
    `stop`.

    Args:
        info: of the checkpoint, to whose licence there is consent; None: as it says itself.
        cloning: finds the voices of tasks that need one; None where no task does.
        is_int16: samples are handed on as files of 16 bits hold them.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo | None = None,
        cloning: Cloning | None = None,
        *,
        is_int16: bool = False,
    ) -> None:
        self.config = config
        self.cloning = cloning
        self.is_int16 = is_int16
        self.in_use = threading.Lock()  # held by who speaks, where somebody else may close
        self.is_closed = False
        self._info = info
        self._loaded: Loaded | None = None
        self._run: SpeechRun | None = None  # the last call of `speak`
        self._is_stopped = False
        self._work: dict[str, Any] = {}  # done since its room was made
        self._reference_load_s = 0.0

    @property
    def loaded(self) -> Loaded:
        """What it has loaded; now, if that was not wanted before. Raises SetupError, Cancelled."""
        if self.is_closed:
            raise Cancelled("the model is closed")
        if self._loaded is None:
            with startup.importing():
                from tts_cli.engine import load, speech_run  # noqa: F401  # all of torch's users
            self._loaded = load.open_checkpoint(self.config)
        return self._loaded

    @property
    def info(self) -> ModelInfo:
        """Of the checkpoint."""
        return self._info or self.loaded.model.info

    def steps(self, needs: Needs | None = None) -> Iterator[Step]:
        """See `Session`; without needs no room is made. Rows find as much room as can be made where
        there is some already, and those that find none fail.
        """
        if self._loaded is None:
            yield "loading the model", lambda: self.loaded
        if needs is None:
            return
        if self.loaded.room is None:
            yield "allocating slots and graphs", lambda: self.make_room(needs)
        elif not self.has_room(needs):
            yield "allocating slots and graphs", lambda: self._widen_if_possible(needs)
        startup.reach("ready_s")

    def make_room(self, needs: Needs) -> None:
        """Make slots and capture graphs, instead of those there are. Raises SetupError: the number
        of rows to synthesize at a time is what it was.
        """
        batch, slots = self.loaded.batch, self.loaded.batch.rows
        try:
            self.loaded.prepare(needs)
        except BaseException:
            batch.rows = slots  # `prepare` has halved it until there was none left
            raise
        self._work = {}

    def has_room(self, needs: Needs) -> bool:
        """Whether the slots there are do for rows that need so much."""
        room = self.loaded.room
        return room is not None and needs.fits(room)

    def widen(self, needs: Needs) -> None:
        """Make the room there is do for rows that need so much as well. Raises RowError: that
        cannot be, and the room is what it was.
        """
        if self.has_room(needs):
            return
        loaded, most = self.loaded, self.info.max_positions
        slots = loaded.batch.rows
        room = loaded.room or usual_needs(self.config, self.info, rows=slots)
        positions = max(GROWTH * room.max_positions, SPARE * needs.max_positions)
        frames = max(GROWTH * room.max_frames, SPARE * needs.max_frames)
        wider = Needs(slots, min(most, int(positions)), min(most, int(frames)))
        log.info("a row needs more capacity; allocating slots again")
        loaded.drop_slots()
        try:
            self.make_room(wider.joined(room).joined(needs))
        except SetupError as error:
            self.make_room(replace(room, rows=slots))
            raise RowError(str(error)) from error

    def _widen_if_possible(self, needs: Needs) -> None:
        with suppress(RowError):
            self.widen(needs)

    @contextmanager
    def capacity_for(self, needs: Needs) -> Iterator[None]:
        """Have capacity for such rows inside the block: that of the session, widened, or slots that
        are returned at the end of the block. Raises SetupError, RowError.
        """
        loaded, slots = self.loaded, self.loaded.batch.rows
        if loaded.room is not None:
            self.widen(needs)
            yield
            return
        try:
            self.make_room(needs)
            yield
        finally:
            loaded.batch.rows = slots  # a few voices do not need all of them
            with suppress(RuntimeError):  # of a failed device: its next use raises it again
                loaded.drop_slots()

    def speak(
        self,
        tasks: Iterable[Task | Voiced | None],
        keep: Keep,
        policy: RetryPolicy | None = None,
        *,
        is_int16: bool | None = None,
    ) -> None:
        """See `Session`. Tasks may have their voices with them.

        Args:
            policy, is_int16: None: as its settings say.
        """
        from tts_cli.engine.speech_run import SpeechRun

        run = self._run = SpeechRun(
            self.loaded,
            keep,
            policy or RetryPolicy.of(self.config),
            cloning=self.cloning,
            is_int16=self.is_int16 if is_int16 is None else is_int16,
        )
        if self._is_stopped:
            run.stop()
        try:
            run.speak(tasks)
        finally:
            self._reference_load_s += run.stage.load_s
            for name, value in run.engine.facts().items():
                self._work[name] = self._work.get(name, 0) + value
        if run.engine.is_async and not self._is_stopped:
            # [0 to 1] share of the time in which the GPU had work, from the first launch on (since
            # 0.4)
            self._work["busy_share"] = run.engine.busy.share()

    def stop(self) -> None:
        """See `Session`. It speaks nothing more until `resume`."""
        self._is_stopped = True
        if self._run is not None:
            self._run.stop()

    def resume(self) -> None:
        """Speak again, whoever has stopped it before."""
        self._is_stopped = False

    @property
    def num_behind(self) -> int:
        """Attempts that have left their slots and are not recorded yet, approximately."""
        return 0 if self._run is None else self._run.engine.num_unsettled

    @property
    def heartbeat(self) -> int:
        """A number that changes with every frame."""
        return -1 if self._run is None else self._run.engine.steps

    def facts(self) -> SessionFacts:
        """See `Session`; once it is loaded."""
        loaded = self.loaded
        runners = loaded.model.graph_runners()
        return SessionFacts(
            load_s=loaded.load_s,
            capture_s=loaded.capture_s,
            references=loaded.voices.num_encoded,
            reference_ms=loaded.voices.encode_ms,
            reference_load_ms=1000 * self._reference_load_s,
            graph_hits=sum(one.stats.hits for one in runners),
            graph_misses=sum(one.stats.misses for one in runners),
            graph_misses_by={one.name: one.stats.misses for one in runners if one.stats.misses},
            peak_memory_bytes=loaded.peak_bytes,
            device=loaded.facts() | self._work,
        )

    def close(self) -> None:
        """Drop the model and free the device's memory, once nobody is using it."""
        with self.in_use:
            self._run = None
            self.is_closed = True
            if self._loaded is not None:
                self._loaded.close()
            self._loaded = None
