"""Share voices in a cluster: each reference is read by the driver and encoded once, by one worker;
the result is in the object store for all of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from tts_cli.errors import RowError, first_line
from tts_cli.voices.encoding import MAX_PENDING, MAX_VOICES, Ticket, VoiceCache
from tts_cli.workers.hand import Hand
from tts_cli.workers.lives import DriverQueue, Lives
from tts_cli.workers.messages import EncodedVoice

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
    """Voices by digest, in the driver. `submit` belongs to the thread that plans rows, the others
    to the driver's.

    Args:
        keep: puts a value into the object store.
    """

    def __init__(self, events: DriverQueue, lives: Lives, keep: Callable[[Any], Any]) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]  # nothing is encoded here
        self._events = events
        self._lives = lives
        self._keep_object = keep
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._to_encode: deque[tuple[Reference, SpentTicket]] = deque()
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
        self._events.put(partial(self._to_encode.append, (reference, ticket)))
        return ticket

    def give_out(self, hands: Sequence[Hand]) -> None:
        """Have recordings encoded that wait for it, each by one of these workers."""
        while self._to_encode and hands:
            reference, ticket = self._to_encode.popleft()
            hand = min(hands, key=lambda hand: hand.frames)
            hand.is_drained = False
            hand.num_sent += 1
            call = hand.actor.encode.remote(reference)
            take = partial(self._encoded, hand, hand.life, reference, ticket)
            self._events.when_answered(call, take)

    def _encoded(
        self,
        hand: Hand,
        life: int,
        reference: Reference,
        ticket: SpentTicket,
        found: Future[EncodedVoice],
    ) -> None:
        error = found.exception()
        if error is None:
            self._settle(ticket, found.result())
        elif self._lives.is_death(error):
            self._to_encode.append((reference, ticket))
            if life == hand.life:
                self._lives.died(hand, error)
        else:
            reason = f"its reference cannot be encoded: {first_line(self._lives.cause(error))}"
            self._settle(ticket, EncodedVoice(None, reason))

    def _settle(self, ticket: SpentTicket, encoded: EncodedVoice) -> None:
        """Take what came of a recording."""
        self._num_pending -= 1
        ticket.spent_ms = encoded.milliseconds
        if encoded.voice is None:
            ticket.voice.set_exception(RowError(encoded.error or "it did not result in a voice"))
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
