"""Busy share: what is added up and what counts once, and to which stretch of the run."""

from __future__ import annotations

import random

import pytest
import torch

from models.device.spans import DeviceSpan
from models.device.streams import WorkStreams
from tts_cli.engine import busy
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


def test_nothing_ran() -> None:
    meter = BusyMeter(CPU)
    meter.add("frames", FixedSpan(5))
    meter.end_steady()
    meter.end()
    assert meter.summary() is None


def test_steady_work_counts_twice_and_the_tail_once() -> None:
    meter = BusyMeter(CPU)
    meter.start()
    meter.add("prefill", FixedSpan(10))
    meter.add("frames", FixedSpan(20, start_ms=10))
    meter.add("frames", FixedSpan(30, start_ms=45))
    meter.end_steady()
    meter.add("frames", FixedSpan(100, start_ms=80))
    meter.end()
    meter.add("frames", FixedSpan(1000))
    assert meter.whole is not None
    assert meter.steady is not None
    meter.whole.span, meter.steady.span = FixedSpan(320), FixedSpan(80)
    meter.before_s = 0.0123
    assert meter.summary() == {
        "before_s": 0.012,
        "run": {"seconds": 0.32, "prefill_s": 0.01, "frames_s": 0.15, "busy_share": 0.5},
        "steady": {"seconds": 0.08, "prefill_s": 0.01, "frames_s": 0.05, "busy_share": 0.75},
    }


def test_what_came_before_the_first_launch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.25, 99.0])
    monkeypatch.setattr(busy.time, "perf_counter", lambda: next(clock))
    meter = BusyMeter(CPU)
    with monkeypatch.context() as alone:
        alone.setattr(busy, "BusyWindow", lambda device: None)
        meter.start()
    assert meter.before_s == 0.25


def test_a_run_that_never_empties_is_steady_to_its_end() -> None:
    meter = BusyMeter(CPU)
    meter.start()
    meter.add("frames", FixedSpan(4))
    meter.end()
    found = meter.summary()
    assert found is not None
    assert found["steady"]["frames_s"] == found["run"]["frames_s"] == pytest.approx(0.004)


def test_spans_are_read_when_over_and_not_kept() -> None:
    meter = BusyMeter(CPU)
    meter.start()
    late = FixedSpan(7, is_over=False)
    meter.add("frames", late)
    meter.add("frames", FixedSpan(1))
    assert len(meter._pending) == 2
    late.has_ended = True
    meter.add("vocoder", FixedSpan(2))
    assert len(meter._pending) == 0
    assert meter.whole is not None
    assert meter.whole.sums == {"frames": 8, "vocoder": 2}


def test_what_two_streams_do_at_once_counts_once() -> None:
    # The sum of these is 130 % of the run, and 140 % of its steady state.
    meter = BusyMeter(CPU)
    meter.start()
    meter.add("vocoder", FixedSpan(60, start_ms=20))
    meter.add("frames", FixedSpan(40))
    meter.add("frames", FixedSpan(30, start_ms=50))
    meter.end()
    assert meter.whole is not None
    assert meter.steady is not None
    meter.whole.span, meter.steady.span = FixedSpan(100), FixedSpan(80)
    found = meter.summary()
    assert found is not None
    assert found["run"] == {
        "seconds": 0.1,
        "frames_s": 0.07,
        "vocoder_s": 0.06,
        "busy_share": 0.8,
    }
    assert found["steady"]["busy_share"] == 1.0


def test_what_goes_on_behind_a_stretch_is_cut_off() -> None:
    meter = BusyMeter(CPU)
    meter.start()
    beside = FixedSpan(60, is_over=False, start_ms=70)
    after = FixedSpan(30, is_over=False, start_ms=130)
    meter.add("vocoder", beside)
    meter.add("vocoder", after)
    meter.end_steady()
    assert meter.whole is not None
    assert meter.steady is not None
    meter.steady.span = FixedSpan(100, is_over=False)
    beside.has_ended = True
    meter.add("frames", FixedSpan(10, start_ms=100))
    assert len(meter._pending) == 3  # the end of the steady state is not known yet
    meter.end()
    meter.whole.span = FixedSpan(200)
    found = meter.summary()
    assert found is not None
    assert found["steady"] == {"seconds": 0.1, "vocoder_s": 0.03, "busy_share": 0.3}
    assert found["run"]["vocoder_s"] == 0.09
    assert found["run"]["busy_share"] == 0.45


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
            meter.add("frames", span.end())
            if index % 4 == 0:
                with streams.vocoder():
                    span = DeviceSpan(device)
                    torch.cuda._sleep(9_000_000)
                    meter.add("vocoder", span.end())
            if index == 10:
                meter.end_steady()
        streams.join()
        meter.end()
    found = meter.summary()
    assert found is not None
    for window in (found["run"], found["steady"]):
        assert 0.9 < window["busy_share"] <= 1
        assert window["frames_s"] + window["vocoder_s"] > 1.1 * window["seconds"]
    assert found["steady"]["seconds"] < found["run"]["seconds"]
