"""Cloned rows behind slots: with rows of other voices, through graphs, and leaving no trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from clones import encode, random_voice
from fakes import FakeCapturer, in_lanes
from speak import Row, assert_same, speak
from tiny_qwen3_tts import SPECS, reference_wave, write_checkpoint

from models.base import SpeechRequest
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model

pytestmark = pytest.mark.slow

SPEC = SPECS["base_wide"]
FRAMES = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("voice"), "base_wide")


@pytest.fixture(scope="module")
def model(folder: Path) -> Qwen3TTS:
    model = load_model(str(folder))
    assert isinstance(model, Qwen3TTS)
    return model


@pytest.fixture(scope="module")
def requests(model: Qwen3TTS) -> list[SpeechRequest]:
    """Both ways of cloning, both layouts, references short and long, drawn codes."""
    first, second = reference_wave(1, 24000), reference_wave(2, 30001)
    voices = [
        encode(model, first, "the first thing"),
        encode(model, second),
        encode(model, second, "another"),
        random_voice(model, SPEC.talker.width, 2, SPEC.codebook_size),
        encode(model, first),
    ]
    layouts = ("auto", "non_streaming", "streaming")
    return [
        SpeechRequest(
            "the text " * (1 + row % 3),
            clone=voices[row % len(voices)],
            layout=layouts[row % 3],
            seed=row,
            max_frames=FRAMES - row,
        )
        for row in range(9)
    ]


@pytest.fixture(scope="module")
def alone(model: Qwen3TTS, requests: list[SpeechRequest]) -> list[Row]:
    return [speak(model, [request], 1)[0] for request in requests]


@pytest.fixture
def capturer(model: Qwen3TTS) -> Iterator[FakeCapturer]:
    """Graphs and lanes as on a GPU, in the order a GPU needs them."""
    fake = FakeCapturer()
    alone, model.vocoder = model.vocoder, in_lanes(model.vocoder, fake)
    model.packed.has_buckets = True
    runners = [model.frames, model.packed.runner]
    for runner in runners:
        runner.capturer = fake
    yield fake
    for runner in runners:
        runner.reset()
        runner.capturer = None
    model.vocoder, model.packed.has_buckets = alone, False


@pytest.mark.parametrize("max_batch", [2, 16])
def test_a_cloned_row_is_its_own_whatever_its_mates(
    model: Qwen3TTS, requests: list[SpeechRequest], alone: list[Row], max_batch: int
) -> None:
    assert_same(speak(model, requests, max_batch, is_compact=True), alone, atol=1e-5)
    lengths = [len(row.samples) for row in alone]
    assert lengths == [len(row.codes) * SPEC.samples_per_frame for row in alone]


def test_graphs_speak_cloned_rows_and_none_is_missed(
    model: Qwen3TTS, requests: list[SpeechRequest], alone: list[Row], capturer: FakeCapturer
) -> None:
    assert_same(speak(model, requests, 4, frames_per_poll=3, has_graphs=True), alone, atol=1e-5)
    for runner in model.graph_runners():
        assert runner.stats.misses == 0, runner.name
        assert runner.stats.hits > 0, runner.name


def test_the_voice_and_its_way_of_cloning_are_heard(model: Qwen3TTS) -> None:
    voice = encode(model, reference_wave(1, 24000), "the first thing")
    others = [
        voice,
        replace(voice, embedding=voice.embedding.flip(0)),
        replace(voice, codes=None, text=None, mode="xvec"),
        replace(voice, text="some other thing"),
        random_voice(model, SPEC.talker.width, 50, SPEC.codebook_size),
    ]
    spoken = [
        speak(model, [SpeechRequest("the text", clone=other, max_frames=9)], 1)[0].codes.tolist()
        for other in others
    ]
    assert len({str(codes) for codes in spoken}) == len(others)


def test_one_reference_frame_at_a_time(model: Qwen3TTS) -> None:
    # The sum of a frame's embeddings stands at its place, added to the text there.
    voice = random_voice(model, SPEC.talker.width, 3, SPEC.codebook_size)
    prompt = model.prompt(SpeechRequest("hi", clone=voice, layout="non_streaming"))
    ids = torch.tensor(prompt.codec_ids)
    found = model.given([prompt])
    assert found is not None
    places, vectors = found
    assert places.tolist() == [ids.tolist().index(-2), *range(len(ids) - 3, len(ids))]
    assert torch.equal(vectors[0], voice.embedding)
    assert voice.codes is not None
    tables = [model.talker.codec_embedding.weight, *model.predictor.embeddings.weight]
    for frame, codes in enumerate(voice.codes):
        total = sum(table[code] for table, code in zip(tables, codes, strict=True))
        torch.testing.assert_close(vectors[1 + frame], total)
