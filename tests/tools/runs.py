"""Runs of the harnesses that disturb commands: their rows, and what their folders must contain.

Without --model a tiny random checkpoint is written, whose frames take a millisecond or two.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
JOURNAL = "timings.jsonl"
OUR_OWN = {JOURNAL, "runs.jsonl", "run.json"}  # their lines tell times
LOCK = ".tts-cli.lock"
MARK = ".tts-cli.changing"
ODD = ("Traceback", "internal error", "make no sense")
TEXTS = ("Hello there.", "Good morning to all of you.", "Hm.", "The rain in the street.")


def write_tiny_model(folder: Path) -> Path:
    """A tiny random checkpoint, thin as the one of the tests beside this file."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
    from tiny_qwen3_tts import SPECS, write_checkpoint

    spec = SPECS["custom_voice_wide"]
    thin = {
        "talker": replace(spec.talker, layers=2),
        "predictor": replace(spec.predictor, layers=1),
    }
    return write_checkpoint(folder, replace(spec, **thin))


@dataclass(frozen=True)
class Work:
    """What every run is asked for."""

    manifest: Path
    model: Path
    rows: tuple[str, ...]  # their ids

    def start(self, out: Path, *flags: str) -> subprocess.Popen[str]:
        """A run into a folder."""
        command = [sys.executable, "-m", "tts_cli", "synth", str(self.manifest), "--out", str(out)]
        command += ["--model", str(self.model), "--device", "cpu", "--max-batch", "4"]
        return subprocess.Popen(
            [*command, "--max-seconds", "0.2", "--accept-truncated", "--save-codes", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )


def write_work(folder: Path, num_rows: int, model: Path | None) -> Work:
    """The manifest and the checkpoint."""
    rows = [{"id": f"part{n % 3}/{n:04d}", "text": TEXTS[n % 4]} for n in range(num_rows)]
    manifest = folder / "rows.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = model or write_tiny_model(folder / "model")
    return Work(manifest, model, tuple(row["id"] for row in rows))


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and what was said."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def files_of(out: Path) -> dict[str, str]:
    """SHA-256 of all that is in a folder but for what tells times."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in OUR_OWN
    }


def records_of(out: Path) -> dict[str, dict[str, Any]]:
    """The last whole line of each id."""
    if not (out / JOURNAL).exists():
        return {}
    lines = (out / JOURNAL).read_bytes().split(b"\n")
    records = [json.loads(line) for line in lines[:-1] if line.strip()]
    return {record["id"]: record for record in records}


def problem_amid(out: Path, wanted: dict[str, str]) -> str | None:
    """What is wrong with a folder whose run was just killed."""
    if not out.exists():
        return None
    found = files_of(out)
    for name, digest in found.items():
        if not name.endswith((".part", LOCK, MARK)) and wanted.get(name) != digest:
            return f"{name} is not whole"
    for row_id, record in records_of(out).items():
        if record["status"] == "ok" and found.get(record["path"]) != record["sha256"]:
            return f"{row_id} is recorded, and its file is not there"
    return None


def problem_at_end(out: Path, wanted: dict[str, str], work: Work) -> str | None:
    """How a finished folder differs from that of the undisturbed run."""
    found = files_of(out)
    if found != wanted:
        names = sorted(name for name in found | wanted if found.get(name) != wanted.get(name))
        return f"{len(names)} files differ: {', '.join(names[:5])}"
    done = {row_id for row_id, record in records_of(out).items() if record["status"] == "ok"}
    if done != set(work.rows):
        return f"recorded as ok are {len(done)} rows of {len(work.rows)}"
    return None


def odd_word(said: str) -> str | None:
    """What no run may say."""
    return next((f"it said {word!r}: {said[-500:]}" for word in ODD if word in said), None)


def parser_of(doc: str | None, num_rows: int) -> argparse.ArgumentParser:
    """What every harness takes; how often it disturbs is its own."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=num_rows)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--model", type=Path, help="another checkpoint than the tiny one")
    return parser


def speak_undisturbed(work: Work, out: Path) -> tuple[dict[str, str], float]:
    """What a run leaves that nothing happens to, and the seconds that it takes."""
    started_s = time.monotonic()
    code, said = end_of(work.start(out))
    whole_s = time.monotonic() - started_s
    assert code == 0, said
    return files_of(out), whole_s
