"""Voices of a cluster: the driver reads each reference, one worker encodes it, and the object store
has the result for all workers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tts_cli.errors import RowError
from tts_cli.voices.encoding import MAX_PENDING, MAX_VOICES, VoiceCache, VoiceFuture
from tts_cli.workers.messages import EncodedVoice

if TYPE_CHECKING:
    from models.base import Voice
    from tts_cli.voices.recording import Reference


class SpentVoiceFuture(VoiceFuture):
    """A voice from another process, with the time that encoding took there."""

    spent_ms = 0.0

    @property
    def milliseconds(self) -> float:
        return self.spent_ms


class ClusterVoices(VoiceCache):
    """Voices by digest, in the driver. `submit` belongs to the thread that plans rows, the rest to
    the driver's. `wake` wakes the driver's thread; `store` puts a value into the object store.
    """

    def __init__(self, wake: Callable[[], None], store: Callable[[Any], Any]) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]  # nothing is encoded here
        self._wake = wake
        self._store = store
        self._stored: OrderedDict[str, Any] = OrderedDict()
        self._to_encode: deque[tuple[Reference, VoiceFuture]] = deque()
        self._num_pending = 0
        self._spent_ms = 0.0

    @property
    def has_room(self) -> bool:
        return self._num_pending < MAX_PENDING

    @property
    def encode_ms(self) -> float:
        return self._spent_ms

    def submit(self, reference: Reference) -> VoiceFuture:
        ticket = self._keep(reference.digest, SpentVoiceFuture())
        self._num_pending += 1
        self._to_encode.append((reference, ticket))
        self._wake()
        return ticket

    def next_reference(self) -> tuple[Reference, VoiceFuture] | None:
        return self._to_encode.popleft() if self._to_encode else None

    def return_reference(self, reference: Reference, ticket: VoiceFuture) -> None:
        """Queue a recording again, because the worker that encoded it died."""
        self._to_encode.append((reference, ticket))

    def settle(self, ticket: VoiceFuture, encoded: EncodedVoice) -> None:
        """Take the voice of a recording, or the reason why it has none."""
        self._num_pending -= 1
        if isinstance(ticket, SpentVoiceFuture):
            ticket.spent_ms = encoded.milliseconds
        if encoded.voice is None:
            ticket.voice.set_exception(RowError(encoded.error or "it did not result in a voice"))
            return
        self.num_encoded += 1
        self._spent_ms += encoded.milliseconds
        ticket.voice.set_result(encoded.voice)

    def stored(self, voice: Voice) -> Any:
        """Return a voice's reference in the object store. Each voice is stored there once."""
        if voice.digest not in self._stored:
            self._stored[voice.digest] = self._store(voice)
            while len(self._stored) > MAX_VOICES:
                self._stored.popitem(last=False)
        self._stored.move_to_end(voice.digest)
        return self._stored[voice.digest]
