"""A whole tiny model behind slots: what a row becomes depends on nothing but the row.

Everything runs on a CPU in float32 with drawn codes, where the promise is equality, not closeness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import tiny_fish_speech as tiny
import torch
from fakes import FakeCapturer
from speak import Row, speak

from models.base import RequestError, SlotStatus, SpeechRequest, Voice
from models.device.graphs import GraphRunner
from models.dual_ar.model import DualAR
from models.fish_speech.family import SAMPLING
from models.registry import load_model
from models.sampling import Sampling
from models.slots.model import SpeechModel

pytestmark = pytest.mark.slow

FRAMES = 20
SPEC = tiny.SPECS["small"]
GREEDY = replace(SAMPLING, greedy=True, subtalker_greedy=True)


@pytest.fixture
def model(folder: Path) -> DualAR:
    loaded = load_model(str(folder))
    assert isinstance(loaded, DualAR)
    return loaded


@pytest.fixture(scope="session")
def folder(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("small", 1)


@pytest.fixture(scope="module")
def alone(folder: Path) -> Callable[[SpeechRequest], Row]:
    """Rows alone in a model that no other test touches, each once."""
    model = load_model(str(folder))
    return cache(lambda item: speak(model, [item], 1)[0])


def request(text: str = "the longer text", seed: int = 1, **fields: object) -> SpeechRequest:
    values = {"sampling": SAMPLING, "max_frames": FRAMES, **fields}
    return SpeechRequest(text, seed=seed, **values)  # type: ignore[arg-type]


@pytest.fixture
def requests() -> list[SpeechRequest]:
    hot = Sampling(1.3, 0, 0.95, 1.0, False, 0.7, 5, 1.0)
    return [
        request(),
        request("hi", 2, sampling=GREEDY),
        request("the ring", 3, sampling=hot, max_frames=9),
        request("said so", 4, clone=tiny.random_voice(SPEC, 7, "It is said.", 4)),
        request("er", 5, sampling=replace(SAMPLING, greedy=True), max_frames=1),
        request("the other " * 9, 6),
        request("all", 7, clone=tiny.random_voice(SPEC, 33, "So it is.", 5), sampling=hot),
    ]


def assert_same(rows: list[Row], expected: list[Row]) -> None:
    for index, (row, other) in enumerate(zip(rows, expected, strict=True)):
        assert row.finish_reason == other.finish_reason, index
        assert torch.equal(row.codes, other.codes), index


def allocate(model: DualAR, num_slots: int) -> None:
    model.allocate(num_slots, max_positions=300, max_frames=FRAMES)


def start(model: DualAR, requests: list[SpeechRequest], slots: list[int]) -> None:
    model.prefill([model.prompt(item) for item in requests], slots)


def status(model: DualAR, slot: int) -> SlotStatus:
    return model.status(model.poll(), [slot])[0]


def test_the_protocol_is_kept(model: DualAR) -> None:
    assert isinstance(model, SpeechModel)
    runners = {runner.name: runner.capturer for runner in model.graph_runners()}
    assert runners == {"frame": None, "prefill": None}


def test_rows_end_in_both_ways_and_codes_are_codes(model: DualAR) -> None:
    items = [request(seed=seed, text="the thing " * (1 + seed % 3)) for seed in range(24)]
    rows = speak(model, items, 8)
    assert {row.finish_reason for row in rows} == {"eos", "max_frames"}
    for row in rows:
        assert row.codes.shape == (len(row.codes), SPEC.num_codebooks)
        assert int(row.codes.min()) >= 0
        assert int(row.codes[:, 0].max()) < SPEC.codebook_size
        assert int(row.codes[:, 1:].max()) < SPEC.num_rest_codes
        assert 1 <= len(row.codes) <= FRAMES
        assert len(row.samples) == len(row.codes) * model.info.samples_per_frame


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_a_cap_of_n_keeps_exactly_the_first_n_frames(model: DualAR, frames: int) -> None:
    (whole,) = speak(model, [request(sampling=GREEDY)], 1)
    (capped,) = speak(model, [request(sampling=GREEDY, max_frames=frames)], 1)
    assert len(whole.codes) > 7
    assert capped.finish_reason == "max_frames"
    assert torch.equal(capped.codes, whole.codes[:frames])


@pytest.mark.parametrize(
    ("max_batch", "frames_per_poll", "is_compact"),
    [(2, 1, False), (4, 1, True), (8, 1, False), (4, 6, False)],
)
def test_batch_mates_change_nothing(
    model: DualAR,
    alone: Callable[[SpeechRequest], Row],
    requests: list[SpeechRequest],
    max_batch: int,
    frames_per_poll: int,
    is_compact: bool,
) -> None:
    expected = [alone(item) for item in requests]
    order = [5, 2, 6, 0, 4, 1, 3]
    rows = speak(
        model,
        [requests[i] for i in order],
        max_batch,
        frames_per_poll=frames_per_poll,
        is_compact=is_compact,
    )
    assert_same(rows, [expected[i] for i in order])


def test_prefill_in_one_group_or_several(
    model: DualAR, requests: list[SpeechRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = speak(model, requests, 8)
    monkeypatch.setattr("models.slots.prefill.TOKEN_BUCKETS", (16, 64))
    assert_same(speak(model, requests, 8), expected)


def test_passes_filled_up_to_a_bucket_give_the_same_codes(
    model: DualAR, requests: list[SpeechRequest]
) -> None:
    items = [replace(item, sampling=GREEDY) for item in requests]
    expected = speak(model, items, 4)
    model.packed.has_buckets = True
    assert_same(speak(model, items, 4), expected)


def test_nothing_of_an_old_row_stays(
    model: DualAR, alone: Callable[[SpeechRequest], Row], requests: list[SpeechRequest]
) -> None:
    expected = [alone(item) for item in requests[:4]]
    allocate(model, 4)
    start(model, requests[3:7], [0, 1, 2, 3])
    model.decode_frames(4, 12)
    model.release([0, 1, 2, 3])
    start(model, requests[:4], [3, 1, 0, 2])
    model.decode_frames(4, FRAMES + 1)
    for item, slot in enumerate([3, 1, 0, 2]):
        frames = status(model, slot).frames
        assert torch.equal(model.codes(slot, frames).cpu(), expected[item].codes)


def test_a_moved_row_goes_on_as_before(model: DualAR) -> None:
    (expected,) = speak(model, [request(seed=3)], 1)
    allocate(model, 4)
    start(model, [request(seed=3)], [3])
    model.decode_frames(4, 5)
    model.move([3], [0])
    model.decode_frames(1, FRAMES)
    state = status(model, 0)
    assert state.finish_reason == expected.finish_reason
    assert torch.equal(model.codes(0, state.frames), expected.codes)


def test_an_ended_row_stays_as_it_ended(model: DualAR) -> None:
    # The end of speech is no code: a row that holds it must not be looked up in a table.
    ending = next(
        item
        for item in (request(seed=seed) for seed in range(40))
        if speak(model, [item], 1)[0].finish_reason == "eos"
    )
    (expected,) = speak(model, [ending], 1)
    allocate(model, 2)
    start(model, [ending, request(sampling=GREEDY)], [0, 1])
    model.decode_frames(2, FRAMES + 5)
    assert status(model, 0) == SlotStatus(len(expected.codes), True, "eos")
    assert torch.equal(model.codes(0, len(expected.codes)), expected.codes)


def test_a_row_gone_wrong_leaves_the_others_alone(model: DualAR) -> None:
    (expected,) = speak(model, [request(sampling=GREEDY)], 1)
    allocate(model, 2)
    start(model, [request("hi", 2), request(sampling=GREEDY)], [0, 1])
    model.decode_frames(2, 3)
    with torch.inference_mode():
        model.slots.hidden[0] = float("nan")
    model.decode_frames(2, FRAMES)
    assert status(model, 0) == SlotStatus(3, True, "nan")
    assert torch.equal(model.codes(1, status(model, 1).frames), expected.codes)
    model.release([0], is_failed=True)
    start(model, [request(sampling=GREEDY)], [0])
    model.decode_frames(2, FRAMES)
    assert torch.equal(model.codes(0, status(model, 0).frames), expected.codes)


def test_the_longest_row_fits_exactly_and_one_more_does_not(model: DualAR) -> None:
    tokens = model.prompt(request()).num_tokens
    model.allocate(1, max_positions=tokens + FRAMES, max_frames=FRAMES)
    start(model, [request()], [0])
    for positions, frames in ((tokens + FRAMES - 1, FRAMES), (tokens + FRAMES, FRAMES - 1)):
        model.allocate(1, max_positions=positions, max_frames=frames)
        with pytest.raises(ValueError, match="slots hold"):
            start(model, [request()], [0])
    taken = model.talker.decoder.cache.data.nbytes + model.predictor.decoder.cache.data.nbytes
    taken += model.slots.trailing.nbytes + model.slots.codes.nbytes
    assert model.slot_bytes(tokens + FRAMES, FRAMES - 1) == taken


def test_a_reference_shapes_speech_but_not_its_length(model: DualAR) -> None:
    voice = tiny.random_voice(SPEC, 20, "It is said.")
    plain, cloned = (
        speak(model, [request(sampling=GREEDY, clone=clone)], 1)[0] for clone in (None, voice)
    )
    assert not torch.equal(plain.codes[:1], cloned.codes[:1])
    # Its own codes decoded alone, as in the official code.
    assert voice.codes is not None
    (samples,) = model.decode_audio([cloned.codes], [voice.codes])
    assert torch.equal(samples, model.decode_audio([cloned.codes])[0])
    assert len(samples) == len(cloned.codes) * model.info.samples_per_frame


def test_every_codebook_of_a_reference_counts(model: DualAR) -> None:
    voice = tiny.random_voice(SPEC, 5, "It is said.")
    assert voice.codes is not None

    def first_hidden(codes: torch.Tensor) -> torch.Tensor:
        allocate(model, 1)
        start(model, [request(clone=replace(voice, codes=codes))], [0])
        return model.slots.hidden[0].clone()

    base = first_hidden(voice.codes)
    for book in range(SPEC.num_codebooks):
        changed = voice.codes.clone()
        changed[2, book] = (changed[2, book] + 1) % SPEC.num_rest_codes
        assert not torch.allclose(first_hidden(changed), base), book


def test_references_are_encoded_once_for_icl(model: DualAR) -> None:
    waves = [torch.sin(torch.arange(length) / 9) / 3 for length in (1000, 2500, 700)]
    found = model.encode_voices(waves, ["icl", "xvec", "icl"])
    lengths = [None if codes is None else len(codes) for _, codes in found]
    samples = model.info.samples_per_frame
    assert lengths == [-(-1000 // samples), None, -(-700 // samples)]
    assert all(embedding.shape == (1,) for embedding, _ in found)
    codes = found[0][1]
    assert codes is not None
    voice = Voice(found[0][0], codes, "Tones.", "icl", model.info.identity, "d")
    (row,) = speak(model, [request(clone=voice)], 1)
    assert len(row.codes) >= 1


def test_without_an_encoder_nothing_is_cloned(model: DualAR) -> None:
    model.voices = None
    with pytest.raises(RequestError, match="cannot clone a voice"):
        model.encode_voices([torch.zeros(2000)], ["icl"])


def test_graphs_speak_like_eager(folder: Path, requests: list[SpeechRequest]) -> None:
    loaded = load_model(str(folder))
    assert isinstance(loaded, DualAR)
    expected = speak(loaded, requests, 4, is_compact=True)
    capturer = FakeCapturer()
    loaded.frames = GraphRunner("frame", loaded._frame, capturer)
    rows = speak(loaded, requests, 4, is_compact=True, has_graphs=True)
    assert_same(rows, expected)
    assert loaded.frames.keys == [4, 2, 1]
    assert loaded.frames.stats.hits > 0
    assert loaded.frames.stats.misses == 0


def test_stages_cover_a_frame(model: DualAR) -> None:
    allocate(model, 2)
    start(model, [request(), request(seed=2)], [0, 1])
    stages = {stage.name: stage for stage in model.stages(2)}
    assert list(stages) == ["code predictor", "talker", "sampling (of both)"]
    for stage in stages.values():
        with torch.inference_mode():
            stage.run()
