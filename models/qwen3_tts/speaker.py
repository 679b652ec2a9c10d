"""Reference recordings to the parts of a clone prompt: an embedding of the speaker, and codes for
in-context cloning (`codec.SpeechEncoder`).

Speaker encoder of Base checkpoints (upstream: Qwen3TTSSpeakerEncoder, an ECAPA-TDNN): a reference
recording becomes one vector as wide as the talker, which is a position of the prompt. A log-mel
spectrogram, a convolution, three blocks of multi-scale convolutions with squeeze and excitation,
all of them concatenated, then mean and deviation over time under learned attention.

Nothing here is causal: convolutions mirror a clip at its own ends and statistics run over its whole
length, so clips in a batch have their lengths and padding is excluded everywhere. The spectrogram
is float32, the network computes in the dtype of its weights, as upstream.

Source: the official `qwen-tts` 0.1.1 package (Qwen team, Apache-2.0); Desplanques et al. 2020,
"ECAPA-TDNN"; the mel scale is that of Slaney's Auditory Toolbox.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.checkpoint.weights import Network
from models.decoder.decoder import Affine
from models.device.clips import clip_batches
from models.qwen3_tts.codec import SpeechEncoder
from models.qwen3_tts.config import FFT, HOP, SAMPLE_RATE_HZ, SpeakerConfig
from models.qwen3_tts.tensors import speaker_table
from models.slots.runner import VoiceEncoder

# Slaney's scale: linear below 1000 Hz, 15 mel there; above, 27 steps multiply by 6.4. Filters reach
# from 0 to 12,000 Hz.
LINEAR_HZ, LINEAR_STEP_HZ, LOG_STEP = 1000.0, 200 / 3, math.log(6.4) / 27
LINEAR_MELS = LINEAR_HZ / LINEAR_STEP_HZ
HIGHEST_MELS = LINEAR_MELS + math.log(12000.0 / LINEAR_HZ) / LOG_STEP
POWER_FLOOR, MEL_FLOOR = 1e-9, 1e-5
VARIANCE_FLOOR = 1e-12


class Conv(Affine):
    """A convolution over time of the same length; clips are mirrored at their own ends."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__(outputs, inputs, kernel)
        self.dilation = dilation

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, C_in, T) to (B, C_out, T)."""
        pad = self.dilation * (self.weight.shape[2] - 1) // 2
        if pad:
            x = mirror(x, lengths, pad)
        return F.conv1d(x, self.weight, self.bias, dilation=self.dilation)


class TimeDelay(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = Conv(inputs, outputs, kernel, dilation)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, C_in, T) to (B, C_out, T)."""
        return F.relu(self.conv(x, lengths))


class Res2Net(nn.Module):
    """Channels in parts: each but the first is convolved with the previous part added."""

    def __init__(self, width: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        part = width // scale
        self.blocks = nn.ModuleList(
            TimeDelay(part, part, kernel, dilation) for _ in range(scale - 1)
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, C, T) to the same."""
        first, *rest = x.chunk(len(self.blocks) + 1, dim=1)
        parts = [first]
        for index, (part, block) in enumerate(zip(rest, self.blocks, strict=True)):
            parts.append(block(part if index == 0 else part + parts[-1], lengths))
        return torch.cat(parts, dim=1)


class SqueezeExcitation(nn.Module):
    """Channels weighted by a function of the whole clip's mean."""

    def __init__(self, width: int, squeeze_width: int) -> None:
        super().__init__()
        self.conv1 = Conv(width, squeeze_width)
        self.conv2 = Conv(squeeze_width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, C, T) to the same."""
        total = x.masked_fill(is_padding(x, lengths), 0).sum(2, keepdim=True, dtype=torch.float32)
        mean = (total / lengths[:, None, None]).to(x.dtype)
        return x * torch.sigmoid(self.conv2(F.relu(self.conv1(mean, lengths)), lengths))


class Block(nn.Module):
    """Pointwise, Res2Net, pointwise, squeeze and excitation, residual."""

    def __init__(self, config: SpeakerConfig, index: int) -> None:
        super().__init__()
        width = config.channels[index]
        self.tdnn1 = TimeDelay(width, width)
        self.res2net_block = Res2Net(
            width, config.scale, config.kernels[index], config.dilations[index]
        )
        self.tdnn2 = TimeDelay(width, width)
        self.se_block = SqueezeExcitation(width, config.squeeze_width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, C, T) to the same."""
        h = self.res2net_block(self.tdnn1(x, lengths), lengths)
        return self.se_block(self.tdnn2(h, lengths), lengths) + x


class StatisticsPooling(nn.Module):
    """Mean and deviation over time, each channel under its own attention."""

    def __init__(self, width: int, attention_width: int) -> None:
        super().__init__()
        self.tdnn = TimeDelay(3 * width, attention_width)
        self.conv = Conv(attention_width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, C, T) to (B, 2 C)."""
        padding = is_padding(x, lengths)
        x = x.masked_fill(padding, 0)
        even = (~padding).to(x.dtype) / lengths[:, None, None].to(x.dtype)
        mean, deviation = _statistics(x, even)
        whole = [part.unsqueeze(2).expand_as(x) for part in (mean, deviation)]
        hidden = torch.tanh(self.tdnn(torch.cat([x, *whole], dim=1), lengths))
        attention = self.conv(hidden, lengths)
        attention = attention.masked_fill(padding, -math.inf).softmax(dim=2)
        return torch.cat(_statistics(x, attention), dim=1)


class SpeakerEncoder(Network):
    table = staticmethod(speaker_table)

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.channels
        first = TimeDelay(config.num_mels, channels[0], config.kernels[0], config.dilations[0])
        blocks = [Block(config, index) for index in range(1, len(channels) - 1)]
        self.blocks = nn.ModuleList([first, *blocks])
        self.mfa = TimeDelay(channels[-1], channels[-1], config.kernels[-1], config.dilations[-1])
        self.asp = StatisticsPooling(channels[-1], config.attention_width)
        self.fc = Conv(2 * channels[-1], config.width)
        self.filters = nn.Buffer(torch.empty(config.num_mels, FFT // 2 + 1))
        self.window = nn.Buffer(torch.empty(FFT))

    def constants(self, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
        filters = mel_filters(self.config.num_mels)
        return {"filters": filters.to(device), "window": torch.hann_window(FFT).to(device)}

    @torch.no_grad()
    def forward(self, waves: Tensor, lengths: Tensor) -> Tensor:
        """Embed clips.

        Args:
            waves: (B, N) float32 at 24 kHz, padded on the right with any finite values.
            lengths: (B,) int64 samples of each, at least `config.shortest_samples`.
        Returns:
            (B, width) in the dtype of the weights, neither scaled nor normalised.
        """
        x = self.log_mel(waves, lengths).to(self.fc.weight.dtype)
        lengths = lengths // HOP
        outputs = []
        for block in self.blocks:
            x = block(x, lengths)
            outputs.append(x)
        x = self.mfa(torch.cat(outputs[1:], dim=1), lengths)
        pooled = self.asp(x, lengths).unsqueeze(2)
        return self.fc(pooled, lengths).squeeze(2)

    def log_mel(self, waves: Tensor, lengths: Tensor) -> Tensor:
        """(B, N) to (B, num_mels, N // 256) float32; a clip has length // 256 frames."""
        padded = mirror(waves.unsqueeze(1), lengths, (FFT - HOP) // 2).squeeze(1)
        spectrum = torch.stft(
            padded, FFT, HOP, FFT, window=self.window, center=False, return_complex=True
        )
        magnitude = (torch.view_as_real(spectrum).square().sum(-1) + POWER_FLOOR).sqrt()
        return (self.filters @ magnitude).clamp(min=MEL_FLOOR).log()


def mirror(x: Tensor, lengths: Tensor, pad: int) -> Tensor:
    """(B, C, T) to (B, C, T + 2 * pad): each row reflected at its own ends, edges not repeated."""
    position = torch.arange(-pad, x.shape[2] + pad, device=x.device)
    last = lengths[:, None] - 1
    source = last - (last - position.abs()).abs()  # positions further out are padding again
    return x.gather(2, source.clamp(min=0)[:, None].expand(-1, x.shape[1], -1))


def is_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """(B, 1, T): the padding of x (B, C, T), after the end of each row."""
    return torch.arange(x.shape[2], device=x.device) >= lengths[:, None, None]


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean and deviation over time, (B, C) each."""
    mean = (weights * x).sum(2)
    variance = (weights * (x - mean.unsqueeze(2)).square()).sum(2)
    return mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()


def mel_filters(num_mels: int) -> Tensor:
    """(num_mels, FFT / 2 + 1) float32 triangles of equal area on Slaney's mel scale."""
    bins = torch.arange(FFT // 2 + 1, dtype=torch.float64) * (SAMPLE_RATE_HZ / FFT)
    step = HIGHEST_MELS / (num_mels + 1)
    corners = [_hertz(step * index) for index in range(num_mels + 2)]
    left, peak, right = (
        torch.tensor(corners[start : start + num_mels], dtype=torch.float64)[:, None]
        for start in range(3)
    )
    rising, falling = (bins - left) / (peak - left), (right - bins) / (right - peak)
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles * (2 / (right - left))).float()


def _hertz(mel: float) -> float:
    if mel < LINEAR_MELS:
        return mel * LINEAR_STEP_HZ
    return LINEAR_HZ * math.exp(LOG_STEP * (mel - LINEAR_MELS))


CLONE_MODES = ("icl", "xvec")


class QwenVoiceEncoder(VoiceEncoder):
    def __init__(self, speaker: SpeakerEncoder, speech: SpeechEncoder) -> None:
        super().__init__(speaker.fc.weight.device)
        self.speaker, self.speech = speaker, speech

    @torch.inference_mode()
    def encode(self, waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
        """Return each clip's (n,) float32 embedding (D,) float32 and codes (R, K) int64 (None
        for xvec), on the device. Raises ValueError: a clip is too short or not
        one-dimensional, or a mode is unknown.
        """
        if len(waves) != len(modes) or not set(modes) <= set(CLONE_MODES):
            raise ValueError(f"{len(waves)} clips and modes {modes}; a mode is icl or xvec")
        shortest = self.speaker.config.shortest_samples  # some 50 ms in a released checkpoint
        for wave in waves:
            if wave.dim() != 1 or len(wave) < shortest:
                raise ValueError(
                    f"a reference of shape {tuple(wave.shape)}; at least {shortest} samples are "
                    "needed"
                )
        lengths = torch.tensor([len(wave) for wave in waves])
        embeddings: dict[int, Tensor] = {}
        codes: dict[int, Tensor] = {}
        for batch, padded in clip_batches(waves, range(len(waves)), self.device, self.use_batches):
            found = self.speaker(padded, lengths[batch].to(self.device))
            embeddings |= zip(batch, found.float(), strict=True)
        spoken = [index for index, mode in enumerate(modes) if mode == "icl"]
        for batch, padded in clip_batches(waves, spoken, self.device, self.use_batches):
            found, _ = self.speech(padded, lengths[batch].to(self.device))
            for index, row in zip(batch, found, strict=True):
                codes[index] = row[: self.speech.config.num_frames(len(waves[index]))]
        return [(embeddings[index], codes.get(index)) for index in range(len(waves))]
