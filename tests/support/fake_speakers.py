"""Models in plain Python that speakers can make room in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from fakes import FakeSpeechModel

from tts_cli import Speaker

OpenSpeaker = Callable[..., Speaker]


@dataclass
class RoomyModel(FakeSpeechModel):
    """It notes the slots that were made; more positions than `most_positions` find no memory."""

    rooms: list[tuple[int, int]] = field(default_factory=list)  # rows and positions of each
    most_positions: int = 10**6
    info: Any = None

    def slot_bytes(self, max_positions: int, *sizes: int) -> int:
        return max_positions

    def allocate(self, max_batch: int, max_positions: int, *sizes: int) -> None:
        if max_positions > self.most_positions:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried")
        self.rooms.append((max_batch, max_positions))
        self.max_batch = max_batch
        self.slots.clear()

    def capture(self, *sizes: int) -> None:
        assert not self.slots

    def graph_runners(self) -> list[Any]:
        return []
