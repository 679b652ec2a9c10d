"""Speech to codes without a neural encoder.

A frame (80 ms, 1,920 samples at 24 kHz) is described by 648 numbers: 8 log-mel spectra of 80 bands,
4 pitch values and 4 voicing values. A PCA and a residual k-means quantiser (16 codebooks of 256)
turn them into codes. Only the decoder of the codec is shipped, so the encoder may know which
teacher voice it hears: the range of the pitch search depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SAMPLE_RATE_HZ = 24000
FRAME_SAMPLES = 1920  # 80 ms at 24 kHz
SPECTRA_PER_FRAME, NUM_MELS = 8, 80
FFT_SIZE = 1024  # four periods of the lowest voice: fewer, and the spectra follow single pulses
PITCHES_PER_FRAME, PITCH_WINDOW, PITCH_FFT, NUM_LAGS = 4, 1536, 4096, 600
MEL_FLOOR = 4e-2  # of the mel magnitudes; the Hann window is not normalised
PITCH_WEIGHT, VOICING_WEIGHT = 7.0, 20.0  # beside decibels: per semitone, per unit of voicing
PITCH_RANGE_HZ = {"michael": (60.0, 260.0), "heart": (90.0, 360.0), "fenrir": (70.0, 320.0)}
NUM_COMPONENTS = 96  # of the PCA
NUM_MEL_FEATURES = SPECTRA_PER_FRAME * NUM_MELS
NUM_FEATURES = NUM_MEL_FEATURES + 2 * PITCHES_PER_FRAME


def mel_bank(
    sample_rate_hz: int,
    fft_size: int,
    num_mels: int,
    low_hz: float = 0.0,
    high_hz: float | None = None,
) -> Tensor:
    """(num_mels, fft_size / 2 + 1) triangular filters of height 1.

    `high_hz` None means half the sample rate.
    """

    def to_mel(hz: float) -> float:
        return 1127 * math.log(1 + hz / 700)

    low, high = to_mel(low_hz), to_mel(high_hz or sample_rate_hz / 2)
    steps = [low + (high - low) * index / (num_mels + 1) for index in range(num_mels + 2)]
    edges = torch.tensor([700 * (math.exp(mel / 1127) - 1) for mel in steps])
    bins = torch.linspace(0, sample_rate_hz / 2, fft_size // 2 + 1)
    rising = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.clamp(torch.minimum(rising, falling), min=0)


def _centred_windows(samples: Tensor, size: int, hop: int) -> Tensor:
    """(B, n) -> (B, n / hop, size): windows centred on the middle of each hop, zeros outside."""
    padding = size // 2 - hop // 2
    return F.pad(samples, (padding, padding)).unfold(1, size, hop)


class Features:
    """Feature extractor; windows and filters live on one device."""

    def __init__(self, device: str) -> None:
        self.mel_window = torch.hann_window(FFT_SIZE, device=device)
        self.mel_filters = mel_bank(SAMPLE_RATE_HZ, FFT_SIZE, NUM_MELS, 50.0, 12000.0).to(device)
        self.pitch_window = torch.hann_window(PITCH_WINDOW, device=device)
        power = torch.fft.rfft(self.pitch_window, PITCH_FFT).abs() ** 2
        autocorrelation = torch.fft.irfft(power)[:NUM_LAGS]
        self.window_autocorrelation = autocorrelation / autocorrelation[0]

    def mel(self, samples: Tensor) -> Tensor:
        """(B, n) samples -> (B, n / 240, 80) mel magnitudes in dB."""
        hop = FRAME_SAMPLES // SPECTRA_PER_FRAME
        windows = _centred_windows(samples, FFT_SIZE, hop) * self.mel_window
        magnitudes = torch.fft.rfft(windows).abs().matmul(self.mel_filters.t())
        return 20 * torch.log10(magnitudes.clamp(min=MEL_FLOOR))

    def pitch(self, samples: Tensor, low_hz: Tensor, high_hz: Tensor) -> tuple[Tensor, Tensor]:
        """Pitch by autocorrelation, smoothed over time and carried through unvoiced stretches.

        Args:
            samples: (B, n).
            low_hz, high_hz: (B,) range of the search.
        Returns:
            (B, n / 480) semitones above 100 Hz, and (B, n / 480) voicing in [0, 1].
        """
        hop = FRAME_SAMPLES // PITCHES_PER_FRAME
        windows = _centred_windows(samples, PITCH_WINDOW, hop)
        windows = (windows - windows.mean(-1, keepdim=True)) * self.pitch_window
        correlation = torch.fft.irfft(torch.fft.rfft(windows, n=PITCH_FFT).abs() ** 2)[
            ..., :NUM_LAGS
        ]
        energy = correlation[..., :1]
        correlation = correlation / (energy + 1.5e-2) / self.window_autocorrelation
        lags = torch.arange(NUM_LAGS, device=samples.device)
        is_allowed = (lags[None] >= (SAMPLE_RATE_HZ / high_hz)[:, None]) & (
            lags[None] <= (SAMPLE_RATE_HZ / low_hz)[:, None]
        )
        # A small slope prefers the shorter of two equally good lags.
        score = torch.where(
            is_allowed[:, None], correlation - 0.000267 * lags, torch.full_like(correlation, -9.0)
        )
        best = score.argmax(-1).clamp(1, NUM_LAGS - 2)
        left, peak, right = (
            correlation.gather(-1, (best + step)[..., None])[..., 0] for step in (-1, 0, 1)
        )
        # The vertex of the parabola through the three points refines the lag.
        curvature = (left - 2 * peak + right).clamp(max=-1e-4)
        offset = (0.5 * (left - right) / curvature).clamp(-0.5, 0.5)
        semitones = 12 * torch.log2(SAMPLE_RATE_HZ / (best + offset) / 100)
        voicing = peak.clamp(0, 1) * (energy[..., 0] > 0.03)
        return self._smooth(semitones, voicing**6), voicing

    @staticmethod
    def _smooth(semitones: Tensor, weight: Tensor) -> Tensor:
        """(B, n) weighted average over time: narrow where voiced, wide, then global where not."""
        distance = torch.arange(-20, 21, device=semitones.device).float()
        narrow = torch.exp(-((distance / 1.0) ** 2) / 2)
        wide = torch.exp(-((distance / 8.0) ** 2) / 2)
        kernel = (narrow + 0.02 * wide)[None, None]
        weighted = F.conv1d((weight * semitones)[:, None], kernel, padding=20)[:, 0]
        total = F.conv1d(weight[:, None], kernel, padding=20)[:, 0]
        mean = ((weight * semitones).sum(1) / weight.sum(1).clamp(min=1e-3))[:, None]
        return (weighted + 1e-3 * mean) / (total + 1e-3)

    def __call__(self, samples: Tensor, low_hz: Tensor, high_hz: Tensor) -> Tensor:
        """(B, F * 1920) samples in [-1, 1] at 24 kHz -> (B, F, 648) features."""
        num_rows, num_samples = samples.shape
        num_frames = num_samples // FRAME_SAMPLES
        mels = self.mel(samples).reshape(num_rows, num_frames, NUM_MEL_FEATURES)
        semitones, voicing = self.pitch(samples, low_hz, high_hz)
        shape = (num_rows, num_frames, PITCHES_PER_FRAME)
        pitches = PITCH_WEIGHT * semitones.reshape(shape)
        return torch.cat([mels, pitches, VOICING_WEIGHT * voicing.reshape(shape)], -1)


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    """(N,) index of the centre nearest to each of (N, C) points."""
    return torch.addmm(centres.pow(2).sum(1)[None], points, centres.t(), alpha=-2).argmin(1)


class Quantizer:
    """PCA and residual k-means. State: mean (D,), basis (D, C), books (K, 256, C)."""

    def __init__(self, state: dict[str, Tensor], device: str) -> None:
        self.mean = state["mean"].to(device).float()
        self.basis = state["basis"].to(device).float()
        self.books = state["books"].to(device).float()

    def encode(self, features: Tensor) -> Tensor:
        """(..., D) features -> (..., K) int64 codes."""
        projected = (features - self.mean) @ self.basis
        residual = projected.reshape(-1, projected.shape[-1])
        codes = []
        for book in self.books:
            nearest = _nearest(residual, book)
            residual = residual - book[nearest]
            codes.append(nearest)
        return torch.stack(codes, -1).reshape(*projected.shape[:-1], -1)

    def decode(self, codes: Tensor) -> Tensor:
        """(..., K) codes -> (..., D) features."""
        projected = torch.stack([book[codes[..., k]] for k, book in enumerate(self.books)]).sum(0)
        return projected @ self.basis.t() + self.mean


def kmeans(points: Tensor, num_centres: int, num_steps: int, generator: torch.Generator) -> Tensor:
    """(N, C) points -> (num_centres, C) centres.

    Lloyd's algorithm; near-empty cells restart inside large ones.
    """
    device = points.device
    picked = torch.randperm(len(points), generator=generator)[:num_centres]
    centres = points[picked.to(device)].clone()
    for step in range(num_steps):
        nearest = _nearest(points, centres)
        counts = torch.bincount(nearest, minlength=num_centres).float()
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        centres = sums / counts.clamp(min=1)[:, None]
        dead = torch.nonzero(counts < max(3, len(points) / num_centres * 0.02)).squeeze(1)
        if len(dead) and step < num_steps - 3:
            parents = torch.multinomial(
                counts.cpu(), len(dead), replacement=True, generator=generator
            ).to(device)
            jitter = torch.randn(len(dead), points.shape[1], generator=generator).to(device)
            centres[dead] = centres[parents] + 0.05 * points.std(0) * jitter
    return centres


def fit(
    features: Tensor,
    num_codebooks: int = 16,
    codebook_size: int = 256,
    num_components: int = NUM_COMPONENTS,
    num_steps: int = 18,
    log: Callable[[str], None] = print,
) -> dict[str, Tensor]:
    """(N, 648) training frames -> state of a `Quantizer`.

    Logs the error after 1, 2, 4, 8 and 16 books.
    """
    generator = torch.Generator().manual_seed(0)
    mean = features.mean(0)
    centred = features - mean
    variances, vectors = torch.linalg.eigh(centred.t() @ centred / len(centred))
    basis = vectors.flip(1)[:, :num_components].contiguous()
    residual = centred @ basis
    projected = residual
    kept = float(variances.flip(0)[:num_components].sum() / variances.sum())
    log(f"variance kept {kept:.4f}")
    books = []
    for index in range(num_codebooks):
        book = kmeans(residual, codebook_size, num_steps, generator)
        nearest = _nearest(residual, book)
        residual = residual - book[nearest]
        books.append(book)
        if index in (0, 1, 3, 7, 15):
            error = (centred - (projected - residual) @ basis.t()).abs()
            share = torch.bincount(nearest, minlength=codebook_size).float() / len(nearest)
            entropy = -(share.clamp(min=1e-9) * share.clamp(min=1e-9).log()).sum()
            parts = error.split([NUM_MEL_FEATURES, PITCHES_PER_FRAME, PITCHES_PER_FRAME], dim=1)
            mel, pitch, voicing = (part.mean() for part in parts)
            log(
                f"books {index + 1}: mel {mel:.2f} dB, "
                f"pitch {pitch / PITCH_WEIGHT:.2f} semitones, "
                f"voicing {voicing / VOICING_WEIGHT:.3f}, "
                f"perplexity {float(entropy.exp()):.0f}"
            )
    return {"mean": mean, "basis": basis, "books": torch.stack(books)}
