"""Tiny codecs of Fish Speech: their `codec.json`, random tensors under the official names, files.

The scales keep activations and samples in the range of a trained codec: at PyTorch's default scales
a random one is silent, at larger ones its sines amplify rounding beyond comparison. The numbers are
the same on every machine, which the golden file relies on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tiny_qwen3_tts import reference_wave, uniform
from torch import Tensor

from models.checkpoint.files import check_shapes, read_header
from models.checkpoint.weights import read_tensors
from models.decoder.config import TransformerConfig
from models.dual_ar.codec import CodecEncoder, CodecVoiceEncoder, DACVocoder
from models.dual_ar.config import CODEC_STACK, CONFIG_FILE, PICKLED_FILE, WEIGHTS_FILE, CodecConfig
from models.dual_ar.family import read_codec
from models.dual_ar.tensors import decoder_table, encoder_table, official_shapes
from models.vocoder.tensors import DIRECTION, LENGTH, OLD_DIRECTION, OLD_LENGTH

__all__ = ["build", "build_encoder", "digest", "random_codes", "random_tensors", "reference_wave"]
SPREAD = 3**0.5  # of uniform numbers between -1 and 1: a variance of 1
SMALL = CodecConfig(
    sample_rate_hz=44100,
    num_codebooks=4,
    semantic_codes=64,
    residual_codes=16,
    code_dim=4,
    latent_dim=32,
    frames=TransformerConfig(32, 40, 2, 2, 2, 16, 1e4, 1e-5, 1200, window=5, **CODEC_STACK),
    upsampling_ratios=(3, 2),
    decoder_dim=16,
    upsample_rates=(4, 3, 2),
    encoder_dim=4,
    encoder_strides=(2, 3, 4),
    steps=TransformerConfig(32, 96, 1, 4, 4, 8, 500.0, 1e-5, 7200, window=9, **CODEC_STACK),
)
FEW_FRAMES = replace(  # a second has as few as released
    SMALL,
    upsampling_ratios=(2, 2),
    upsample_rates=(8, 8, 4, 2),
    encoder_dim=2,
    encoder_strides=(2, 4, 8, 8),
)
VARIANTS: dict[str, CodecConfig] = {
    "small": SMALL,
    "released_rates": replace(
        SMALL,
        num_codebooks=10,
        code_dim=8,
        upsampling_ratios=(2, 2),
        decoder_dim=48,
        upsample_rates=(8, 8, 4, 2),
        encoder_dim=2,
        encoder_strides=(2, 4, 8, 8),
        frames=TransformerConfig(32, 48, 3, 4, 4, 8, 1e4, 1e-5, 1200, window=1, **CODEC_STACK),
    ),
}


def random_tensors(config: CodecConfig, seed: int = 0) -> dict[str, Tensor]:
    """float32 tensors of a whole codec under their official names, weight norm in two parts."""
    last_conv = f"decoder.model.{len(config.upsample_rates) + 2}."
    tensors = {}
    for name, shape in official_shapes(config).items():
        value = SPREAD * torch.from_numpy(uniform(seed, name, shape))
        if name.endswith((LENGTH, OLD_LENGTH)):
            value = _gain(name, last_conv) * (1 + 0.1 * value)
        elif name.endswith((DIRECTION, OLD_DIRECTION)):
            value = 0.3 * value
        elif name.endswith("norm.weight"):
            value = 1 + 0.2 * value
        elif name.endswith(".gamma"):
            value = 0.4 + 0.2 * value
        elif name.endswith(".alpha"):
            value = 0.6 + 0.3 * value.abs()
        elif name.endswith(".bias"):
            value = 0.2 * value
        elif not name.endswith("codebook.weight"):
            value = value / value[0].numel() ** 0.5
        tensors[name] = value
    return tensors


def digest(tensors: dict[str, Tensor]) -> str:
    """A short hash of names and values."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].numpy().tobytes())
    return found.hexdigest()[:16]


def _gain(name: str, last_conv: str) -> float:
    """Length of each output's weights: 1 keeps the scale, residual branches add less."""
    if name.startswith(last_conv):
        return 0.2
    return 0.4 if ".block.3.conv." in name else 1.0


def random_codes(config: CodecConfig, batch: int, frames: int, seed: int = 0) -> Tensor:
    """(B, K, F) codes that include the first and the last of each codebook."""
    sizes = torch.tensor(config.codebook_sizes)[:, None]
    shares = uniform(seed, "codes", (batch, config.num_codebooks, frames))
    codes = ((torch.from_numpy(shares) + 1) * (sizes / 2)).long()
    codes[0, :, 0] = 0
    codes[-1, :, -1] = sizes[:, 0] - 1
    return codes


def build(
    config: CodecConfig,
    tensors: dict[str, Tensor],
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> DACVocoder:
    """A vocoder of official tensors."""
    chosen = {name: tensors[name].to(device) for name in decoder_table(config).shapes}
    return DACVocoder.from_tensors(config, chosen, dtype, "vocoder")


def build_encoder(config: CodecConfig, tensors: dict[str, Tensor]) -> CodecVoiceEncoder:
    """A voice encoder of official tensors."""
    chosen = {name: tensors[name] for name in encoder_table(config).shapes}
    encoder = CodecEncoder.from_tensors(config, chosen, torch.float32, "codec encoder")
    return CodecVoiceEncoder(encoder)


def load_codec(
    folder: Path, device: torch.device, dtype: torch.dtype
) -> tuple[DACVocoder, CodecVoiceEncoder]:
    """Vocoder and encoder of a folder that has a codec only, by the real loader."""
    config = read_codec(folder)
    check_shapes(read_header(folder / WEIGHTS_FILE).shapes, official_shapes(config), WEIGHTS_FILE)
    tensors = read_tensors(folder / WEIGHTS_FILE, device)
    return build(config, tensors, str(device), dtype), build_encoder(config, tensors)


def write_codec(
    folder: Path,
    config: CodecConfig = SMALL,
    seed: int = 0,
    *,
    as_pickle: bool = False,
    **changes: Any,
) -> CodecConfig:
    """Write a codec into a checkpoint folder, converted, or as a `codec.pth` with its sizes.

    Args:
        changes: to fields of the config, such as num_codebooks.
    """
    config = replace(config, **changes)
    tensors = random_tensors(config, seed)
    (folder / CONFIG_FILE).write_text(json.dumps(config.as_json(), indent=2), encoding="utf-8")
    if as_pickle:
        torch.save(tensors, folder / PICKLED_FILE)
    else:
        save_file(tensors, folder / WEIGHTS_FILE, {"format": "pt"})
    return config
