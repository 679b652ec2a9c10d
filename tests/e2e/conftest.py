"""Tiny random checkpoints and a workbench to run whole commands on them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_qwen3_tts import SPECS, write_checkpoint
from workbench import (
    THREE,
    UP_TO_A_SECOND,
    MakeCheckpoint,
    Workbench,
    described_once,
    forbid_weights,
)

# A process uses the first token that Ray got in it for every later Ray.
os.environ.setdefault("RAY_AUTH_TOKEN", "0123456789abcdef0123456789abcdef")
SPEC = "custom_voice_wide"
# Thinner than those the golden files are for: a frame (2.5 ms of sound) takes two passes of one
# layer each. With this seed speech ends after 2 to 30 frames, 14 on average, however long a text
# is; with `LONGER` after up to 100, 35, which no sentence finds too few.
THIN_KINDS = (SPEC, "base_wide", "voice_design")
THIN_SEED, THIN_EOS_GAIN = 5, 2.6
LONGER: dict[str, Any] = {"eos_gain": 1.7}
POISON = "~"


_described_once = pytest.fixture(autouse=True, scope="session")(described_once)


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MakeCheckpoint:
    """Write a tiny checkpoint, with changes to its spec or its generation_config.json."""

    def make(name: str = SPEC, *, generation: dict[str, Any] | None = None, **changes: Any) -> Path:
        folder, spec, seed = tmp_path_factory.mktemp(name), SPECS[name], 0
        if name in THIN_KINDS:
            talker, predictor = (replace(one, layers=1) for one in (spec.talker, spec.predictor))
            spec = replace(spec, talker=talker, predictor=predictor, num_codebooks=2)
            spec = replace(spec, has_small_speaker_encoder=spec.type == "base")
        if name == SPEC:
            spec, seed = replace(spec, eos_gain=THIN_EOS_GAIN), THIN_SEED
        return write_checkpoint(folder, replace(spec, **changes), seed, generation=generation)

    return make


@pytest.fixture(scope="session")
def checkpoint(make_checkpoint: MakeCheckpoint) -> Path:
    """A CustomVoice checkpoint with the voices dora, emil and fang."""
    return make_checkpoint()


@pytest.fixture(scope="session")
def longer(make_checkpoint: MakeCheckpoint) -> Path:
    """The same with longer speech, for texts of several sentences."""
    return make_checkpoint(**LONGER)


@pytest.fixture(scope="session")
def endless(make_checkpoint: MakeCheckpoint) -> Path:
    """The same, but it never ends its speech: EOS is never among the likeliest codes."""
    return make_checkpoint(eos_gain=0.0, generation={"top_k": 5})


@pytest.fixture(scope="session")
def poisoned(make_checkpoint: MakeCheckpoint) -> Path:
    """`longer`, but a `~` in the text turns everything after it into NaN."""
    return poison(make_checkpoint(**LONGER))


def poison(folder: Path) -> Path:
    """Make the text embedding of one byte NaN."""
    weights = load_file(folder / "model.safetensors")
    weights["talker.model.text_embedding.weight"][ord(POISON)] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture
def bench(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> Workbench:
    """A folder to run commands in."""
    return Workbench(tmp_path, checkpoint, capsys)


@pytest.fixture
def done(bench: Workbench) -> Workbench:
    """A bench on which three rows are spoken."""
    bench.synth_once(THREE, *UP_TO_A_SECOND)
    return bench


@pytest.fixture
def float32_is_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 is off on a GPU, as in runs."""
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading weights fails the test."""
    forbid_weights(monkeypatch)
