"""Rows spoken in passes, each with a checkpoint of its own: `--clone-model`. Only one of them is in
memory at a time. The next one begins when all rows of the last are at their ends, so that it can
clone what was spoken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.run.load import Session, device_facts
from tts_cli.run.needs import Needs
from tts_cli.run.threads import SpeechRun
from tts_cli.run.warm_model import WarmModel
from tts_cli.voices.resolve import Cloning
from tts_cli.voices.speech_row import SpeechRow

log = logging.getLogger(__name__)


# The rows of a pass, once it is known how to ask whether the run is stopped.
Rows = Callable[[Callable[[], bool]], Iterable[SpeechRow]]


@dataclass
class Pass:
    """What one checkpoint speaks."""

    config: RunConfig
    needs: Needs  # of its rows; none: there are none, and it is not loaded
    cloning: Cloning | None = None


class Passes:
    """One run over several passes. `stop` and `is_stopped` are for any thread.

    Args:
        is_int16, takers: as in `SpeechRun`.
        model: of the first pass, if it is loaded already.
    """

    def __init__(
        self,
        passes: Sequence[Pass],
        *,
        is_int16: bool,
        takers: int,
        model: WarmModel | None = None,
    ) -> None:
        self._passes = passes
        self.is_int16 = is_int16
        self._takers = takers
        self._is_stopped = False
        self._ready: Pass | None = None  # whose checkpoint is loaded
        self.model = model  # the last one
        self.speech: SpeechRun | None = None  # the last one
        self.load_s = 0.0
        self.capture_s = 0.0
        self.facts: dict[str, Any] = {}  # of the device and the engine, in the last pass
        self._references: dict[str, Any] = {}

    def prepare(self) -> Session:
        """Load the first checkpoint that is needed, and make slots for its rows. Raises
        SetupError.
        """
        first = next(one for one in self._passes if one.needs.rows)
        if first is not self._passes[0]:
            self._release()
        return self._prepare(first)

    def run(
        self,
        rows: Sequence[Rows],
        take: Callable[[SpeechRow], None],
        on_end: Callable[[Session], None] = lambda _: None,
    ) -> None:
        """Speak all rows.

        Args:
            rows: of each pass; asked for when it begins.
            take: gets every row at its end, from several threads.
            on_end: called behind each pass, while its session is still there.
        Raises:
            SetupError: a checkpoint cannot be loaded.
            StoppedEarly, Exception: as `SpeechRun.run`.
        """
        for one, its_rows in zip(self._passes, rows, strict=True):
            if self._is_stopped:
                return
            if not one.needs.rows:
                for row in its_rows(self.is_stopped):
                    log.debug("row %s: no room was made for it", row.id)
                continue
            if one is not self._ready:
                self._release()
                if self._is_stopped:
                    return
                self._prepare(one)
            assert self.model is not None
            try:
                self._speak(self.model, one, its_rows, take)
            finally:
                on_end(self.model.session)

    def stop(self) -> None:
        """Ask for an orderly end."""
        self._is_stopped = True
        if self.speech is not None:
            self.speech.stop()

    def is_stopped(self) -> bool:
        """Whether the run is to end."""
        return self._is_stopped

    def reference_facts(self) -> dict[str, Any]:
        """What cloning took, see `SpeechRun`."""
        return self._references

    def _speak(
        self, model: WarmModel, one: Pass, rows: Rows, take: Callable[[SpeechRow], None]
    ) -> None:
        speech = self.speech = model.new_run(
            take, cloning=one.cloning, is_int16=self.is_int16, takers=self._takers
        )
        if self._is_stopped:
            speech.stop()
        is_whole = False
        try:
            speech.run(rows(speech.is_stopped))
            is_whole = True
        finally:
            for name, value in speech.reference_facts().items():
                self._references[name] = self._references.get(name, 0) + value
            self.facts = device_facts(model.session) | speech.engine.facts()
            if is_whole and model.session.device.type == "cuda":
                self.facts |= {"busy": speech.engine.busy.summary()}

    def _prepare(self, one: Pass) -> Session:
        if self.model is None:
            self.model = WarmModel(one.config)
        self.model.make_room(one.needs)
        session = self.model.session
        self.load_s += session.load_s
        self.capture_s += session.capture_s
        self.facts = device_facts(session)
        self._ready = one
        return session

    def _release(self) -> None:
        """Give back the memory of the checkpoint that is loaded."""
        if self.model is None:
            return
        log.debug("giving the memory of a checkpoint back")
        model, self.model, self.speech = self.model, None, None
        model.close()
