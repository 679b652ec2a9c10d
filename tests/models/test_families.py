"""Every family behind slots: what a row becomes depends on nothing but the row.

Everything runs on a CPU in float32 with drawn codes, where the promise is equality, not closeness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import tiny_audio8
import tiny_fish_speech
import torch
from fakes import FakeCapturer
from speak import Row, assert_same, speak
from tiny_qwen3_tts import THINNEST, write_checkpoint

from models.base import SlotStatus, SpeechRequest
from models.device.graphs import GraphRunner
from models.registry import load_model
from models.sampling import Sampling
from models.slots.model import SpeechModel

pytestmark = pytest.mark.slow

FRAMES = 11
LONG, SHORT = "the longer of the two texts", "hi"
HOT = Sampling(1.3, 0, 0.95, 1.0, False, 0.7, 5, 1.0)
FISH = tiny_fish_speech.SPECS["small"]


@dataclass(frozen=True)
class Family:
    """A tiny checkpoint, and what its rows need."""

    folder: Path
    usual: SpeechRequest
    others: tuple[SpeechRequest, ...]  # rows of kinds that only this family has
    codebook_size: int

    def load(self) -> SpeechModel:
        return load_model(str(self.folder))

    def request(self, text: str = LONG, seed: int = 1, **fields: object) -> SpeechRequest:
        return replace(self.usual, text=text, seed=seed, **fields)  # type: ignore[arg-type]

    def greedy(self, **fields: object) -> SpeechRequest:
        sampling = replace(self.usual.sampling, greedy=True, subtalker_greedy=True)
        return self.request(sampling=sampling, **fields)

    @property
    def requests(self) -> list[SpeechRequest]:
        """Rows of different texts, lengths, caps and settings."""
        return [
            self.request(),
            self.greedy(),
            self.request("the ring", 3, sampling=HOT, max_frames=9),
            self.request("er", 5, max_frames=1),
            self.request("the other " * 9, 6),
            *self.others,
        ]


def qwen3_tts(folder: Path) -> Family:
    usual = SpeechRequest(LONG, voice="dora", max_frames=FRAMES)
    fang = replace(usual, text="a singing thing", seed=4, voice="fang", language="chinese")
    streaming = replace(usual, text="the ring", seed=7, layout="streaming", instruct="calm")
    return Family(
        write_checkpoint(folder, THINNEST), usual, (fang, streaming), THINNEST.codebook_size
    )


def fish_speech(folder: Path) -> Family:
    tiny_fish_speech.write_checkpoint(folder, FISH, 1)
    usual = SpeechRequest(LONG, sampling=load_model(str(folder)).info.sampling, max_frames=FRAMES)
    voices = (tiny_fish_speech.random_voice(FISH, n, "It is said.", seed=n) for n in (7, 33))
    others = tuple(replace(usual, seed=8, clone=voice) for voice in voices)
    return Family(folder, usual, others, FISH.codebook_size)


def audio8_tts(folder: Path) -> Family:
    tiny_audio8.write_checkpoint(folder, 1)
    usual = SpeechRequest(LONG, sampling=load_model(str(folder)).info.sampling, max_frames=FRAMES)
    voice = tiny_fish_speech.random_voice(tiny_audio8.SPEC, 7, "It is said.", 4)
    return Family(
        folder, usual, (replace(usual, seed=8, clone=voice),), tiny_audio8.SPEC.codebook_size
    )


@pytest.fixture(scope="module", params=[qwen3_tts, fish_speech, audio8_tts])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    found: Family = request.param(tmp_path_factory.mktemp("family") / "checkpoint")
    return found


@pytest.fixture
def model(family: Family) -> SpeechModel:
    return family.load()


@pytest.fixture(scope="module")
def alone(family: Family) -> Callable[[SpeechRequest], Row]:
    """A row alone in a model that no other test touches, each once."""
    model = family.load()
    return cache(lambda item: speak(model, [item], 1)[0])


def allocate(model: SpeechModel, num_slots: int) -> None:
    model.allocate(num_slots, max_positions=300, max_frames=FRAMES, max_trailing=40)


def start(model: SpeechModel, requests: list[SpeechRequest], slots: list[int]) -> None:
    model.prefill([model.prompt(item) for item in requests], slots)


def status(model: SpeechModel, slot: int) -> SlotStatus:
    return model.status(model.poll(), [slot])[0]


def assert_ended_as(model: SpeechModel, slot: int, expected: Row) -> None:
    assert status(model, slot) == SlotStatus(len(expected.codes), True, expected.finish_reason)
    assert torch.equal(model.codes(slot, len(expected.codes)).cpu(), expected.codes)


def test_rows_end_in_both_ways_and_codes_are_codes(family: Family, model: SpeechModel) -> None:
    items = [family.request("the thing " * (1 + seed % 3), seed) for seed in range(24)]
    rows = speak(model, items, 8)
    assert {row.finish_reason for row in rows} == {"eos", "max_frames"}
    for row in rows:
        assert row.codes.shape == (len(row.codes), model.info.num_codebooks)
        assert row.codes.dtype == torch.int64
        # The code that ends speech, and all other control ids, are above the codes.
        assert row.codes.min() >= 0
        assert row.codes.max() < family.codebook_size
        assert 1 <= len(row.codes) <= FRAMES
        assert len(row.samples) == len(row.codes) * model.info.samples_per_frame
        assert row.finish_reason == "eos" or len(row.codes) == FRAMES


@pytest.mark.parametrize("frames", [1, 7])
def test_a_cap_of_n_keeps_exactly_the_first_n_frames(
    family: Family, alone: Callable[[SpeechRequest], Row], frames: int
) -> None:
    items = (family.request(LONG, seed) for seed in range(40))
    item = next(one for one in items if alone(one).finish_reason == "max_frames")
    capped = alone(replace(item, max_frames=frames))
    assert capped.finish_reason == "max_frames"
    assert torch.equal(capped.codes, alone(item).codes[:frames])


def test_seeds(family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row]) -> None:
    one, other = (alone(family.request(seed=seed)) for seed in (1, 2))
    assert_same(speak(model, [family.request(seed=1)], 1), [one])
    assert not torch.equal(one.codes[:2], other.codes[:2])


@pytest.mark.parametrize(
    ("max_batch", "frames_per_poll", "is_compact"), [(2, 1, False), (4, 6, True)]
)
def test_neither_batch_nor_order_nor_slot_changes_a_row(
    family: Family,
    model: SpeechModel,
    alone: Callable[[SpeechRequest], Row],
    max_batch: int,
    frames_per_poll: int,
    is_compact: bool,
) -> None:
    items = family.requests[::-1] if is_compact else family.requests
    how = {"frames_per_poll": frames_per_poll, "is_compact": is_compact}
    assert_same(speak(model, items, max_batch, **how), list(map(alone, items)))


def test_nothing_of_an_old_row_stays(
    family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row]
) -> None:
    """Rows that were released early, and rows that had ended."""
    items, slots = family.requests[:4], [3, 1, 0, 2]
    allocate(model, 4)
    for frames in (7, FRAMES + 1):
        start(model, family.requests[-4:], [0, 1, 2, 3])
        model.decode_frames(4, frames)
        model.release([0, 1, 2, 3])
        start(model, items, slots)
        model.decode_frames(4, FRAMES + 1)
        for item, slot in zip(items, slots, strict=True):
            assert_ended_as(model, slot, alone(item))
        model.release(slots)


@pytest.mark.parametrize("frames", [0, 6])
def test_a_moved_row_goes_on_as_before(
    family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row], frames: int
) -> None:
    items = [family.request(seed=3), *family.others[-1:]]
    allocate(model, 8)
    start(model, [family.request(SHORT, 9), *items], [1, 5, 6])
    if frames:
        model.decode_frames(8, frames)
    model.release([1])
    model.move([5, 6], [1, 0])
    model.decode_frames(2, FRAMES + 1)
    for item, slot in zip(items, (1, 0), strict=True):
        assert_ended_as(model, slot, alone(item))
    model.move([1], [2])
    assert_ended_as(model, 2, alone(items[0]))
    # The slots that they left are free for others.
    start(model, items[1:], [5])
    model.decode_frames(8, FRAMES + 1)
    assert_ended_as(model, 5, alone(items[1]))


def test_an_ended_row_stays_as_it_ended(
    family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row]
) -> None:
    """The end of speech is no code: a row that holds it must not be looked up in a table."""
    items = (family.request(seed=seed) for seed in range(40))
    ending = next(one for one in items if alone(one).finish_reason == "eos")
    allocate(model, 2)
    start(model, [ending, family.greedy()], [0, 1])
    model.decode_frames(2, FRAMES + 5)
    assert_ended_as(model, 0, alone(ending))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@torch.inference_mode()
def test_a_row_gone_wrong_fails_alone_and_its_slot_serves_the_next(
    family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row], value: float
) -> None:
    item = family.greedy()
    allocate(model, 2)
    start(model, [item, item], [0, 1])
    model.decode_frames(2, 2)
    model.slots.hidden[0] = value
    model.decode_frames(2, FRAMES)
    assert status(model, 0) == SlotStatus(2, True, "nan")
    assert_ended_as(model, 1, alone(item))
    model.release([0], is_failed=True)
    start(model, [item], [0])
    model.decode_frames(2, FRAMES + 1)
    assert_ended_as(model, 0, alone(item))


def test_the_longest_row_fits_exactly_and_one_more_does_not(
    family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row]
) -> None:
    item = family.request(SHORT, 2, max_frames=6)
    tokens = model.prompt(item).num_tokens
    model.allocate(2, max_positions=tokens + 6, max_frames=6)
    start(model, [item, item], [0, 1])
    model.decode_frames(2, 9)  # rows that have ended go on being computed
    assert_ended_as(model, 1, alone(item))
    for positions, frames in ((-1, 6), (0, 5)):
        model.allocate(1, max_positions=tokens + 6 + positions, max_frames=frames)
        with pytest.raises(ValueError, match=f"{tokens} prompt tokens and 6 frames"):
            start(model, [item], [0])


def test_graphs_speak_like_eager(
    family: Family, model: SpeechModel, alone: Callable[[SpeechRequest], Row]
) -> None:
    """The stand-in for a graph replays a frame by running it again."""
    capturer = FakeCapturer()
    model.frames = GraphRunner("frame", model._frame, capturer)
    rows = speak(model, family.requests, 4, is_compact=True, has_graphs=True)
    assert_same(rows, list(map(alone, family.requests)))
    assert model.frames.keys == [4, 2, 1]
    assert model.frames.stats.misses == 0
    assert capturer.replays == model.frames.stats.hits > 0
