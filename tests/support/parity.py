"""Our rows against the official package's: the same codes, the waveform to rounding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from speak import Row
from torch import Tensor

from models.base import SpeechRequest, Voice
from models.sampling import Sampling

ORACLE = Path(__file__).parents[1] / "oracle"
SAMPLE_TOLERANCE = 1e-4  # float32 convolutions summed in another order, over samples in [-1, 1]


def as_request(row: dict[str, Any], clone: Voice | None = None) -> SpeechRequest:
    """A golden row as a request. The package never expands its last token, hence one frame less."""
    penalty = row["repetition_penalty"]
    return SpeechRequest(
        text=row["text"],
        voice=row["voice"],
        language=row["language"] or "auto",
        instruct=row["instruct"],
        layout=row["layout"],
        sampling=Sampling(repetition_penalty=penalty, greedy=True, subtalker_greedy=True),
        max_frames=row["max_new_tokens"] - 1,
        clone=clone,
    )


def check_codes(name: str, ours: Tensor, theirs: Tensor) -> None:
    """Fail naming the first frame and codebook that differ."""
    shared = min(len(ours), len(theirs))
    differing = (ours[:shared] != theirs[:shared]).nonzero()
    if len(differing):
        frame, codebook = differing[0].tolist()
        values = f"{int(ours[frame, codebook])}, expected {int(theirs[frame, codebook])}"
        pytest.fail(f"{name}: first difference at frame {frame}, codebook {codebook}: {values}")
    assert len(ours) == len(theirs), f"{name}: {len(ours)} frames, expected {len(theirs)}"


def check_all(rows: list[Tensor], expected: list[Tensor]) -> None:
    """Compare the codes of rows, one by one."""
    for index, (row, other) in enumerate(zip(rows, expected, strict=True)):
        check_codes(f"row {index}", row, other)


def check_samples(ours: Tensor, theirs: Tensor) -> None:
    """Fail where a sample is off by more than float32 rounding explains."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=SAMPLE_TOLERANCE)


def check_row(golden: Any, row: dict[str, Any], ours: Row) -> None:
    """Compare a synthesized row with its golden file."""
    name = f"{golden.spec} {row['id']}"
    check_codes(name, ours.codes, golden.tensors[f"codes.{row['id']}"].long())
    assert ours.finish_reason == row["finish_reason"], name
    assert len(ours.samples) == row["num_samples"], name
    check_samples(ours.samples[:: row["sample_step"]], golden.tensors[f"samples.{row['id']}"])


def load_draws(name: str) -> list[tuple[dict[str, Any], Tensor, Tensor]]:
    """Settings, logits and official probabilities of golden draws."""
    cases = json.loads((ORACLE / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    tensors = load_file(ORACLE / f"{name}.safetensors")
    return [
        (case, tensors[f"logits.{i}"], tensors[f"probabilities.{i}"])
        for i, case in enumerate(cases)
    ]


def check_drawn(drawn: Tensor, probabilities: Tensor) -> None:
    """Compare ids that were drawn by an even grid of uniforms with the official probabilities."""
    assert bool((probabilities[drawn] > 0).all()), "an id was drawn that the package had ruled out"
    frequency = torch.bincount(drawn, minlength=len(probabilities)) / len(drawn)
    # Such a grid hits each id within one grid step of its probability.
    assert float((frequency - probabilities).abs().max()) < 1.5 / len(drawn)
