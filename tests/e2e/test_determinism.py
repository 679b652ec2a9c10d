"""The same request gives the same bytes, and which setting wins where several are given.

On a CPU in float32 a row's codes and audio are compared byte for byte, whatever its batch was: the
design promises that much there.
"""

from __future__ import annotations

import random

import pytest
from workbench import Workbench

VOICES = ("dora", "emil", "fang")
TEXTS = ("Hello there.", "Good morning, all of you.", "Hm.", "The rain in the street sings")
ROWS = [
    {"id": f"row{number:02d}", "text": TEXTS[number % 4], "voice": VOICES[number % 3]}
    for number in range(10)
]
FLAGS = ("--max-seconds", 1, "--save-codes")


@pytest.fixture
def reference(bench: Workbench) -> dict[str, bytes]:
    """Audio and codes of ROWS from the usual run."""
    bench.synth_once(ROWS, *FLAGS, out="reference")
    files = bench.out("reference").files
    assert len(set(files.values())) == len(files) == 2 * len(ROWS)
    return files


@pytest.mark.parametrize("max_batch", [1, 4])
def test_neither_order_nor_batch_reaches_a_row(
    bench: Workbench, reference: dict[str, bytes], max_batch: int
) -> None:
    rows = random.Random(max_batch).sample(ROWS, len(ROWS))
    bench.synth(rows, *FLAGS, "--max-batch", max_batch).expect(0)
    assert bench.out().files == reference
    assert max(record["bucket"] for record in bench.out().lines) == max_batch
