"""Tiny random checkpoints and a workbench to run whole commands on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tiny_qwen3_tts import SPECS, write_checkpoint
from workbench import MakeCheckpoint, Workbench

SPEC = "custom_voice_wide"
# Thinner than the one the golden files are for: a frame (2.5 ms of sound) takes about 1.5 ms here.
# Its speech ends by itself after 2 to 65 frames, 20 on average; with `LONGER` after up to 120, 48.
THIN = {
    "talker": replace(SPECS[SPEC].talker, layers=2),
    "predictor": replace(SPECS[SPEC].predictor, layers=1),
    "eos_gain": 1.8,
}
LONGER: dict[str, Any] = {"eos_gain": 1.4}
POISON = "~"


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MakeCheckpoint:
    """Write a tiny checkpoint, with changes to its spec or its generation_config.json."""

    def make(name: str = SPEC, *, generation: dict[str, Any] | None = None, **changes: Any) -> Path:
        folder = tmp_path_factory.mktemp(name)
        changes = {**(THIN if name == SPEC else {}), **changes}
        return write_checkpoint(folder, replace(SPECS[name], **changes), generation=generation)

    return make


@pytest.fixture(scope="session")
def checkpoint(make_checkpoint: MakeCheckpoint) -> Path:
    """A CustomVoice checkpoint with the voices dora, emil and fang."""
    return make_checkpoint()


@pytest.fixture(scope="session")
def longer(make_checkpoint: MakeCheckpoint) -> Path:
    """The same, but it speaks longer, for tests that look at how long: a file's `checkpoint`."""
    return make_checkpoint(**LONGER)


@pytest.fixture(scope="session")
def endless(make_checkpoint: MakeCheckpoint) -> Path:
    """The same, but it never ends its speech: EOS is never among the likeliest codes."""
    return make_checkpoint(eos_gain=0.0, generation={"top_k": 5})


@pytest.fixture(scope="session")
def poisoned(make_checkpoint: MakeCheckpoint) -> Path:
    """The same, but a `~` in the text turns everything behind it into NaN."""
    return poison(make_checkpoint())


@pytest.fixture(scope="session")
def endless_and_poisoned(make_checkpoint: MakeCheckpoint) -> Path:
    """Both at once."""
    return poison(make_checkpoint(eos_gain=0.0, generation={"top_k": 5}))


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
