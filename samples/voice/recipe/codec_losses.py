"""What the codec decoder is trained against: spectral distances and a few discriminators."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from features import mel_bank
from torch import Tensor, nn

SAMPLE_RATE_HZ = 24000
# (FFT size, mel bands); the longest sees single harmonics
RESOLUTIONS = ((4096, 160), (2048, 120), (1024, 100), (512, 80), (256, 40), (128, 20))
HARMONIC_HZ = 4000.0  # below, magnitudes weigh three times what they weigh above
JUDGED_GAIN = 3.0  # of samples shown to the discriminators: speech is quiet


def _unit_hann(size: int) -> Tensor:
    """(size,) Hann window of unit energy."""
    window = torch.hann_window(size)
    return window / window.pow(2).sum().sqrt()


class SpectralLoss(nn.Module):
    """L1 of log mel and log magnitude spectra, with a floor near the noise of 16-bit samples."""

    def __init__(self) -> None:
        super().__init__()
        for index, (fft_size, num_mels) in enumerate(RESOLUTIONS):
            self.register_buffer(f"window_{index}", _unit_hann(fft_size))
            filters = mel_bank(SAMPLE_RATE_HZ, fft_size, num_mels)
            filters = filters / filters.sum(1, keepdim=True).clamp(min=1.0)
            self.register_buffer(f"filters_{index}", filters)
            hz = torch.linspace(0, SAMPLE_RATE_HZ / 2, fft_size // 2 + 1)
            weights = torch.where(hz < HARMONIC_HZ, 1.5, 0.5)
            self.register_buffer(f"weights_{index}", (weights / weights.mean())[:, None])

    def forward(self, made: Tensor, wanted: Tensor) -> Tensor:
        """(B, 1, n) and (B, 1, n) samples at 24 kHz -> scalar."""
        num_rows = made.shape[0]
        both = torch.cat([made, wanted]).squeeze(1).float()
        total = both.new_zeros(())
        for index, (fft_size, _) in enumerate(RESOLUTIONS):
            window = self.get_buffer(f"window_{index}")
            spectrum = torch.stft(
                both, fft_size, fft_size // 4, fft_size, window, return_complex=True
            )
            magnitude = (spectrum.real.pow(2) + spectrum.imag.pow(2) + 1e-10).sqrt()
            mel = torch.log10(self.get_buffer(f"filters_{index}") @ magnitude + 5e-4)
            magnitude = torch.log10(magnitude + 1e-3)
            mel_error = (mel[:num_rows] - mel[num_rows:]).abs().mean()
            total = total + mel_error
            magnitude_error = (magnitude[:num_rows] - magnitude[num_rows:]).abs()
            total = total + 0.3 * (magnitude_error * self.get_buffer(f"weights_{index}")).mean()
        return total


def _normed(layer: nn.Module) -> nn.Module:
    return nn.utils.parametrizations.weight_norm(layer)


Judgement = tuple[Tensor, list[Tensor]]  # score map, activations of the layers before it


def _through(layers: nn.ModuleList, last: nn.Module, hidden: Tensor) -> Judgement:
    """(B, C, h, w) through a discriminator's layers, channels last in memory: twice as fast."""
    activations = []
    for layer in layers:
        hidden = F.leaky_relu(layer(hidden), 0.1).contiguous(memory_format=torch.channels_last)
        activations.append(hidden)
    return last(hidden), activations


class PeriodDiscriminator(nn.Module):
    """Looks at every `period`-th sample.

    Source: HiFi-GAN (Kong and others, 2020), the multi-period discriminator.
    """

    def __init__(self, period: int, channels: int) -> None:
        super().__init__()
        self.period = period
        widths = [1, channels, channels * 4, channels * 8, channels * 8]
        shape = {"kernel_size": (5, 1), "stride": (3, 1), "padding": (2, 0)}
        self.layers = nn.ModuleList(
            _normed(nn.Conv2d(width, next_width, **shape)) for width, next_width in pairwise(widths)
        )
        self.last = _normed(nn.Conv2d(widths[-1], 1, (3, 1), 1, (1, 0)))

    def forward(self, samples: Tensor) -> Judgement:
        """(B, 1, n) samples; what is left over after whole periods is cut."""
        num_samples = samples.shape[-1] // self.period * self.period
        hidden = samples[..., :num_samples].unflatten(-1, (-1, self.period))
        return _through(self.layers, self.last, hidden)


class SpectrumDiscriminator(nn.Module):
    """Looks at the complex spectrum at one resolution.

    Source: EnCodec (Defossez and others, 2022), its STFT discriminator, reduced.
    """

    def __init__(self, fft_size: int, channels: int) -> None:
        super().__init__()
        self.fft_size = fft_size
        self.register_buffer("window", _unit_hann(fft_size))
        shape = {"kernel_size": (3, 9), "stride": (1, 2), "padding": (1, 4)}
        self.layers = nn.ModuleList(
            [_normed(nn.Conv2d(width, channels, **shape)) for width in (2, channels, channels)]
            + [_normed(nn.Conv2d(channels, channels, 3, 1, 1))]
        )
        self.last = _normed(nn.Conv2d(channels, 1, 3, 1, 1))

    def forward(self, samples: Tensor) -> Judgement:
        """(B, 1, n) samples."""
        with torch.autocast(samples.device.type, enabled=False):
            spectrum = torch.stft(
                samples.float().squeeze(1),
                self.fft_size,
                self.fft_size // 4,
                self.fft_size,
                self.get_buffer("window"),
                return_complex=True,
            )
            spectrum = spectrum * (spectrum.abs() + 1e-3).pow(-0.5)  # compressed magnitude
        return _through(self.layers, self.last, torch.view_as_real(spectrum).permute(0, 3, 2, 1))


class Discriminators(nn.Module):
    """Five periods and three resolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(
            [PeriodDiscriminator(period, 32) for period in (2, 3, 5, 7, 11)]
            + [SpectrumDiscriminator(fft_size, 32) for fft_size in (2048, 1024, 512)]
        )

    def forward(self, samples: Tensor) -> list[Judgement]:
        """(B, 1, n) samples -> one judgement a member."""
        return [member(samples * JUDGED_GAIN) for member in self.members]


def discriminator_loss(judgements: list[Judgement], num_real: int) -> Tensor:
    """Least squares: the first `num_real` rows should score 1, the made ones behind them 0."""
    losses = [
        (1 - score[:num_real].float()).square().mean() + score[num_real:].float().square().mean()
        for score, _ in judgements
    ]
    return torch.stack(losses).sum()


def adversarial_loss(judgements: list[Judgement]) -> Tensor:
    """Least squares: made samples should score 1."""
    return torch.stack([(1 - score.float()).square().mean() for score, _ in judgements]).sum()


def feature_loss(made: list[Judgement], real: list[Judgement]) -> Tensor:
    """Relative L1 between the activations for made and real samples, summed over all layers."""
    pairs = [
        (left.float(), right.float())
        for (_, made_layers), (_, real_layers) in zip(made, real, strict=True)
        for left, right in zip(made_layers, real_layers, strict=True)
    ]
    losses = [(left - right).abs().mean() / (right.abs().mean() + 1e-3) for left, right in pairs]
    return torch.stack(losses).sum()
