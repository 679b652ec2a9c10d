"""The vocoder in a thread beside the frames: no row is lost, and no thread stays, come what may."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from engine_harness import Harness, assert_spoken, request, texts
from fakes import FakeSpeechModel

from models.device.threads import limited_threads
from tts_cli.engine.pieces import Attempt
from tts_cli.engine.vocoder import MAX_IN_THREAD as MAX_WAITING

LONG = request("x" * 300, 99, 300)  # frames go on beside it for as long as a test needs
WAIT_S = 10


def is_beside() -> bool:
    return threading.current_thread().name == "vocoder"


@dataclass
class Beside(FakeSpeechModel):
    """Calls `there` before the thread decodes a row, `here` before the engine's does. A frame takes
    `frame_s`, so that the thread comes to its turn.
    """

    decodes_beside: bool = True
    frame_s: float = 0.0
    there: Callable[[], object] = lambda: None
    here: Callable[[], object] = lambda: None
    decoded_there: list[int] = field(default_factory=list)  # seeds
    decoded_here: list[int] = field(default_factory=list)

    def decode_frames(self, bucket: int, count: int) -> None:
        super().decode_frames(bucket, count)
        time.sleep(self.frame_s)

    def decode_audio(self, codes: list[torch.Tensor], references: Any = None) -> list[torch.Tensor]:
        (self.there if is_beside() else self.here)()
        seeds = self.decoded_there if is_beside() else self.decoded_here
        seeds += [int(row[0, 0]) for row in codes]
        return super().decode_audio(codes, references)


def fail() -> None:
    raise ValueError("no such code")


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "vocoder"] == []


@pytest.mark.parametrize("max_batch", [1, 2, 8, 32])
def test_every_row_ends_with_its_own_audio(max_batch: int) -> None:
    requests = [request(text, seed) for seed, text in enumerate(texts(70))]
    model = Beside(max_batch)
    harness = Harness(model, max_batch, requests)
    assert_spoken(harness.run(), requests)
    assert sorted(model.decoded_here + model.decoded_there) == list(range(70))
    assert max_batch > 1 or not model.decoded_there  # nobody speaks meanwhile
    assert harness.engine.num_unsettled == 0


def test_frames_go_on_meanwhile() -> None:
    model, in_hand, has_gone_on = Beside(2), threading.Event(), threading.Event()
    model.there = lambda: (in_hand.set(), has_gone_on.wait(WAIT_S) or fail())
    launch = model.decode_frames

    def decode_frames(bucket: int, count: int) -> None:
        launch(bucket, count)
        if len(model.batches) == 10:
            assert in_hand.wait(WAIT_S)
        elif len(model.batches) == 20:
            assert harness.engine.num_unsettled == 1
            has_gone_on.set()

    model.decode_frames = decode_frames  # type: ignore[method-assign]
    harness = Harness(model, 2, [request("x", 0), LONG])
    assert set(harness.run()) == {0, 1}
    assert model.decoded_there == [0]
    assert model.decoded_here == [99]  # nothing was left to run beside


def test_the_engine_decodes_what_is_too_much_for_the_thread() -> None:
    """The oldest first, so that nobody waits for long."""
    model, helped, frames = Beside(2), threading.Event(), []
    model.there = lambda: helped.wait(WAIT_S) or fail()
    model.here = lambda: (frames.append(len(model.batches)), helped.set())
    requests = [LONG, *(request("xx", seed) for seed in range(MAX_WAITING + 8))]
    assert len(Harness(model, 2, requests).run()) == len(requests)
    assert frames[0] < 300  # not only at the end
    assert model.decoded_here[0] in (0, 1)  # the thread has the first in hand, or will have one


def test_the_run_waits_for_the_row_in_hand() -> None:
    """It may have to be spoken again, and then nothing else said that the run is not over."""
    model = Beside(2)
    model.there = lambda: time.sleep(0.2)
    requests = [request("x", 0), request("x" * 5, 1)]
    harness = Harness(model, 2, requests)
    assert_spoken(harness.run(), requests)


def test_what_it_decodes_takes_one_thread_of_pytorch_and_nobody_elses() -> None:
    counts: set[int] = set()
    model = Beside(4, frame_s=0.002, there=lambda: counts.add(torch.get_num_threads()))
    with limited_threads(3):
        Harness(model, 4, [request(text, 0) for text in texts(30)]).run()
        assert torch.get_num_threads() == 3
    assert counts == {1}


def test_a_rows_vocoder_time_is_its_own() -> None:
    model = Beside(4, frame_s=0.002)
    model.there, model.here = (lambda: time.sleep(0.02)), (lambda: time.sleep(0.01))
    harness = Harness(model, 4, [request(text, 0) for text in texts(20)])
    jobs = harness.run()
    taken_ms = [attempt.work().vocoder_ms for attempt in jobs.values()]
    assert min(taken_ms) >= 10
    assert sum(ms >= 20 for ms in taken_ms) >= len(model.decoded_there) > 0


class TestFailures:
    """What goes wrong in the thread reaches the engine, and the other way round."""

    def test_an_error_in_the_thread_ends_the_run(self) -> None:
        model = Beside(2, frame_s=0.002, there=fail)
        harness = Harness(model, 2, [request("x", 0), LONG])
        with pytest.raises(ValueError, match="no such code"):
            harness.run()
        assert len(model.batches) < 300  # not only at its end
        assert harness.ended == {}

    def test_an_error_while_the_engine_helps_ends_it(self) -> None:
        model = Beside(2, here=fail)
        harness = Harness(model, 2, [request("x", 0), request("x" * 9, 1)])
        with pytest.raises(ValueError, match="no such code"):
            harness.run()
        assert list(harness.ended) == [0]

    def test_the_sinks_error_in_the_thread_ends_the_run(self) -> None:
        harness = Harness(Beside(2, frame_s=0.002), 2, [request("x", 0), LONG])

        def full_disk(attempt: Attempt) -> None:
            raise OSError("no space left")

        harness.engine.vocoder.sink = full_disk
        with pytest.raises(OSError, match="no space left"):
            harness.run()

    @pytest.mark.parametrize("error", [RuntimeError("a fault"), KeyboardInterrupt()])
    def test_rows_that_had_ended_before_an_error_are_handed_on(self, error: BaseException) -> None:
        model, has_failed = Beside(2), threading.Event()
        model.there = lambda: has_failed.wait(WAIT_S) or fail()
        launch = model.decode_frames

        def decode_frames(bucket: int, count: int) -> None:
            launch(bucket, count)
            if len(model.batches) == 6:
                has_failed.set()
                raise error

        model.decode_frames = decode_frames  # type: ignore[method-assign]
        harness = Harness(model, 2, [LONG, *(request("xx", seed) for seed in range(9))])
        with pytest.raises(type(error)):
            harness.run()
        assert sorted(harness.ended) == [1, 2]
        assert all(attempt.samples is not None for attempt in harness.ended.values())

    def test_a_stop_keeps_what_is_spoken_and_leaves_the_rest(self) -> None:
        model = Beside(4)
        model.there = lambda: time.sleep(0.05)
        requests = [LONG, *(request("xx", seed) for seed in range(1, 61))]
        harness = Harness(model, 4, requests)
        launch = model.decode_frames

        def launch_and_stop(bucket: int, count: int) -> None:
            launch(bucket, count)
            if len(model.batches) == 9:
                harness.engine.stop.set()

        model.decode_frames = launch_and_stop  # type: ignore[method-assign]
        jobs = harness.run()
        assert len(model.batches) == 9
        assert sorted(jobs) == sorted(model.decoded_here + model.decoded_there)
        assert len(jobs) == 12
        assert harness.engine.scheduler.num_live > 0
