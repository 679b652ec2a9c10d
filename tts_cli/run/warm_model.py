"""A checkpoint in memory, with room for rows that can be made anew: what every command that speaks
and the library open, and where all their runs come from.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.run import load
from tts_cli.run.needs import Needs
from tts_cli.run.plan.row_maker import RowMaker
from tts_cli.run.plan.split_rule import pauses_of
from tts_cli.run.retry import RetryPolicy
from tts_cli.run.threads import SpeechRun
from tts_cli.run.usual_needs import usual_needs
from tts_cli.voices.encode_queue import VoiceCache
from tts_cli.voices.resolve import Cloning
from tts_cli.voices.speech_row import SpeechRow

if TYPE_CHECKING:
    from typing_extensions import Self

    from models.base import ModelInfo

log = logging.getLogger(__name__)

# Of the room there was, and of what the row needs, so that it does not grow row by row.
GROWTH, SPARE = 1.5, 1.25


class WarmModel:
    """A model, its slots, and the voices that its runs have encoded. One run at a time.

    Args:
        info: of the checkpoint, to whose licence there is consent; None: as it says itself.
    Raises:
        SetupError: it cannot be loaded.
    """

    def __init__(self, config: RunConfig, info: ModelInfo | None = None) -> None:
        self.config = config
        self.session = load.open_session(config)
        self.info = self.session.model.info if info is None else info
        self.in_use = threading.Lock()  # held by who speaks, where somebody else may close
        self.is_closed = False
        self._voices = VoiceCache(self.session.model, self.session.device)

    @cached_property
    def maker(self) -> RowMaker:
        """Makes rows of what it is given."""
        return RowMaker(self.config, self.info)

    def make_room(self, needs: Needs) -> None:
        """Make slots and capture graphs, instead of those there are. Raises SetupError."""
        load.prepare(self.session, needs)

    def has_room(self, row: SpeechRow) -> bool:
        """Whether the slots there are do for a row."""
        room = self.session.room
        return room is not None and self.maker.needs(row).fits(room)

    def grow(self, row: SpeechRow) -> str | None:
        """Make room for a row as well, while none is spoken; why that cannot be, or None."""
        needs, most, slots = self.maker.needs(row), self.info.max_positions, self.session.batch.rows
        room = self.session.room or usual_needs(self.config, self.info, rows=slots)
        positions = max(GROWTH * room.max_positions, SPARE * needs.max_positions)
        frames = max(GROWTH * room.max_frames, SPARE * needs.max_frames)
        wider = Needs(slots, min(most, int(positions)), min(most, int(frames)))
        wider = wider.joined(room).joined(needs)
        log.info("a row needs more room than there is: slots are made anew")
        load.drop_slots(self.session)
        try:
            self.make_room(wider)
        except SetupError as error:
            self.session.batch.rows = slots
            self.make_room(replace(room, rows=slots))
            return str(error)
        return None

    def new_cloning(self) -> Cloning:
        """Finds what rows clone; it remembers files, so each call has one of its own."""
        return Cloning(self.config, self.info, self.maker.voices.made)

    def new_run(
        self,
        take: Callable[[SpeechRow], None],
        *,
        cloning: Cloning | None = None,
        is_int16: bool = False,
        takers: int = 1,
        policy: RetryPolicy | None = None,
    ) -> SpeechRun:
        """One pass over rows that there is room for, see `SpeechRun`; voices that earlier ones have
        encoded are known.
        """
        return SpeechRun(
            self.session,
            take,
            policy or RetryPolicy.of(self.config),
            cloning=cloning,
            is_int16=is_int16,
            takers=takers,
            pauses=pauses_of(self.config),
            voices=self._voices,
        )

    def close(self) -> None:
        """Drop the model and free the device's memory, once nobody is using it."""
        with self.in_use:
            if not self.is_closed:
                self.is_closed = True
                del self._voices
                self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
