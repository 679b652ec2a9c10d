"""Output folders without synthesis: a journal, its runs, and tones as audio.

python tests/support/spoken_folders.py 5000 FOLDER    # rows of four voices, some of them suspect
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tts_cli.audio.file import encode
from tts_cli.core import Status
from tts_cli.store.entry import JournalEntry

RATE_HZ = 8000
RUN_ID = "20261122T120000Z-abc123"
TEXT = "every clock in the long street was wrong again by noon while rain fell on old roofs"
VOICES = ("arthur", "clara", "ewan", "dora")


def tone(seconds: float, peak: float = 0.3, hz: float = 220.0) -> bytes:
    """A WAV file of a tone that fades in and out."""
    times = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    shape = np.sin(math.pi * times / max(seconds, 1e-9))
    samples = (peak * shape * np.sin(2 * math.pi * hz * times)).astype(np.float32)
    return encode(samples, RATE_HZ, "wav", "PCM_16")


def record(row_id: str, **changes: Any) -> dict[str, Any]:
    """The line of a row that is fine, with the given fields changed or added."""
    fields: dict[str, Any] = {
        "request_hash": "aa",
        "delivery_hash": "bb",
        "frames": 20,
        "audio_s": 4.0,
        "path": f"{row_id}.wav",
        "sample_rate_hz": RATE_HZ,
        "finish_reason": "eos",
        "run_id": RUN_ID,
        "text": TEXT,
        "text_chars": len(changes.get("text") or TEXT),
        "voice": "clara",
        "language": "auto",
        "seed": 7,
        "attempts": 1,
        "level_dbfs": -20.0,
        "peak_dbfs": -6.0,
        "clipped_share": 0.0,
        "silence_start_s": 0.1,
        "silence_end_s": 0.1,
        "silence_inside_s": 0.0,
        "prefill_ms": 10.0,
        "decode_ms": 100.0,
        "vocoder_ms": 40.0,
        "write_ms": 2.0,
    }
    if isinstance(changes.get("suspect"), list):
        changes["remarks"] = [["other", text, 2.0] for text in changes["suspect"]]
    return {**json.loads(JournalEntry(row_id, Status.OK, **fields).to_line()), **changes}


def write_folder(
    out: Path,
    records: Iterable[Mapping[str, Any]],
    *,
    audio: Mapping[str, bytes] | None = None,
    runs: Iterable[Mapping[str, Any]] | None = None,
) -> Path:
    """Write a folder.

    Args:
        audio: files by path; None: a tone for every record with a path.
        runs: lines of runs.jsonl, the last of which becomes run.json; None: one run.
    """
    out.mkdir(parents=True, exist_ok=True)
    records = list(records)
    if audio is None:
        sound = tone(0.4)
        audio = {line["path"]: sound for line in records if line["path"] is not None}
    for path, content in audio.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(content)
    lines = "".join(json.dumps(line) + "\n" for line in records)
    (out / "timings.jsonl").write_text(lines, encoding="utf-8")
    made = [run()] if runs is None else list(runs)
    (out / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
    if made:
        (out / "run.json").write_text(json.dumps(made[-1]))
    return out


def run(run_id: str = RUN_ID, **changes: Any) -> dict[str, Any]:
    """A line of runs.jsonl."""
    return {
        "run_id": run_id,
        "started": "2026-11-22T12:00:00.000Z",
        "manifests": ["/books/my lines.jsonl"],
        "settings": {"seed": 3, "voice": "clara", "language": "auto", "format": "wav"},
        "model": {"source": "sample voice"},
        "totals": {"ok": 1, "wall_s": 10.0, "load_s": 2.0, "capture_s": 1.0},
        **changes,
    }


def with_file(content: bytes) -> dict[str, Any]:
    """The fields of a record that tell its file."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def many_records(count: int) -> Iterable[dict[str, Any]]:
    """Rows of four voices; every hundredth is loud, every 250th failed."""
    for number in range(count):
        voice = VOICES[number % len(VOICES)]
        changes: dict[str, Any] = {
            "voice": voice,
            "text": f"Line {number}: {TEXT[number % 11 :]}",
            "seed": number,
            "audio_s": 4.0 + (number * 37 % 100) / 100,
            "level_dbfs": -20.0 - number * 13 % 10 / 5 + 9.0 * (number % 100 == 50),
        }
        if number % 250 == 249:
            changes |= {"status": "failed", "error": "no end of speech", "path": None, "frames": 0}
        yield record(f"part{number // 1000:02d}/{number:06d}", **changes)


if __name__ == "__main__":
    write_folder(Path(sys.argv[2]), many_records(int(sys.argv[1])))
