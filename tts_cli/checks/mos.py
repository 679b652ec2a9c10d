"""Predict people's ratings of a take with Microsoft's DNSMOS, whose models speechmos ships.

DNSMOS rates windows of 9.01 s at 16 kHz, one per second; shorter audio is repeated until it is long
enough. The score of a take is the mean of its windows. One model rates the speech, the background
and both (ITU-T P.835); another one, which gets a spectrogram, rates the whole (P.808).

Source: `speechmos.dnsmos`; the scores are equal. Its code is not imported: it needs librosa, whose
first spectrogram takes seconds per process, and it refuses samples above full scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.processes import Processes
from tts_cli.checks.asr.recognizer import RATE_HZ, Array, AsrRequest, AsrResult, Identity
from tts_cli.checks.verdicts import MOS_DECIMALS, MosScores
from tts_cli.errors import SetupError, first_line
from tts_cli.extras import remedy_of, require

WINDOW_S = 9.01
WINDOW = int(WINDOW_S * RATE_HZ)
EXTRA, PACKAGE, RUNTIME = "mos", "speechmos", "onnxruntime"
# Polynomials from outputs of the first model to ratings: speech, background and both.
SCALES = (
    (-0.08397278, 1.22083953, 0.0052439),
    (-0.13166888, 1.60915514, -0.39604546),
    (-0.06766283, 1.11546468, 0.04602535),
)
FFT, HOP, MELS, RANGE_DB = 321, 160, 120, 80.0
# Slaney's mel scale: lines up to 1 kHz, logarithmic above.
_LINEAR_HZ, _KNEE_HZ, _STEP = 200 / 3, 1000.0, np.log(6.4) / 27


class Dnsmos(Processes[AsrRequest, AsrResult]):
    """Rates takes in `AsrResult.mos`. Raises SetupError."""

    def __init__(self) -> None:
        for name in (PACKAGE, RUNTIME):
            require(EXTRA, name, "--mos")
        try:
            _models()
        except Exception as error:  # an incomplete package raises anything
            raise SetupError(f"--mos: {first_line(error)}", remedy_of(EXTRA)) from error
        super().__init__(rate_one, Identity(_name()))


def rate_one(request: AsrRequest) -> AsrResult:
    try:
        found = sound.load(request.path)
    except (OSError, ValueError) as error:
        return AsrResult(request.place, problem=str(error))
    signal, background, *others = (round(one, MOS_DECIMALS) for one in scores(found.samples))
    mos = MosScores(_name(), others[0], signal, background, others[1])
    return AsrResult(request.place, sha256=found.sha256, mos=mos)


def scores(samples: Array) -> list[float]:
    """Return the ratings of (n,) samples at 16 kHz, n > 0: speech, background, both, P.808."""
    primary, p808 = _models()
    found = []
    for window in windows(np.clip(samples, -1, 1)):
        raw = primary.run(None, {"input_1": window[None]})[0][0]
        image = spectrogram(window[:-HOP])[None]
        people = [np.polyval(scale, value) for scale, value in zip(SCALES, raw, strict=True)]
        found.append([*people, p808.run(None, {"input_1": image})[0][0][0]])
    return [float(score) for score in np.mean(found, axis=0)]


def windows(samples: Array) -> Iterator[Array]:
    while len(samples) < WINDOW:
        samples = np.append(samples, samples)
    for number in range(int(len(samples) // RATE_HZ - WINDOW_S) + 1):
        yield samples[number * RATE_HZ :][:WINDOW]


def spectrogram(samples: Array) -> Array:
    """Return (frames, MELS) float32 of (n,) samples: dB below the loudest, 1 for 0 dB, -1 for -80.

    Source: `librosa.feature.melspectrogram` and `power_to_db`, with the arguments that DNSMOS uses.
    """
    padded = np.pad(samples, FFT // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)
    power = np.square(np.abs(np.fft.rfft(frames * hann))) @ _mels().T
    level_db = 10 * np.log10(np.maximum(power, 1e-10))
    level_db -= level_db.max()
    return np.asarray((np.maximum(level_db, -RANGE_DB) + 40) / 40, dtype=np.float32)


@cache
def _mels() -> Array:
    """Return (MELS, bins) triangles of equal area."""
    top = _KNEE_HZ / _LINEAR_HZ + np.log(RATE_HZ / 2 / _KNEE_HZ) / _STEP
    mels = np.linspace(0.0, top, MELS + 2)
    above = _KNEE_HZ * np.exp(_STEP * (mels - _KNEE_HZ / _LINEAR_HZ))
    edges = np.where(mels < _KNEE_HZ / _LINEAR_HZ, _LINEAR_HZ * mels, above)[:, None]
    bins = np.fft.rfftfreq(FFT, 1 / RATE_HZ)
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.asarray(np.clip(np.minimum(rising, falling), 0, None) * 2 / (edges[2:] - edges[:-2]))


@cache
def _models() -> tuple[Any, Any]:
    """Return the models of this process: P.835 and P.808."""
    onnxruntime = require(EXTRA, RUNTIME, "--mos").load()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    first, second = (
        onnxruntime.InferenceSession(
            str(files(PACKAGE) / "dnsmos_models" / name), options, ["CPUExecutionProvider"]
        )
        for name in ("sig_bak_ovr.onnx", "model_v8.onnx")
    )
    return first, second


def _name() -> str:
    return f"DNSMOS of {PACKAGE} {version(PACKAGE)}"
