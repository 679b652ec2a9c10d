"""Our float32 greedy codes against mlx-audio's port of the official code.

The golden file was made by tests/oracle/make_audio8_goldens.py. The test marked `oracle` makes it
again where the package is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_audio8 as tiny
import tiny_fish_codec
import tiny_fish_speech as fish
import torch
from parity import check_codes
from safetensors.torch import load_file
from speak import speak

from models.base import REFERENCE, SpeechRequest
from models.dual_ar.model import DualAR
from models.registry import load_model
from models.sampling import Sampling

pytestmark = pytest.mark.slow

ORACLE = Path(__file__).parents[2] / "oracle"
GREEDY = Sampling(greedy=True, subtalker_greedy=True, repetition_penalty=1.0)
ROWS: list[dict[str, Any]] = json.loads((ORACLE / "golden_audio8.json").read_text())["rows"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DualAR:
    report = json.loads((ORACLE / "golden_audio8.json").read_text())
    folder = tiny.write_checkpoint(tmp_path_factory.mktemp("audio8"), report["seed"])
    message = "the tiny checkpoint changed: make the goldens anew"
    assert fish.digest(folder) == report["checkpoint"], message
    model = load_model(str(folder), "cpu", torch.float32)
    assert isinstance(model, DualAR)
    return model


def request_of(row: dict[str, Any]) -> SpeechRequest:
    voice, clone = row["voice"], None
    if voice is not None:
        clone = fish.random_voice(tiny.SPEC, voice["frames"], voice["text"], int(row["id"]))
    return SpeechRequest(row["text"], sampling=GREEDY, max_frames=row["max_frames"], clone=clone)


def test_goldens_are_worth_comparing_with() -> None:
    assert len(ROWS) == 24
    assert {row["finish_reason"] for row in ROWS} == {"eos", "max_frames"}
    assert len({row["frames"] for row in ROWS}) >= 8
    assert sum(row["voice"] is not None for row in ROWS) == 12


def test_prompts_are_the_official_ids(model: DualAR) -> None:
    """White space is cleaned as the official processor does it."""
    for row in ROWS:
        prompt = model.prompt(request_of(row))
        assert prompt.text_ids == row["token_ids"], row["id"]
        frames = row["voice"]["frames"] if row["voice"] else 0
        assert sum(code <= REFERENCE for code in prompt.codec_ids) == frames


def test_codes_are_the_official_ones(model: DualAR) -> None:
    """24 of 24 rows, plain and cloned, in batches of eight."""
    theirs = load_file(ORACLE / "golden_audio8.safetensors")
    found = speak(model, [request_of(row) for row in ROWS], 8, frames_per_poll=3)
    for row, ours in zip(ROWS, found, strict=True):
        expected = theirs[f"codes.{row['id']}"].long()
        check_codes(f"row {row['id']}", ours.codes, expected)
        assert (len(ours.codes), ours.finish_reason) == (row["frames"], row["finish_reason"])


def test_without_the_bias_codes_differ(model: DualAR) -> None:
    """The bias decides codes: the goldens would notice it missing."""
    theirs = load_file(ORACLE / "golden_audio8.safetensors")
    biases = [layer.qkv.bias for layer in model.talker.decoder.layers]
    kept = [bias.clone() for bias in biases]
    for bias in biases:
        bias.zero_()
    try:
        found = speak(model, [request_of(row) for row in ROWS[:4]], 4)
    finally:
        for bias, value in zip(biases, kept, strict=True):
            bias.copy_(value)
    same = [torch.equal(row.codes, theirs[f"codes.{i}"].long()) for i, row in enumerate(found)]
    assert sum(same) <= 1


def test_codes_beyond_the_codec_count_as_its_last(model: DualAR) -> None:
    """Further codes are drawn from as many as first ones; the codec has fewer."""
    config = tiny.CODEC
    codes = tiny_fish_codec.random_codes(config, 1, 6)[0].T.contiguous()
    beyond = codes.clone()
    beyond[2, 1] = tiny.SPEC.codebook_size - 1
    codes[2, 1] = config.residual_codes - 1
    ours, theirs = model.decode_audio([codes, beyond])
    assert torch.equal(ours, theirs)


@pytest.mark.oracle
@pytest.mark.long
def test_the_package_gives_the_goldens(tmp_path: Path) -> None:
    """The golden files are what mlx-audio gives today."""
    pytest.importorskip("mlx_audio", reason="mlx-audio is not installed")
    script = ORACLE / "make_audio8_goldens.py"
    subprocess.run([sys.executable, str(script), "--out", str(tmp_path)], check=True)
    found = load_file(tmp_path / "golden_audio8.safetensors")
    expected = load_file(ORACLE / "golden_audio8.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
