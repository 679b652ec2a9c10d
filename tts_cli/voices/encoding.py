"""Encode references to voices: each distinct one once per run, in batches.

The prompt thread submits recordings that are read and checked. The engine's thread encodes them
between two launches of frames, without graphs. The cache stores the last voices used, failures
included, by the digest of the reference.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from kernels.launch.dispatch import KernelFailed
from models.base import RequestError, Voice
from models.device.memory import in_halves
from models.device.spans import DeviceSpan
from tts_cli.errors import RowError, first_line, is_device_lost
from tts_cli.voices.recording import Reference

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

MAX_VOICES = 256  # in memory; an icl voice of 30 s takes about 50 KB
MAX_PENDING = 32  # recordings waiting for the engine; one of 30 s takes 3 MB
ENCODE_ROWS = 16  # recordings in one batch
MAX_SPANS = 64  # batches whose times are not added up yet


@dataclass(eq=False)
class VoiceFuture:
    """The future of a voice. The engine's thread sets the other fields before the result."""

    voice: Future[Voice] = field(default_factory=Future)
    span: DeviceSpan | None = None  # of the batch it was encoded in
    share: float = 0.0  # of that span, by length

    @property
    def milliseconds(self) -> float:
        """Time to encode this reference. Waits for the device."""
        return 0.0 if self.span is None else self.span.milliseconds() * self.share


class VoiceCache:
    """Voices by digest. The prompt thread calls `find`, `submit`, `fail` and `has_room`, and the
    engine's thread `encode_pending`. The sums are read after both have ended.
    """

    def __init__(self, model: SpeechModel, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.num_encoded = 0
        self._spans: deque[DeviceSpan] = deque()  # of the last batches
        self._earlier_ms = 0.0  # of the batches before
        self._tickets: OrderedDict[str, VoiceFuture] = OrderedDict()
        self._pending: deque[tuple[Reference, VoiceFuture]] = deque()

    @property
    def has_room(self) -> bool:
        return len(self._pending) < MAX_PENDING

    @property
    def encode_ms(self) -> float:
        """Time of all batches. Waits for the device."""
        return self._earlier_ms + sum(span.milliseconds() for span in self._spans)

    def find(self, digest: str) -> VoiceFuture | None:
        """Return the future of a voice, or None if it is new or was dropped."""
        ticket = self._tickets.get(digest)
        if ticket is not None:
            self._tickets.move_to_end(digest)
        return ticket

    def submit(self, reference: Reference) -> VoiceFuture:
        ticket = self._keep(reference.digest, VoiceFuture())
        self._pending.append((reference, ticket))
        return ticket

    def fail(self, digest: str, error: RowError) -> VoiceFuture:
        ticket = self._keep(digest, VoiceFuture())
        ticket.voice.set_exception(error)
        return ticket

    def encode_pending(self) -> None:
        """Encode a batch of waiting recordings. If it raises KernelFailed, they wait again."""
        batch: list[tuple[Reference, VoiceFuture]] = []
        while self._pending and len(batch) < ENCODE_ROWS:
            batch.append(self._pending.popleft())
        try:
            if batch:
                in_halves(batch, self._encode, _give_up)
        except KernelFailed:  # encoded later without that kernel
            self._pending.extendleft(item for item in batch[::-1] if not item[1].voice.done())
            raise

    def _keep(self, digest: str, ticket: VoiceFuture) -> VoiceFuture:
        self._tickets[digest] = ticket
        while len(self._tickets) > MAX_VOICES:
            self._tickets.popitem(last=False)  # waiting rows have their tickets
        return ticket

    def _encode(self, batch: list[tuple[Reference, VoiceFuture]]) -> str | None:
        span = DeviceSpan(self.device)
        try:
            found = encode_references(self.model, [reference for reference, _ in batch])
        except torch.OutOfMemoryError as error:
            return f"there is not enough memory to encode its reference: {first_line(error)}"
        except (RequestError, RuntimeError, ValueError) as error:
            if is_device_lost(error):
                raise
            return f"its reference cannot be encoded: {first_line(error)}"
        self._spans.append(span.end())
        if len(self._spans) > MAX_SPANS:  # it ended long ago
            self._earlier_ms += self._spans.popleft().milliseconds()
        total = max(1, sum(len(reference.samples) for reference, _ in batch))
        for (reference, ticket), (embedding, codes) in zip(batch, found, strict=True):
            ticket.span, ticket.share = span, len(reference.samples) / total
            self.num_encoded += 1
            try:
                voice = make_voice(reference, embedding, codes, self.model.info.identity)
            except RowError as error:
                ticket.voice.set_exception(error)
            else:
                ticket.voice.set_result(voice)
        return None


def _give_up(item: tuple[Reference, VoiceFuture], reason: str) -> None:
    """Fail a reference that cannot be encoded even alone."""
    item[1].voice.set_exception(RowError(reason))


def encode_references(
    model: SpeechModel, references: list[Reference]
) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """Return embedding (D,) and codes (R, K) or None of each, on the host.

    The silence after a recording affects only its codes.
    """
    waves, modes = [], []
    for reference in references:
        wave = torch.from_numpy(reference.samples)
        waves.append(torch.nn.functional.pad(wave, (0, reference.num_silence)))
        modes.append(reference.mode)
    padded = [index for index, reference in enumerate(references) if reference.num_silence]
    waves += [torch.from_numpy(references[index].samples) for index in padded]
    modes += ["xvec"] * len(padded)
    encoded = model.encode_voices(waves, modes)
    found = list(encoded[: len(references)])
    for index, (embedding, _) in zip(padded, encoded[len(references) :], strict=True):
        found[index] = (embedding, found[index][1])
    return [
        (embedding.float().cpu(), None if codes is None else codes.long().cpu())
        for embedding, codes in found
    ]


def make_voice(
    reference: Reference, embedding: torch.Tensor, codes: torch.Tensor | None, identity: str
) -> Voice:
    """Return the voice of an encoded reference. Raises RowError if it is unusable."""
    if not bool(torch.isfinite(embedding).all()):
        raise RowError("its reference resulted in a voice with NaN or infinite values")
    is_icl = reference.mode == "icl"
    if is_icl and (codes is None or not codes.numel()):
        raise RowError("its reference resulted in no codes")
    return Voice(
        embedding=embedding,
        codes=codes if is_icl else None,
        text=reference.text,
        mode=reference.mode,
        identity=identity,
        digest=reference.digest,
    )
