"""How often the watermark is detected after what happens to files, and how often without one.

    tts-cli synth rows.jsonl --out wavs/
    python tests/e2e/watermark_rates.py wavs/

Each row is marked, changed and searched for the mark; the unmarked row is changed likewise.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from tts_cli.app.marks import DETECTED
from tts_cli.audio.file import check_format, encode, resample
from tts_cli.audio.watermark import Watermark
from tts_cli.checks.mos import scores

Array = np.ndarray[Any, Any]
MOS_ROWS = 30  # rows whose DNSMOS is measured with and without the mark


def through(format: str, kbps: int) -> Callable[[Array, int], tuple[Array, int]]:
    def change(samples: Array, rate_hz: int) -> tuple[Array, int]:
        coding = check_format(format, "PCM_16", rate_hz, kbps)
        data = encode(samples, rate_hz, format, coding, kbps=kbps)
        found, found_hz = soundfile.read(io.BytesIO(data), dtype="float32")
        return found, found_hz

    return change


def noisy(samples: Array, rate_hz: int) -> tuple[Array, int]:
    """Add white noise 30 dB below the speech."""
    level = np.sqrt(np.mean(samples**2)) * 10 ** (-30 / 20)
    noise = np.random.default_rng(0).normal(0, level, len(samples))
    return (samples + noise).astype(np.float32), rate_hz


CHANGES: dict[str, Callable[[Array, int], tuple[Array, int]]] = {
    "none": lambda samples, rate_hz: (samples, rate_hz),
    "MP3, 64 kbit/s": through("mp3", 64),
    "Opus, 32 kbit/s": through("opus", 32),
    "resampled to 16 kHz": lambda samples, hz: (resample(samples, hz, 16_000), 16_000),
    "resampled to 8 kHz": lambda samples, hz: (resample(samples, hz, 8_000), 8_000),
    "one second cut out": lambda samples, hz: (samples[hz // 3 : hz // 3 + hz], hz),
    "noise at -30 dB": noisy,
}


def main(out: Path) -> None:
    watermark = Watermark()
    counts = {name: [0, 0, 0] for name in CHANGES}  # rows, detected, false alarms
    mos: list[tuple[float, float]] = []
    for line in map(json.loads, (out / "timings.jsonl").read_text(encoding="utf-8").splitlines()):
        samples, rate_hz = soundfile.read(out / line["path"], dtype="float32")
        marked = watermark.added(samples, rate_hz)
        for name, change in CHANGES.items():
            counts[name][0] += 1
            counts[name][1] += watermark.score(*change(marked, rate_hz)) >= DETECTED
            counts[name][2] += watermark.score(*change(samples, rate_hz)) >= DETECTED
        if len(mos) < MOS_ROWS:
            pair = (scores(resample(one, rate_hz, 16_000))[2] for one in (samples, marked))
            mos.append(tuple(pair))  # type: ignore[arg-type]
        if counts["none"][0] % 25 == 0:
            show(counts, mos)


def show(counts: dict[str, list[int]], mos: list[tuple[float, float]]) -> None:
    for name, (rows, detected, alarms) in counts.items():
        print(f"{name:20} detected {detected} of {rows}, false alarms {alarms} of {rows}")
    before, after = np.mean(np.array(mos), axis=0)
    print(f"DNSMOS {before:.2f} without, {after:.2f} with the mark ({len(mos)} rows)", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
