"""How speech sounds at another pace: words that a recognizer gets wrong, DNSMOS, and pitch.

    tts-cli synth rows.jsonl --out wavs/
    python tests/e2e/pace_quality.py wavs/

Our own method is compared with Signalsmith Stretch (python-stretch) and Rubber Band (pedalboard)
where they are installed. Prints a table every six rows.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from rapidfuzz.distance import Levenshtein

from tts_cli.audio.stretch import stretch
from tts_cli.checks.asr.sphinx import _words
from tts_cli.checks.mos import scores

Array = np.ndarray[Any, Any]
Method = Callable[[Array, int, float], Array]

SPEEDS = (0.8, 1.2, 1.4)
LOWEST_HZ, HIGHEST_HZ = 60, 400  # of voices


def signalsmith(samples: Array, rate_hz: int, speed: float) -> Array:
    import python_stretch

    stretcher = python_stretch.Signalsmith.Stretch()
    stretcher.preset(1, rate_hz)
    stretcher.timeFactor = speed
    return np.asarray(stretcher.process(samples[None]))[0]


def rubber_band(samples: Array, rate_hz: int, speed: float) -> Array:
    import pedalboard

    return np.asarray(pedalboard.time_stretch(samples, rate_hz, speed, 0.0))[0]


METHODS: dict[str, Method] = {
    "WSOLA": stretch, "Signalsmith": signalsmith, "Rubber Band": rubber_band,
}  # fmt: skip


def pitch_hz(samples: Array, rate_hz: int) -> float:
    """Return the median pitch of windows of 40 ms, by autocorrelation."""
    size, found = round(0.04 * rate_hz), []
    low, high = round(rate_hz / HIGHEST_HZ), round(rate_hz / LOWEST_HZ)
    for start in range(0, len(samples) - size, size // 2):
        window = samples[start : start + size] - samples[start : start + size].mean()
        if np.sqrt(np.mean(window**2)) < 0.01:
            continue
        similar = np.correlate(window, window, "full")[size - 1 :]
        period = low + int(np.argmax(similar[low:high]))
        if similar[period] > 0.5 * similar[0]:
            found.append(rate_hz / period)
    return float(np.median(found)) if found else float("nan")


def words_of(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", " ", text.lower()).split()


def measured(samples: Array, rate_hz: int, text: str) -> list[float]:
    """Return wrong words, all words, DNSMOS and the pitch in semitones."""
    at_16k = soxr.resample(samples, rate_hz, 16_000).astype(np.float32)
    wanted = words_of(text)
    wrong = Levenshtein.distance(wanted, words_of(_words(at_16k)))
    return [wrong, len(wanted), scores(at_16k)[2], 12 * np.log2(pitch_hz(samples, rate_hz))]


def main(out: Path) -> None:
    found: dict[tuple[str, float], list[list[float]]] = defaultdict(list)
    lines = map(json.loads, (out / "timings.jsonl").read_text(encoding="utf-8").splitlines())
    for number, line in enumerate(lines, 1):
        samples, rate_hz = soundfile.read(out / line["path"], dtype="float32")
        before = measured(samples, rate_hz, line["text"])
        found["original", 1.0].append([*before[:3], 0.0])
        for name, method in METHODS.items():
            for speed in SPEEDS:
                after = measured(method(samples, rate_hz, speed), rate_hz, line["text"])
                found[name, speed].append([*after[:3], abs(after[3] - before[3])])
        if number % 6 == 0:
            print(f"{number} rows: method, speed, words wrong, DNSMOS, pitch in semitones")
            for (name, speed), rows in found.items():
                wrong, words, mos, pitch = np.nanmean(np.array(rows), axis=0)
                print(f"{name:12} {speed} {100 * wrong / words:5.1f} % {mos:.2f} {pitch:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
