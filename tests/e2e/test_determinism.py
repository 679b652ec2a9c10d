"""The same request gives the same bytes, and which setting wins where several are given.

On a CPU in float32 a row's codes and audio are compared byte for byte, whatever its batch was: the
design promises that much there.
"""

from __future__ import annotations

import random

import pytest
from workbench import Workbench

from tts_cli.cli import messages as msg

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


def test_a_second_run_gives_the_same_bytes(bench: Workbench, reference: dict[str, bytes]) -> None:
    assert bench.synth(ROWS, *FLAGS, out="again").code == 0
    assert bench.out("again").files == reference
    # Speaking again over the old files gives the same once more.
    assert bench.synth(ROWS, *FLAGS, "--overwrite", out="again").code == 0
    assert bench.out("again").files == reference


@pytest.mark.parametrize("max_batch", [1, 4])
def test_neither_order_nor_batch_reaches_a_row(
    bench: Workbench, reference: dict[str, bytes], max_batch: int
) -> None:
    rows = random.Random(max_batch).sample(ROWS, len(ROWS))
    assert bench.synth(rows, *FLAGS, "--max-batch", max_batch).code == 0
    assert bench.out().files == reference
    assert max(record["bucket"] for record in bench.out().lines) == max_batch


def test_on_a_cpu_every_run_is_reproducible(bench: Workbench, reference: dict[str, bytes]) -> None:
    """The flag changes no byte there. What it promises is part of the hash, wherever it was asked
    for: a folder may go on where there is a GPU.
    """
    flags = (*FLAGS, "--reproducible", "--max-batch", 4)
    result = bench.synth(ROWS, *flags)
    assert result.code == 0
    assert (
        "--reproducible has no effect: in float32 on a CPU, rows are the same in any batch"
        in result.err
    )
    assert bench.out().files == reference
    settings = bench.out().report["settings"]
    assert settings["reproducible"] is True
    assert msg.NOTHING_TO_DO.format(reason="") in bench.synth(ROWS, *flags).out
    again = bench.synth(ROWS, *FLAGS, "--reproducible", "--max-batch", 2, "--dry-run")
    assert msg.NOTHING_TO_DO.format(reason="") not in again.out + again.err
    refused = bench.synth(ROWS, *FLAGS, "--reproducible", "--dtype", "bfloat16", out="half")
    assert refused.code == 3
    assert "use --dtype float32" in refused.err


def test_an_id_is_part_of_the_seed_and_nothing_else_is(bench: Workbench) -> None:
    """The row's own seed counts alone; without one, run seed and id make it."""
    rows = [
        {"id": "a", "text": "Hello there.", "seed": 7},
        {"id": "b", "text": "Hello there.", "seed": 7},
        {"id": "c", "text": "Hello there."},
        {"id": "d", "text": "Hello there."},
    ]
    for seed in (1, 2):
        assert bench.synth(rows, *FLAGS, "--seed", seed, out=f"seed{seed}").code == 0
    names = [f"{row['id']}.wav" for row in rows]
    first, second = (
        dict(zip(names, bench.out(out).sounds(*names), strict=True)) for out in ("seed1", "seed2")
    )
    assert first["a.wav"] == first["b.wav"] == second["a.wav"] == second["b.wav"]
    assert len({first["a.wav"], first["c.wav"], first["d.wav"], second["c.wav"]}) == 4
    assert bench.out("seed1").records["a"]["seed"] == 7
