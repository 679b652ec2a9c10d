"""The busy share: the union of spans over the time of the run."""

from __future__ import annotations

import random

import pytest
import torch

from models.device.spans import DeviceSpan
from models.device.streams import WorkStreams
from tts_cli.engine.busy import REORDERED, BusyMeter, Cover

CPU = torch.device("cpu")


class FixedSpan(DeviceSpan):
    """A span of a known place and length that ends when told."""

    def __init__(self, milliseconds: float, is_over: bool = True, start_ms: float = 0) -> None:
        super().__init__(CPU)
        self.length_ms = milliseconds
        self.start_ms = start_ms
        self.has_ended = is_over

    def is_over(self) -> bool:
        return self.has_ended

    def milliseconds(self) -> float:
        return self.length_ms

    def within(self, origin: DeviceSpan) -> tuple[float, float]:
        return self.start_ms, self.start_ms + self.length_ms


def started(run_ms: float) -> BusyMeter:
    meter = BusyMeter(CPU)
    meter.start()
    meter._run = FixedSpan(run_ms)
    return meter


def test_nothing_ran() -> None:
    meter = BusyMeter(CPU)
    meter.add(FixedSpan(5))
    meter.end()
    assert meter.share() is None


def test_spans_are_read_when_over_and_not_kept() -> None:
    meter = started(10)
    late = FixedSpan(7, is_over=False)
    meter.add(late)
    meter.add(FixedSpan(1, start_ms=7))
    assert len(meter._pending) == 2
    late.has_ended = True
    meter.add(FixedSpan(2, start_ms=8))
    assert len(meter._pending) == 0
    assert meter.share() == 1.0


def test_time_that_two_streams_cover_counts_once() -> None:
    # The spans add up to 130 % of the run.
    meter = started(100)
    meter.add(FixedSpan(60, start_ms=20))
    meter.add(FixedSpan(40))
    meter.add(FixedSpan(30, start_ms=50))
    meter.end()
    assert meter.share() == 0.8


@pytest.mark.parametrize("seed", range(5))
def test_the_cover_is_that_of_a_ruler(seed: int) -> None:
    rng = random.Random(seed)
    starts = [rng.randrange(4 * REORDERED) for _ in range(3 * REORDERED)]
    starts.sort(key=lambda start: start + rng.randrange(REORDERED // 2))
    cover, marked = Cover(), set()
    for start in starts:
        end = start + rng.choice([0, 1, 2, 30])
        cover.add(start, end)
        marked |= set(range(start, end))
    assert cover.length() == cover.length() == len(marked)


@pytest.mark.gpu
def test_spans_of_two_streams_on_a_device() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    streams, meter = WorkStreams(device), BusyMeter(device)
    with streams.frames():
        meter.start()
        for index in range(20):
            span = DeviceSpan(device)
            torch.cuda._sleep(4_000_000)
            meter.add(span.end())
            if index % 4 == 0:
                with streams.vocoder():
                    span = DeviceSpan(device)
                    torch.cuda._sleep(9_000_000)
                    meter.add(span.end())
        streams.join()
        meter.end()
    share = meter.share()
    assert share is not None
    assert 0.9 < share <= 1
