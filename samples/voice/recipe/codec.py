"""Codec decoder: codes to 24 kHz samples, the official decoder module trained as a vocoder on fixed
codes.

The codes come from features.py and never change, so there is no encoder to train and no codebook to
collapse; the decoder's own code vectors are free parameters. Spectral losses alone come first, then
a small GAN joins.

Small steps, many of them: the transformer and the first convolutions see 32 frames, the expensive
ones behind them only 10 of these, and a step is one CUDA graph, since launching its thousands of
kernels would take longer than running them. What is heard may stand anywhere in an utterance, also
at its start, where the decoder has no past to look at. The graphs are made on noise while the
teachers still speak. The convolutions run with channels last: 37 ms a step with the judges instead
of 50.
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

import official
import torch
import torch.nn.functional as F
from codec_losses import (
    Discriminators,
    SpectralLoss,
    adversarial_loss,
    discriminator_loss,
    feature_loss,
)
from config import DECODER
from features import FRAME_SAMPLES
from safetensors.torch import load_file
from segments import EDGE_FRAMES, JUDGED_FRAMES, Corpus, Segment, Segments, cut
from torch import Tensor, nn

LOG_EVERY_STEPS = 500
SAVE_EVERY_S = 60
RAMP_STEPS = 300  # of the learning rate and of the GAN's weight
Autocast = Callable[[], AbstractContextManager[Any]]
Log = Callable[[str], None]


@dataclass(frozen=True)
class CodecTraining:
    """Settings of one training run."""

    seconds: float  # of training, counted from the second step; the learning rate ends with them
    device: str = "cuda"
    batch: int = 24
    frames: int = 32  # of one training segment
    decoded_frames: int = 10  # of a segment
    gan_start: float = 0.2  # share of the time after which the GAN joins
    learning_rate: float = 6e-4
    judge_rate: float = 6e-4  # the discriminators' learning rate
    final_rate: float = 0.03  # share of the learning rates left at the end
    init: Path | None = None  # checkpoint folder, or state of a run, to go on from


def build(sizes: dict[str, Any] = DECODER) -> nn.Module:
    """The official decoder with random weights."""
    official.load()
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
    for layer in _codebooks(decoder):
        layer._codebook.cluster_usage.data.fill_(1)
        layer._codebook.cluster_usage.requires_grad_(False)
    return decoder


def _codebooks(decoder: Any) -> list[Any]:
    quantizer = decoder.quantizer
    return [*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers]


def place_books(decoder: nn.Module, books: Tensor) -> None:
    """Start the code vectors from the quantiser's books (K, 256, C).

    Of each book the first codebook_dim / 2 components are taken, scaled to a quarter of the first
    book's spread.
    """
    layers = _codebooks(decoder)
    vectors = books.float()[..., : layers[0]._codebook.embedding_sum.shape[1]]
    vectors = vectors / vectors[0].std() / 4
    vectors[1:] *= 2
    for vector, layer in zip(vectors, layers, strict=True):
        layer._codebook.embedding_sum.data.copy_(vector)


def window_mask(num_frames: int, config: Any, device: torch.device) -> Tensor:
    """(1, 1, F, F) what each frame may look at; the package's own way waits for the device."""
    places = torch.arange(num_frames, device=device)
    distance = places[:, None] - places
    return ((distance >= 0) & (distance < config.sliding_window))[None, None]


def synthesise(
    decoder: Any,
    codes: Tensor,
    autocast: Autocast,
    starts: Tensor | None = None,
    num_frames: int = 0,
) -> Tensor:
    """(B, K, F) codes -> (B, 1, F * 1920) samples, or those of `num_frames` from `starts` (B,) on.

    The last two layers run in float32: bfloat16 would put a noise floor into the waveform.
    """
    with autocast():
        hidden = decoder.pre_conv(decoder.quantizer.decode(codes)).transpose(1, 2)
        masks = {"sliding_attention": window_mask(hidden.shape[1], decoder.config, hidden.device)}
        hidden = decoder.pre_transformer(
            inputs_embeds=hidden, attention_mask=masks, use_cache=False
        ).last_hidden_state.permute(0, 2, 1)
        for block in decoder.upsample:
            for layer in block:
                hidden = layer(hidden)
        hidden = decoder.decoder[0](hidden)
        if starts is not None:  # what is before looks back 0.5 s, what is behind 0.25 s
            hidden = cut(hidden, starts, num_frames, hidden.shape[-1] // codes.shape[-1])
        for layer in decoder.decoder[1:-2]:
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
    official.load()
    from qwen_tts.core.tokenizer_12hz import modeling_qwen3_tts_tokenizer_v2 as modeling

    try:
        torch._dynamo.config.recompile_limit = 64
        compiled = torch.compile(_snake_beta, dynamic=True)
        for channels, dtype in ((24, torch.float32), (48, torch.bfloat16), (384, torch.bfloat16)):
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


def _channels_last(hidden: Tensor) -> Tensor:
    """(B, C, n) -> (B, C, 1, n), the channels of one place side by side in memory."""
    return hidden.unsqueeze(2).contiguous(memory_format=torch.channels_last)


def _causal_conv(self: Any, hidden: Tensor) -> Tensor:
    """The official causal convolution, channels last; depthwise ones as they were."""
    if self.conv.groups > 1:
        return self.conv(F.pad(hidden, (self.padding, 0)))
    wide = F.pad(_channels_last(hidden), (self.padding, 0, 0, 0))
    weight = _channels_last(self.conv.weight)
    return F.conv2d(wide, weight, self.conv.bias, 1, 0, (1, self.dilation)).squeeze(2)


def _causal_transposed(self: Any, hidden: Tensor) -> Tensor:
    """The official transposed convolution, channels last."""
    weight, stride = _channels_last(self.conv.weight), self.conv.stride[0]
    wide = F.conv_transpose2d(_channels_last(hidden), weight, self.conv.bias, (1, stride))
    return wide.squeeze(2)[..., : wide.shape[-1] - self.right_pad]


@contextmanager
def channels_last() -> Iterator[None]:
    """Let the official convolutions run with channels last inside."""
    official.load()
    from qwen_tts.core.tokenizer_12hz import modeling_qwen3_tts_tokenizer_v2 as modeling

    faster = {
        modeling.Qwen3TTSTokenizerV2CausalConvNet: _causal_conv,
        modeling.Qwen3TTSTokenizerV2CausalTransConvNet: _causal_transposed,
    }
    plain = {kind: kind.forward for kind in faster}
    for kind, forward in faster.items():
        kind.forward = forward
    yield
    for kind, forward in plain.items():
        kind.forward = forward


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
    on_gpu = device == "cuda"
    rate = torch.tensor(learning_rate, device=device) if on_gpu else learning_rate
    return torch.optim.AdamW(
        parameters, rate, (0.8, 0.99), weight_decay=1e-4, fused=on_gpu, capturable=on_gpu
    )


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate; inside a graph it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


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


class Trainer:
    """Decoder, discriminators, optimisers and the averaged weights."""

    def __init__(self, settings: CodecTraining, log: Log) -> None:
        device = settings.device
        self.settings, self.log = settings, log
        decoder = build()
        state = _initial_state(settings.init)
        log(f"decoder: {take_over(decoder, state)} of its weights begin as given")
        self.decoder = decoder.to(device).train()
        self.judge = Judge(settings.judge_rate, device)
        if settings.init and settings.init.with_suffix(".judge.pt").exists():
            saved = torch.load(
                settings.init.with_suffix(".judge.pt"), weights_only=True, map_location="cpu"
            )
            self.judge.members.load_state_dict(
                {name: value.float() for name, value in saved.items()}
            )
        self.spectral = SpectralLoss().to(device)
        self.parameters = [p for p in decoder.parameters() if p.requires_grad]
        self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self.optimizer = _adamw(self.parameters, settings.learning_rate, device)
        sizes = [
            sum(p.numel() for p in part.parameters()) for part in (decoder, self.judge.members)
        ]
        log(f"decoder {sizes[0]} parameters, discriminators {sizes[1]}")
        num_heard = (settings.decoded_frames - EDGE_FRAMES) * FRAME_SAMPLES
        shape = (settings.batch, DECODER["num_quantizers"], settings.frames)
        starts = [torch.zeros(settings.batch, dtype=torch.long, device=device) for _ in range(3)]
        self.segment = Segment(
            torch.randint(0, DECODER["codebook_size"], shape, device=device),
            torch.randn(settings.batch, 1, num_heard, device=device) / 20,
            *starts,
        )
        self.gan_weight = torch.zeros((), device=device)
        self.results: dict[str, Tensor] = {}

    def begin(self, books: Tensor) -> None:
        """Start the code vectors from the quantiser's books, unless a run's weights go on."""
        if self.settings.init is None or self.settings.init.is_dir():
            place_books(self.decoder, books.to(self.settings.device))
        torch._foreach_copy_(self.averages, [p.detach() for p in self.parameters])

    def autocast(self) -> AbstractContextManager[Any]:
        """bfloat16 on a GPU."""
        device = self.settings.device
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda", cache_enabled=False)

    def step(self, with_judge: bool) -> None:
        """One step on `segment`; every tensor stays where it is."""
        segment, decoded_frames = self.segment, self.settings.decoded_frames
        made = synthesise(
            self.decoder, segment.codes, self.autocast, segment.decoded, decoded_frames
        )
        made = cut(made, segment.heard, decoded_frames - EDGE_FRAMES, FRAME_SAMPLES)
        spectral = self.spectral(made, segment.speech)
        loss = 12 * spectral
        results = {"spectral": spectral.detach()}
        if with_judge:
            heard, real = (
                cut(rows, segment.judged, JUDGED_FRAMES, FRAME_SAMPLES)
                for rows in (made, segment.speech)
            )
            results["judge"] = self.judge.learn(heard, real, self.autocast)
            fooling, matching = self.judge.judge(heard, real, self.autocast)
            loss = loss + self.gan_weight * (fooling + 0.7 * matching)
            results |= {"fooling": fooling.detach(), "matching": matching.detach()}
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        results["norm"] = torch.nn.utils.clip_grad_norm_(self.parameters, 30.0).detach()
        self.optimizer.step()
        self.results = results

    def prepare(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """The step without and with the judges; as CUDA graphs, where there is a GPU."""
        if self.settings.device != "cuda":
            return lambda: self.step(False), lambda: self.step(True)
        trained = [*self.parameters, *self.judge.members.parameters()]
        before = [parameter.detach().clone() for parameter in trained]
        with channels_last():
            plain, judged = (self._capture(with_judge) for with_judge in (False, True))
        with torch.no_grad():
            torch._foreach_copy_([parameter.detach() for parameter in trained], before)
            for optimizer in (self.optimizer, self.judge.optimizer):
                for state in optimizer.state.values():
                    for value in state.values():
                        value.zero_()
        return self._replay(*plain), self._replay(*judged)

    def _replay(self, graph: Any, results: dict[str, Tensor]) -> Callable[[], None]:
        """A step by a graph, which leaves its results where they were when it was made."""

        def run() -> None:
            graph.replay()
            self.results = results

        return run

    def _capture(self, with_judge: bool) -> tuple[Any, dict[str, Tensor]]:
        _set_rate(self.optimizer, 1e-7)  # the first runs only warm up
        _set_rate(self.judge.optimizer, 1e-7)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(with_judge)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        self.judge.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step(with_judge)
        return graph, self.results

    def save(self, out: Path) -> None:
        """Write the averaged weights, and the discriminators beside them."""
        with _swapped(self.parameters, self.averages):
            save_half(self.decoder, out)
        save_half(self.judge.members, out.with_suffix(".judge.pt"))


def take_over(decoder: nn.Module, state: dict[str, Tensor]) -> int:
    """Load a decoder's weights, also those of a narrower one: it sounds the same at first.

    New channels keep their random weights, and nothing old listens to them yet.
    """
    own = decoder.state_dict()
    turned = {
        f"{name}.weight"
        for name, module in decoder.named_modules()
        if isinstance(module, nn.ConvTranspose1d)
    }
    for name, value in state.items():
        mine = own[name]
        if mine.shape != value.shape:
            inside = tuple(slice(0, size) for size in value.shape)
            if value.dim() == 3:
                inputs, outputs = (0, 1) if name in turned else (1, 0)
                heard = [slice(None)] * 3
                heard[inputs] = slice(value.shape[inputs], None)
                heard[outputs] = slice(0, value.shape[outputs])
                mine[tuple(heard)] = 0
            mine[inside] = value
        else:
            mine.copy_(value)
    return len(state)


def _initial_state(init: Path | None) -> dict[str, Tensor]:
    """A decoder's weights in float32, without the code vectors where it is another codec's."""
    if init is None:
        return {}
    if not init.is_dir():
        return {
            name: value.float()
            for name, value in torch.load(init, weights_only=True, map_location="cpu").items()
        }
    weights = load_file(init / "speech_tokenizer" / "model.safetensors")
    state = {name.removeprefix("decoder."): value.float() for name, value in weights.items()}
    return {name: value for name, value in state.items() if "_codebook" not in name}


def train(
    speech: Callable[[], tuple[Corpus, Tensor]],
    out: Path,
    settings: CodecTraining,
    log: Log = print,
    refresh: Callable[[], Corpus | None] = lambda: None,
) -> None:
    """Train the decoder and write its averaged weights (float16) to `out` every minute and at the
    end.

    Args:
        speech: waits for utterances with their codes and the quantiser's books (K, 256, C); called
            when all is ready for the first step.
        refresh: gives a longer corpus when more speech has been made, else None.
    """
    torch.manual_seed(0)
    if settings.device == "cuda":
        fuse_snake(settings.device, log)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 4
    trainer = Trainer(settings, log)
    begun_s, saved_s, step, gan_step = time.time(), 0.0, 0, None
    plain, judged = trainer.prepare()
    run = plain
    log(f"first steps took {time.time() - begun_s:.0f} s")
    corpus, books = speech()
    trainer.begin(books)
    segments = Segments(corpus, settings)
    start_s = time.time()
    log(f"codec data {len(segments.lengths)} utterances")
    while (elapsed := (time.time() - start_s) / settings.seconds) < 1:
        if elapsed > settings.gan_start and gan_step is None:
            gan_step, run = step, judged
            log(f"the GAN joins at step {step}")
        fall = (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * min(1.0, elapsed)))
        factor = (settings.final_rate + fall) * min(1, (step + 1) / RAMP_STEPS)
        _set_rate(trainer.optimizer, settings.learning_rate * factor)
        if gan_step is not None:
            joined = min(1.0, (step - gan_step + 1) / RAMP_STEPS)
            _set_rate(trainer.judge.optimizer, settings.judge_rate * (settings.final_rate + fall))
            trainer.gan_weight.fill_(joined)
        if step % 500 == 499 and (longer := refresh()):
            segments = Segments(longer, settings)
            log(f"codec data {len(segments.lengths)} utterances")
        for kept, drawn in zip(trainer.segment, segments.draw(settings.batch), strict=True):
            kept.copy_(drawn)
        run()
        if step % 8 == 7 and settings.device == "cuda":
            torch.cuda.synchronize()  # or the clock runs behind
        current = [parameter.detach() for parameter in trainer.parameters]
        torch._foreach_lerp_(trainer.averages, current, 1 - min(0.999, step / (step + 20)))
        if step % LOG_EVERY_STEPS == 0:
            results = {name: round(float(value), 3) for name, value in trainer.results.items()}
            now_s = time.time() - start_s
            log(f"codec {step} {now_s:.0f} s {results}")
            if not math.isfinite(results["norm"]):
                log("codec: gradient not finite")
            if now_s - saved_s > SAVE_EVERY_S:
                saved_s = now_s
                trainer.save(out)
        step += 1
    trainer.save(out)
    log(f"codec steps {step}")
