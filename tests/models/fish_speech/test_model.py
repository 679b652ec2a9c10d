"""A tiny model of Fish Speech behind slots: references, passes of prefill, stages.

`tests/models/test_families.py` has what all families promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_fish_speech as tiny
import torch
from speak import speak

from models.base import SpeechRequest, Voice
from models.dual_ar.model import DualAR
from models.fish_speech.family import SAMPLING
from models.registry import load_model
from models.sampling import Sampling

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


def allocate(model: DualAR, num_slots: int) -> None:
    model.allocate(num_slots, max_positions=300, max_frames=FRAMES)


def start(model: DualAR, requests: list[SpeechRequest], slots: list[int]) -> None:
    model.prefill([model.prompt(item) for item in requests], slots)


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


def test_stages_cover_a_frame(model: DualAR) -> None:
    allocate(model, 2)
    start(model, [request(), request(seed=2)], [0, 1])
    stages = {stage.name: stage for stage in model.stages(2)}
    assert list(stages) == ["code predictor", "talker", "sampling (of both)"]
    for stage in stages.values():
        with torch.inference_mode():
            stage.run()
