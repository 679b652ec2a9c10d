"""Static buffers of all slots and the bookkeeping of a frame.

A slot is the row one request owns until it ends. Every buffer is allocated once and only its
contents change, so a captured graph stays valid. The host never reads them inside a frame: it
polls a packed copy every few frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.frame.finish_frame import NAN, RUNNING, SlotState, advance_
from models.base import SlotStatus

REASONS = ("", "eos", "max_frames", "nan")
PER_SLOT = (  # what a row owns; all else is made anew in every frame
    *("hidden", "code", "position", "frame", "limit", "is_active", "reason", "trailing", "codes"),
)


@dataclass
class Poll:
    """A copy of the slots' status on its way to the host."""

    packed: Tensor  # (2, N) int64 on the host: frames, reason
    event: torch.cuda.Event | None  # None: the copy is already there
    rows: list[list[int]] | None = None  # filled by the first read


class SlotBuffers:
    """State of N slots: the next frame's inputs, counters and the codes kept so far.

    Args:
        max_frames: the longest row the code buffer holds.
        max_trailing: text vectors a slot may still owe to coming frames, the pad text included.
    """

    def __init__(
        self,
        num_slots: int,
        width: int,
        num_codebooks: int,
        max_frames: int,
        max_trailing: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        def zeros(*shape: int, kind: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(*shape, device=device, dtype=kind)

        self.device = device
        self.max_frames = max_frames
        self.hidden = zeros(num_slots, width, kind=dtype)  # talker output at the last position
        self.code = zeros(num_slots)  # first code of the frame to come
        self.position = zeros(num_slots)  # cache position the frame to come writes
        self.frame = zeros(num_slots)  # frames kept
        self.limit = zeros(num_slots)  # frames the row may keep
        self.is_active = zeros(num_slots, kind=torch.bool)
        self.reason = zeros(num_slots)
        self.trailing = zeros(num_slots, max_trailing, width, kind=dtype)
        # One frame more than can be kept: where inactive rows write.
        self.codes = zeros(num_slots, max_frames + 1, num_codebooks, kind=torch.int16)
        self.work = zeros(num_slots, num_codebooks)  # codes of the frame being made
        self.next_code = zeros(num_slots)
        self.index = torch.arange(num_slots, device=device)

    @property
    def num_slots(self) -> int:
        """Slots there are."""
        return len(self.index)

    def trailing_text(self, bucket: int) -> Tensor:
        """(B, D) text vectors that the coming frame adds; the last entry repeats for ever."""
        if self.trailing.shape[1] == 1:
            return self.trailing[:bucket, 0]
        step = self.frame[:bucket].clamp(max=self.trailing.shape[1] - 1)
        return self.trailing[self.index[:bucket], step]

    def admit(
        self,
        index: Tensor,
        hidden: Tensor,
        code: Tensor,
        lengths: Tensor,
        limits: Tensor,
        trailing: Tensor,
    ) -> None:
        """Start rows in the slots `index` (n,), after their prefill; one may be named more than
        once, with the same values.

        Args:
            hidden: (n, D) talker output at each prompt's end. code: (n,) first codes, -1 where not
                finite.
            lengths: (n,) prompt positions. limits: (n,) frames allowed.
            trailing: (D,) what every coming frame adds; `owe` says otherwise.
        """
        failed = code < 0
        self.hidden[index] = hidden
        self.code[index] = code.clamp(min=0)
        self.position[index] = lengths
        self.frame.index_fill_(0, index, 0)
        self.limit[index] = limits
        self.trailing[index] = trailing
        self.is_active[index] = ~failed
        self.reason[index] = failed.long() * NAN

    def owe(self, index: Tensor, trailing: Tensor) -> None:
        """Text vectors (n, max_trailing, D) for the frames to come in the slots `index` (n,)."""
        self.trailing[index] = trailing

    def advance(self, bucket: int, hidden: Tensor, eos: int) -> None:
        """Keep the frame in `work` and make the state ready for the next, for slots 0..bucket-1.

        Inactive rows keep their counters; what they computed goes to the spare frame.
        """
        views = (getattr(self, name)[:bucket] for name in SlotState._fields)
        advance_(SlotState(*views), hidden, eos)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy slots (n,) to slots (n,) and clear the sources."""
        for tensor in self._per_slot():
            tensor[target] = tensor[source]
        self.release(source)

    def release(self, index: Tensor) -> None:
        """Clear slots (n,): inactive, at position 0, nothing of the old row left."""
        for tensor in self._per_slot():
            # Not tensor[index] = 0: that sends the 0 to the device and waits for what is queued.
            tensor.index_fill_(0, index, 0)

    def poll(self) -> Poll:
        """Start a copy of every slot's frame count and end reason to the host."""
        packed = torch.stack([self.frame, self.reason])
        if packed.device.type != "cuda":
            return Poll(packed, None)
        host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        host.copy_(packed, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return Poll(host, event)

    def status(self, poll: Poll, slots: list[int]) -> list[SlotStatus]:
        """Wait for a poll and read it."""
        if poll.rows is None:
            if poll.event is not None:
                poll.event.synchronize()
            poll.rows = poll.packed.tolist()
        frames, reasons = poll.rows
        return [
            SlotStatus(frames[slot], reasons[slot] != RUNNING, REASONS[reasons[slot]])
            for slot in slots
        ]

    def _per_slot(self) -> list[Tensor]:
        return [getattr(self, name) for name in PER_SLOT]
