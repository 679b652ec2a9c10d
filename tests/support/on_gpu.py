"""Models on a GPU: frames by graphs and without them, and memory that is given back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TypeVar

import torch
from parity import check_all
from torch import Tensor

from models.base import SpeechRequest
from models.slots.model import SpeechModel

Model = TypeVar("Model", bound=SpeechModel)


def lent(model: Model) -> Iterator[Model]:
    """Yield a model, which the caller must not keep, and free its memory on the device."""
    yield model
    del model
    gc.collect()
    torch.cuda.empty_cache()


def run(model: SpeechModel, requests: list[SpeechRequest], bucket: int) -> list[Tensor]:
    """Synthesize requests in slots 0, 1, ... to the end, clear the slots and return the codes."""
    slots = list(range(len(requests)))
    model.prefill([model.prompt(request) for request in requests], slots)
    model.decode_frames(bucket, max(request.max_frames for request in requests))
    states = model.status(model.poll(), slots)
    assert all(state.is_finished for state in states)
    assert not [state for state in states if state.finish_reason == "nan"]
    codes = [model.codes(slot, state.frames).cpu() for slot, state in enumerate(states)]
    model.release(slots)
    return codes


def run_eagerly(model: SpeechModel, requests: list[SpeechRequest], bucket: int) -> list[Tensor]:
    """Do the same without graphs."""
    capturer, model.frames.capturer = model.frames.capturer, None
    try:
        return run(model, requests, bucket)
    finally:
        model.frames.capturer = capturer


def run_as_eagerly(model: SpeechModel, requests: list[SpeechRequest], bucket: int) -> list[Tensor]:
    """Do it by graphs alone, and require the codes that there are without them."""
    expected = run_eagerly(model, requests, bucket)
    before = model.frames.stats.hits
    rows = run(model, requests, bucket)
    assert model.frames.stats.misses == 0
    assert model.frames.stats.hits - before == max(request.max_frames for request in requests)
    check_all(rows, expected)
    return rows


def record_frames(model: Model, buckets: list[int]) -> Model:
    """Record the graphs of frames with so many rows, and return the model."""
    with torch.inference_mode():
        model.frames.announce(buckets)
        model.frames.capture()
    model.release(list(range(buckets[0])))
    assert model.frames.stats.failures == {}
    return model
