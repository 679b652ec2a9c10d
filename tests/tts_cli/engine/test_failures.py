"""The engine when rows run away, memory is short or polls come late: every row still ends."""

from __future__ import annotations

import logging
import weakref

import pytest
import torch
from engine_harness import MODES, Harness, assert_spoken, attempt_of, request, row_of, texts
from fakes import FakeSpeechModel, fake_codes

from kernels.launch.dispatch import AUTO, KernelFailed, Kernels
from models.base import SlotStatus
from tts_cli.engine.pieces import Attempt
from tts_cli.errors import SetupError, StoppedEarly


class TestRetries:
    """Runaways and rows gone wrong are tried again by the caller's policy."""

    @MODES
    def test_a_runaway_is_retried_and_then_reported(self, is_async: bool) -> None:
        requests = [request("x" * 30, 5, max_frames=7), request("x" * 20, 6)]
        model = FakeSpeechModel(2)
        harness = Harness(model, 2, requests, is_async=is_async, retries=2)
        jobs = harness.run()
        assert harness.retried == [(0, "max_frames")] * 2
        assert jobs[0].finish == "max_frames"
        assert jobs[0].frames == 7
        assert jobs[0].number == 3
        assert jobs[0].codes is not None
        assert torch.equal(jobs[0].codes, fake_codes(2005, 7))  # the last attempt's own seed
        assert jobs[1].finish == "eos"

    @MODES
    def test_a_row_gone_wrong_fails_alone_and_its_slot_is_cleared(self, is_async: bool) -> None:
        requests = [request("x" * 15, 1), request("nan", 2), request("x" * 9, 3)]
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, requests, is_async=is_async, retries=1)
        jobs = harness.run()
        assert harness.retried == [(1, "nan")]
        assert (jobs[1].finish, jobs[1].frames) == (None, 0)
        assert jobs[1].codes is None
        assert jobs[1].samples is None
        assert jobs[1].number == 2
        assert len(model.failed) == 2
        for row in (0, 2):
            assert jobs[row].finish == "eos"

    @MODES
    def test_a_runaway_whose_retry_goes_wrong_keeps_its_audio(self, is_async: bool) -> None:
        model = FakeSpeechModel(1)
        harness = Harness(model, 1, [request("x" * 30, 5, max_frames=7)], is_async=is_async)

        def retry(attempt: Attempt) -> Attempt | None:
            if attempt.number == 3:
                return None
            return attempt_of(row_of(attempt), model.prompt(request("nan", 6)), attempt.number + 1)

        harness.engine.retry = retry
        attempt = harness.run()[0]
        assert (attempt.finish, attempt.frames, attempt.made) == ("max_frames", 7, 3)
        assert attempt.codes is not None
        assert torch.equal(attempt.codes, fake_codes(5, 7))
        assert attempt.samples is not None

    @MODES
    def test_a_retry_is_not_left_to_the_end(self, is_async: bool) -> None:
        requests = [request("x" * 5, 1, max_frames=2), *(request("x" * 40) for _ in range(9))]
        model = FakeSpeechModel(1)
        harness = Harness(model, 1, requests, is_async=is_async, retries=1)
        harness.run()
        order = [group[0] for group in model.groups]
        first = order.index("x" * 5)
        assert order[first + 1] == "x" * 5


class Holding(FakeSpeechModel):
    """Notes whether what a launch of frames allocated is gone when something else follows."""

    held: weakref.ref[torch.Tensor] | None = None
    left: list[bool]

    def decode_frames(self, bucket: int, count: int) -> None:
        activations = torch.zeros(3)
        self.held = weakref.ref(activations)
        super().decode_frames(bucket, count)

    def release(self, slots: list[int], is_failed: bool = False) -> None:
        self.note()
        super().release(slots, is_failed)

    def decode_audio(
        self, codes: list[torch.Tensor], references: list[torch.Tensor | None] | None = None
    ) -> list[torch.Tensor]:
        self.note()
        return super().decode_audio(codes, references)

    def note(self) -> None:
        self.left = [*getattr(self, "left", []), self.held is not None and self.held() is not None]


@pytest.mark.usefixtures("falls_back")
class TestKernels:
    """A Triton kernel fails: rows in flight begin again without, none fails by it."""

    @MODES
    @pytest.mark.parametrize(
        ("operation", "call"),
        [
            ("prefill", 0),
            ("prefill", 3),
            ("decode_frames", 0),
            ("decode_frames", 7),
            ("decode_audio", 0),
            ("decode_audio", 2),
            ("move", 0),
        ],
    )
    def test_every_row_is_spoken_once_with_its_own_seed(
        self, is_async: bool, operation: str, call: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(80))]
        model = FakeSpeechModel(8, no_kernel={operation: {call}})
        harness = Harness(model, 8, requests, is_async=is_async, window=2)
        with caplog.at_level(logging.WARNING):
            assert_spoken(harness.run(), requests)
        assert harness.engine.facts()["kernel_fall_backs"] == 1
        assert (harness.engine.shrinks, harness.engine.batch.rows) == (0, 8)
        assert len(caplog.records) == 1
        assert f"({operation}: Triton Error [CUDA]: invalid argument)" in caplog.text

    def test_a_reference_is_encoded_again(self) -> None:
        calls = []

        def chore() -> None:
            calls.append(len(calls))
            if len(calls) == 2:
                raise KernelFailed("swiglu: no C compiler")

        requests = [request("x" * 9, seed) for seed in range(4)]
        harness = Harness(FakeSpeechModel(2), 2, requests)
        harness.engine.chore = chore
        assert_spoken(harness.run(), requests)
        assert len(calls) > 2

    def test_where_rows_must_not_change_the_run_ends_and_keeps_what_is_spoken(self) -> None:
        requests = [request("x", 0), *(request("x" * 40, seed) for seed in range(1, 8))]
        model = FakeSpeechModel(8, no_kernel={"decode_frames": {3}})
        harness = Harness(model, 8, requests, is_async=True, is_fixed=True)
        with pytest.raises(
            StoppedEarly,
            match=r"\), and with --reproducible the kernels must not change during a run",
        ) as told:
            harness.run()
        assert "decode_frames: Triton Error" in told.value.message
        assert "start again with --kernels reference" in str(told.value.remedy)
        assert list(harness.ended) == [0]
        assert model.kernels == AUTO

    def test_kernels_that_were_named_are_not_exchanged(self) -> None:
        model = FakeSpeechModel(2, no_kernel={"decode_audio": {0}})
        model.kernels = Kernels.named("portable")
        with pytest.raises(SetupError, match=r"--kernels portable: Triton does not work \("):
            Harness(model, 2, [request("x")]).run()

    def test_without_triton_nothing_can_fail_by_it(self) -> None:
        model = FakeSpeechModel(2, no_kernel={"decode_audio": {0, 1}})
        with pytest.raises(KernelFailed):
            Harness(model, 2, [request("x")]).run()


class TestMemory:
    """Out of device memory: fewer rows at once, none lost."""

    @pytest.mark.parametrize("max_batch", [2, 1])
    def test_what_an_attempt_held_is_free_before_the_next(self, max_batch: int) -> None:
        # The error's traceback keeps it alive for as long as the error is being handled.
        model = Holding(max_batch, no_memory={"decode_frames": {2}})
        harness = Harness(model, max_batch, [request("x")] * 3, is_async=True)
        if max_batch == 1:
            with pytest.raises(StoppedEarly):
                harness.run()
        else:
            harness.run()
        assert model.left
        assert not any(model.left)

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
        assert harness.engine.batch.rows == 8 >> expected
        assert len(caplog.records) == expected
        assert "out of device memory; continuing with" in caplog.text
        assert harness.retried == []  # starting again is no new attempt

    @MODES
    @pytest.mark.parametrize("operation", ["prefill", "decode_frames"])
    def test_with_one_slot_left_the_run_stops(self, is_async: bool, operation: str) -> None:
        model = FakeSpeechModel(4, no_memory={operation: "always"})
        harness = Harness(model, 4, [request("xxx")] * 6, is_async=is_async)
        with pytest.raises(StoppedEarly) as caught:
            harness.run()
        assert str(caught.value).startswith(
            "the device does not have enough memory for even one row"
        )
        assert "CUDA out of memory" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 4

    @MODES
    def test_a_fixed_batch_stops_instead(self, is_async: bool) -> None:
        """Fewer rows at once would round them otherwise than was promised."""
        requests = [request(text, row) for row, text in enumerate(texts(9))]
        model = FakeSpeechModel(4, no_memory={"decode_frames": {10 if is_async else 20}})
        harness = Harness(model, 4, requests, is_async=is_async, is_fixed=True)
        with pytest.raises(
            StoppedEarly,
            match="4 rows at a time, and with --reproducible fewer would change the audio",
        ) as caught:
            harness.run()
        assert "--max-batch" in str(caught.value.remedy)
        assert harness.engine.shrinks == 0
        assert harness.ended
        assert all(attempt.finish == "eos" for attempt in harness.ended.values())

    @MODES
    def test_rows_finished_before_the_stop_are_kept(self, is_async: bool) -> None:
        # Up to a vocoder batch of finished rows was once thrown away here.
        requests = [request("x", 0), request("x" * 50, 1)]
        model = FakeSpeechModel(2, no_memory={"decode_frames": set(range(3, 99))})
        harness = Harness(model, 2, requests, is_async=is_async)
        with pytest.raises(StoppedEarly):
            harness.run()
        assert list(harness.ended) == [0]
        assert harness.ended[0].samples is not None

    def test_audio_that_never_fits_fails_its_rows_alone(self) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(5))]
        model = FakeSpeechModel(8, no_memory={"decode_audio": "always"})
        jobs = Harness(model, 8, [*requests, request("nan")], is_async=True).run()
        assert sorted(jobs) == list(range(6))
        for row in range(5):
            assert jobs[row].trouble == (
                "there is not enough memory to decode its audio: "
                "CUDA out of memory in decode_audio."
            )
            assert jobs[row].samples is None
            assert jobs[row].codes is None
        assert jobs[5].finish is None


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
