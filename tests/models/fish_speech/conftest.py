"""Tiny checkpoints on disk, loaded models and the official packages' answers to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_speech as tiny
import torch
from safetensors.torch import load_file
from torch import Tensor

from models.base import SpeechRequest
from models.dual_ar.model import DualAR
from models.registry import load_model
from models.sampling import Sampling

ORACLE = Path(__file__).parents[2] / "oracle"
GREEDY = Sampling(greedy=True, subtalker_greedy=True, repetition_penalty=1.0)


@dataclass(frozen=True)
class Golden:
    """What the official package made of one tiny checkpoint."""

    spec: str
    folder: Path  # the checkpoint, written anew from its seed
    rows: list[dict[str, Any]]  # inputs, token ids, counts and the end reason of each row
    tensors: dict[str, Tensor]  # codes.ID, first.ID and rest.ID: logits of a few steps

    def request(self, row: dict[str, Any]) -> SpeechRequest:
        """A golden row as a request."""
        voice = row["voice"]
        clone = None
        if voice is not None:
            clone = tiny.random_voice(self.spec, voice["frames"], voice["text"], int(row["id"]))
        return SpeechRequest(
            row["text"], sampling=GREEDY, max_frames=row["max_frames"], clone=clone
        )


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny_fish_speech.write_checkpoint` into a fresh folder."""

    def write(spec: str | tiny.Spec = "small", seed: int = 0, **options: Any) -> Path:
        return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), spec, seed, **options)

    return write


@pytest.fixture(scope="session", params=sorted(tiny.SPECS))
def golden(request: pytest.FixtureRequest, checkpoint: Callable[..., Path]) -> Golden:
    """Each golden file in turn, with its checkpoint."""
    name = request.param
    report = json.loads((ORACLE / f"golden_fish_{name}.json").read_text(encoding="utf-8"))
    folder = checkpoint(name, report["seed"])
    message = "the tiny checkpoint changed: make the goldens anew"
    assert tiny.digest(folder) == report["checkpoint"], message
    tensors = load_file(ORACLE / f"golden_fish_{name}.safetensors")
    return Golden(name, folder, report["rows"], tensors)


@pytest.fixture(scope="session")
def golden_model(golden: Golden) -> DualAR:
    """Our model of the golden checkpoint, float32 on the CPU."""
    return load_fish(golden.folder)


def load_fish(folder: Path, device: str = "cpu", use_graphs: bool = False) -> DualAR:
    """A checkpoint in float32."""
    model = load_model(str(folder), device, torch.float32, use_graphs=use_graphs)
    assert isinstance(model, DualAR)
    return model


@pytest.fixture(scope="session")
def small(checkpoint: Callable[..., Path]) -> DualAR:
    """The small checkpoint in float32 on the CPU."""
    return load_fish(checkpoint("small", 1))
