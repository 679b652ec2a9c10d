"""Speakers on a model in plain Python, which says one frame a letter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fake_speakers import OpenSpeaker, RoomyModel

from models.base import ModelInfo
from tts_cli import Speaker
from tts_cli.config import RunConfig
from tts_cli.engine import load
from tts_cli.engine.load import Loaded
from tts_cli.engine.scheduler import BatchSize
from tts_cli.library import speaker as module


@pytest.fixture
def open_speaker(
    make_info: Callable[..., ModelInfo], monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenSpeaker]:
    """A speaker whose model is a `RoomyModel`; closed at the end, when no thread may be left.

    Args of what it gives: the model or its class, then settings.
    """
    opened: list[Speaker] = []
    before = threading.active_count()

    def open_speaker(
        model: RoomyModel | None = None, info: dict[str, Any] | None = None, **settings: Any
    ) -> Speaker:
        max_batch = settings.setdefault("max_batch", 4)
        found: Any = RoomyModel(max_batch) if model is None else model
        shape = {"max_positions": 2000, "samples_per_frame": 2, "sample_rate_hz": 20}
        found.info = make_info(**(shape | (info or {})))

        def open_checkpoint(config: RunConfig) -> Loaded:
            batch = BatchSize(max_batch)
            return Loaded(found, torch.device("cpu"), torch.float32, batch, 0.0)

        monkeypatch.setattr(load, "open_checkpoint", open_checkpoint)
        monkeypatch.setattr(module, "approved_info", lambda config: found.info)
        opened.append(Speaker(**{"device": "cpu", **settings}))
        return opened[-1]

    yield open_speaker
    for speaker in opened:
        speaker.close()
    assert threading.active_count() == before, threading.enumerate()
