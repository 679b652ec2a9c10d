"""A tiny model of Qwen3-TTS behind slots: streamed texts, broken caches, graphs.

`tests/models/test_families.py` has what all families promise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from fakes import FakeCapturer, in_lanes
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


class TestStaleRows:
    """Nothing of an old row reaches a new one."""

    def test_the_penalty_history_is_not_inherited(self, folder: Path, model: Qwen3TTS) -> None:
        greedy = Sampling(greedy=True, subtalker_greedy=True, repetition_penalty=3.0)
        item = request(SHORT, sampling=greedy)
        allocate(model, 1)
        for _ in range(2):
            start(model, [item], [0])
            rows = finish(model, [0], 1)
            model.release([0])
        assert_same(rows, [alone(load(folder), item)])


ITEMS = [request(LONG, 3), request("the ring", 4), request(SHORT, 5)]


class TestNotFinite:
    """A row that goes wrong fails alone, and its slot serves the next row."""

    @pytest.fixture
    def expected(self, spoken_alone: Callable[[SpeechRequest], Spoken]) -> list[Spoken]:
        return [spoken_alone(item) for item in ITEMS]

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


class TestGraphs:
    """The whole frame as a recording; the stand-in replays it by running it again."""

    def with_graphs(self, folder: Path) -> tuple[Qwen3TTS, FakeCapturer]:
        model, capturer = load(folder), FakeCapturer()
        model.frames = GraphRunner("frame", model._frame, capturer)
        return model, capturer

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
