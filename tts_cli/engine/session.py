"""Sessions turn tasks into results: in this process (`LocalSession`), or in several others
(`tts_cli.workers`). A caller takes the `steps`, and then passes tasks to the session.

Torch is imported only when it is needed: a run without pending rows does not import it.
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
    from tts_cli.voices.voice_loader import TaskWithVoice

log = logging.getLogger(__name__)

Step = tuple[str, Callable[[], object]]

# Growth factors over the old capacity and over what the row needs, so that not every row grows it.
GROWTH, SPARE = 1.5, 1.25


@dataclass(frozen=True)
class SessionFacts:
    load_s: float = 0.0
    capture_s: float = 0.0
    references: int = 0  # references encoded; rows with the same one share it
    reference_ms: float = 0.0  # time of encoding all of them on the device
    reference_load_ms: float = 0.0  # time of reading, checking and resampling
    graph_hits: int = 0
    graph_misses: int = 0
    graph_misses_by: dict[str, int] = field(default_factory=dict)  # by runner
    peak_memory_bytes: int | None = None  # of the device; None: not measured
    # For run.json: the device and, after the first row, its work; and each worker.
    device: dict[str, Any] = field(default_factory=dict)
    workers: list[dict[str, Any]] = field(default_factory=list)


class Session(Protocol):
    """Tasks in, results out."""

    def steps(self, needs: Needs | None = None) -> Iterator[Step]:
        """Yield the named steps that must come before the first row with these needs; none if there
        is capacity for it. Steps raise SetupError.
        """
        ...

    def speak(self, tasks: Iterable[Task | None], keep: Keep) -> None:
        """Synthesize tasks, whose iterator a separate thread advances. None: no task for a while.

        Raises StoppedEarly, and the first error of any thread.
        """
        ...

    def stop(self) -> None:
        """Ask for an orderly end; any thread and signal handlers may call it."""
        ...

    def facts(self) -> SessionFacts: ...

    def close(self) -> None:
        """Release everything. Further calls have no effect."""
        ...


def make_ready(
    session: Session, needs: Needs | None, show: Callable[[str], AbstractContextManager[Any]]
) -> None:
    """Take a session's steps, each inside the context manager that `show` returns for its name.
    Raises SetupError, Interrupted.
    """
    for what, step in session.steps(needs):
        with show(what):
            step()
        signals.check()


class LocalSession:
    """A checkpoint in this process, loaded when it is first needed. Only `stop` is thread-safe.

    Args:
        info: of the checkpoint, whose licence is accepted; None: read from the checkpoint.
        cloning: finds the voices of tasks that clone; None: no task does.
        is_int16: samples are int16, as in 16-bit files.
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
        self.in_use = threading.Lock()  # held while it synthesizes; `close` waits for it
        self.is_closed = False
        self._info = info
        self._loaded: Loaded | None = None
        self._run: SpeechRun | None = None  # the last run
        self._is_stopped = False
        self._work: dict[str, Any] = {}  # totals since its slots were made
        self._reference_load_s = 0.0

    @property
    def loaded(self) -> Loaded:
        """The loaded checkpoint; loads it first if necessary. Raises SetupError, Cancelled."""
        if self.is_closed:
            raise Cancelled("the model is closed")
        if self._loaded is None:
            with startup.importing():
                from tts_cli.engine import load, speech_run  # noqa: F401  # everything that imports torch
            self._loaded = load.open_checkpoint(self.config)
        return self._loaded

    @property
    def info(self) -> ModelInfo:
        return self._info or self.loaded.model.info

    def steps(self, needs: Needs | None = None) -> Iterator[Step]:
        """See `Session`. Without needs no slots are made. Existing slots are made as large as
        possible, and rows that do not fit fail.
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
        """Replace the slots and graphs. SetupError leaves the number of rows unchanged."""
        batch, slots = self.loaded.batch, self.loaded.batch.rows
        try:
            self.loaded.prepare(needs)
        except BaseException:
            batch.rows = slots  # `prepare` has halved it down to one
            raise
        self._work = {}

    def has_room(self, needs: Needs) -> bool:
        room = self.loaded.room
        return room is not None and needs.fits(room)

    def widen(self, needs: Needs) -> None:
        """Make the slots large enough for these needs. After RowError the capacity is unchanged."""
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
        are freed at the end of the block. Raises SetupError, RowError.
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
        tasks: Iterable[Task | TaskWithVoice | None],
        keep: Keep,
        policy: RetryPolicy | None = None,
        *,
        is_int16: bool | None = None,
    ) -> None:
        """See `Session`. Tasks may have their voices. None stands for the session's values."""
        from tts_cli.engine.speech_run import ENCODERS, WRITERS, SpeechRun

        config = self.config
        is_encoded = config.format != "wav" or bool(
            config.loudness or config.highpass or config.speed or config.fit
        )
        run = self._run = SpeechRun(
            self.loaded,
            keep,
            policy or RetryPolicy.of(config),
            cloning=self.cloning if self.info.can_clone else None,
            is_int16=self.is_int16 if is_int16 is None else is_int16,
            writers=ENCODERS if is_encoded else WRITERS,
        )
        if self._is_stopped:
            run.stop()
        try:
            run.speak(tasks)
        finally:
            self._reference_load_s += 0.0 if run.stage is None else run.stage.load_s
            for name, value in run.engine.facts().items():
                self._work[name] = self._work.get(name, 0) + value
        if run.engine.is_async and not self._is_stopped:
            # [0 to 1] share of the time in which the GPU had work, from the first launch on (since
            # 0.4)
            self._work["busy_share"] = run.engine.busy.share()

    def stop(self) -> None:
        """Stop synthesis, also that of later calls, until `resume`."""
        self._is_stopped = True
        if self._run is not None:
            self._run.stop()

    def resume(self) -> None:
        """Allow synthesis again after a `stop`."""
        self._is_stopped = False

    @property
    def num_behind(self) -> int:
        """Return approximately how many attempts have left their slots and are not recorded yet."""
        return 0 if self._run is None else self._run.engine.num_unsettled

    @property
    def heartbeat(self) -> int:
        """Return a number that changes with every frame."""
        return -1 if self._run is None else self._run.engine.steps

    def facts(self) -> SessionFacts:
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
        """Drop the model and free the device's memory, when the current call has ended."""
        with self.in_use:
            self._run = None
            self.is_closed = True
            if self._loaded is not None:
                self._loaded.close()
            self._loaded = None
