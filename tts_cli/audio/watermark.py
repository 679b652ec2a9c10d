"""A watermark in the sound: Perth's implicit network, with the weights of its package.

A residual is added to the magnitudes of the spectrum below 2 kHz; a second network detects it, also
after encoding. It has no content except its presence. The package's own code is not used, because
it needs librosa and torchaudio; its weights are read as tensors only.

Source: resemble-perth 1.0.1 (MIT): 32 kHz, windows of 2048, hops of 320, six layers of convolution.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tts_cli import extras
from tts_cli.audio.file import resample
from tts_cli.errors import SetupError

Array = np.ndarray[Any, Any]

WEIGHTS = "perth_net/pretrained/implicit/perth_net_250000.pth.tar"
RATE_HZ, WINDOW, HOP = 32_000, 2048, 320
BANDS = 128  # of the spectrum that are changed: up to 2 kHz
HIDDEN, LAYERS, KERNEL = 256, 5, 7
MIN_LEVEL, MIN_DB, HEADROOM_DB = 1e-9, -180.0, 15.0
LOUD_SHARE = 0.05  # frames below this share of the loudest one are left out
MIN_S = 0.2  # shorter audio has too few frames


def _stack(inputs: int, outputs: int) -> nn.Sequential:
    sizes = [(inputs, HIDDEN, 1), *[(HIDDEN, HIDDEN, KERNEL)] * LAYERS, (HIDDEN, outputs, 1)]
    return nn.Sequential(*(nn.Conv1d(i, o, k, padding=k // 2) for i, o, k in sizes))


def _run(stack: nn.Sequential, values: Tensor) -> Tensor:
    for layer in list(stack)[:-1]:
        values = F.leaky_relu(layer(values))
    return stack[-1](values)  # type: ignore[no-any-return]


class Watermark:
    """Adds and detects the watermark, on a CPU. Raises SetupError: the package is missing."""

    def __init__(self) -> None:
        extras.require("watermark", "resemble-perth", "--mark watermark")
        spec = find_spec("perth")
        path = Path(str(spec and spec.origin)).parent / WEIGHTS
        self._encoder = _stack(BANDS, BANDS)
        self._decoders = {name: _stack(BANDS, 2) for name in ("slow", "normal", "fast")}
        stacks = {"encoder.layers": self._encoder}
        stacks |= {f"decoder.{name}_layers": stack for name, stack in self._decoders.items()}
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)["model"]
            for start, stack in stacks.items():
                own = {
                    name: state[f"{start}.{name.replace('.', '.conv.')}"]
                    for name in stack.state_dict()
                }
                stack.load_state_dict(own)
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            remedy = extras.remedy_of("watermark")
            raise SetupError(f"{path}: cannot be read: {error}", remedy) from error

    @torch.inference_mode()
    def added(self, samples: Array, rate_hz: int) -> Array:
        """Return (n,) float32 samples with the watermark."""
        if len(samples) < MIN_S * rate_hz:
            return samples
        plain = torch.from_numpy(resample(samples, rate_hz, RATE_HZ).astype(np.float32))
        spectrum = _stft(plain)
        levels = _levels(spectrum)
        changed = levels[:, :BANDS] + _run(self._encoder, levels[:, :BANDS]) * _mask(levels)
        levels = torch.cat([changed, levels[:, BANDS:]], dim=1)
        size = 10 ** ((levels * (HEADROOM_DB - MIN_DB) + MIN_DB) / 20).clip(max=10)
        marked = torch.istft(
            torch.polar(size, spectrum.angle()), WINDOW, HOP, window=_window(), length=len(plain)
        )[0]
        residual = resample((marked - plain).numpy(), RATE_HZ, rate_hz, is_clipped=False)
        found = samples.astype(np.float32, copy=True)
        num = min(len(found), len(residual))
        found[:num] += residual[:num]
        return found

    @torch.inference_mode()
    def score(self, samples: Array, rate_hz: int) -> float:
        """Return the likelihood that (n,) float32 samples have the watermark, 0 to 1."""
        if len(samples) < MIN_S * rate_hz:
            return 0.0
        plain = torch.from_numpy(resample(samples, rate_hz, RATE_HZ).astype(np.float32))
        levels = _levels(_stft(plain))
        mask, bands, length = _mask(levels), levels[:, :BANDS], levels.shape[2]
        scores, weights = [], []
        for name, stretch in (("slow", 1.25), ("normal", 1.0), ("fast", 0.75)):
            values, loud = bands, mask
            if stretch != 1:
                size = int(length * stretch)
                values = F.interpolate(bands, size, mode="linear", align_corners=True)
                loud = F.interpolate(mask, size, mode="nearest")
            out = _run(self._decoders[name], values)
            means = (out * loud).sum(dim=2) / loud.sum(dim=2).clip(min=1)
            weights.append(means[0, 0])
            scores.append(means[0, 1])
        share = torch.softmax(torch.stack(weights), dim=0)
        return float((torch.stack(scores) * share).sum().clip(0, 1))


@cache
def _window() -> Tensor:
    return torch.hann_window(WINDOW)


def _stft(samples: Tensor) -> Tensor:
    """Return the (1, bands, frames) spectrum of (n,) samples."""
    return torch.stft(samples[None], WINDOW, HOP, window=_window(), return_complex=True)


def _levels(spectrum: Tensor) -> Tensor:
    levels_db = 20 * torch.log10(spectrum.abs().clip(min=MIN_LEVEL))
    return (levels_db - MIN_DB) / (HEADROOM_DB - MIN_DB)


def _mask(levels: Tensor) -> Tensor:
    sums = levels.sum(dim=1)
    return (sums > LOUD_SHARE * sums.max()).float()[:, None]
