"""Stand-ins for what a GPU and a real model do, so that their users are tested on a CPU.

`FakeCapturer` records and replays like CUDA graphs do, output storage included. `FakeSpeechModel`
keeps the whole contract of `models.slots.model.SpeechModel` in plain Python and fails the test when
its caller breaks it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from kernels.launch.dispatch import AUTO, KernelFailed, Kernels
from models.base import Prompt, SlotStatus, SpeechRequest
from models.device.beside import Beside
from models.device.graphs import Capturer
from models.vocoder.chunks import Cutting
from models.vocoder.lanes import Lanes
from models.vocoder.network import CodecDecoder
from models.vocoder.runner import VocoderRunner

Codec = TypeVar("Codec", bound=CodecDecoder)
AUDIO_ROWS = 32  # what `FakeSpeechModel` calls a good vocoder batch


class FakeCapturer:
    """Runs the function to record it; a replay runs it again and writes into the same output."""

    def __init__(self) -> None:
        self.is_recording = False  # true inside a capture: what a GPU forbids can be refused then
        self.has_outer_capture = False  # pretends that the stream is captured elsewhere
        self.replays = 0
        self.reserved_bytes = 0

    def capture(
        self, function: Callable[[], Any], is_warm: bool = False
    ) -> tuple[Any, Callable[[], None]]:
        """Record one call, which runs; the real one does not. Nothing is run to warm up."""
        self.is_recording = True
        try:
            output = function()
        finally:
            self.is_recording = False
        self.reserved_bytes += 2**20

        def replay() -> None:
            assert not self.has_outer_capture, "replayed inside somebody else's capture"
            self.replays += 1
            fresh = function()
            if output is not None:
                output.copy_(fresh)

        return output, replay

    def is_capturing(self) -> bool:
        """Whether the stream is being captured."""
        return self.has_outer_capture

    def memory_bytes(self) -> int:
        """Grows by 1 MiB a capture."""
        return self.reserved_bytes


def record(runner: VocoderRunner, *sizes: int) -> None:
    """Name what rows need to a vocoder's graphs, see `VocoderRunner.announce`, and record it."""
    runner.announce(*sizes)
    for graphs in runner.layout.runners:
        graphs.capture()


def cut_by(network: Codec, cut: Cutting) -> Codec:
    """The same network, whose rows are cut in another way."""
    other = copy(network)
    other.cut = cut
    return other


def lanes_runner(
    network: CodecDecoder, capturer: Capturer | None, beside: Beside | None = None
) -> VocoderRunner:
    """What `vocoder_runner` makes on a GPU, on any device."""
    return VocoderRunner(network, Lanes(network, capturer, beside))


def in_lanes(vocoder: VocoderRunner, capturer: Capturer | None) -> VocoderRunner:
    """The same network in lanes on the CPU."""
    return lanes_runner(vocoder.network, capturer)


@dataclass
class FakeSlot:
    """One row inside a `FakeSpeechModel`."""

    request: SpeechRequest
    frames: int = 0
    reason: str = ""

    def step(self) -> None:
        """Compute a frame: text `nan` fails, other rows end after one frame per letter."""
        if self.reason:
            return
        if self.request.text.startswith("nan"):
            self.reason = "nan"
            return
        self.frames += 1
        if self.frames == len(self.request.text):
            self.reason = "eos"
        elif self.frames == self.request.max_frames:
            self.reason = "max_frames"


def fake_codes(seed: int, frames: int) -> Tensor:
    """(F, 2) codes that name their row and frame."""
    return torch.stack([torch.full((frames,), seed), torch.arange(frames)], dim=1)


@dataclass
class FakeSpeechModel:
    """A model whose rows have one frame per letter.

    Args:
        max_batch: slots.
        no_memory: operation -> which of its calls (from 0) raise `torch.OutOfMemoryError`, or
            `always`.
        no_kernel: operation -> which of its calls (from 0) raise `KernelFailed`.
        memory_rows: more rows than this at once find no memory in decode_frames; None: any number.
        pass_tokens: of a full pass of prefill.
        decodes_beside: the vocoder is to have a thread of its own.
    """

    max_batch: int
    no_memory: dict[str, set[int] | str] = field(default_factory=dict)
    no_kernel: dict[str, set[int]] = field(default_factory=dict)
    memory_rows: int | None = None
    pass_tokens: int | None = None
    decodes_beside: bool = False
    slots: dict[int, FakeSlot] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    batches: list[tuple[int, int]] = field(default_factory=list)  # bucket and rows of each launch
    groups: list[list[str]] = field(default_factory=list)  # texts of each prefill
    audio: list[int] = field(default_factory=list)  # rows of each vocoder batch
    failed: list[int] = field(default_factory=list)  # slots released as failed
    kernels: Kernels = AUTO

    def prompt(self, request: SpeechRequest) -> Prompt:
        """One prompt position a letter."""
        ids = list(range(len(request.text)))
        return Prompt(ids, ids, [], request)

    def prefill(self, prompts: list[Prompt], slots: list[int]) -> None:
        """Start rows in free slots."""
        assert len(set(slots)) == len(slots) == len(prompts), slots
        assert all(0 <= slot < self.max_batch for slot in slots), slots
        assert not set(slots) & self.slots.keys(), f"{slots} are not all free"
        self._may_fail("prefill")
        self.groups.append([prompt.request.text for prompt in prompts])
        for prompt, slot in zip(prompts, slots, strict=True):
            self.slots[slot] = FakeSlot(prompt.request)

    def decode_frames(self, bucket: int, count: int) -> None:
        """Step every row; the bucket must cover them all."""
        assert self.slots
        assert max(self.slots) < bucket <= self.max_batch, (bucket, list(self.slots))
        assert bucket & (bucket - 1) == 0
        self._may_fail("decode_frames")
        if self.memory_rows is not None and len(self.slots) > self.memory_rows:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")
        self.batches.append((bucket, len(self.slots)))
        for _ in range(count):
            for slot in self.slots.values():
                slot.step()

    def poll(self) -> dict[int, SlotStatus]:
        """The status as of now."""
        return {
            index: SlotStatus(slot.frames, bool(slot.reason), slot.reason)
            for index, slot in self.slots.items()
        }

    def status(self, poll: dict[int, SlotStatus], slots: list[int]) -> list[SlotStatus]:
        """Status as of that poll."""
        self._may_fail("status")
        return [poll[slot] for slot in slots]

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Move rows into free slots."""
        assert not set(targets) & self.slots.keys(), f"{targets} are not all free"
        assert len(set(targets)) == len(targets) == len(sources)
        self._may_fail("move")
        for source, target in zip(sources, targets, strict=True):
            self.slots[target] = self.slots.pop(source)

    def release(self, slots: list[int], is_failed: bool = False) -> None:
        """Clear slots, free ones included."""
        for slot in slots:
            self.slots.pop(slot, None)
        if is_failed:
            self.failed += slots

    def codes(self, slot: int, frames: int) -> Tensor:
        """Codes that name the row."""
        self._may_fail("codes")
        assert frames == self.slots[slot].frames
        return fake_codes(self.slots[slot].request.seed, frames)

    def choose_audio(self, frames: list[int], references: list[int]) -> list[int]:
        """AUDIO_ROWS of the rows that wait, once one more is there: all but the second."""
        assert len(frames) == len(references)
        if len(frames) <= AUDIO_ROWS:
            return []
        return [0, *range(2, AUDIO_ROWS + 1)]

    def decode_audio(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Two samples a frame."""
        self._may_fail("decode_audio")
        self.audio.append(len(codes))
        return [row.float().flatten() for row in codes]

    def settle(self) -> None:
        """Start no other work."""

    def leave_triton(self, failure: str) -> None:
        """Note the failure."""
        self.kernels = self.kernels.given_up(failure)

    def graph_runners(self) -> list[Any]:
        """The runners of no graphs."""
        return []

    def _may_fail(self, operation: str) -> None:
        index = self.calls.get(operation, 0)
        self.calls[operation] = index + 1
        if index in self.no_kernel.get(operation, ()):
            raise KernelFailed(f"{operation}: Triton Error [CUDA]: invalid argument")
        failing = self.no_memory.get(operation, set())
        if failing == "always" or index in failing:
            raise torch.OutOfMemoryError(f"CUDA out of memory in {operation}.\nTried to allocate")
