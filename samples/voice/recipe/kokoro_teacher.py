"""Kokoro-82M, many texts at once: the teacher of the two men.

Its own code speaks one text at a time. Here a batch is padded, every normalisation over time counts
real frames only, and what lies behind the end of a text is zero before each convolution, so that a
text sounds the same alone and in company.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from kokoro_weights import float_weights
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SAMPLES_PER_STEP = 600  # of the durations
STYLE = 128  # numbers for the sound, as many behind them for the prosody
MAX_STEPS = 50  # of one phoneme
ALBERT = {
    "vocab_size": 178,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
    "max_position_embeddings": 512,
    "num_hidden_layers": 12,
}
DECODER = {
    "dim_in": 512,
    "style_dim": STYLE,
    "dim_out": 80,
    "resblock_kernel_sizes": [3, 7, 11],
    "upsample_rates": [10, 6],
    "upsample_initial_channel": 512,
    "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    "upsample_kernel_sizes": [20, 12],
    "gen_istft_n_fft": 20,
    "gen_istft_hop_size": 5,
}


class Spoken(NamedTuple):
    """One spoken text."""

    samples: NDArray[np.float32]  # at 24 kHz
    durations: NDArray[np.int64]  # steps of 600 samples, of each phoneme and the two pads


def _modules() -> tuple[Any, Any]:
    """The package's model code, without its pipeline, which needs more than this does."""
    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        if spec is None or spec.origin is None:
            raise ImportError("the package kokoro is missing")
        package = types.ModuleType("kokoro")
        package.__path__ = [str(Path(spec.origin).parent)]
        sys.modules["kokoro"] = package
    from kokoro import istftnet, modules

    return istftnet, modules


class Lengths:
    """How many steps of each row are real, for whoever normalises."""

    def __init__(self) -> None:
        self.steps = torch.zeros(0)
        self.longest = 0

    def mask(self, hidden: Tensor) -> Tensor:
        """(B, 1, T) 1 where real; T is a multiple of the longest row, or one more."""
        size = hidden.shape[-1]
        ends = self.steps * (size // self.longest) + (size % self.longest)
        places = torch.arange(size, device=hidden.device)
        return (places[None] < ends[:, None])[:, None].float()


def _normalise(lengths: Lengths) -> Any:
    """Few passes over memory: what a step here costs is reading and writing."""

    def forward(self: Any, x: Tensor, s: Tensor) -> Tensor:
        gamma, beta = self.fc(s)[..., None].float().chunk(2, 1)
        mask = lengths.mask(x)
        count = mask.sum(-1, keepdim=True)
        real = x * mask.to(x.dtype)
        mean = real.sum(-1, keepdim=True, dtype=torch.float32) / count
        power = torch.linalg.vector_norm(real, dim=-1, keepdim=True, dtype=torch.float32) ** 2
        variance = (power / count - mean**2).clamp(min=0)
        scale = (1 + gamma) * torch.rsqrt(variance + 1e-5)
        shift = beta - mean * scale
        out = torch.addcmul(shift.to(x.dtype), real, scale.to(x.dtype))
        return out.mul_(mask.to(x.dtype))

    return forward


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    wide = x.float()
    return (wide + torch.sin(alpha * wide).square() / alpha).to(x.dtype)


def _resblock(snake: Any) -> Any:
    """The generator's residual block, its activation in one kernel where `snake` is compiled."""

    def forward(self: Any, x: Tensor, s: Tensor) -> Tensor:
        firsts = zip(self.convs1, self.adain1, self.alpha1, strict=True)
        seconds = zip(self.convs2, self.adain2, self.alpha2, strict=True)
        for half, other in zip(firsts, seconds, strict=True):
            inner = x
            for conv, norm, alpha in (half, other):
                inner = conv(snake(norm(inner, s), alpha))
            x = x + inner
        return x

    return forward


def _compiled_snake(device: str) -> Any:
    """The activation as one kernel; as it is, where the compiler fails."""
    if device != "cuda":
        return _snake
    try:
        compiled = torch.compile(_snake, dynamic=True)
        for channels in (256, 128):
            x = torch.ones(3, channels, 96, device=device, dtype=torch.float16)
            compiled(x, torch.ones(1, channels, 1, device=device))
    except Exception as error:  # it fails in many ways
        print(f"snake not compiled: {error!r:.200}", flush=True)
        return _snake
    return compiled


class Kokoro(nn.Module):
    """The model with the weights of kokoro_weights.py."""

    def __init__(self, weights: Path, device: str) -> None:
        super().__init__()
        from transformers import AlbertConfig

        istftnet, modules = _modules()
        self.lengths = Lengths()
        istftnet.AdaIN1d.forward = _normalise(self.lengths)
        istftnet.AdaINResBlock1.forward = _resblock(_compiled_snake(device))
        config = AlbertConfig(**ALBERT)
        config._attn_implementation = "sdpa"
        self.bert = modules.CustomAlbert(config, add_pooling_layer=False)
        self.bert_encoder = nn.Linear(768, 512)
        self.predictor = modules.ProsodyPredictor(STYLE, 512, 3, MAX_STEPS, 0.2)
        self.text_encoder = modules.TextEncoder(512, 5, 3, 178)
        self.decoder = istftnet.Decoder(**DECODER)
        for module in self.modules():
            if hasattr(module, "weight_g"):
                nn.utils.remove_weight_norm(module)
        state = float_weights(weights)
        missing, unexpected = self.load_state_dict(state, strict=False)
        # The normalisations have weights that only an old exporter needs; they stay ones and zeros.
        missing = [name for name in missing if ".norm." not in name]
        if missing or unexpected:
            raise ValueError(f"weights missing {missing}, not known {unexpected}")
        self.eval().to(device)
        self.device = device

    @staticmethod
    def _lstm(lstm: nn.LSTM, hidden: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, C) through a two-way LSTM that stops at each row's end."""
        packed = pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=hidden.shape[1])[
            0
        ]

    @torch.inference_mode()
    def speak(self, texts: list[list[int]], styles: Tensor, speeds: Tensor) -> list[Spoken]:
        """Speak phoneme ids (without pads).

        Args:
            styles: (B, 256).
            speeds: (B,) 1 is the teacher's pace.
        """
        device = self.device
        styles = styles.to(device).float()
        counts = torch.tensor([len(ids) + 2 for ids in texts])
        ids = torch.zeros(len(texts), int(counts.max()), dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, 1 : len(text) + 1] = torch.tensor(text)
        ids = ids.to(device)
        is_pad = (torch.arange(ids.shape[1])[None] >= counts[:, None]).to(device)
        hidden = self.bert_encoder(self.bert(ids, attention_mask=(~is_pad).long())).transpose(1, 2)
        sound, prosody = styles[:, :STYLE], styles[:, STYLE:]
        encoded = self.predictor.text_encoder(hidden, prosody, counts, is_pad)
        steps = self.predictor.duration_proj(self._lstm(self.predictor.lstm, encoded, counts))
        durations = torch.sigmoid(steps).sum(-1) / speeds.to(device)[:, None]
        durations = durations.round().clamp(min=1).long() * ~is_pad
        totals = durations.sum(1)
        longest = -(-int(totals.max()) // 8) * 8
        ends = durations.cumsum(1)
        places = torch.arange(longest, device=device)
        index = torch.searchsorted(
            ends, places[None].expand(len(texts), -1).contiguous(), right=True
        )
        index = index.clamp(max=ids.shape[1] - 1)[..., None]
        self.lengths.steps, self.lengths.longest = totals, longest
        is_real = (places[None] < totals[:, None])[..., None]
        spread = encoded.gather(1, index.expand(-1, -1, encoded.shape[2])) * is_real
        shared = self._lstm(self.predictor.shared, spread, totals.cpu()).transpose(1, 2)
        curves = []
        for blocks, last in (
            (self.predictor.F0, self.predictor.F0_proj),
            (self.predictor.N, self.predictor.N_proj),
        ):
            curve = shared
            for block in blocks:
                curve = block(curve, prosody)
            curve = last(curve)
            curves.append((curve * self.lengths.mask(curve))[:, 0])
        letters = self.text_encoder(ids, counts, is_pad).transpose(1, 2)
        letters = (letters.gather(1, index.expand(-1, -1, letters.shape[2])) * is_real).transpose(
            1, 2
        )
        waves = self._decode(letters, *curves, sound)
        rows = zip(
            waves.float().cpu().numpy(),
            durations.cpu().numpy(),
            totals.tolist(),
            counts.tolist(),
            strict=True,
        )
        return [
            Spoken(wave[: total * SAMPLES_PER_STEP], parts[:count])
            for wave, parts, total, count in rows
        ]

    def _decode(self, letters: Tensor, pitch: Tensor, energy: Tensor, sound: Tensor) -> Tensor:
        """Encoded letters (B, C, T), pitch and energy (B, 2 T) to samples (B, 600 T)."""
        decoder, mask = self.decoder, self.lengths.mask
        low, loud = decoder.F0_conv(pitch[:, None]), decoder.N_conv(energy[:, None])
        hidden = decoder.encode(torch.cat([letters, low, loud], 1), sound)
        residual = decoder.asr_res(letters)
        for block in decoder.decode:
            hidden = block(torch.cat([hidden, residual, low, loud], 1), sound)
        return self._generate(hidden * mask(hidden), pitch, sound)

    def _generate(self, hidden: Tensor, pitch: Tensor, sound: Tensor) -> Tensor:
        generator, mask = self.decoder.generator, self.lengths.mask
        source = generator.m_source(generator.f0_upsamp(pitch[:, None]).transpose(1, 2))[0]
        source = torch.cat(generator.stft.transform(source.transpose(1, 2)[:, 0]), 1)
        cast = torch.autocast(self.device, torch.float16, enabled=self.device == "cuda")
        for index in range(generator.num_upsamples):
            with cast:
                hidden = F.leaky_relu(hidden, 0.1)
                excitation = generator.noise_convs[index](source)
                excitation = generator.noise_res[index](excitation * mask(excitation), sound)
                hidden = generator.ups[index](hidden)
                if index == generator.num_upsamples - 1:
                    hidden = generator.reflection_pad(hidden)
                hidden = hidden + excitation
                first = index * generator.num_kernels
                blocks = generator.resblocks[first : first + generator.num_kernels]
                hidden = sum(block(hidden, sound) for block in blocks) / generator.num_kernels
                hidden = hidden * mask(hidden)
        hidden = generator.conv_post(F.leaky_relu(hidden.float()))
        half = generator.post_n_fft // 2 + 1
        return generator.stft.inverse(torch.exp(hidden[:, :half]), torch.sin(hidden[:, half:]))[
            :, 0
        ]
