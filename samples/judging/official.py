"""Speak rows with the official qwen-tts package, in an environment of its own.

    python official.py JOB.json

`samples/quality.py` writes the job and starts this with `--official-python`. Nothing of ours is
imported, since the package pins its own transformers. Rows are spoken in batches, each from a
random state of its own, so that a run that was killed goes on at the batch it was at. Speech is cut
where the row's cap is, as ours is. Calls and defaults are those of the package's own examples.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

Row = dict[str, Any]

SAMPLED = {"greedy": "do_sample", "subtalker_greedy": "subtalker_dosample"}
PASSED = ("temperature", "top_k", "top_p", "repetition_penalty")
SETTINGS = (*PASSED, *(f"subtalker_{name}" for name in PASSED[:3]))


def settings_of(row: Row) -> dict[str, Any]:
    """A row's sampling, by the package's names; what is not given, its checkpoint says."""
    found = {name: row[name] for name in SETTINGS if name in row}
    return {**found, **{SAMPLED[name]: not row[name] for name in SAMPLED if name in row}}


def batches(rows: list[Row], size: int) -> list[list[Row]]:
    """Rows of equal settings, at most `size` each; shorter texts together, so that few frames are
    made in vain.
    """

    def key(row: Row) -> str:
        modes = ("ref_audio" in row, row.get("clone_mode"), row.get("instruct") is not None)
        return json.dumps([modes, settings_of(row)], sort_keys=True)

    parted: list[list[Row]] = []
    in_order = sorted(rows, key=lambda row: (key(row), row["max_frames"]))
    for _, group in itertools.groupby(in_order, key=key):
        listed = list(group)
        parted += [listed[start : start + size] for start in range(0, len(listed), size)]
    return parted


def speak(model: Any, rows: list[Row]) -> tuple[list[Any], int]:
    """Samples of a batch, (n,) each, and their rate in Hz."""
    kind = model.model.tts_model_type
    given: dict[str, Any] = {
        "text": [row["text"] for row in rows],
        "language": [row.get("language") or "Auto" for row in rows],
        # The last token is drawn and never expanded.
        "max_new_tokens": max(row["max_frames"] for row in rows) + 1,
        **settings_of(rows[0]),
    }
    if kind == "base":
        given["ref_audio"] = [row["ref_audio"] for row in rows]
        given["ref_text"] = [row.get("ref_text") for row in rows]
        given["x_vector_only_mode"] = [row["clone_mode"] == "xvec" for row in rows]
        waves, rate_hz = model.generate_voice_clone(**given)
    else:
        given["instruct"] = [row.get("instruct") or "" for row in rows]
        if kind == "custom_voice":
            given["speaker"] = [row["voice"] for row in rows]
        generate = f"generate_{kind}"
        waves, rate_hz = getattr(model, generate)(**given)
    return list(waves), int(rate_hz)


def digest_of(job: Row, rows: list[Row]) -> str:
    """Of all that a batch's speech depends on."""
    facts = {name: job[name] for name in ("identity", "dtype")}
    return hashlib.sha256(json.dumps([facts, rows], sort_keys=True).encode()).hexdigest()[:16]


def load(job: Row) -> Any:
    """The package's model."""
    import torch
    from qwen_tts import Qwen3TTSModel

    device = {} if job["device"] == "cpu" else {"device_map": job["device"]}
    return Qwen3TTSModel.from_pretrained(
        job["model"], dtype=getattr(torch, job["dtype"]), attn_implementation="sdpa", **device
    )


def versions() -> dict[str, str]:
    """Of what spoke, as it is installed."""
    found = {}
    for name in ("qwen-tts", "qwen-tts-hf", "torch", "transformers"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def main() -> None:
    """Command line."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out = Path(job["out"])
    model = None
    done = 0
    for rows in batches(job["rows"], job["batch"]):
        marker = out / ".done" / digest_of(job, rows)
        if not marker.exists():
            import soundfile
            import torch

            if model is None:
                model = load(job)
            torch.manual_seed(int(marker.name, 16) % 2**31)
            waves, rate_hz = speak(model, rows)
            for row, wave in zip(rows, waves, strict=True):
                path = out / f"{row['id']}.wav"
                path.parent.mkdir(parents=True, exist_ok=True)
                kept = wave[: round(row["max_frames"] * job["frame_s"] * rate_hz)]
                soundfile.write(f"{path}.part", kept, rate_hz, "PCM_16", format="WAV")
                os.replace(f"{path}.part", path)
            marker.parent.mkdir(exist_ok=True)
            marker.touch()
        done += len(rows)
        print(f"official: {done} of {len(job['rows'])} rows", file=sys.stderr, flush=True)
    if model is not None:
        facts = {**versions(), "dtype": job["dtype"], "max_batch": job["batch"]}
        (out / "versions.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
