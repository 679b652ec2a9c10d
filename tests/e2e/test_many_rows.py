"""A million rows: how long checking them takes, and finding out that all are done.

Minutes, and 4 GiB of small files; `TTS_CLI_ROWS=200000` makes it less.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from many_rows import write_done, write_manifest

from tts_cli.cli import messages as msg

ROOT = Path(__file__).parents[2]
ROWS = int(os.environ.get("TTS_CLI_ROWS", 1_000_000))
# Runs a command, and then says what it took: seconds of processor, MiB at most.
PROGRAM = """
import resource, sys
from tts_cli.main import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(code)
"""
AS_WRITTEN = ("--normalize", "off")  # as released checkpoints have it; the sample voice reads all
START_S = 3.0  # imports, and what else does not grow with the rows


def measure(*args: object) -> tuple[str, float, float]:
    """Stdout, processor seconds and peak MiB of a command."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *lines, last = found.stdout.splitlines()
    seconds, mib = map(float, last.split())
    print(f"{args[0]} of {ROWS} rows: {seconds:.1f} s of processor, {mib:.0f} MiB")
    return "\n".join(lines), seconds, mib


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_many_rows(tmp_path: Path) -> None:
    manifest, out = tmp_path / "rows.jsonl", tmp_path / "out"
    write_manifest(manifest, ROWS)
    shown, seconds, mib = measure("validate", manifest, *AS_WRITTEN)
    assert shown.startswith(f"rows: {ROWS:,} good, 0 bad")
    assert seconds < START_S + 30e-6 * ROWS
    assert mib < 400
    _, seconds, _ = measure("validate", manifest)
    assert seconds < START_S + 45e-6 * ROWS
    write_done(manifest, out)
    shown, seconds, mib = measure("synth", manifest, "--out", out, *AS_WRITTEN)
    assert shown == msg.nothing_to_do(ROWS)
    assert seconds < START_S + 60e-6 * ROWS
    assert mib < 600
