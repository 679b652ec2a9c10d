"""Rows longer than the checkpoint speaks well: in parts, in one file, done or not done as a row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from workbench import Workbench

from tts_cli.cli import messages as msg

SENTENCES = (
    "The boat left the harbor after five, and nobody spoke.",
    "An old teacher held a basket of apples on his knees.",
    "Nobody had lived on that island for many years!",
)
TEXT = f"{SENTENCES[0]} {SENTENCES[1]}\n\n{SENTENCES[2]}"
LONG = {"id": "long", "text": TEXT, "seed": 3}
SHORT = [{"id": f"short{number}", "text": f"Row {number}.", "seed": number} for number in range(5)]
SPLIT = ("--split", 60, "--accept-truncated", "--max-seconds", 2)
PAUSES = {"sentence": 0.35, "paragraph": 0.8}
MARGIN_S = 0.02  # kept of silence at the ends of parts; counts as pause


def test_one_file_of_all_parts(bench: Workbench) -> None:
    result = bench.synth([*SHORT[:2], LONG, *SHORT[2:]], *SPLIT, "--save-codes").expect(
        0, "rows split into pieces: 1, 3 pieces\n"
    )
    assert result.summary == msg.synthesized(6, 6)
    out = bench.out()
    assert sorted(out.records) == ["long", *(row["id"] for row in SHORT)]
    record = out.records["long"]
    parts = record["parts"]
    assert [TEXT[part["text_start"] : part["text_end"]] for part in parts] == list(SENTENCES)
    assert [part["boundary"] for part in parts] == ["sentence", "paragraph", None]
    assert (parts[0]["seed"], record["seed"]) == (3, 3)
    assert len({part["seed"] for part in parts}) == 3
    samples = out.samples("long.wav")
    assert record["audio_s"] == pytest.approx(len(samples) / 24_000)
    assert parts[0]["start_s"] == 0
    assert parts[-1]["end_s"] == pytest.approx(record["audio_s"])
    for part, following in pairwise(parts):
        pause_s = PAUSES[part["boundary"]]
        gap = slice(round(part["end_s"] * 24_000), round(following["start_s"] * 24_000))
        assert pause_s - 2 * MARGIN_S <= (gap.stop - gap.start) / 24_000 <= pause_s + 1e-4
        assert not np.any(samples[gap])
    frames = sum(part["frames"] for part in parts)
    assert record["frames"] == frames
    assert load_file(out.path / "long.codes.safetensors")["codes"].shape == (frames, 2)
    assert all(out.records[row["id"]]["parts"] == [] for row in SHORT)


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer
