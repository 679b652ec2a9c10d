"""Tiny checkpoints on disk, loaded models and the official package's answers to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny_qwen3_tts as tiny
import torch
from safetensors.torch import load_file
from torch import Tensor

from models.registry import load_model
from models.slots.model import SpeechModel

ORACLE = Path(__file__).parents[2] / "oracle"
GOLDEN_SPECS = ("custom_voice", "custom_voice_wide", "voice_design")
CLONE_SPECS = ("base", "base_wide")


@dataclass(frozen=True)
class Golden:
    """What the official package made of one tiny checkpoint."""

    spec: str
    folder: Path  # the checkpoint, written anew from its seed
    rows: list[dict[str, Any]]  # inputs, settings, counts and the end reason of each row
    long: dict[str, Any]  # the same of a decode of random codes
    seed: int
    tensors: dict[str, Tensor]  # codes.ID, samples.ID (thinned), prompt.ID, trailing.ID


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny_qwen3_tts.write_checkpoint` into a fresh folder."""

    def write(spec: str | tiny.Spec = "custom_voice", seed: int = 0, **options: Any) -> Path:
        return tiny.write_checkpoint(tmp_path_factory.mktemp("checkpoint"), spec, seed, **options)

    return write


def load_golden(name: str, write: Callable[..., Path]) -> tuple[Golden, dict[str, Any]]:
    """A golden file with its checkpoint, and the whole report."""
    report = json.loads((ORACLE / f"golden_{name}.json").read_text(encoding="utf-8"))
    tensors = load_file(ORACLE / f"golden_{name}.safetensors")
    folder = write(tiny.GOLDEN_SPECS[name], report["seed"])
    message = "the tiny checkpoint changed: make the goldens anew"
    assert tiny.digest(folder) == report["checkpoint"], message
    golden = Golden(name, folder, report["rows"], report["long"], report["seed"], tensors)
    return golden, report


@pytest.fixture(scope="session", params=GOLDEN_SPECS)
def golden(request: pytest.FixtureRequest, checkpoint: Callable[..., Path]) -> Golden:
    """Each golden file in turn, with its checkpoint."""
    return load_golden(request.param, checkpoint)[0]


@pytest.fixture(scope="session")
def golden_model(golden: Golden) -> SpeechModel:
    """Our model of the golden checkpoint, float32 on the CPU."""
    return load_model(str(golden.folder), "cpu", torch.float32)


@dataclass(frozen=True)
class CloneGolden(Golden):
    """The same of a Base checkpoint, and what the package made of references."""

    waves: dict[str, Tensor]  # name -> (n,) float32 at 24 kHz


@pytest.fixture(scope="session", params=CLONE_SPECS)
def clone_golden(request: pytest.FixtureRequest, checkpoint: Callable[..., Path]) -> CloneGolden:
    """Each golden file of cloning in turn, with its checkpoint."""
    golden, report = load_golden(request.param, checkpoint)
    waves = {
        name: tiny.reference_wave(found["seed"], found["num_samples"])
        for name, found in report["references"].items()
    }
    return CloneGolden(**vars(golden), waves=waves)


@pytest.fixture(scope="session")
def clone_model(clone_golden: CloneGolden) -> SpeechModel:
    """Our model of the Base checkpoint, float32 on the CPU."""
    return load_model(str(clone_golden.folder), "cpu", torch.float32)
