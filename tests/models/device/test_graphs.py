"""GraphRunner: what is recorded and replayed, and what happens when a capture fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_speech
import tiny_qwen3_tts
import torch
from fakes import FakeCapturer, lanes_runner
from torch import Tensor

from kernels.launch.dispatch import KernelFailed
from models import registry
from models.device.beside import Beside, Result
from models.device.graphs import Capturers, CudaCapturer, GraphRunner, cuda_capturers
from models.device.streams import FRAMES_PRIORITY, VOCODER_PRIORITY
from models.load import load
from tts_cli.errors import Interrupted


class Work:
    """A function of a bucket over static buffers, as graphs record it."""

    def __init__(self, capturer: FakeCapturer | None = None) -> None:
        self.capturer = capturer
        self.inputs = torch.arange(16.0)
        self.keys: list[int] = []
        self.syncs_at: set[int] = set()  # buckets that do what no capture allows

    def __call__(self, bucket: int) -> Tensor:
        self.keys.append(bucket)
        if self.capturer is not None and self.capturer.is_recording and bucket in self.syncs_at:
            raise RuntimeError("operation not permitted when stream is capturing\nsecond line")
        return self.inputs[:bucket] * 2


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.device.graphs._told", set())


@pytest.fixture
def capturer() -> FakeCapturer:
    return FakeCapturer()


@pytest.fixture
def work(capturer: FakeCapturer) -> Work:
    return Work(capturer)


def test_a_long_capture_says_how_far_it_is(
    capturer: FakeCapturer,
    work: Work,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("models.device.graphs.PROGRESS_S", -1.0)
    with caplog.at_level(logging.INFO):
        runner = GraphRunner("work", work, capturer)
        runner.announce([2, 8, 4])
        runner.capture()
    assert [record.getMessage() for record in caplog.records] == [
        "capturing work graph 1 of 3",
        "capturing work graph 2 of 3",
        "capturing work graph 3 of 3",
    ]


def test_a_bucket_without_a_graph_runs_eagerly_and_counts_as_a_miss(
    capturer: FakeCapturer, work: Work
) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([4])
    runner.capture()
    assert torch.equal(runner.run(8), 2 * work.inputs[:8])
    assert capturer.replays == 0
    assert (runner.stats.hits, runner.stats.misses) == (0, 1)


def test_an_announced_key_is_recorded_at_its_second_use(capturer: FakeCapturer, work: Work) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([2, 8, 4])
    runner.capture([8])
    assert (runner.keys, runner.announced) == ([8], [4, 2])
    for _ in range(3):
        assert torch.equal(runner.run(4), 2 * work.inputs[:4])
    assert (runner.keys, runner.announced) == ([8, 4], [2])
    stats = runner.stats
    assert (stats.first_runs, stats.hits, stats.misses) == (1, 2, 0)
    assert [entry["key"] for entry in stats.captures] == ["8", "4"]


def test_a_larger_recording_stands_in_until_a_key_is_worth_its_own(
    capturer: FakeCapturer, work: Work
) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([1, 2, 4, 8])
    assert runner.pick(2, 1, worth=5) == 2  # nothing larger is recorded
    runner.capture([4, 8])
    assert runner.pick(4, 100, worth=5) == 4
    assert [runner.pick(2, 2, worth=5) for _ in range(3)] == [4, 4, 2]
    assert runner.pick(1, 1, worth=5) == 4  # each key is counted by itself


def test_the_usual_key_stands_in_for_smaller_ones_before_anything_is_recorded(
    capturer: FakeCapturer, work: Work
) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([1, 2, 4, 8], usual=4)
    assert runner.usual == [4]
    assert [runner.pick(key, 1, worth=5) for key in (1, 2, 4, 8)] == [4, 4, 4, 8]
    runner.capture([8])
    assert runner.pick(2, 1, worth=5) == 8  # the usual one would have to run for the first time
    runner.capture([4])
    assert runner.usual == []
    assert runner.pick(2, 1, worth=5) == 4
    assert runner.pick(2, 3, worth=5) == 2
    runner.reset()
    runner.announce([1, 4])
    assert runner.pick(1, 1, worth=5) == 1


def test_nothing_is_recorded_inside_the_capture_of_another(
    capturer: FakeCapturer, work: Work
) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([4])
    capturer.has_outer_capture = True
    for _ in range(3):
        runner.run(4)
    assert (runner.keys, runner.announced) == ([], [4])


def test_a_rehearsal_runs_what_is_announced_and_records_nothing(
    capturer: FakeCapturer, work: Work
) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([2, 8, 4])
    runner.capture(is_rehearsal=True)
    assert work.keys == [8, 4, 2]
    assert (runner.keys, runner.announced) == ([], [8, 4, 2])
    runner.capture([4, 16], is_rehearsal=True)
    assert work.keys == [8, 4, 2, 4]


def test_a_failed_capture_leaves_that_bucket_eager_and_the_others_working(
    capturer: FakeCapturer, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.syncs_at = {4}
    runner = GraphRunner("work", work, capturer)
    with caplog.at_level(logging.WARNING):
        runner.announce([8, 4, 2])
        runner.capture()
    assert runner.keys == [8, 2]
    reason = "operation not permitted when stream is capturing"
    assert runner.stats.failures == {"4": reason}
    assert [record.getMessage() for record in caplog.records] == [
        f"work graph 4 not captured, runs eagerly: {reason}"
    ]
    for bucket in (8, 4, 2):
        assert torch.equal(runner.run(bucket), 2 * work.inputs[:bucket])
    assert (runner.stats.hits, runner.stats.misses) == (2, 1)


def breaks(first: BaseException) -> Callable[[int], None]:
    """What a capture that `first` has broken raises: leaving it gives a second error, which says
    nothing of the cause.
    """

    def fail(bucket: int) -> None:
        try:
            raise first
        except BaseException:
            raise RuntimeError("operation failed due to a previous error during capture")  # noqa: B904

    return fail


@pytest.mark.parametrize("first", [RuntimeError("odd"), ZeroDivisionError("odd"), OSError("odd")])
@pytest.mark.parametrize("is_told_twice", [False, True])
def test_whatever_a_capture_fails_by_its_bucket_stays_eager(
    capturer: FakeCapturer, first: Exception, is_told_twice: bool
) -> None:
    """Only a RuntimeError did not end the run."""

    def fail(bucket: int) -> None:
        raise first

    runner = GraphRunner("work", breaks(first) if is_told_twice else fail, capturer)
    runner.announce([2])
    runner.capture()
    assert runner.stats.failures == {"2": "odd"}


@pytest.mark.parametrize(
    "first",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        KernelFailed("swiglu: no C compiler"),
        Interrupted(2),
    ],
)
def test_what_is_no_failure_of_a_capture_is_passed_on(
    capturer: FakeCapturer, first: BaseException
) -> None:
    """A signal was once taken for one, and got lost."""
    runner = GraphRunner("work", breaks(first), capturer)
    runner.announce([2])
    with pytest.raises(type(first)):
        runner.capture()
    assert runner.stats.failures == {}


def test_failures_alike_are_told_of_once_and_counted(
    capturer: FakeCapturer, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.syncs_at = {8, 4, 2}
    for name in ("frame", "prefill"):
        runner = GraphRunner(name, work, capturer)
        runner.announce([8, 4, 2, 1])
        runner.capture()
        assert list(runner.stats.failures) == ["8", "4", "2"]
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == [
        "frame graph 8 not captured, runs eagerly: operation not permitted when stream is capturing"
    ]


def test_graphs_are_recorded_anew_where_a_kernel_failed(capturer: FakeCapturer, work: Work) -> None:
    def fail(bucket: int) -> Tensor:
        if bucket == 4 and is_broken:
            raise KernelFailed("swiglu: no C compiler")
        return work(bucket)

    is_broken = True
    runner = GraphRunner("work", fail, capturer)
    runner.announce([8, 4, 2, 1])
    with pytest.raises(KernelFailed):
        runner.capture()
    runner.run(2)
    assert (runner.keys, runner.announced) == ([8], [2, 1, 4])
    is_broken = False
    runner.renew()
    assert (runner.keys, runner.announced) == ([], [8, 4, 2, 1])
    for bucket in (2, 4):
        for _ in range(3):
            assert torch.equal(runner.run(bucket), 2 * work.inputs[:bucket])
    assert (runner.keys, runner.stats.hits) == ([2, 4], 2 * 2)


def test_inside_somebody_elses_capture_it_runs_eagerly(capturer: FakeCapturer, work: Work) -> None:
    runner = GraphRunner("work", work, capturer)
    runner.announce([4])
    runner.capture()
    capturer.has_outer_capture = True
    assert torch.equal(runner.run(4), 2 * work.inputs[:4])
    assert (runner.stats.hits, runner.stats.misses) == (0, 1)
    capturer.has_outer_capture = False
    runner.run(4)
    assert (runner.stats.hits, runner.stats.misses) == (1, 1)


def test_what_is_no_replay_is_done_beside(capturer: FakeCapturer, work: Work) -> None:
    class Counted(Beside):
        def run(self, work: Callable[[], Result]) -> Result:
            done.append(work)
            return work()

    done: list[object] = []
    runner = GraphRunner("frame", work, capturer, beside=Counted(torch.device("cpu")))
    runner.announce([1, 2])
    runner.capture([1], is_rehearsal=True)
    runner.capture([2])
    assert len(done) == 2
    for _ in range(4):  # eagerly, recorded, and replayed twice
        runner.run(1)
        runner.run(2)
    assert len(done) == 4
    runner.run(3)  # has no graph
    assert len(done) == 5
    capturer.has_outer_capture = True
    runner.run(1)  # whoever records it knows this thread alone
    assert len(done) == 5


def test_reset_forgets_the_graphs_but_not_what_was_run(capturer: FakeCapturer, work: Work) -> None:
    work.syncs_at = {2}
    runner = GraphRunner("work", work, capturer)
    runner.announce([4, 2])
    runner.capture()
    runner.run(4)
    runner.reset()
    assert runner.keys == []
    assert runner.stats.captures == []  # a report must not list graphs of buffers that are gone
    assert runner.stats.failures == {}
    assert runner.stats.hits == 1
    work.inputs = torch.ones(16)
    assert torch.equal(runner.run(4), torch.full((4,), 2.0))
    assert runner.stats.misses == 1
    runner.announce([4])
    runner.capture()
    runner.run(4)
    assert runner.stats.hits == 2


@pytest.mark.parametrize("family", ["qwen3_tts", "fish_speech"])
def test_what_runs_beside_the_frames_has_a_capturer_of_its_own(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Graphs of one pool that overlap overwrite each other.
    capturers = Capturers(FakeCapturer(), FakeCapturer())
    if family == "qwen3_tts":
        folder = tiny_qwen3_tts.write_checkpoint(tmp_path, "custom_voice_wide")
    else:
        folder = tiny_fish_speech.write_checkpoint(tmp_path, "wide", 2)
    monkeypatch.setattr("models.slots.model.cuda_capturers", lambda device: capturers)
    # A CPU has no lanes, and so no graphs of the vocoder.
    monkeypatch.setattr("models.slots.model.vocoder_runner", lanes_runner)
    source = registry._source(str(folder), None)
    model = load(source, torch.device("cpu"), torch.float32, True)
    assert {
        runner.name: runner.capturer is capturers.frames for runner in model.graph_runners()
    } == {"frame": True, "prefill": True, "vocoder": False, "latents": False, "render": False}
    for runner in model.graph_runners():
        assert runner.capturer in (capturers.frames, capturers.vocoder)


@pytest.mark.gpu
class TestCuda:
    """The same on a real device."""

    @pytest.fixture
    def device(self) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device())

    @pytest.fixture
    def buffer(self, device: torch.device) -> Tensor:
        return torch.arange(8.0, device=device)

    def test_replay_reads_the_static_inputs(self, device: torch.device, buffer: Tensor) -> None:
        runner = GraphRunner("double", lambda n: buffer[:n] * 2, CudaCapturer(device))
        runner.announce([8, 4])
        runner.capture()
        buffer += 1
        assert runner.run(4).tolist() == [2, 4, 6, 8]
        assert runner.run(8).tolist() == [2, 4, 6, 8, 10, 12, 14, 16]
        assert (runner.stats.hits, runner.stats.failures) == (2, {})

    def test_a_function_that_waits_for_the_device_stays_eager(
        self, device: torch.device, buffer: Tensor
    ) -> None:
        syncs = self.waits_at(buffer, 4)
        runner = GraphRunner("double", syncs, CudaCapturer(device))
        outer = torch.cuda.current_stream(device)
        runner.announce([8, 4, 2, 1])
        runner.capture()
        assert torch.cuda.current_stream(device) == outer
        assert list(runner.stats.failures) == ["4"]
        assert "captur" in runner.stats.failures["4"]
        assert runner.keys == [8, 2, 1]
        buffer += 1
        for count in (8, 4, 2, 1):
            assert runner.run(count).tolist() == [2 * (i + 1) for i in range(count)]
        assert (runner.stats.hits, runner.stats.misses) == (3, 1)
        # The allocator and the next runner of the same device are none the worse for it.
        torch.cuda.empty_cache()
        later = GraphRunner("later", lambda n: buffer[:n] + 1, CudaCapturer(device))
        later.announce([8])
        later.capture()
        assert later.run(8).tolist() == [2 + i for i in range(8)]
        assert torch.ones(1 << 20, device=device).sum().item() == 1 << 20

    @pytest.mark.parametrize("where", ["enter", "inside"])
    def test_a_capture_that_raises_anything_leaves_all_as_it_was(
        self, device: torch.device, buffer: Tensor, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class OddError(Exception):
            pass

        def fail(*given: Any, **named: Any) -> None:
            raise OddError("odd")

        def work(count: int) -> Tensor:
            out = buffer[:count] * 2
            if where == "inside" and torch.cuda.is_current_stream_capturing() and count == 4:
                fail()
            return out

        stream = torch.cuda.current_stream(device)
        runner = GraphRunner("double", work, CudaCapturer(device))
        runner.announce([8, 4])
        runner.capture([8])
        with monkeypatch.context() as patch:
            if where == "enter":
                patch.setattr(torch.cuda.CUDAGraph, "capture_begin", fail)
            runner.capture()
        assert runner.stats.failures == {"4": "odd"}
        assert torch.cuda.current_stream(device) == stream
        assert not torch.cuda.is_current_stream_capturing()
        for count in (8, 4):
            assert runner.run(count).tolist() == [2 * i for i in range(count)]
        runner.announce([2])
        runner.capture()
        assert runner.keys == [8, 2]

    def test_runners_of_one_pool_survive_each_others_failure(
        self, device: torch.device, buffer: Tensor
    ) -> None:
        capturer = CudaCapturer(device)
        first = GraphRunner("first", lambda n: buffer[:n] * 3, capturer)
        first.announce([8])
        first.capture()
        broken = GraphRunner("broken", self.waits_at(buffer, 8), capturer)
        broken.announce([8])
        broken.capture()
        last = GraphRunner("last", lambda n: buffer[:n] * 5, capturer)
        last.announce([8])
        last.capture()
        assert first.run(8).tolist() == [3 * i for i in range(8)]
        assert last.run(8).tolist() == [5 * i for i in range(8)]
        assert broken.run(8).tolist() == [2 * i for i in range(8)]
        assert (first.stats.hits, broken.stats.misses, last.stats.hits) == (1, 1, 1)

    def test_inside_an_outer_capture_it_runs_eagerly(
        self, device: torch.device, buffer: Tensor
    ) -> None:
        runner = GraphRunner("double", lambda n: buffer[:n] * 2, CudaCapturer(device))
        runner.announce([4])
        runner.capture()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = runner.run(4) + 1
        assert (runner.stats.hits, runner.stats.misses) == (0, 1)
        buffer += 1
        graph.replay()
        assert out.tolist() == [3, 5, 7, 9]
        assert runner.run(4).tolist() == [2, 4, 6, 8]
        assert runner.stats.hits == 1

    def test_frames_and_vocoder_share_neither_pool_nor_priority(self, device: torch.device) -> None:
        capturers = cuda_capturers(device)
        frames, vocoder = capturers.frames, capturers.vocoder
        assert isinstance(frames, CudaCapturer)
        assert isinstance(vocoder, CudaCapturer)
        assert frames.pool != vocoder.pool
        assert (frames.priority, vocoder.priority) == (FRAMES_PRIORITY, VOCODER_PRIORITY)
        assert frames.stream.priority < vocoder.stream.priority == 0
        failing = GraphRunner("broken", self.waits_at(torch.ones(4, device=device), 4), frames)
        failing.announce([4])
        failing.capture()
        assert failing.stats.failures
        assert frames.stream.priority < 0

    def test_a_pool_that_lost_all_its_graphs_is_not_recorded_into(
        self, device: torch.device, buffer: Tensor
    ) -> None:
        # PyTorch refuses ("use_count > 0 INTERNAL ASSERT FAILED") while an output is still alive.
        runner = GraphRunner("double", lambda n: buffer[:n] * 2, CudaCapturer(device))
        runner.announce([8, 4])
        runner.capture()
        kept = runner.run(8)
        for _ in range(2):
            runner.reset()
            runner.announce([8, 4])
            runner.capture()
            assert runner.stats.failures == {}
            assert runner.run(4).tolist() == [0, 2, 4, 6]
        assert kept.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]

    @staticmethod
    def waits_at(buffer: Tensor, bucket: int) -> Callable[[int], Any]:
        """A function that looks at a value on the host, which no capture allows, at one bucket."""

        def function(count: int) -> Tensor:
            out = buffer[:count] * 2
            if count == bucket:
                out.sum().item()
            return out

        return function
