"""Tiny vocoders: the released `config.json` with their sizes, and random tensors under the
official names.

The scales keep activations and samples in the range of a trained decoder: a random one at PyTorch's
default scales is silent, and at larger ones its sines amplify rounding beyond comparison.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import released_files
import torch
from torch import Tensor

from models.checkpoint.weights import shapes_of
from models.qwen3_tts.codec import Vocoder
from models.qwen3_tts.config import VocoderConfig
from models.qwen3_tts.tensors import vocoder_table

DECODER = {
    "codebook_size": 16,
    "codebook_dim": 16,
    "num_quantizers": 4,
    "latent_dim": 16,
    "hidden_size": 24,  # heads * head_dim is another width
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "sliding_window": 5,
    "max_position_embeddings": 400,
    "decoder_dim": 16,
    "upsample_rates": [4, 3],
    "upsampling_ratios": [2],
}
VARIANTS: dict[str, dict[str, Any]] = {
    "small": {},
    "released_rates": {
        "num_quantizers": 16,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 48,
        "num_attention_heads": 4,
        "sliding_window": 9,
    },
    "shared_heads": {
        "num_key_value_heads": 1,
        "upsample_rates": [2, 7, 3],
        "upsampling_ratios": [3, 2],
        "decoder_dim": 24,
        "sliding_window": 1,
        "rope_theta": 500,
    },
}


def tokenizer_config(variant: str = "small", **changes: Any) -> dict[str, Any]:
    """`speech_tokenizer/config.json` of a variant; changes go to decoder_config. A key that the
    released file lacks raises.
    """
    values = released_files.read("common/speech_tokenizer/config.json")
    decoder = values["decoder_config"]
    released_files.put(decoder, **{**DECODER, **VARIANTS[variant], **changes})
    total = math.prod(decoder["upsample_rates"]) * math.prod(decoder["upsampling_ratios"])
    released_files.put(values, decode_upsample_rate=total)
    return values


def read_config(folder: Path, values: dict[str, Any]) -> VocoderConfig:
    """Write the values as `config.json` and read them with the real loader."""
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return VocoderConfig.from_folder(folder)


def config(variant: str = "small", **changes: Any) -> VocoderConfig:
    """A variant's config, with changes to decoder_config, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        return read_config(Path(folder), tokenizer_config(variant, **changes))


def build(
    config: VocoderConfig,
    tensors: dict[str, Tensor],
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Vocoder:
    """A vocoder by the real loader."""
    vocoder_table(config).check(shapes_of(tensors), "speech tokenizer")
    there = {name: tensor.to(device) for name, tensor in tensors.items()}
    return Vocoder.from_tensors(config, there, dtype, "speech tokenizer")


def random_tensors(config: VocoderConfig, seed: int = 0) -> dict[str, Tensor]:
    """float32 `decoder.*` tensors."""
    generator = torch.Generator().manual_seed(seed)
    last_conv = f"decoder.decoder.{len(config.upsample_rates) + 2}.conv.weight"
    tensors = {}
    for name, shape in vocoder_table(config).shapes.items():
        value = torch.randn(shape, generator=generator)
        if name.endswith("cluster_usage"):
            value = 0.5 + value.abs()
            value[3] = 0  # a code never used in training
        elif name.endswith("embedding_sum"):
            value[3] *= 1e-5
        elif name.endswith(("norm.weight", "layernorm.weight")):
            value = 1 + 0.2 * value
        elif name.endswith((".scale", ".gamma")):
            value = 0.4 + 0.2 * value
        elif name.endswith((".alpha", ".beta")):
            value = 0.3 * value + (1 if name.endswith("beta") else 0)
        elif name.endswith(".bias"):
            value = 0.2 * value
        else:
            value = value / value[0].numel() ** 0.5
            value *= 0.1 if name == last_conv else 0.4 if ".conv2." in name else 1
        tensors[name] = value
    return tensors


def random_codes(config: VocoderConfig, batch: int, frames: int, seed: int = 0) -> Tensor:
    """(B, K, F) codes that include the first and the last of a codebook."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, config.num_codebooks, frames)
    codes = torch.randint(0, config.semantic_codes, shape, generator=generator)
    codes[0, :, 0] = 0
    codes[-1, :, -1] = config.semantic_codes - 1
    return codes


def in_two_lanes(
    vocoder: Callable[..., Tensor], codes_of: Callable[[int], Tensor], sizes: Any
) -> Iterator[tuple[Tensor, Tensor]]:
    """Decode rows one after the other in two lanes; yield the samples of each, and of it alone.

    Args:
        codes_of: makes (2, K, F) codes, also for the gaps, where they must not matter.
        sizes: what has `gap_frames` and `samples_per_frame`.
    """
    order, gap, width = [7, 20, 1, 11], sizes.gap_frames, sizes.samples_per_frame
    frames = sum(order) + gap * len(order) + 4
    codes, positions, places = codes_of(frames), torch.full((2, frames), -1), []
    for lane, lengths in enumerate([order, order[::-1]]):
        start = 0
        for length in lengths:
            positions[lane, start : start + length] = torch.arange(length)
            places.append((lane, start, start + length))
            start += length + gap
    samples = vocoder(codes, positions)
    for lane, start, end in places:
        alone = vocoder(codes[lane : lane + 1, :, start:end])[0]
        yield samples[lane, start * width : end * width], alone
