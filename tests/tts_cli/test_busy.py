"""Busy share: what is added up, and to which stretch of the run."""

from __future__ import annotations

import pytest
import torch

from models.timing import Span
from tts_cli.busy import BusyMeter

CPU = torch.device("cpu")


class FixedSpan(Span):
    """A span of a known length that ends when told."""

    def __init__(self, milliseconds: float, is_over: bool = True) -> None:
        super().__init__(CPU)
        self.length_ms = milliseconds
        self.has_ended = is_over

    def is_over(self) -> bool:
        return self.has_ended

    def milliseconds(self) -> float:
        return self.length_ms


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
    meter.add("frames", FixedSpan(20))
    meter.add("frames", FixedSpan(30))
    meter.end_steady()
    meter.add("frames", FixedSpan(100))
    meter.end()
    meter.add("frames", FixedSpan(1000))
    assert meter.whole is not None
    assert meter.steady is not None
    meter.whole.span, meter.steady.span = FixedSpan(320), FixedSpan(80)
    assert meter.summary() == {
        "run": {"seconds": 0.32, "prefill_s": 0.01, "frames_s": 0.15, "busy_share": 0.5},
        "steady": {"seconds": 0.08, "prefill_s": 0.01, "frames_s": 0.05, "busy_share": 0.75},
    }


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
