"""Checkpoints that lie: described, loaded or refused by name; no other error, hang or hunger."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import hostile_checkpoints
import pytest
import tiny_audio8
import tiny_fish_speech
import tiny_qwen3_tts
import torch

from models.checkpoint.files import CheckpointError
from models.registry import describe, load_model

pytestmark = pytest.mark.slow

QUICK, LONG = 15, 300  # changes of each kind
MAX_S = 10.0
MAX_BYTES = 512 * 2**20  # more than before
KINDS = ("custom_voice", "base", "fish", "audio8")


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that is good as long as nobody changes it."""
    path = tmp_path_factory.mktemp(request.param)
    if request.param == "audio8":
        return tiny_audio8.write_checkpoint(path)
    if request.param == "fish":
        return tiny_fish_speech.write_checkpoint(path)
    return tiny_qwen3_tts.write_checkpoint(path, request.param)


def use(folder: Path) -> bool:
    """Describe a checkpoint, load it and make its slots; whether it was taken."""
    info = describe(str(folder))
    model = load_model(str(folder), "cpu", torch.float32)
    model.allocate(1, min(info.max_positions, 256), min(info.max_frames, 64), 16)
    return True


def peak_bytes() -> int:
    """The most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    "seeds", [range(QUICK), pytest.param(range(QUICK, LONG), marks=pytest.mark.long)]
)
def test_hostile_checkpoints_are_refused_by_name(folder: Path, seeds: range) -> None:
    """1e9 layers hung, 1e40 was a TypeError, a codec's positions took 8 GB."""
    assert use(folder)
    before = peak_bytes()
    taken = 0
    for seed in seeds:
        what, undo = hostile_checkpoints.change(folder, seed)
        started_s = time.perf_counter()
        try:
            taken += use(folder)
        except CheckpointError:
            pass
        except BaseException as error:  # the tokenizers library panics with one
            pytest.fail(f"seed {seed}: {what}: {error!r:.300}")
        finally:
            undo()
        assert time.perf_counter() - started_s < MAX_S, (seed, what)
        assert peak_bytes() - before < MAX_BYTES, (seed, what)
    assert taken < len(seeds) / 2, "these changes do no harm"
