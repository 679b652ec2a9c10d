"""The beginning of a voice's prompts: run once, copied while somebody speaks behind it, and the
same speech as of prompts that are all run whole.

On a CPU in float32 the promise is equality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_fish_speech as tiny
import torch
from fakes import FakeCapturer
from speak import Row, assert_same, speak

from models.base import Prompt, SpeechRequest, Voice
from models.device.graphs import GraphRunner
from models.dual_ar.model import DualAR
from models.fish_speech.family import SAMPLING
from models.registry import load_model
from models.slots.prefill import PackedPrefill, VoicePrefixes

FRAMES = 8
GREEDY = replace(SAMPLING, greedy=True, subtalker_greedy=True)


def voice(seed: int = 0, frames: int = 20) -> Voice:
    return tiny.random_voice("small", frames, "So it is said.", seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), "small", 1)


@pytest.fixture
def model(folder: Path) -> DualAR:
    loaded = load_model(str(folder))
    assert isinstance(loaded, DualAR)
    return loaded


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Of every pass, where its prompts began."""
    seen: list[list[int]] = []
    run = PackedPrefill.run

    def watched(self, prompts, slots, begins, given=None):
        seen.append(list(begins))
        run(self, prompts, slots, begins, given)

    monkeypatch.setattr(PackedPrefill, "run", watched)
    return seen


def requests(*voices: Voice | None) -> list[SpeechRequest]:
    """A row each, of many lengths, that draw their codes or take the likeliest."""
    return [
        SpeechRequest(
            "the thing " * (1 + row % 4) + str(row),
            sampling=GREEDY if row % 2 else SAMPLING,
            seed=row,
            max_frames=2 + row * 5 % (FRAMES - 1),
            clone=clone,
        )
        for row, clone in enumerate(voices)
    ]


def whole(model: DualAR, run: Callable[[], list[Row]]) -> list[Row]:
    """The slow twin: every prompt is run whole."""
    shares, model.packed.shares = model.packed.shares, lambda prompt: False  # type: ignore[method-assign]
    try:
        return run()
    finally:
        model.packed.shares = shares  # type: ignore[method-assign]


@pytest.mark.parametrize(("max_batch", "has_graphs"), [(2, False), (4, True), (16, True)])
@pytest.mark.slow
def test_the_speech_is_that_of_whole_prompts(
    model: DualAR, starts: list[list[int]], max_batch: int, has_graphs: bool
) -> None:
    if has_graphs:  # as on a GPU
        capturer = FakeCapturer()
        model.frames = GraphRunner("frame", model._frame, capturer)
        model.packed.has_buckets = True
        model.packed.runner.capturer = capturer
    one, other = voice(), voice(1, 33)
    items = requests(one, None, one, other, one, one, other, None, one, other, one, one)

    def run() -> list[Row]:
        return speak(model, items, max_batch, is_compact=True, has_graphs=has_graphs)

    expected = whole(model, run)
    assert not any(map(any, starts))
    starts.clear()
    assert_same(run(), expected)
    begun = [start for rows in starts for start in rows]
    assert len(begun) == len(items)
    if max_batch == 1:  # nobody speaks in the voice when its next row comes
        assert not any(begun)
    elif max_batch == 16:
        shared = [model.prompt(items[row]).num_shared for row in (0, 3)]
        assert sorted(begun) == [0] * 4 + sorted([shared[0]] * 6 + [shared[1]] * 2)


def test_what_is_copied_is_what_is_run(model: DualAR) -> None:
    prompts = [model.prompt(item) for item in requests(voice(), voice(), voice())]

    def cache() -> list[torch.Tensor]:
        model.allocate(3, max_positions=200, max_frames=FRAMES)
        model.prefill(prompts, [2, 0, 1])
        data = model.talker.decoder.cache.data
        return [
            data[:, :, slot, :, : prompt.num_tokens].clone()
            for slot, prompt in zip([2, 0, 1], prompts, strict=True)
        ]

    copied = cache()
    model.packed.shares = lambda prompt: False  # type: ignore[method-assign]
    for one, other in zip(copied, cache(), strict=True):
        assert torch.equal(one, other)


def prefill(model: DualAR, clone: Voice, slots: list[int]) -> None:
    items = requests(*[clone] * len(slots))
    model.prefill([model.prompt(item) for item in items], slots)


def test_a_beginning_lasts_as_long_as_somebody_speaks_behind_it(
    model: DualAR, starts: list[list[int]]
) -> None:
    model.allocate(4, max_positions=200, max_frames=FRAMES)
    clone = voice()
    shared = model.prompt(requests(clone)[0]).num_shared
    prefill(model, clone, [0])
    prefill(model, clone, [3])
    model.release([0])
    model.decode_frames(4, 2)  # which writes into slots that are free
    prefill(model, clone, [0, 1])
    model.release([0, 1])
    model.move([3], [0])
    model.decode_frames(4, 2)
    prefill(model, clone, [3])
    model.release([0, 3])
    prefill(model, clone, [2])
    assert starts == [[0], [shared], [shared, shared], [shared], [0]]


def test_what_a_failed_row_began_with_is_run_anew(model: DualAR, starts: list[list[int]]) -> None:
    model.allocate(4, max_positions=200, max_frames=FRAMES)
    one, other = voice(), voice(1)
    prefill(model, one, [0, 1])
    prefill(model, other, [2])
    model.release([1], is_failed=True)
    prefill(model, one, [1])
    prefill(model, other, [3])
    assert [bool(rows[0]) for rows in starts] == [False, True, False, False, True]


def test_slots_that_were_not_released_are_run_anew(model: DualAR) -> None:
    """As `profile` does, which times one prefill again and again."""
    model.allocate(2, max_positions=200, max_frames=FRAMES)
    expected = speak(model, requests(voice(1), voice()), 2)
    prompts = [model.prompt(item) for item in requests(voice(1), voice())]
    for order in (prompts[::-1], prompts):
        model.prefill(order, [0, 1])
    model.decode_frames(2, FRAMES)
    for slot, row in enumerate(expected):
        assert torch.equal(model.codes(slot, len(row.codes)), row.codes)


def test_fixed_shapes_run_whole_what_is_longer_than_their_pass(
    model: DualAR, starts: list[list[int]]
) -> None:
    """Its beginning would be of another shape than that of a row in the usual pass."""
    model.fix_shapes()
    model.packed.has_buckets = True
    model.allocate(32, max_positions=400, max_frames=FRAMES)
    (bucket,) = model.packed.buckets
    clone = voice()
    short = requests(clone)[0]
    long = replace(short, text="the thing " * 30)
    prompts: list[Prompt] = [model.prompt(item) for item in (long, short, short)]
    assert prompts[0].num_tokens > bucket >= prompts[1].num_tokens
    model.prefill(prompts, [0, 1, 2])
    model.prefill(prompts[:1], [3])
    assert sorted(start for rows in starts for start in rows) == [0, 0, 0, prompts[1].num_shared]


def test_where_tokens_see_tokens_alone_prompts_are_whole(
    model: DualAR, starts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference of a GPU reads no keys that were there before."""
    monkeypatch.setattr("models.slots.prefill.can_go_on", lambda like: False)
    model.allocate(4, max_positions=200, max_frames=FRAMES)
    prefill(model, voice(), [0, 1])
    assert starts == [[0, 0]]


def test_voices_are_told_apart_by_their_digests() -> None:
    prefixes = VoicePrefixes()
    one, same, other = (voice(), 9), (replace(voice(), codes=None), 9), (voice(1), 9)
    assert prefixes.followers([one, other, None, same], [0, 1, 2, 3]) == {0: [3]}
    prefixes.hold([one, other, None, same], [0, 1, 2, 3])
    assert prefixes.followers([None, other], [4, 5]) == {1: [1]}
    assert prefixes.followers([one, (voice(), 8)], [4, 5]) == {3: [0]}
    assert prefixes.followers([one, one], [0, 3]) == {0: [1]}


def test_slots_that_begin_alike_read_it_in_one_that_has_it(model: DualAR) -> None:
    """The talker is told whenever a row comes, goes, moves or fails."""
    model.allocate(6, max_positions=200, max_frames=FRAMES)

    def told() -> dict[int, tuple[int, int]]:
        assert model.talker.decoder.prefixes is not None
        rows = model.talker.decoder.prefixes.tolist()
        return {slot: tuple(row) for slot, row in enumerate(rows) if row[1]}

    one, other = (
        [model.prompt(item) for item in requests(*[clone] * 3)] for clone in (voice(), voice(1))
    )
    model.prefill([*one, other[0]], [1, 2, 4, 3])
    count = one[0].num_shared
    assert told() == {1: (1, count), 2: (1, count), 4: (1, count), 3: (3, other[0].num_shared)}
    model.release([1])
    assert told() == {2: (2, count), 4: (2, count), 3: (3, other[0].num_shared)}
    model.prefill([other[1]], [1])
    model.release([3])
    model.move([4], [0])
    assert told() == {2: (2, count), 0: (2, count), 1: (1, other[0].num_shared)}
    model.release([2], is_failed=True)
    assert told() == {1: (1, other[0].num_shared)}
    model.release([1])
    assert told() == {}
