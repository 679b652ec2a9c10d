"""The smallest driver of a `SpeechModel`: slots, whole frames, refill. Tests use it as engine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.base import Prompt, SpeechRequest
from models.slots.model import SpeechModel


@dataclass(frozen=True)
class Row:
    """What a model made of one request."""

    codes: Tensor  # (F, K) int64
    samples: Tensor  # (F * samples per frame,) float32
    finish_reason: str


def speak(
    model: SpeechModel,
    requests: list[SpeechRequest],
    max_batch: int,
    *,
    frames_per_poll: int = 1,
    is_compact: bool = False,
    has_graphs: bool = False,
) -> list[Row]:
    """Synthesize requests in order in `max_batch` slots; a freed slot takes the next request.

    Args:
        frames_per_poll: frames run between two looks at the slots.
        is_compact: move live rows to the lowest slots after each poll, and step only those.
        has_graphs: capture before the first prompt.
    """
    prompts = [model.prompt(request) for request in requests]
    max_frames = max(p.request.max_frames for p in prompts)
    model.allocate(
        max_batch,
        max_positions=max(p.num_tokens + p.request.max_frames for p in prompts),
        max_frames=max_frames,
        max_trailing=max(len(p.trailing_ids) for p in prompts),
    )
    if has_graphs:
        model.capture(max_batch, max_frames, max(_reference_frames(p) for p in prompts))
    rows: dict[int, Row] = {}
    live: dict[int, int] = {}  # slot -> request
    waiting = list(range(len(prompts)))
    while waiting or live:
        free = [slot for slot in range(max_batch) if slot not in live]
        taken = dict(zip(free, waiting, strict=False))
        if taken:
            model.prefill([prompts[i] for i in taken.values()], list(taken))
            live |= taken
            waiting = waiting[len(taken) :]
        model.decode_frames(_bucket(max(live) + 1, max_batch), frames_per_poll)
        slots = list(live)
        statuses = dict(zip(slots, model.status(model.poll(), slots), strict=True))
        ended = [slot for slot in slots if statuses[slot].is_finished]
        for slot in ended:
            codes = model.codes(slot, statuses[slot].frames).cpu()
            clone = prompts[live[slot]].request.clone
            reference = None if clone is None else clone.codes
            (samples,) = model.decode_audio([codes], [reference])
            rows[live.pop(slot)] = Row(codes, samples.cpu(), statuses[slot].finish_reason)
        model.release(ended)
        if is_compact and live and not waiting:
            live = _compact(model, live)
    return [rows[i] for i in range(len(requests))]


def assert_same(rows: list[Row], expected: list[Row], *, atol: float | None = None) -> None:
    """Require equal codes and ends, and samples that are as near, if they are compared at all."""
    for index, (row, other) in enumerate(zip(rows, expected, strict=True)):
        assert row.finish_reason == other.finish_reason, index
        assert torch.equal(row.codes, other.codes), index
        if atol is not None:
            torch.testing.assert_close(row.samples, other.samples, rtol=0, atol=atol)


def _reference_frames(prompt: Prompt) -> int:
    clone = prompt.request.clone
    return 0 if clone is None else clone.num_frames


def _bucket(num_slots: int, max_batch: int) -> int:
    return min(max_batch, 1 << (num_slots - 1).bit_length())


def _compact(model: SpeechModel, live: dict[int, int]) -> dict[int, int]:
    count = len(live)
    holes = [slot for slot in range(count) if slot not in live]
    strays = [slot for slot in live if slot >= count]
    if strays:
        model.move(strays, holes)
    moved = dict(zip(strays, holes, strict=True))
    return {moved.get(slot, slot): row for slot, row in live.items()}
