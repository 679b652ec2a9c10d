"""The engine on a model in plain Python, then on a tiny real one: every row ends, come what may."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import FakeCapturer, FakeSpeechModel, fake_codes
from speak import speak
from tiny_qwen3_tts import write_checkpoint

from models.base import Sampling, SlotStatus, SpeechRequest
from models.chunked_vocoder import ChunkedVocoder
from models.graphs import GraphRunner
from models.qwen3_tts.model import CHUNK_FRAMES, LEFT_CONTEXT, Qwen3TTS
from models.registry import load_model
from tts_cli import encoding
from tts_cli.engine import POLL_FRAMES, VOCODER_ROWS, Engine, Job, JobQueue, Outcome
from tts_cli.errors import StoppedEarly

CPU = torch.device("cpu")
MODES = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def request(text: str, seed: int = 0, max_frames: int = 100) -> SpeechRequest:
    return SpeechRequest(text, seed=seed, max_frames=max_frames)


def texts(count: int) -> list[str]:
    """Texts of many lengths, in no order."""
    return ["x" * (1 + (7 * index) % 23) for index in range(count)]


class Harness:
    """An engine with its queue filled, its outcomes collected and a retry policy."""

    def __init__(
        self,
        model: FakeSpeechModel | Qwen3TTS,
        max_batch: int,
        requests: list[SpeechRequest],
        *,
        is_async: bool = False,
        retries: int = 0,
        window: int = 64,
    ) -> None:
        self.retries = retries
        self.retried: list[tuple[int, str]] = []  # row and reason
        self.outcomes: dict[int, Outcome] = {}
        self.jobs = JobQueue(len(requests) + 1)
        self.engine = Engine(model, CPU, max_batch, self.jobs, self.sink, self.retry, window)
        if is_async:
            # What a GPU gets: several frames a launch, and the status of the launch before.
            self.engine.is_async = True
            self.engine.poll_frames = POLL_FRAMES
            self.engine.vocoder_rows = VOCODER_ROWS
        for row, item in enumerate(requests):
            assert self.jobs.put(Job(row, model.plan(item)), self.engine.stop)
        self.jobs.close(self.engine.stop)

    def sink(self, outcome: Outcome) -> None:
        outcome.wait()
        assert outcome.job.row not in self.outcomes, "a row ended twice"
        self.outcomes[outcome.job.row] = outcome

    def retry(self, job: Job, reason: str) -> Job | None:
        if reason == "eos" or job.attempt > self.retries:
            return None
        self.retried.append((job.row, reason))
        prompt = replace(
            job.prompt, request=replace(job.prompt.request, seed=job.prompt.request.seed + 1000)
        )
        return Job(job.row, prompt, job.attempt + 1)

    def run(self) -> dict[int, Outcome]:
        self.engine.run()
        return self.outcomes


def assert_spoken(outcomes: dict[int, Outcome], requests: list[SpeechRequest]) -> None:
    """Every row is there with its own codes and samples, up to its own end."""
    assert sorted(outcomes) == list(range(len(requests)))
    for row, item in enumerate(requests):
        outcome = outcomes[row]
        frames = min(len(item.text), item.max_frames)
        assert outcome.reason == ("eos" if frames == len(item.text) else "max_frames")
        assert outcome.frames == frames
        codes = fake_codes(item.seed, frames)
        assert outcome.codes is not None
        assert torch.equal(outcome.codes, codes)
        assert outcome.samples is not None
        assert torch.equal(outcome.samples, codes.float().flatten())


@MODES
@pytest.mark.parametrize("max_batch", [1, 2, 8, 32])
@pytest.mark.parametrize("window", [1, 64])
def test_every_row_ends_with_its_own_audio(is_async: bool, max_batch: int, window: int) -> None:
    requests = [request(text, seed) for seed, text in enumerate(texts(70))]
    model = FakeSpeechModel(max_batch)
    harness = Harness(model, max_batch, requests, is_async=is_async, window=window)
    assert_spoken(harness.run(), requests)
    assert model.slots == {}
    for outcome in harness.outcomes.values():
        assert outcome.job.attempt == 1
        assert 1 <= outcome.job.bucket <= max_batch
        assert outcome.job.decode_ms >= 0
        assert outcome.prefill_ms >= 0
        assert 0 < outcome.vocoder_share <= 1


@MODES
def test_no_rows_no_work(is_async: bool) -> None:
    model = FakeSpeechModel(4)
    assert Harness(model, 4, [], is_async=is_async).run() == {}
    assert model.calls == {}


@MODES
def test_free_slots_are_refilled_while_others_speak(is_async: bool) -> None:
    requests = [request("x" * 90, 0), *(request("x" * 6, seed) for seed in range(1, 25))]
    model = FakeSpeechModel(4)
    assert_spoken(Harness(model, 4, requests, is_async=is_async).run(), requests)
    assert len(model.groups[0]) == 4
    assert len(model.groups) > 6  # one after the other, beside the long row
    assert model.groups[0][0] == "x" * 90
    # The long row never waited for a batch to end: it took no more launches than it has frames.
    frames = POLL_FRAMES if is_async else 1
    assert len(model.batches) <= 90 // frames + 3


@MODES
def test_the_batch_shrinks_when_nothing_more_comes(is_async: bool) -> None:
    requests = [request("x" * length, length) for length in (6, 12, 24, 60)]
    model = FakeSpeechModel(4)
    assert_spoken(Harness(model, 4, requests, is_async=is_async).run(), requests)
    buckets = [bucket for bucket, _ in model.batches]
    assert buckets == sorted(buckets, reverse=True)
    assert set(buckets) == {4, 2, 1}


@MODES
def test_rows_that_trickle_in_are_spoken_as_they_come(is_async: bool) -> None:
    model = FakeSpeechModel(4)
    harness = Harness(model, 4, [], is_async=is_async)
    harness.jobs = harness.engine.jobs = JobQueue(2)
    requests = [request(text, seed) for seed, text in enumerate(texts(12))]

    def feed() -> None:
        for row, item in enumerate(requests):
            harness.jobs.put(Job(row, model.plan(item)), harness.engine.stop)
            time.sleep(0.002 if row % 3 else 0.03)
        harness.jobs.close(harness.engine.stop)

    feeder = threading.Thread(target=feed)
    feeder.start()
    harness.run()
    feeder.join()
    assert_spoken(harness.outcomes, requests)


class TestRetries:
    """Runaways and rows gone wrong are tried again by the caller's policy."""

    @MODES
    def test_a_runaway_is_retried_and_then_reported(self, is_async: bool) -> None:
        requests = [request("x" * 30, 5, max_frames=7), request("x" * 20, 6)]
        model = FakeSpeechModel(2)
        harness = Harness(model, 2, requests, is_async=is_async, retries=2)
        outcomes = harness.run()
        assert harness.retried == [(0, "max_frames")] * 2
        assert outcomes[0].reason == "max_frames"
        assert outcomes[0].frames == 7
        assert outcomes[0].job.attempt == 3
        assert outcomes[0].codes is not None
        assert torch.equal(outcomes[0].codes, fake_codes(2005, 7))  # the last attempt's own seed
        assert outcomes[1].reason == "eos"

    @MODES
    def test_a_row_gone_wrong_fails_alone_and_its_slot_is_cleared(self, is_async: bool) -> None:
        requests = [request("x" * 15, 1), request("nan", 2), request("x" * 9, 3)]
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, requests, is_async=is_async, retries=1)
        outcomes = harness.run()
        assert harness.retried == [(1, "nan")]
        assert (outcomes[1].reason, outcomes[1].frames) == ("nan", 0)
        assert outcomes[1].codes is None
        assert outcomes[1].samples is None
        assert outcomes[1].job.attempt == 2
        assert len(model.failed) == 2
        for row in (0, 2):
            assert outcomes[row].reason == "eos"

    @MODES
    def test_a_runaway_whose_retry_goes_wrong_keeps_its_audio(self, is_async: bool) -> None:
        model = FakeSpeechModel(1)
        harness = Harness(model, 1, [request("x" * 30, 5, max_frames=7)], is_async=is_async)

        def retry(job: Job, reason: str) -> Job | None:
            if job.attempt == 3:
                return None
            return Job(job.row, model.plan(request("nan", 6)), job.attempt + 1)

        harness.engine.retry = retry
        outcome = harness.run()[0]
        assert (outcome.reason, outcome.frames, outcome.attempts) == ("max_frames", 7, 3)
        assert outcome.codes is not None
        assert torch.equal(outcome.codes, fake_codes(5, 7))
        assert outcome.samples is not None

    def test_nothing_but_failures(self) -> None:
        model = FakeSpeechModel(2)
        outcomes = Harness(model, 2, [request("nan")] * 5).run()
        assert [outcomes[row].reason for row in range(5)] == ["nan"] * 5
        assert "decode_audio" not in model.calls

    @MODES
    def test_a_retry_is_not_left_to_the_end(self, is_async: bool) -> None:
        requests = [request("x" * 5, 1, max_frames=2), *(request("x" * 40) for _ in range(9))]
        model = FakeSpeechModel(1)
        harness = Harness(model, 1, requests, is_async=is_async, retries=1)
        harness.run()
        order = [group[0] for group in model.groups]
        first = order.index("x" * 5)
        assert order[first + 1] == "x" * 5


class TestMemory:
    """Out of device memory: fewer rows at once, none lost."""

    @MODES
    @pytest.mark.parametrize(
        ("operation", "calls"),
        [
            ("prefill", {0}),
            ("prefill", {2, 3}),
            ("decode_frames", {0}),
            ("decode_frames", {3, 9}),
            ("codes", {0}),
            ("codes", {4, 5}),
            ("status", {2}),
            ("move", {0}),
        ],
    )
    def test_the_batch_is_halved_and_every_row_ends(
        self, is_async: bool, operation: str, calls: set[int], caplog: pytest.LogCaptureFixture
    ) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(40))]
        model = FakeSpeechModel(8, no_memory={operation: calls})
        # A short window mixes lengths, so that there is something to move at the end.
        harness = Harness(model, 8, requests, is_async=is_async, window=2)
        with caplog.at_level(logging.WARNING):
            assert_spoken(harness.run(), requests)
        expected = len([call for call in calls if call < model.calls[operation]])
        assert harness.engine.shrinks == expected > 0
        assert harness.engine.scheduler.max_batch == 8 >> expected
        assert len(caplog.records) == expected
        assert "out of device memory; going on with" in caplog.text
        assert harness.retried == []  # starting again is no new attempt

    @MODES
    def test_it_settles_at_what_fits_and_remembers(self, is_async: bool) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(60))]
        model = FakeSpeechModel(16, memory_rows=3)
        harness = Harness(model, 16, requests, is_async=is_async)
        assert_spoken(harness.run(), requests)
        assert harness.engine.scheduler.max_batch == 2
        assert harness.engine.shrinks == 3
        assert max(rows for _, rows in model.batches) <= 2

    @MODES
    @pytest.mark.parametrize("operation", ["prefill", "decode_frames"])
    def test_with_one_slot_left_the_run_stops(self, is_async: bool, operation: str) -> None:
        model = FakeSpeechModel(4, no_memory={operation: "always"})
        harness = Harness(model, 4, [request("xxx")] * 6, is_async=is_async)
        with pytest.raises(StoppedEarly) as caught:
            harness.run()
        assert str(caught.value).startswith("the device has no memory for even one row")
        assert "CUDA out of memory" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 4

    @MODES
    def test_rows_finished_before_the_stop_are_kept(self, is_async: bool) -> None:
        # Up to a vocoder batch of finished rows was once thrown away here.
        requests = [request("x", 0), request("x" * 50, 1)]
        model = FakeSpeechModel(2, no_memory={"decode_frames": set(range(3, 99))})
        harness = Harness(model, 2, requests, is_async=is_async)
        with pytest.raises(StoppedEarly):
            harness.run()
        assert list(harness.outcomes) == [0]
        assert harness.outcomes[0].samples is not None

    @pytest.mark.parametrize("calls", [{0}, {0, 1}, {0, 1, 2}, {1, 5}])
    def test_the_vocoder_takes_fewer_rows_at_once(self, calls: set[int]) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(20))]
        model = FakeSpeechModel(32, no_memory={"decode_audio": calls})
        harness = Harness(model, 32, requests, is_async=True)
        assert_spoken(harness.run(), requests)
        assert harness.engine.shrinks == 0
        assert sum(model.audio) == 20

    def test_audio_that_never_fits_fails_its_rows_alone(self) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(5))]
        model = FakeSpeechModel(8, no_memory={"decode_audio": "always"})
        outcomes = Harness(model, 8, [*requests, request("nan")], is_async=True).run()
        assert sorted(outcomes) == list(range(6))
        for row in range(5):
            assert outcomes[row].reason == (
                "no memory to decode its audio: CUDA out of memory in decode_audio."
            )
            assert outcomes[row].samples is None
            assert outcomes[row].codes is None
        assert outcomes[5].reason == "nan"


class TestLatePolls:
    """On a GPU the status read is the one of the launch before."""

    def test_a_slot_taken_over_is_not_ended_by_the_poll_of_the_row_before(self) -> None:
        # Each short row ends early in a launch; the launch under way still saw it in its slot.
        requests = [request("x" * (2 + row % 3), row) for row in range(30)]
        model = FakeSpeechModel(1)
        assert_spoken(Harness(model, 1, requests, is_async=True).run(), requests)

    def test_the_poll_of_an_evicted_row_is_forgotten(self) -> None:
        # Slot 0 holds a finished row when memory runs out; its poll must not end the restarted one.
        requests = [request("x" * 7, 0), request("x" * 30, 1), request("x" * 31, 2)]
        for call in range(1, 7):
            model = FakeSpeechModel(4, no_memory={"decode_frames": {call}})
            harness = Harness(model, 4, requests, is_async=True)
            assert_spoken(harness.run(), requests)

    def test_a_row_moved_meanwhile_is_found_in_its_new_slot(self) -> None:
        # Row 1 ends in the launch after which the batch is compacted: its poll names the old slot.
        lengths = (20, 180, 33, 17, 150, 29, 14, 140)
        requests = [request("x" * length, length, 500) for length in lengths]
        model = FakeSpeechModel(8)
        assert_spoken(Harness(model, 8, requests, is_async=True, window=1).run(), requests)
        assert model.calls["move"] >= 2

    def test_a_retry_in_the_same_slot_is_another_row(self) -> None:
        requests = [request("x" * 9, 1, max_frames=3), request("x" * 8, 2, max_frames=4)]
        harness = Harness(FakeSpeechModel(1), 1, requests, is_async=True, retries=3)
        outcomes = harness.run()
        assert [outcomes[row].job.attempt for row in (0, 1)] == [4, 4]
        assert len(harness.retried) == 6
        assert [outcomes[row].frames for row in (0, 1)] == [3, 4]

    def test_the_device_always_has_a_launch_to_work_on(self) -> None:
        events: list[str] = []

        class Watched(FakeSpeechModel):
            def decode_frames(self, bucket: int, count: int) -> None:
                events.append("launch")
                super().decode_frames(bucket, count)

            def status(self, poll: dict[int, SlotStatus], slots: list[int]) -> list[SlotStatus]:
                events.append("read")
                return super().status(poll, slots)

        Harness(Watched(2), 2, [request("x" * 50)] * 2, is_async=True).run()
        assert events[:6] == ["launch", "launch", "read", "launch", "read", "launch"]


class TestVocoderBatches:
    """Finished rows wait for company on a GPU and not at all on a CPU."""

    def test_at_once_on_a_cpu(self) -> None:
        model = FakeSpeechModel(8)
        Harness(model, 8, [request("xx")] * 8).run()
        assert model.audio == [1] * 8

    def test_together_on_a_gpu(self) -> None:
        model = FakeSpeechModel(64)
        Harness(model, 64, [request("xx")] * 70, is_async=True, window=99).run()
        assert model.audio[0] == VOCODER_ROWS
        assert sum(model.audio) == 70
        assert len(model.audio) <= 4

    def test_nobody_waits_when_nothing_runs(self) -> None:
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, [], is_async=True)
        harness.jobs = harness.engine.jobs = JobQueue(4)
        harness.jobs.put(Job(0, model.plan(request("xx"))), harness.engine.stop)
        done = threading.Event()

        def sink(outcome: Outcome) -> None:
            harness.sink(outcome)
            done.set()

        harness.engine.sink = sink
        worker = threading.Thread(target=harness.engine.run)
        worker.start()
        assert done.wait(5)  # although the queue is open and more rows may come
        harness.jobs.close(harness.engine.stop)
        worker.join()


class TestInt16:
    """Samples as 16-bit numbers, where the files hold such."""

    @MODES
    def test_samples_are_those_the_encoder_would_make(self, is_async: bool) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(9))]
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, requests, is_async=is_async)
        harness.engine.is_int16 = True
        for row, outcome in harness.run().items():
            codes = fake_codes(row, len(requests[row].text)).float().flatten()
            assert outcome.samples is not None
            assert np.array_equal(outcome.samples.numpy(), encoding.to_int16(codes.numpy()))
            assert outcome.is_bad is not None
            assert not outcome.is_bad

    def test_a_row_whose_samples_are_not_finite_is_marked(self) -> None:
        class Broken(FakeSpeechModel):
            def decode_audio(
                self, codes: list[torch.Tensor], references: object = None
            ) -> list[torch.Tensor]:
                waves = [row.float().flatten() for row in codes]
                waves[1][3] = float("nan")
                return waves

        harness = Harness(Broken(4), 4, [request("xxx")] * 3, is_async=True)
        harness.engine.is_int16 = True
        harness.run()
        assert sorted(bool(outcome.is_bad) for outcome in harness.outcomes.values()) == [
            False,
            False,
            True,
        ]


class TestStopping:
    """Stop means: no new rows, and what is spoken is kept."""

    @MODES
    def test_finished_rows_are_kept_and_the_rest_is_left(self, is_async: bool) -> None:
        requests = [request("x" * 500, row, 900) for row in range(20)]
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, requests, is_async=is_async, window=64)
        launch = model.decode_frames
        waiting = Outcome(Job(99, model.plan(request("xx"))), "eos", 2, codes=fake_codes(1, 2))

        def launch_and_stop(bucket: int, count: int) -> None:
            launch(bucket, count)
            if len(model.batches) == 5:
                harness.engine._ready.append(waiting)
                harness.engine.stop.set()

        model.decode_frames = launch_and_stop  # type: ignore[method-assign]
        harness.run()
        assert list(harness.outcomes) == [99]
        assert harness.outcomes[99].samples is not None
        assert len(model.batches) == 5

    def test_a_waiting_producer_is_let_go(self) -> None:
        jobs, stop = JobQueue(1), threading.Event()
        job = Job(0, FakeSpeechModel(1).plan(request("x")))
        assert jobs.put(job, stop)
        results: list[bool] = []
        producer = threading.Thread(target=lambda: results.append(jobs.put(job, stop)))
        producer.start()
        time.sleep(0.05)
        assert results == []
        stop.set()
        producer.join(5)
        assert results == [False]

    def test_the_sinks_error_ends_the_run(self) -> None:
        harness = Harness(FakeSpeechModel(1), 1, [request("x")] * 3)

        def full_disk(outcome: Outcome) -> None:
            raise OSError("no space left")

        harness.engine.sink = full_disk
        with pytest.raises(OSError, match="no space left"):
            harness.run()


def test_a_slow_sink_slows_the_engine_and_loses_nothing() -> None:
    requests = [request("xx", row) for row in range(12)]
    model = FakeSpeechModel(2)
    harness = Harness(model, 2, requests)
    taken = 0
    ahead: list[int] = []

    def slow(outcome: Outcome) -> None:
        nonlocal taken
        time.sleep(0.01)
        harness.sink(outcome)
        taken += 1
        ahead.append(model.calls["decode_audio"] - taken)

    harness.engine.sink = slow
    assert_spoken(harness.run(), requests)
    assert max(ahead) <= 1  # no audio piles up in front of it


class TestJobQueue:
    """Bounded, closed once."""

    @pytest.fixture
    def job(self) -> Job:
        return Job(0, FakeSpeechModel(1).plan(request("x")))

    def test_open_and_empty_is_not_dry(self) -> None:
        jobs = JobQueue(2)
        assert jobs.take() is None
        assert jobs.take(timeout_s=0.01) is None
        assert not jobs.is_dry

    def test_closed_and_empty_is_dry_for_good(self, job: Job) -> None:
        jobs, stop = JobQueue(3), threading.Event()
        jobs.put(job, stop)
        jobs.close(stop)
        assert not jobs.is_dry
        assert jobs.take() is job
        assert jobs.take() is None
        assert jobs.is_dry
        assert jobs.take(timeout_s=9) is None  # does not wait


def test_estimates_follow_the_text_up_to_the_cap() -> None:
    model = FakeSpeechModel(1)

    def frames(text: str, cap: int = 1000) -> float:
        return Job(0, model.plan(request(text, max_frames=cap))).estimated_frames

    assert frames("x" * 100) == pytest.approx(94)
    assert frames("早" * 100) == pytest.approx(282)
    assert frames("x" * 100, cap=20) == 20


def test_counters_tell_padding_from_work() -> None:
    model = FakeSpeechModel(4)
    harness = Harness(model, 4, [request("x" * length, length) for length in (3, 3, 3)])
    harness.run()
    engine = harness.engine
    assert (engine.steps, engine.row_steps, engine.padded_steps) == (3, 9, 12)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Qwen3TTS]:
    folder = write_checkpoint(tmp_path_factory.mktemp("voice"), "custom_voice_wide")

    def load() -> Qwen3TTS:
        model = load_model(str(folder))
        assert isinstance(model, Qwen3TTS)
        return model

    return load


@pytest.fixture(scope="module")
def requests() -> list[SpeechRequest]:
    greedy = Sampling(greedy=True, subtalker_greedy=True)
    rows = [
        SpeechRequest("the thing " * (1 + row % 4), "dora", seed=row, max_frames=8 + 5 * (row % 6))
        for row in range(14)
    ]
    rows[3] = replace(rows[3], sampling=greedy)
    rows[8] = replace(rows[8], sampling=Sampling(top_p=0.7, top_k=0), voice="fang")
    return rows


class TestRealModel:
    """A whole tiny checkpoint through the engine equals rows spoken one by one."""

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    @staticmethod
    def prepare(model: Qwen3TTS, requests: list[SpeechRequest], max_batch: int) -> None:
        prompts = [model.plan(item) for item in requests]
        model.allocate(
            max_batch,
            max(prompt.num_tokens + prompt.request.max_frames for prompt in prompts),
            max(item.max_frames for item in requests),
        )
        model.capture(max_batch, max(item.max_frames for item in requests))

    @MODES
    @pytest.mark.parametrize("has_graphs", [False, True], ids=["eager", "graphs"])
    def test_codes_and_samples_are_those_of_the_row_alone(
        self,
        load: Callable[[], Qwen3TTS],
        requests: list[SpeechRequest],
        is_async: bool,
        has_graphs: bool,
    ) -> None:
        expected = speak(load(), requests, 1)
        model = load()
        if has_graphs:
            capturer = FakeCapturer()
            model.frames = GraphRunner("frame", model._frame, capturer)
            model.vocoder = ChunkedVocoder(
                model.vocoder.vocoder, 4, CHUNK_FRAMES, LEFT_CONTEXT, CPU, capturer, True
            )
        self.prepare(model, requests, 4)
        harness = Harness(model, 4, requests, is_async=is_async)
        outcomes = harness.run()
        for row, other in enumerate(expected):
            outcome = outcomes[row]
            assert outcome.reason == other.finish_reason
            assert outcome.codes is not None
            assert outcome.samples is not None
            assert torch.equal(outcome.codes, other.codes), row
            assert outcome.samples.shape == other.samples.shape
            assert torch.allclose(outcome.samples, other.samples, atol=1e-5)
        assert {outcome.job.bucket for outcome in outcomes.values()} <= {1, 2, 4}
        for runner in model.graph_runners():
            assert runner.stats.misses == 0
            # No row has a reference in front, so the vocoder never renders a tail; and on a CPU
            # prompts are not packed.
            is_used = has_graphs and runner.name not in ("latents", "render", "prefill")
            assert (runner.stats.hits > 0) is is_used
        if has_graphs:
            assert model.frames.keys == [4, 2, 1]
            assert model.frames.stats.hits == harness.engine.steps

    def test_running_out_of_memory_changes_no_code(
        self, load: Callable[[], Qwen3TTS], requests: list[SpeechRequest]
    ) -> None:
        expected = speak(load(), requests, 1)
        model = load()
        self.prepare(model, requests, 4)
        run, calls = model.decode_frames, 0

        def sometimes(bucket: int, count: int) -> None:
            nonlocal calls
            calls += 1
            if calls in (9, 30):
                raise torch.OutOfMemoryError("CUDA out of memory")
            run(bucket, count)

        model.decode_frames = sometimes  # type: ignore[method-assign]
        harness = Harness(model, 4, requests)
        outcomes = harness.run()
        assert harness.engine.shrinks == 2
        for row, other in enumerate(expected):
            codes = outcomes[row].codes
            assert codes is not None
            assert torch.equal(codes, other.codes), row
