"""The streams of a run: the vocoder has one of its own, everything else the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from engine_harness import Harness, assert_spoken, request, texts
from fakes import FakeSpeechModel

from models.base import SpeechRequest
from models.device.spans import DeviceSpan
from models.device.streams import WorkStreams

CALLS = ("prefill", "decode_frames", "poll", "status", "move", "release", "codes", "decode_audio")


class FakeStreams(WorkStreams):
    """Says which stream is current, and whether what the vocoder does has been waited for."""

    def __init__(self) -> None:
        self.now = "outside"
        self.is_joined = True

    @contextmanager
    def frames(self) -> Iterator[None]:
        assert self.now == "outside"
        self.now = "frames"
        try:
            yield
        finally:
            self.now, self.is_joined = "outside", True

    @contextmanager
    def vocoder(self) -> Iterator[None]:
        assert self.now == "frames"
        self.now, self.is_joined = "vocoder", False
        try:
            yield
        finally:
            self.now = "frames"

    def join(self) -> None:
        assert self.now == "frames"
        self.is_joined = True


class Watched(Harness):
    """An engine on fake streams that notes the stream of every call of its model."""

    def __init__(self, model: FakeSpeechModel, requests: list[SpeechRequest]) -> None:
        super().__init__(model, model.max_batch, requests, is_async=True, window=2)
        self.streams = FakeStreams()
        self.engine.streams = self.engine.vocoder.streams = self.streams
        self.seen: dict[str, set[str]] = {}
        for name in CALLS:
            setattr(model, name, self._watched(name, getattr(model, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.seen.setdefault(name, set()).add(self.streams.now)
            return call(*args, **kwargs)

        return watched


def test_everything_but_the_vocoder_is_on_the_stream_of_the_frames() -> None:
    requests = [request(text, seed) for seed, text in enumerate(texts(70))]
    harness = Watched(FakeSpeechModel(8), requests)
    assert_spoken(harness.run(), requests)
    assert harness.seen.keys() == set(CALLS)
    assert harness.seen.pop("decode_audio") == {"vocoder"}
    assert all(streams == {"frames"} for streams in harness.seen.values())
    assert harness.streams.now == "outside"


def test_codes_are_kept_until_the_vocoder_is_through(monkeypatch: pytest.MonkeyPatch) -> None:
    # Jobs drop them as soon as its work is queued, and the next rows' once got their memory.
    monkeypatch.setattr(DeviceSpan, "is_over", lambda span: False)
    requests = [request(text, seed) for seed, text in enumerate(texts(40))]
    harness = Watched(FakeSpeechModel(8), requests)
    jobs = harness.run()
    vocoder = harness.engine.vocoder
    read = {int(codes[0, 0]): codes for _, kept in vocoder.read for codes in kept}
    assert len(read) == 40
    for row, job in jobs.items():
        assert job.codes is not None
        assert torch.equal(read[row], job.codes)
    monkeypatch.undo()
    vocoder.run(is_last=False)
    assert not vocoder.read


def test_the_run_ends_behind_both(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Watched(FakeSpeechModel(2), [request("xx")] * 3)
    joined: list[bool] = []
    monkeypatch.setattr(
        harness.engine.busy, "end", lambda: joined.append(harness.streams.is_joined)
    )
    harness.run()
    assert joined == [True]


def test_memory_running_out_leaves_the_stream_of_the_vocoder() -> None:
    requests = [request(text, seed) for seed, text in enumerate(texts(20))]
    model = FakeSpeechModel(8, no_memory={"decode_audio": {0, 1, 3}})
    harness = Watched(model, requests)
    assert_spoken(harness.run(), requests)
    assert harness.seen.pop("decode_audio") == {"vocoder"}
    assert all(
        streams == {"frames"} for name, streams in harness.seen.items() if "audio" not in name
    )


def test_a_cpu_has_no_streams() -> None:
    streams = WorkStreams(torch.device("cpu"))
    with streams.frames(), streams.vocoder():
        pass
    streams.join()
