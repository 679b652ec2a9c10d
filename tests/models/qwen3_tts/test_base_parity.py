"""Cloned voices against the official package: encoders, prompts, codes and waveforms, in float32.

The golden files were made by tests/oracle/make_base_goldens.py. The tests marked `oracle` compare
afresh, where the official package and a transformers that builds its audio encoder are installed.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import official_package as official
import pytest
import tiny_qwen3_tts as tiny
import torch
from clones import encode
from official_package import Line, Reference
from parity import as_request, check_codes, check_row, check_samples
from speak import speak
from torch import Tensor

from models.base import SpeechRequest, Voice
from models.qwen3_tts.model import Qwen3TTS
from models.qwen3_tts.speaker import mel_filters
from models.registry import load_model
from models.slots.model import SpeechModel

pytestmark = pytest.mark.slow

EMBEDDING_TOLERANCE = 1e-5
KEPT_FILTERS = [0, 1, 40, 80, 127]
needs_official = pytest.mark.skipif(
    not official.can_clone(), reason="needs qwen_tts, librosa and transformers 4.57"
)


def as_requests(golden: Any, model: SpeechModel) -> list[SpeechRequest]:
    """The golden rows with their voices, encoded by us."""
    voices: dict[tuple[str, str | None], Voice] = {}
    requests = []
    for row in golden.rows:
        key = row["reference"], row["reference_text"]
        if key not in voices:
            voices[key] = encode(model, golden.waves[key[0]], key[1])
        requests.append(as_request(row, voices[key]))
    return requests


@pytest.fixture(scope="module")
def requests(clone_golden: Any, clone_model: SpeechModel) -> list[SpeechRequest]:
    return as_requests(clone_golden, clone_model)


def test_goldens_are_worth_comparing_with(clone_golden: Any) -> None:
    rows, spec = clone_golden.rows, tiny.SPECS[clone_golden.spec]
    assert {row["finish_reason"] for row in rows} == {"eos", "max_frames"}
    assert len({row["frames"] for row in rows}) >= 6
    assert {row["reference_text"] is None for row in rows} == {True, False}
    lengths = {len(wave) % spec.samples_per_frame for wave in clone_golden.waves.values()}
    assert {0, 1, spec.samples_per_frame - 1} <= lengths
    owed = [row["trailing_tokens"] for row in rows if row["reference_text"]]
    if clone_golden.spec == "base":
        assert max(owed) > 1, "no transcript and text outlast their reference"
    codes = torch.cat([clone_golden.tensors[f"reference.{name}"] for name in clone_golden.waves])
    assert all(len(book.unique()) > 4 for book in codes.T)


def check_references(golden: Any, model: SpeechModel) -> list[tuple[Tensor, Tensor | None]]:
    """Encode all references at once, compare them with the golden ones and return them."""
    found = model.encode_voices(list(golden.waves.values()), ["icl"] * len(golden.waves))
    for name, (embedding, codes) in zip(golden.waves, found, strict=True):
        assert codes is not None
        check_codes(name, codes, golden.tensors[f"reference.{name}"].long())
        expected = golden.tensors[f"embedding.{name}"]
        torch.testing.assert_close(embedding, expected, rtol=0, atol=EMBEDDING_TOLERANCE)
    return found


def test_references_equal_the_official_encoders(
    clone_golden: Any, clone_model: SpeechModel
) -> None:
    found = check_references(clone_golden, clone_model)
    waves = list(clone_golden.waves.values())
    by_vector_only = clone_model.encode_voices(waves, ["xvec"] * len(waves))
    for (embedding, none), (expected, _) in zip(by_vector_only, found, strict=True):
        assert none is None
        assert torch.equal(embedding, expected)


def test_batched_encoding_equals_the_official_encoders(
    clone_golden: Any, clone_model: Qwen3TTS, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Clips end inside frames, beside longer ones: each is filled up where it ends.
    assert clone_model.voices is not None
    monkeypatch.setattr(clone_model.voices, "use_batches", True)
    check_references(clone_golden, clone_model)


def test_mel_filters_equal_librosas(clone_golden: Any) -> None:
    expected = clone_golden.tensors["mel_filters"]
    torch.testing.assert_close(mel_filters(128)[KEPT_FILTERS], expected, rtol=1e-6, atol=1e-9)


def test_prompts_equal_the_official_embeddings(
    clone_golden: Any, clone_model: Qwen3TTS, requests: list[SpeechRequest]
) -> None:
    compared = 0
    for row, request in zip(clone_golden.rows, requests, strict=True):
        prompt = clone_model.prompt(request)
        assert prompt.num_tokens == row["prompt_tokens"], row["id"]
        assert max(1, len(prompt.trailing_ids)) == row["trailing_tokens"], row["id"]
        if f"prompt.{row['id']}" not in clone_golden.tensors:
            continue
        compared += 1
        text_ids, codec_ids = torch.tensor(prompt.text_ids), torch.tensor(prompt.codec_ids)
        given = torch.full((len(text_ids), clone_model.config.talker.width), torch.nan)
        found = clone_model.given([prompt])
        assert found is not None
        given[found[0]] = found[1]
        embedded = clone_model.embed(text_ids, codec_ids, given)
        expected = clone_golden.tensors[f"prompt.{row['id']}"]
        torch.testing.assert_close(embedded, expected, rtol=1e-5, atol=1e-5)
        pad = clone_model.config.text.pad
        trailing = clone_model.talker.embed_text(torch.tensor(prompt.trailing_ids or [pad]))
        expected = clone_golden.tensors[f"trailing.{row['id']}"]
        torch.testing.assert_close(trailing, expected, rtol=1e-5, atol=1e-5)
    assert compared >= 8


def test_mixed_batch_equals_official(
    clone_golden: Any, clone_model: SpeechModel, requests: list[SpeechRequest]
) -> None:
    # Both ways of cloning, both layouts and all references share the slots.
    rows = speak(clone_model, requests, 16, frames_per_poll=8, is_compact=True)
    for row, ours in zip(clone_golden.rows, rows, strict=True):
        check_row(clone_golden, row, ours)


@pytest.mark.gpu
@pytest.mark.parametrize("has_graphs", [False, True])
def test_gpu_float32_equals_official(
    clone_golden: Any, has_graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    model = load_model(str(clone_golden.folder), "cuda", torch.float32, use_graphs=has_graphs)
    requests = as_requests(clone_golden, model)
    rows = speak(model, requests, 4, frames_per_poll=3, is_compact=True, has_graphs=has_graphs)
    for row, ours in zip(clone_golden.rows, rows, strict=True):
        check_row(clone_golden, row, ours)


@pytest.mark.oracle
@needs_official
@pytest.mark.parametrize("layout", ["non_streaming", "streaming"])
@pytest.mark.parametrize("spec", ["base", "base_wide"])
def test_fresh_rows_equal_the_official_package(
    spec: str, layout: str, checkpoint: Callable[..., Path]
) -> None:
    folder = checkpoint(spec, 1234)
    first = tiny.reference_wave(77, 30000)
    second = tiny.reference_wave(78, 55555)
    lines = [
        Line("Nothing here was in the golden files.", None, "German", None, Reference(first)),
        Line("iPhone 3.14", None, None, None, Reference(second, "A transcript (of sorts).")),
        Line("\u518d\u89c1\u3002", None, "chinese", None, Reference(first, "x")),
    ]
    settings: dict[str, Any] = {"layout": layout, "repetition_penalty": 1.1, "max_new_tokens": 21}
    theirs = official.speak(official.load_model(folder), lines, **settings)
    model = load_model(str(folder), "cpu", torch.float32)
    requests = [
        as_request(
            {**vars(line), **settings},
            encode(model, line.reference.wave, line.reference.text),  # type: ignore[union-attr]
        )
        for line in lines
    ]
    for i, (mine, other) in enumerate(zip(speak(model, requests, 2), theirs, strict=True)):
        check_codes(f"line {i}", mine.codes, other.codes)
        assert mine.finish_reason == other.finish_reason
        check_samples(mine.samples, other.samples)


@pytest.mark.oracle
@needs_official
def test_every_mel_filter_equals_librosas() -> None:
    mel = importlib.import_module("librosa.filters").mel
    theirs = torch.from_numpy(mel(sr=24000, n_fft=1024, n_mels=128, fmin=0, fmax=12000))
    torch.testing.assert_close(mel_filters(128), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.oracle
@needs_official
@pytest.mark.parametrize("rate", [16000, 44100, 48000])
def test_the_official_resampler_is_soxr_at_high_quality(rate: int) -> None:
    # What the command line does with other sample rates rests on it. librosa rounds the length up,
    # by its own arithmetic, and fills it with a zero.
    soxr = importlib.import_module("soxr")
    librosa = importlib.import_module("librosa")
    wave = tiny.reference_wave(5, rate + 17).numpy()
    theirs = torch.from_numpy(librosa.resample(y=wave, orig_sr=rate, target_sr=24000))
    ours = torch.from_numpy(soxr.resample(wave, rate, 24000, quality="HQ"))
    length = math.ceil(len(wave) * (24000.0 / rate))
    ours = torch.nn.functional.pad(ours, (0, length - len(ours)))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)
