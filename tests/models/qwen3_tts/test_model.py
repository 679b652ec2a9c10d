"""A whole tiny model behind slots: what a row becomes depends on nothing but the row.

Everything runs on a CPU in float32 with drawn codes, where the promise is equality, not closeness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from fakes import FakeCapturer, in_lanes
from speak import Row, speak
from tiny_qwen3_tts import THINNEST, write_checkpoint
from torch import Tensor

from models.base import SlotStatus, SpeechRequest
from models.device.graphs import GraphRunner
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model
from models.sampling import Sampling
from models.slots.model import _rehearse

pytestmark = pytest.mark.slow

FRAMES = 24
LONG, SHORT = "the longer of the two texts", "hi"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("voice"), THINNEST)


@pytest.fixture
def model(folder: Path) -> Qwen3TTS:
    return load(folder)


def load(folder: Path) -> Qwen3TTS:
    model = load_model(str(folder))
    assert isinstance(model, Qwen3TTS)
    return model


def request(text: str = LONG, seed: int = 1, **fields: object) -> SpeechRequest:
    values = {"voice": "dora", "max_frames": FRAMES, **fields}
    return SpeechRequest(text, seed=seed, **values)  # type: ignore[arg-type]


class Spoken(NamedTuple):
    """What one slot held at the end."""

    codes: Tensor
    reason: str


def allocate(model: Qwen3TTS, num_slots: int, max_trailing: int = 0) -> None:
    model.allocate(num_slots, max_positions=120, max_frames=FRAMES, max_trailing=max_trailing)


def start(model: Qwen3TTS, requests: list[SpeechRequest], slots: list[int]) -> None:
    model.prefill([model.prompt(item) for item in requests], slots)


def status(model: Qwen3TTS, slot: int) -> SlotStatus:
    return model.status(model.poll(), [slot])[0]


def finish(model: Qwen3TTS, slots: list[int], bucket: int) -> list[Spoken]:
    """Step until the slots have ended."""
    for _ in range(FRAMES + 1):
        states = model.status(model.poll(), slots)
        if all(state.is_finished for state in states):
            return [
                Spoken(model.codes(slot, state.frames), state.finish_reason)
                for slot, state in zip(slots, states, strict=True)
            ]
        model.decode_frames(bucket, 1)
    raise AssertionError(f"slots {slots} did not end")


def alone(model: Qwen3TTS, item: SpeechRequest) -> Spoken:
    """The row in a model of its own."""
    allocate(model, 1, max_trailing=len(model.prompt(item).trailing_ids))
    start(model, [item], [0])
    return finish(model, [0], 1)[0]


@pytest.fixture(scope="module")
def spoken_alone(folder: Path) -> Callable[[SpeechRequest], Spoken]:
    """`alone` in a model that no other test touches, each row once."""
    return cache(partial(alone, load(folder)))


def assert_same(rows: list[Spoken], expected: list[Spoken]) -> None:
    for index, (row, other) in enumerate(zip(rows, expected, strict=True)):
        assert row.reason == other.reason, index
        assert torch.equal(row.codes, other.codes), index


def test_rows_end_in_both_ways_and_codes_are_codes(model: Qwen3TTS) -> None:
    rows = speak(
        model, [request(seed=seed, text="the thing " * (1 + seed % 3)) for seed in range(24)], 8
    )
    assert {row.finish_reason for row in rows} == {"eos", "max_frames"}
    for row in rows:
        assert row.codes.shape == (len(row.codes), THINNEST.num_codebooks)
        assert row.codes.dtype == torch.int64
        # The code that ends speech, and all other control ids, are above the codes.
        assert row.codes.min() >= 0
        assert row.codes.max() < THINNEST.codebook_size
        assert 2 <= len(row.codes) <= FRAMES
        assert len(row.samples) == len(row.codes) * THINNEST.samples_per_frame
        assert (len(row.codes) == FRAMES) or row.finish_reason == "eos"


@pytest.mark.parametrize("frames", [1, 2, 7, FRAMES])
def test_a_cap_of_n_keeps_exactly_the_first_n_frames(model: Qwen3TTS, frames: int) -> None:
    item = next(
        item for item in map(request, [LONG] * 9, range(9)) if alone(model, item).reason != "eos"
    )
    whole = alone(model, item)
    capped = alone(model, replace(item, max_frames=frames))
    assert capped.reason == "max_frames"
    assert torch.equal(capped.codes, whole.codes[:frames])


def test_different_seeds_give_different_codes_and_the_same_seed_the_same(model: Qwen3TTS) -> None:
    one, same, other = (alone(model, request(seed=seed)) for seed in (1, 1, 2))
    assert_same([one], [same])
    assert not torch.equal(one.codes[:2], other.codes[:2])


class TestBatching:
    """Batch mates, slots, order and bucket change nothing."""

    MIXED = Sampling(temperature=0.7, top_k=0, top_p=0.8, subtalker_top_k=5, subtalker_top_p=0.9)

    @pytest.fixture
    def requests(self) -> list[SpeechRequest]:
        greedy = Sampling(greedy=True, subtalker_greedy=True)
        half = Sampling(greedy=True, repetition_penalty=1.3)
        return [
            request(LONG, 1),
            request(SHORT, 2, sampling=greedy),
            request("the ring", 3, sampling=self.MIXED, max_frames=9),
            request("a singing thing", 4, voice="fang", language="chinese"),
            request("er", 5, sampling=half, max_frames=1),
            request(LONG + LONG, 6, instruct="calm"),
            request("all", 7, sampling=Sampling(top_k=3, subtalker_temperature=3.0)),
        ]

    @pytest.fixture
    def expected(
        self, spoken_alone: Callable[[SpeechRequest], Spoken], requests: list[SpeechRequest]
    ) -> list[Spoken]:
        return [spoken_alone(item) for item in requests]

    @staticmethod
    def as_spoken(rows: list[Row]) -> list[Spoken]:
        return [Spoken(row.codes, row.finish_reason) for row in rows]

    @pytest.mark.parametrize("max_batch", [1, 2, 4, 8])
    def test_any_batch_size(
        self,
        model: Qwen3TTS,
        requests: list[SpeechRequest],
        expected: list[Spoken],
        max_batch: int,
    ) -> None:
        assert_same(self.as_spoken(speak(model, requests, max_batch)), expected)

    def test_any_order(
        self, model: Qwen3TTS, requests: list[SpeechRequest], expected: list[Spoken]
    ) -> None:
        order = [5, 2, 6, 0, 4, 1, 3]
        rows = self.as_spoken(speak(model, [requests[i] for i in order], 4, is_compact=True))
        assert_same(rows, [expected[i] for i in order])

    def test_any_number_of_frames_between_polls(
        self, model: Qwen3TTS, requests: list[SpeechRequest], expected: list[Spoken]
    ) -> None:
        rows = speak(model, requests, 4, frames_per_poll=6)
        assert_same(self.as_spoken(rows), expected)

    def test_prefill_in_one_group_or_several(
        self,
        model: Qwen3TTS,
        requests: list[SpeechRequest],
        expected: list[Spoken],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("models.slots.prefill.TOKEN_BUCKETS", (16, 48))
        allocate(model, 8)
        start(model, requests, list(range(7)))
        assert_same(finish(model, list(range(7)), 8), expected)

    def test_any_slot(self, model: Qwen3TTS) -> None:
        expected = alone(model, request())
        for slot in range(4):
            allocate(model, 4)
            start(model, [request()], [slot])
            assert_same(finish(model, [slot], 4), [expected])

    def test_a_row_joining_and_leaving_disturbs_nobody(self, model: Qwen3TTS) -> None:
        first, second = request(seed=11), request(SHORT, seed=12)
        expected = [alone(model, first), alone(model, second)]
        allocate(model, 2)
        start(model, [first], [0])
        model.decode_frames(1, 5)
        start(model, [second], [1])
        model.decode_frames(2, 3)
        assert_same(finish(model, [0, 1], 2), expected)


class TestStaleRows:
    """Nothing of an old row reaches a new one."""

    @pytest.mark.parametrize("has_streaming", [False, True])
    def test_batches_of_different_sizes_one_after_the_other(
        self, spoken_alone: Callable[[SpeechRequest], Spoken], model: Qwen3TTS, has_streaming: bool
    ) -> None:
        layout = "streaming" if has_streaming else "auto"
        batches = [
            [request(LONG * 2, 20 + i, layout=layout) for i in range(4)],
            [request(SHORT, 30 + i, layout=layout) for i in range(2)],
            [request("the ring", 40 + i, layout=layout) for i in range(3)],
            [request(SHORT, 50, layout=layout)],
        ]
        allocate(model, 4, max_trailing=80)
        for batch in batches:
            slots = list(range(len(batch)))
            start(model, batch, slots)
            rows = finish(model, slots, 4)
            model.release(slots)
            assert_same(rows, [spoken_alone(item) for item in batch])

    def test_a_slot_released_early_is_as_good_as_new(self, folder: Path, model: Qwen3TTS) -> None:
        allocate(model, 2, max_trailing=60)
        start(model, [request(LONG * 2, layout="streaming")], [0])
        model.decode_frames(2, 7)
        model.release([0])
        start(model, [request(SHORT, 2)], [0])
        assert_same(finish(model, [0], 2), [alone(load(folder), request(SHORT, 2))])

    def test_the_penalty_history_is_not_inherited(self, folder: Path, model: Qwen3TTS) -> None:
        greedy = Sampling(greedy=True, subtalker_greedy=True, repetition_penalty=3.0)
        item = request(SHORT, sampling=greedy)
        allocate(model, 1)
        for _ in range(2):
            start(model, [item], [0])
            rows = finish(model, [0], 1)
            model.release([0])
        assert_same(rows, [alone(load(folder), item)])

    def test_inactive_slots_write_nothing(self, model: Qwen3TTS) -> None:
        allocate(model, 4)
        start(model, [request(max_frames=5)], [2])
        model.decode_frames(4, 12)
        assert status(model, 2).frames <= 5
        kept = model.slots.codes[2].clone()
        model.decode_frames(4, 5)
        assert torch.equal(model.slots.codes[2, :FRAMES], kept[:FRAMES])
        assert not model.slots.codes[2, 5:FRAMES].any()
        for slot in (0, 1, 3):
            assert not model.slots.codes[slot, :FRAMES].any()
            assert status(model, slot) == SlotStatus(0, False, "")
            assert model.slots.position[slot] == 0

    def test_a_finished_row_stays_as_it_ended(self, model: Qwen3TTS) -> None:
        allocate(model, 2)
        start(model, [request(max_frames=4), request(LONG, 2)], [0, 1])
        model.decode_frames(2, 4)
        ended, codes = status(model, 0), model.codes(0, 4)
        model.decode_frames(2, 20)
        assert status(model, 0) == ended
        assert torch.equal(model.codes(0, 4), codes)

    def test_codes_are_a_copy(self, model: Qwen3TTS) -> None:
        allocate(model, 1)
        start(model, [request(max_frames=3)], [0])
        (row,) = finish(model, [0], 1)
        kept = row.codes.clone()
        model.release([0])
        assert torch.equal(row.codes, kept)


ITEMS = [request(LONG, 3), request("the ring", 4), request(SHORT, 5)]


class TestNotFinite:
    """A row that goes wrong fails alone, and its slot serves the next row."""

    @pytest.fixture
    def expected(self, spoken_alone: Callable[[SpeechRequest], Spoken]) -> list[Spoken]:
        return [spoken_alone(item) for item in ITEMS]

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    @torch.inference_mode()
    def test_a_hidden_state_gone_wrong(
        self, folder: Path, model: Qwen3TTS, expected: list[Spoken], value: float
    ) -> None:
        allocate(model, 4)
        start(model, ITEMS, [0, 1, 2])
        model.decode_frames(4, 2)
        model.slots.hidden[1] = value
        model.decode_frames(4, 1)
        assert status(model, 1) == SlotStatus(2, True, "nan")
        assert_same(finish(model, [0, 2], 4), [expected[0], expected[2]])
        model.release([1], is_failed=True)
        start(model, [ITEMS[1]], [1])
        assert_same(finish(model, [1], 4), [expected[1]])

    def test_a_prompt_gone_wrong(self, model: Qwen3TTS, expected: list[Spoken]) -> None:
        # Only the middle text holds the letter g.
        (poison,) = set(model.tokenize("g"))
        model.talker.text_embedding.weight[poison] = float("nan")
        items = [request(SHORT, 5), request("g", 4), request("err", 6)]
        allocate(model, 4)
        start(model, items, [2, 0, 3])
        assert status(model, 0) == SlotStatus(0, True, "nan")
        first = finish(model, [2, 3], 4)
        assert_same(first[:1], [expected[2]])
        model.release([0], is_failed=True)
        assert model.talker.decoder.cache.data.isfinite().all()
        start(model, [request(SHORT, 5)], [0])
        assert_same(finish(model, [0], 4), [expected[2]])

    @torch.inference_mode()
    def test_a_cache_gone_wrong_midway(self, model: Qwen3TTS, expected: list[Spoken]) -> None:
        allocate(model, 4)
        start(model, ITEMS, [0, 1, 2])
        model.decode_frames(4, 1)
        model.talker.decoder.cache.data[:, :, 0, :, 3] = float("nan")
        # The frame under way is still whole; the next first code cannot be drawn.
        model.decode_frames(4, 1)
        assert status(model, 0).finish_reason == "nan"
        model.decode_frames(4, 3)
        assert_same(finish(model, [1, 2], 4), expected[1:])
        model.release([0], is_failed=True)
        start(model, [ITEMS[0]], [0])
        assert_same(finish(model, [0], 4), [expected[0]])


class TestMove:
    """Compaction: a row goes on in another slot as if nothing had happened."""

    @pytest.mark.parametrize("layout", ["non_streaming", "streaming"])
    @pytest.mark.parametrize("frames", [0, 1, 6])
    def test_codes_stay_the_same(
        self,
        spoken_alone: Callable[[SpeechRequest], Spoken],
        model: Qwen3TTS,
        layout: str,
        frames: int,
    ) -> None:
        items = [request(LONG, 3, layout=layout), request("the ring", 4, layout=layout)]
        expected = [spoken_alone(item) for item in items]
        allocate(model, 8, max_trailing=40)
        start(model, [request(SHORT, 9), *items], [1, 5, 6])
        if frames:
            model.decode_frames(8, frames)
        model.release([1])
        model.move([5, 6], [1, 0])
        assert_same(finish(model, [1, 0], 2), expected)
        # The slots they left are free for others.
        start(model, [items[1]], [5])
        assert_same(finish(model, [5], 8), expected[1:])

    def test_a_finished_row_keeps_its_codes(self, model: Qwen3TTS) -> None:
        allocate(model, 4)
        start(model, [request(max_frames=3)], [3])
        (row,) = finish(model, [3], 4)
        model.move([3], [0])
        assert status(model, 0) == SlotStatus(3, True, row.reason)
        assert torch.equal(model.codes(0, 3), row.codes)
        assert status(model, 3) == SlotStatus(0, False, "")


class TestStreaming:
    """The streaming layout feeds the text one token a frame."""

    def test_every_frame_gets_its_own_text(self, model: Qwen3TTS) -> None:
        item = request("the ring", layout="streaming")
        trailing = model.prompt(item).trailing_ids
        allocate(model, 2, max_trailing=len(trailing) + 3)
        start(model, [item], [1])
        expected = model.talker.embed_text(torch.tensor([*trailing, 271, 271, 271, 271]))
        for frame in range(len(trailing) + 4):
            if status(model, 1).is_finished:
                break
            text = model.slots.trailing_text(2)[1]
            assert torch.allclose(text, expected[frame], atol=1e-6), frame
            model.decode_frames(2, 1)
        assert frame > len(trailing) or status(model, 1).finish_reason == "eos"

    def test_rows_of_both_layouts_share_a_batch(
        self, spoken_alone: Callable[[SpeechRequest], Spoken], model: Qwen3TTS
    ) -> None:
        items = [
            request(LONG, 3, layout="streaming"),
            request(LONG, 3),
            request(SHORT, 4, layout="streaming"),
        ]
        expected = [spoken_alone(item) for item in items]
        assert not torch.equal(expected[0].codes, expected[1].codes)
        allocate(model, 4, max_trailing=40)
        start(model, items, [0, 1, 2])
        assert_same(finish(model, [0, 1, 2], 4), expected)

    def test_trailing_text_beyond_the_room_is_refused(self, model: Qwen3TTS) -> None:
        item = request("the ring", layout="streaming")
        trailing = len(model.prompt(item).trailing_ids)
        allocate(model, 1, max_trailing=trailing - 1)
        with pytest.raises(ValueError, match=f"{trailing} trailing ids, room for {trailing - 1}"):
            start(model, [item], [0])


class TestLimits:
    """Rows longer than the slots are refused before anything is written beyond them."""

    def test_the_longest_row_fits_exactly(self, folder: Path, model: Qwen3TTS) -> None:
        item = request(SHORT, 2, max_frames=6)
        tokens = model.prompt(item).num_tokens
        model.allocate(2, max_positions=tokens + 6, max_frames=6)
        start(model, [item, item], [0, 1])
        rows = finish(model, [0, 1], 2)
        model.decode_frames(2, 3)  # finished rows go on being computed
        assert_same(rows, [alone(load(folder), item)] * 2)

    @pytest.mark.parametrize(("positions", "frames"), [(-1, 6), (0, 5)])
    def test_one_more_does_not(self, model: Qwen3TTS, positions: int, frames: int) -> None:
        item = request(SHORT, 2, max_frames=6)
        tokens = model.prompt(item).num_tokens
        model.allocate(1, max_positions=tokens + 6 + positions, max_frames=frames)
        with pytest.raises(ValueError, match=f"{tokens} prompt tokens and 6 frames"):
            start(model, [item], [0])

    def test_slot_bytes_is_what_a_slot_takes(self, model: Qwen3TTS) -> None:
        model.allocate(4, max_positions=50, max_frames=8, max_trailing=3)
        decoders, slots = (model.talker.decoder, model.predictor.decoder), model.slots
        taken = sum(decoder.cache.data.nbytes for decoder in decoders)
        taken += slots.trailing.nbytes + slots.codes.nbytes
        assert taken == 4 * model.slot_bytes(50, 8, 3)


class TestGraphs:
    """The whole frame as a recording; the stand-in replays it by running it again."""

    def with_graphs(self, folder: Path) -> tuple[Qwen3TTS, FakeCapturer]:
        model, capturer = load(folder), FakeCapturer()
        model.frames = GraphRunner("frame", model._frame, capturer)
        return model, capturer

    def test_graphs_speak_like_eager(self, folder: Path, model: Qwen3TTS) -> None:
        items = [request(LONG, 3), request("the ring", 4), request(SHORT, 5, max_frames=3)]
        expected = [alone(model, item) for item in items]
        recorded, capturer = self.with_graphs(folder)
        allocate(recorded, 4)
        recorded.capture(4, FRAMES)
        assert recorded.frames.keys == [4, 2, 1]
        start(recorded, items, [0, 1, 2])
        assert_same(finish(recorded, [0, 1, 2], 4), expected)
        assert recorded.frames.stats.misses == 0
        assert capturer.replays == recorded.frames.stats.hits > 0

    def test_a_small_bucket_gets_a_graph_once_it_would_pay(
        self, folder: Path, model: Qwen3TTS, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("models.slots.model.GRAPH_FRAMES", 6)
        recorded, _ = self.with_graphs(folder)
        allocate(recorded, 4)
        recorded.capture(4, FRAMES, is_whole=False)
        assert (recorded.frames.keys, recorded.frames.announced) == ([4], [2, 1])
        recorded.decode_frames(1, 4)
        recorded.decode_frames(2, 4)
        assert recorded.frames.stats.hits == 8
        assert recorded.frames.keys == [4]
        recorded.decode_frames(1, 2)
        recorded.decode_frames(1, 3)
        assert recorded.frames.keys == [4, 1]
        stats = recorded.frames.stats
        assert (stats.hits, stats.first_runs, stats.misses) == (12, 1, 0)

    def test_rows_speak_the_same_while_their_bucket_has_no_graph(
        self, folder: Path, model: Qwen3TTS
    ) -> None:
        recorded, _ = self.with_graphs(folder)
        allocate(recorded, 4)
        recorded.capture(4, FRAMES, is_whole=False)
        start(recorded, [request()], [0])
        assert_same(finish(recorded, [0], 1), [alone(model, request())])
        assert recorded.frames.keys == [4]

    @pytest.mark.parametrize("has_many", [False, True])
    def test_a_run_begins_with_the_graphs_that_its_rows_are_worth(
        self, has_many: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("models.slots.model.MANY_ROWS", 4 if has_many else 5)
        recorded, capturer = self.with_graphs(folder)
        recorded.vocoder = in_lanes(recorded.vocoder, capturer)
        allocate(recorded, 4)
        recorded.capture(4, FRAMES, is_whole=False)
        lanes = recorded.vocoder.layout.runners[0]
        assert recorded.frames.keys == [4]
        assert len(lanes.keys) == has_many
        wave = recorded.decode_audio([torch.zeros(3, recorded.config.num_codebooks).long()])[0]
        assert wave.isfinite().all()  # what was begun beside is over
        assert len(lanes.announced) > 0

    def test_kernels_are_compiled_by_all_frames_and_one_shape_of_each_part_of_the_vocoder(
        self, folder: Path
    ) -> None:
        recorded, capturer = self.with_graphs(folder)
        recorded.vocoder = in_lanes(recorded.vocoder, capturer)
        allocate(recorded, 4)
        recorded.frames.announce([1, 2, 4])
        whole, fronts, renderer = recorded.vocoder.layout.runners
        whole.announce([(1, 64), (1, 128), (2, 128)], usual=(1, 128))
        fronts.announce([(1, 192), (1, 384)])
        ran: list[tuple[str, object]] = []

        def note(name: str, key: object) -> None:
            ran.append((name, key))

        for runner in (recorded.frames, whole, fronts, renderer):
            runner.function = partial(note, runner.name)
        first = {one: one.usual for one in (whole, fronts, renderer)}
        _rehearse(recorded._to_compile(first))
        vocoder, frames = ran[:2], ran[2:]
        assert vocoder == [("vocoder", (1, 128)), ("latents", (1, 384))]
        assert frames == [("frame", 4), ("frame", 2), ("frame", 1)]
        assert all(not runner.keys for runner in recorded.graph_runners())
        for _ in range(2):  # the others are as new as they were: run once, then recorded
            whole.run((1, 64))
        assert ran[-2:] == [("vocoder", (1, 64))] * 2
        assert whole.keys == [(1, 64)]

    def test_capture_leaves_clean_slots(self, folder: Path, model: Qwen3TTS) -> None:
        recorded, _ = self.with_graphs(folder)
        allocate(recorded, 4)
        recorded.capture(4, FRAMES)
        assert all(not tensor.any() for tensor in recorded.slots._per_slot())
        start(recorded, [request()], [1])
        assert_same(finish(recorded, [1], 2), [alone(model, request())])

    def test_new_buffers_drop_the_old_graphs(self, folder: Path) -> None:
        recorded, _ = self.with_graphs(folder)
        allocate(recorded, 4)
        recorded.capture(4, FRAMES)
        allocate(recorded, 2)
        assert recorded.frames.keys == []
        assert recorded.frames.stats.captures == []
        recorded.capture(2, FRAMES)
        assert recorded.frames.keys == [2, 1]
