"""Who speaks the rows of a run: this process with a model of its own (`OneProcess`), or several
(`tts_cli.workers`). A command calls them in the order of `Speakers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tts_cli import startup
from tts_cli.config import RunConfig
from tts_cli.core import Keep, Task
from tts_cli.folder.run_file import Totals

if TYPE_CHECKING:
    from tts_cli.engine.load import Session
    from tts_cli.engine.local import SpeechRun, WarmModel
    from tts_cli.plan.room import Needs
    from tts_cli.voices.needs import Cloning

WRITERS = 8  # most of a writer's time is waiting for the disk

# The tasks to speak, once somebody can say whether to stop.
Due = Callable[[Callable[[], bool]], Iterable[Task]]


class Speakers(Protocol):
    """Tasks in, spoken ones out."""

    is_gpu: bool  # known once made ready

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """What is to be done before the first row, each step with its name. Steps raise
        SetupError.
        """
        ...

    def speak(self, due: Due, keep: Keep) -> None:
        """Speak rows. Raises StoppedEarly, and the first error of any thread."""
        ...

    def stop(self) -> None:
        """Ask for an orderly end; from any thread, and from a signal's handler."""
        ...

    def close(self) -> None:
        """Give back what was taken; harmless when done before."""
        ...

    def counted(self, totals: Totals) -> Totals:
        """Totals with what the devices have counted."""
        ...

    def device_facts(self) -> dict[str, Any]:
        """What the report says of the device."""
        ...

    def worker_facts(self) -> list[dict[str, Any]]:
        """What the report says of each worker; none where this process speaks."""
        ...


class OneProcess:
    """Speaks in this process.

    Args:
        needs: of all rows.
        model: one that is loaded already; None: not yet.
        is_int16: samples are handed on as files of 16 bits hold them.
    """

    def __init__(
        self,
        config: RunConfig,
        needs: Needs,
        cloning: Cloning,
        model: WarmModel | None = None,
        *,
        is_int16: bool = False,
    ) -> None:
        self._config = config
        self._needs = needs
        self._cloning = cloning
        self._model = model
        self._is_int16 = is_int16
        self._speech: SpeechRun | None = None
        self._is_stopped = False
        self._is_whole = False  # every row came to its end
        self.is_gpu = False

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """See `Speakers`."""
        if self._model is None:
            yield "loading the model", self._load
        yield "making slots and graphs", self._prepare

    def speak(self, due: Due, keep: Keep) -> None:
        """See `Speakers`."""
        assert self._model is not None
        speech = self._speech = self._model.new_run(
            keep,
            cloning=self._cloning,
            is_int16=self._is_int16,
            takers=WRITERS,
        )
        if self._is_stopped:
            speech.stop()
        speech.run(due(speech.is_stopped))
        self._is_whole = not self._is_stopped

    def stop(self) -> None:
        """See `Speakers`."""
        self._is_stopped = True
        if self._speech is not None:
            self._speech.stop()

    def close(self) -> None:
        """See `Speakers`."""

    def counted(self, totals: Totals) -> Totals:
        """See `Speakers`."""
        assert self._model is not None
        assert self._speech is not None
        session = self._model.session
        totals = replace(
            totals,
            load_s=session.load_s,
            capture_s=session.capture_s,
            **self._speech.reference_facts(),
        )
        add_device_totals(totals, session)
        return totals

    def device_facts(self) -> dict[str, Any]:
        """See `Speakers`; before the first row, without what came of the rows."""
        from tts_cli.engine.load import device_facts

        assert self._model is not None
        facts = device_facts(self._model.session)
        if self._speech is None:
            return facts
        facts |= self._speech.engine.facts()
        if self.is_gpu and self._is_whole:
            facts |= {"busy": self._speech.engine.busy.summary()}
        return facts

    def worker_facts(self) -> list[dict[str, Any]]:
        """See `Speakers`."""
        return []

    def _load(self) -> None:
        with startup.importing():
            from tts_cli.engine.local import WarmModel

        self._model = WarmModel(self._config)

    def _prepare(self) -> None:
        assert self._model is not None
        self.is_gpu = self._model.session.device.type == "cuda"
        self._model.make_room(self._needs)
        startup.reach("ready_s")


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
