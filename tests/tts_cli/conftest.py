"""Checkpoints that exist only as their description, and manifests written on the fly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.base import ModelInfo
from models.sampling import Sampling
from tts_cli.sources.item import ManifestFile, ReadOptions
from tts_cli.sources.open import open_source

MakeInfo = Callable[..., ModelInfo]
MakeSource = Callable[..., ManifestFile]

CUSTOM_VOICE = ModelInfo(
    family="qwen3_tts",
    type="custom_voice",
    mode="custom voice: rows name a voice",
    size="tiny",
    voices=("arthur", "clara", "uncle_fu"),
    languages=("auto", "english", "french"),
    takes_instruct=False,
    can_clone=False,
    num_codebooks=16,
    sample_rate_hz=24_000,
    samples_per_frame=1920,
    max_frames=512,
    max_positions=4096,
    sampling=Sampling(),
    identity="abc",
)


@pytest.fixture(autouse=True)
def _subprocesses_find_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever folder pytest was started in."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent.parent))


@pytest.fixture
def make_info() -> MakeInfo:
    """A custom voice checkpoint, with the given fields changed."""

    def make(**changes: Any) -> ModelInfo:
        return replace(CUSTOM_VOICE, **changes)

    return make


@pytest.fixture
def make_source(tmp_path: Path) -> MakeSource:
    """Write a manifest and open it."""

    def make(
        content: str | bytes, name: str = "m.jsonl", format: str | None = None
    ) -> ManifestFile:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        with open_source(str(path), ReadOptions(format)) as source:
            return source

    return make
