"""The engine on a model in plain Python: every row ends, come what may."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import pytest
from engine_harness import MODES, Harness, assert_spoken, attempt_of, request, texts
from fakes import FakeSpeechModel, fake_codes

from models.base import Prompt, SpeechRequest
from tts_cli.engine import loop
from tts_cli.engine.loop import MAX_TAKEN, POLL_FRAMES
from tts_cli.engine.pieces import Attempt


@MODES
@pytest.mark.parametrize("max_batch", [1, 2, 8, 32])
@pytest.mark.parametrize("window", [1, 64])
def test_every_row_ends_with_its_own_audio(is_async: bool, max_batch: int, window: int) -> None:
    requests = [request(text, seed) for seed, text in enumerate(texts(70))]
    model = FakeSpeechModel(max_batch)
    harness = Harness(model, max_batch, requests, is_async=is_async, window=window)
    assert_spoken(harness.run(), requests)
    assert model.slots == {}
    for attempt in harness.ended.values():
        assert attempt.number == 1
        assert 1 <= attempt.bucket <= max_batch
        assert attempt.decode_ms >= 0
        assert attempt.work().prefill_ms >= 0
        assert 0 < attempt.vocoder_share <= 1


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


def test_a_pass_counts_what_rows_do_not_share() -> None:
    """Prompts of 24 tokens, of which 4 are their own: a pass of 40 holds nine rows, not one."""

    class Sharing(FakeSpeechModel):
        def prompt(self, item: SpeechRequest) -> Prompt:
            return Prompt(list(range(24)), [0] * 24, [], item, num_shared=self.num_shared)

    requests = [request("x" * (20 + 7 * seed % 23), seed) for seed in range(300)]
    groups = []
    for num_shared in (0, 20):
        model = Sharing(64, pass_tokens=40)
        model.num_shared = num_shared
        assert_spoken(Harness(model, 64, requests, is_async=True).run(), requests)
        groups.append([len(group) for group in model.groups])
    assert min(groups[0]) < 6  # a tenth of the slots
    assert all(len(group) >= 6 for group in model.groups[:-1])
    assert len(groups[1]) < len(groups[0])


@MODES
def test_the_batch_shrinks_when_nothing_more_comes(is_async: bool) -> None:
    requests = [request("x" * length, length) for length in (6, 12, 24, 60)]
    model = FakeSpeechModel(4)
    assert_spoken(Harness(model, 4, requests, is_async=is_async).run(), requests)
    buckets = [bucket for bucket, _ in model.batches]
    assert buckets == sorted(buckets, reverse=True)
    assert set(buckets) == {4, 2, 1}


@MODES
def test_a_fixed_batch_steps_all_slots_to_the_end(is_async: bool) -> None:
    requests = [request(text, row) for row, text in enumerate(texts(21))]
    model = FakeSpeechModel(8)
    harness = Harness(model, 8, requests, is_async=is_async, is_fixed=True)
    assert_spoken(harness.run(), requests)
    assert {bucket for bucket, _ in model.batches} == {8}
    assert "move" not in model.calls


@MODES
def test_rows_that_trickle_in_are_spoken_as_they_come(is_async: bool) -> None:
    model = FakeSpeechModel(4)
    harness = Harness(model, 4, [], is_async=is_async)
    harness.reopen()
    requests = [request(text, seed) for seed, text in enumerate(texts(12))]

    def feed() -> None:
        for row, item in enumerate(requests):
            harness.jobs.put(attempt_of(row, model.prompt(item)))
            time.sleep(0.002 if row % 3 else 0.03)
        harness.jobs.put(None)

    feeder = threading.Thread(target=feed)
    feeder.start()
    harness.run()
    feeder.join()
    assert_spoken(harness.ended, requests)


class TestStopping:
    """Stop means: no new rows, and what is spoken is kept."""

    @MODES
    def test_finished_rows_are_kept_and_the_rest_is_left(self, is_async: bool) -> None:
        requests = [request("x" * 500, row, 900) for row in range(20)]
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, requests, is_async=is_async, window=64)
        launch = model.decode_frames
        waiting = attempt_of(99, model.prompt(request("xx")), frames=2, codes=fake_codes(1, 2))

        def launch_and_stop(bucket: int, count: int) -> None:
            launch(bucket, count)
            if len(model.batches) == 5:
                harness.engine.vocoder.add(waiting)
                harness.engine.stop.set()

        model.decode_frames = launch_and_stop  # type: ignore[method-assign]
        harness.run()
        assert list(harness.ended) == [99]
        assert harness.ended[99].samples is not None
        assert len(model.batches) == 5


def test_a_slow_sink_slows_the_engine_and_loses_nothing() -> None:
    requests = [request("xx", row) for row in range(12)]
    model = FakeSpeechModel(2)
    harness = Harness(model, 2, requests)
    taken = 0
    ahead: list[int] = []

    def slow(attempt: Attempt) -> None:
        nonlocal taken
        time.sleep(0.01)
        harness.sink(attempt)
        taken += 1
        ahead.append(model.calls["decode_audio"] - taken)

    harness.engine.vocoder.sink = slow
    assert_spoken(harness.run(), requests)
    assert max(ahead) <= 1  # no audio piles up in front of it


def test_counters_tell_padding_from_work() -> None:
    model = FakeSpeechModel(4)
    harness = Harness(model, 4, [request("x" * length, length) for length in (3, 3, 3)])
    harness.run()
    engine = harness.engine
    assert (engine.steps, engine.row_steps, engine.padded_steps) == (3, 9, 12)
    assert engine.sparse_steps == 0


def test_steps_of_fewer_rows_than_half_of_the_slots_are_counted() -> None:
    lengths = (3, 4, 5, 9)
    harness = Harness(FakeSpeechModel(8), 8, [request("x" * length, length) for length in lengths])
    harness.run()
    assert harness.engine.facts()["sparse_steps"] == 6  # from the fourth frame on
    assert harness.engine.facts()["steps"] == 9


class Late(queue.Queue[Attempt | None]):
    """A queue whose rows after the first few come only to a caller that waits for them."""

    present = 0

    def get(self, block: bool = True, timeout: float | None = None) -> Attempt | None:
        if not self.present and not block:
            raise queue.Empty
        self.present -= self.present > 0
        return super().get(block, timeout)


def test_the_first_rows_are_chosen_among_those_that_come_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one and a half rows a slot, long ones once began last, when most slots were empty."""
    monkeypatch.setattr(loop, "START_S", 9.0)  # however slow this machine is
    requests = [request("x" * length, length) for length in (5, 6, 7, 8, 30, 31)]
    model = FakeSpeechModel(4)
    harness = Harness(model, 4, requests, is_async=True)
    jobs = Late()
    while not harness.jobs.empty():
        jobs.put(harness.jobs.get())
    jobs.present = 4
    harness.engine.input = jobs
    assert_spoken(harness.run(), requests)
    assert sorted(map(len, model.groups[0])) == [7, 8, 30, 31]


@pytest.mark.parametrize(("slots", "waits"), [(1, False), (2, True)])
def test_a_row_for_the_only_slot_waits_for_no_other(
    monkeypatch: pytest.MonkeyPatch, slots: int, waits: bool
) -> None:
    """Rows may come one by one and without end, and one slot takes them in whatever order."""
    harness = Harness(FakeSpeechModel(slots), slots, [request("abc")], is_async=True)
    get, told = harness.jobs.get, []

    def noted(block: bool, timeout_s: float) -> Attempt | None:
        told.append(block)
        return get(block, timeout_s)

    monkeypatch.setattr(harness.jobs, "get", noted)
    assert_spoken(harness.run(), [request("abc")])
    assert told == [True, waits]


def test_rows_that_go_on_coming_do_not_hold_up_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes prompts as fast as they are taken once kept the device waiting until the window
    was full.
    """
    requests = [request("x" * 30, seed) for seed in range(500)]
    model = FakeSpeechModel(2)
    harness = Harness(model, 2, requests, is_async=True, window=1024)
    more = [harness.jobs.get() for _ in range(500)]
    harness.reopen()
    jobs = harness.jobs
    jobs.put(more.pop(0))
    launches_by: list[int] = []  # launches that were made when a row was taken
    get = jobs.get

    def make_and_get(block: bool, timeout_s: float) -> Attempt | None:
        if model.batches and more:
            jobs.put(more.pop(0))
            if not more:
                jobs.put(None)
        found = get(block, timeout_s)
        if found is not None:
            launches_by.append(len(model.batches))
        return found

    monkeypatch.setattr(jobs, "get", make_and_get)
    assert_spoken(harness.run(), requests)
    assert max(launches_by.count(launch) for launch in set(launches_by)) <= MAX_TAKEN


def test_the_next_frames_are_launched_before_the_vocoders_batch_is_laid_out() -> None:
    """Laying out takes the host longer than the frames that are under way then."""
    requests = [request("x" * (20 + row % 3), row) for row in range(200)]
    model = FakeSpeechModel(64)
    harness = Harness(model, 64, requests, is_async=True)
    told: list[str] = []
    for name in ("decode_frames", "decode_audio", "status"):
        run = getattr(model, name)

        def tell(*args: object, name: str = name, run: Any = run) -> Any:
            told.append(name)
            return run(*args)

        setattr(model, name, tell)
    assert_spoken(harness.run(), requests)
    last_launch = max(index for index, name in enumerate(told) if name == "decode_frames")
    beside = [
        told[index - 1] for index, name in enumerate(told[:last_launch]) if name == "decode_audio"
    ]
    assert beside
    assert set(beside) <= {"decode_frames", "decode_audio"}
