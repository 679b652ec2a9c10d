"""Codec decoder: codes to 24 kHz samples, the official decoder module trained as a vocoder on fixed
codes.

The codes come from features.py and never change, so there is no encoder to train and no codebook to
collapse; the decoder's own code vectors are free parameters. Spectral losses alone come first, then
a small GAN joins.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from codec_losses import (
    Discriminators,
    SpectralLoss,
    adversarial_loss,
    discriminator_loss,
    feature_loss,
)
from config import DECODER
from data import Utterance, resample_to_24k, resampling_filter
from features import FRAME_SAMPLES
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

SAMPLES_PER_FRAME = 1920  # at 24 kHz
LOG_EVERY_STEPS = 200
SAVE_EVERY_S = 60
RAMP_STEPS = 300  # of the learning rate and of the GAN's weight
Autocast = Callable[[], AbstractContextManager[Any]]
Corpus = tuple[list[Utterance], list[NDArray[np.uint8]]]  # utterances and the codes of each


@dataclass(frozen=True)
class CodecTraining:
    """Settings of one training run."""

    seconds: float  # of training; the learning rate ends with them
    device: str = "cuda"
    batch: int = 32
    frames: int = 24  # of one training segment
    judged_frames: int = 10  # of a segment, seen by the discriminators
    gan_start: float = 0.35  # share of the time after which the GAN joins
    learning_rate: float = 6e-4
    init: Path | None = None  # checkpoint folder to go on from


def build(sizes: dict[str, Any] = DECODER, books: Tensor | None = None) -> nn.Module:
    """The official decoder; with the quantiser's books (K, 256, C), the code vectors start from
    those.

    Of each book the first codebook_dim / 2 components are taken, scaled to a quarter of the first
    book's spread.
    """
    from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import (
        Qwen3TTSTokenizerV2DecoderConfig,
    )
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import (
        Qwen3TTSTokenizerV2Decoder,
    )

    config = Qwen3TTSTokenizerV2DecoderConfig(**sizes)
    config._attn_implementation = "sdpa"
    decoder = Qwen3TTSTokenizerV2Decoder(config)
    for block in decoder.upsample:
        block[1].gamma.data.fill_(0.1)
    if books is not None:
        vectors = books.float()[..., : sizes["codebook_dim"] // 2]
        vectors = vectors / vectors[0].std() / 4
        vectors[1:] *= 2
        quantizer = decoder.quantizer
        layers = [*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers]
        for vector, layer in zip(vectors, layers, strict=True):
            layer._codebook.embedding_sum.data.copy_(vector)
            layer._codebook.cluster_usage.data.fill_(1)
            layer._codebook.cluster_usage.requires_grad_(False)
    return decoder


def synthesise(decoder: Any, codes: Tensor, autocast: Autocast) -> Tensor:
    """(B, K, F) codes -> (B, 1, F * 1920) samples.

    The last two layers run in float32: bfloat16 would put a noise floor into the waveform.
    """
    with autocast():
        hidden = decoder.pre_conv(decoder.quantizer.decode(codes)).transpose(1, 2)
        hidden = decoder.pre_transformer(inputs_embeds=hidden).last_hidden_state.permute(0, 2, 1)
        for block in decoder.upsample:
            for layer in block:
                hidden = layer(hidden)
        for layer in decoder.decoder[:-2]:
            hidden = layer(hidden)
    hidden = hidden.float()
    for layer in decoder.decoder[-2:]:
        hidden = layer(hidden)
    return hidden


def _snake_beta(hidden: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """(B, C, n) -> (B, C, n); alpha and beta (C,) are logarithms."""
    wave = torch.sin(hidden * torch.exp(alpha)[None, :, None]).square()
    return hidden + wave / (torch.exp(beta)[None, :, None] + 1e-9)


def fuse_snake(device: str, log: Callable[[str], None]) -> None:
    """Compile the official activation, one kernel instead of six, where that works."""
    from qwen_tts.core.tokenizer_12hz import modeling_qwen3_tts_tokenizer_v2 as modeling

    try:
        compiled = torch.compile(_snake_beta, dynamic=True)
        for channels, dtype in ((20, torch.float32), (40, torch.bfloat16), (320, torch.bfloat16)):
            hidden = torch.randn(4, channels, 96, device=device, dtype=dtype, requires_grad=True)
            alpha = torch.zeros(channels, device=device, requires_grad=True)
            beta = torch.zeros(channels, device=device, requires_grad=True)
            compiled(hidden, alpha, beta).float().sum().backward()
        modeling.SnakeBeta.forward = lambda self, hidden: compiled(
            hidden, self.alpha, self.beta
        ).to(hidden.dtype)
        log("snake compiled")
    except Exception as error:  # the compiler fails in many ways; all of them mean: do without
        modeling.SnakeBeta.forward = lambda self, hidden: _snake_beta(
            hidden, self.alpha.to(hidden.dtype), self.beta.to(hidden.dtype)
        )
        log(f"snake not compiled: {error!r:.200}")


class Segments:
    """All samples and codes in flat device buffers, for drawing aligned segments."""

    def __init__(self, corpus: Corpus, num_frames: int, device: str) -> None:
        items, codes = corpus
        self.num_frames = num_frames
        self.samples = torch.from_numpy(np.concatenate([item.samples for item in items])).to(device)
        self.codes = torch.from_numpy(np.concatenate(codes)).to(device)
        lengths = torch.tensor([len(rows) for rows in codes])
        self.starts = (lengths.cumsum(0) - lengths).to(device)  # in frames
        self.lengths = lengths.to(device)
        self.usable = torch.nonzero(self.lengths >= num_frames).squeeze(1)
        self.weights = self.lengths[self.usable].float()
        self.sample_steps = torch.arange(num_frames * FRAME_SAMPLES, device=device)
        self.frame_steps = torch.arange(num_frames, device=device)
        self.taps = resampling_filter().to(device)

    def draw(self, batch: int) -> tuple[Tensor, Tensor]:
        """(B, K, F) int64 codes and the (B, 1, F * 1920) samples at 24 kHz they stand for."""
        rows = self.usable[torch.multinomial(self.weights, batch, replacement=True)]
        room = self.lengths[rows] - self.num_frames + 1
        offsets = (torch.rand(batch, device=room.device) * room.float()).long() + self.starts[rows]
        places = (offsets * FRAME_SAMPLES)[:, None] + self.sample_steps
        speech = (self.samples[places].float() / 32768.0).unsqueeze(1)
        codes = self.codes[offsets[:, None] + self.frame_steps].long().transpose(1, 2)
        return codes, resample_to_24k(speech, self.taps)


class Judge:
    """The discriminators and their optimiser."""

    def __init__(self, learning_rate: float, device: str) -> None:
        self.members = Discriminators().to(device)
        self.optimizer = _adamw(self.members.parameters(), learning_rate, device)

    def learn(self, made: Tensor, wanted: Tensor, autocast: Autocast) -> Tensor:
        """One step on (B, 1, n) made and wanted samples; the loss before it."""
        with autocast():
            judgements = self.members(torch.cat([wanted, made.detach()]))
        loss = discriminator_loss(judgements, len(wanted))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.members.parameters(), 20.0)
        self.optimizer.step()
        return loss.detach()

    def judge(self, made: Tensor, wanted: Tensor, autocast: Autocast) -> tuple[Tensor, Tensor]:
        """Losses of the made samples: how little they fool, and how far their features are off."""
        self.members.requires_grad_(False)
        with autocast():
            judged_made = self.members(made)
            with torch.no_grad():
                judged_wanted = self.members(wanted)
        self.members.requires_grad_(True)
        return adversarial_loss(judged_made), feature_loss(judged_made, judged_wanted)


def _adamw(
    parameters: Iterable[nn.Parameter], learning_rate: float, device: str
) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        parameters, learning_rate, (0.8, 0.99), weight_decay=1e-4, fused=device == "cuda"
    )


@contextmanager
def _swapped(parameters: list[Tensor], averages: list[Tensor]) -> Iterator[None]:
    """The averaged weights in place of the current ones."""
    current = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        torch._foreach_copy_(parameters, averages)
    yield
    with torch.no_grad():
        torch._foreach_copy_(parameters, current)


def save_half(module: nn.Module, out: Path) -> None:
    """Write the state in float16 under a temporary name, then rename it."""
    part = out.with_name(out.name + ".part")
    torch.save({name: value.half() for name, value in module.state_dict().items()}, part)
    os.replace(part, out)


def train(
    corpus: Corpus,
    books: Tensor,
    out: Path,
    settings: CodecTraining,
    log: Callable[[str], None] = print,
    refresh: Callable[[], Corpus | None] = lambda: None,
) -> None:
    """Train the decoder and write its averaged weights (float16) to `out` every minute and at the
    end.

    Args:
        corpus: utterances and their codes.
        books: (K, 256, C) the quantiser's codebooks.
        refresh: gives a longer corpus when more speech has been made, else None.
    """
    device = settings.device
    segments = Segments(corpus, settings.frames, device)
    torch.manual_seed(0)
    if device == "cuda":
        fuse_snake(device, log)
        torch.backends.cudnn.benchmark = True
    decoder = build(books=books)
    if settings.init:
        weights = load_file(settings.init / "speech_tokenizer" / "model.safetensors")
        decoder.load_state_dict(
            {name.removeprefix("decoder."): value.float() for name, value in weights.items()}
        )
    decoder = decoder.to(device).train()
    rate = settings.learning_rate
    judge, spectral = Judge(rate / 2, device), SpectralLoss().to(device)
    sizes = [sum(p.numel() for p in part.parameters()) for part in (decoder, judge.members)]
    log(f"decoder {sizes[0]} parameters, discriminators {sizes[1]}")
    parameters = [parameter for parameter in decoder.parameters() if parameter.requires_grad]
    averages = [parameter.detach().clone() for parameter in parameters]
    optimizer = _adamw(parameters, rate, device)

    def autocast() -> AbstractContextManager[Any]:
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

    start_s, saved_s, step = time.time(), 0.0, 0
    gan_step: int | None = None
    while (elapsed := (time.time() - start_s) / settings.seconds) < 1:
        if elapsed > settings.gan_start and gan_step is None:
            gan_step = step
        factor = 0.5 * (1 + math.cos(math.pi * elapsed)) * 0.97 + 0.03
        factor *= min(1, step / RAMP_STEPS)
        optimizer.param_groups[0]["lr"] = rate * factor
        judge.optimizer.param_groups[0]["lr"] = rate / 2 * factor
        if step % 500 == 499 and (longer := refresh()):
            segments = Segments(longer, settings.frames, device)
            log(f"codec data {len(segments.lengths)} utterances")
        codes, wanted = segments.draw(settings.batch)
        made = synthesise(decoder, codes, autocast)
        wanted = wanted[..., : made.shape[-1]]
        spectral_error = spectral(made, wanted)
        loss = 12 * spectral_error
        note = ""
        if gan_step is not None:
            first = int(torch.randint(0, settings.frames - settings.judged_frames + 1, ()))
            first *= SAMPLES_PER_FRAME
            span = slice(first, first + settings.judged_frames * SAMPLES_PER_FRAME)
            judge_error = judge.learn(made[..., span], wanted[..., span], autocast)
            fooling, matching = judge.judge(made[..., span], wanted[..., span], autocast)
            loss = loss + min(1.0, (step - gan_step) / RAMP_STEPS) * (fooling + 0.7 * matching)
            if step % LOG_EVERY_STEPS == 0:
                note = f" judge {judge_error:.2f} fooling {fooling:.2f} matching {matching:.2f}"
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 30.0)
        optimizer.step()
        current = [parameter.detach() for parameter in parameters]
        torch._foreach_lerp_(averages, current, 1 - min(0.999, step / (step + 20)))
        if step % LOG_EVERY_STEPS == 0:
            now_s = time.time() - start_s
            log(f"codec {step} {now_s:.0f} s spectral {spectral_error:.3f} norm {norm:.1f}{note}")
            if not math.isfinite(norm.item()):
                log("codec: gradient not finite")
            if now_s - saved_s > SAVE_EVERY_S:
                saved_s = now_s
                with _swapped(parameters, averages):
                    save_half(decoder, out)
        step += 1
    with _swapped(parameters, averages):
        save_half(decoder, out)
    log(f"codec steps {step}")
