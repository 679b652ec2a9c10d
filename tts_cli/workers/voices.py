"""Voices of a cluster: each reference is read by the driver and encoded once, by one worker; what
came of it is in the object store for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tts_cli.errors import RowError
from tts_cli.voices.encode_queue import MAX_PENDING, MAX_VOICES, Ticket, VoiceCache
from tts_cli.workers.messages import Encoded

if TYPE_CHECKING:
    from models.base import Voice
    from tts_cli.voices.recording import Reference


class SpentTicket(Ticket):
    """A voice that another process makes, with the milliseconds it took there."""

    spent_ms = 0.0

    @property
    def milliseconds(self) -> float:
        """What encoding the reference took."""
        return self.spent_ms


class ClusterVoices(VoiceCache):
    """Voices by digest, in the driver. `submit` belongs to the thread that plans rows, `settle` and
    `kept` to the one that gives them out.

    Args:
        order: has a recording encoded, and `settle` called with what came of it.
        keep: puts a value into the object store.
    """

    def __init__(
        self,
        order: Callable[[Reference, SpentTicket], None],
        keep: Callable[[Any], Any],
    ) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]  # nothing is encoded here
        self._order = order
        self._keep_object = keep
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._num_pending = 0
        self._spent_ms = 0.0

    @property
    def has_room(self) -> bool:
        """Whether another recording may wait."""
        return self._num_pending < MAX_PENDING

    @property
    def encode_ms(self) -> float:
        """What all of it took."""
        return self._spent_ms

    def submit(self, reference: Reference) -> Ticket:
        """Have a recording encoded."""
        ticket = SpentTicket()
        self._keep(reference.digest, ticket)
        self._num_pending += 1
        self._order(reference, ticket)
        return ticket

    def settle(self, ticket: SpentTicket, encoded: Encoded) -> None:
        """Take what came of a recording."""
        self._num_pending -= 1
        ticket.spent_ms = encoded.milliseconds
        if encoded.voice is None:
            ticket.voice.set_exception(RowError(encoded.error or "no voice came of it"))
            return
        self.num_encoded += 1
        self._spent_ms += encoded.milliseconds
        ticket.voice.set_result(encoded.voice)

    def kept(self, voice: Voice | None) -> Any:
        """A voice in the object store, put there once."""
        if voice is None:
            return None
        if voice.digest not in self._kept:
            self._kept[voice.digest] = self._keep_object(voice)
            while len(self._kept) > MAX_VOICES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(voice.digest)
        return self._kept[voice.digest]
