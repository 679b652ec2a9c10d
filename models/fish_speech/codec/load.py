"""The codec of a checkpoint folder: its vocoder and its voice encoder, loaded or made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.checkpoint.files import unreadable
from models.checkpoint.random import LOUDNESS, by_fan_in
from models.checkpoint.weights import META, meta_tensors
from models.fish_speech.codec.config import WEIGHTS_FILE, CodecConfig
from models.fish_speech.codec.encoder import CodecEncoder, FishVoiceEncoder
from models.fish_speech.codec.folding import without_weight_norm
from models.fish_speech.codec.vocoder import FishVocoder
from models.fish_speech.codec.weights import (
    DIRECTION,
    LENGTH,
    OLD_DIRECTION,
    OLD_LENGTH,
    check_codec,
    is_decoding,
    is_encoding,
    official_shapes,
)


def load_codec(folder: Path, device: torch.device | str, dtype: torch.dtype) -> FishVocoder:
    """The vocoder of a folder. Raises CheckpointError."""
    config = CodecConfig.from_folder(folder)
    tensors = read_codec(folder, config, device, is_decoding)
    return FishVocoder.from_state(config, tensors, device, dtype)


def load_codec_encoder(folder: Path, device: torch.device | str) -> FishVoiceEncoder:
    """The encoder of references, in float32. Raises CheckpointError."""
    config = CodecConfig.from_folder(folder)
    tensors = read_codec(folder, config, device, is_encoding)
    return FishVoiceEncoder(CodecEncoder.from_state(config, tensors, device))


def read_codec(
    folder: Path,
    config: CodecConfig,
    device: torch.device | str,
    is_wanted: Callable[[str], bool],
) -> dict[str, Tensor]:
    """float32 tensors of a converted codec without weight norm; all names and shapes are checked.

    Raises:
        CheckpointError: they do not fit, the file is broken, or `codec.pth` is another one by now.
    """
    path, header = folder / WEIGHTS_FILE, check_codec(folder, config)
    names = [name for name in header.shapes if is_wanted(name)]
    if torch.device(device) == META:
        found = meta_tensors(header)
        return without_weight_norm({name: found[name] for name in names})
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise unreadable(path, error) from None
    return without_weight_norm(tensors)


def random_vocoder(
    device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> FishVocoder:
    """A vocoder of the released size with random weights, neither silent nor clipped."""
    config = CodecConfig.released()
    tensors = _random(config, device, generator, is_decoding)
    tensors[f"decoder.model.{len(config.upsample_rates) + 2}.conv.weight"] *= LOUDNESS
    return FishVocoder.from_state(config, tensors, device, dtype)


def random_encoder(device: torch.device, generator: torch.Generator) -> FishVoiceEncoder:
    """A voice encoder of the released size with random weights."""
    config = CodecConfig.released()
    tensors = _random(config, device, generator, is_encoding)
    return FishVoiceEncoder(CodecEncoder.from_state(config, tensors, device))


def _random(
    config: CodecConfig,
    device: torch.device,
    generator: torch.Generator,
    is_wanted: Callable[[str], bool],
) -> dict[str, Tensor]:
    """Random tensors without weight norm, scaled by fan-in."""
    tensors = {}
    for name, shape in official_shapes(config).items():
        if not is_wanted(name) or name.endswith((LENGTH, OLD_LENGTH)):
            continue
        for direction in (DIRECTION, OLD_DIRECTION):
            name = name.replace(direction, "weight")
        if name.endswith(".alpha"):
            value = torch.ones(shape, device=device)
        elif name.endswith("layer_scale.gamma"):
            value = torch.full(shape, 0.01, device=device)
        elif name.endswith("codebook.weight"):
            value = torch.randn(shape, device=device, generator=generator)
        else:
            value = by_fan_in(name, shape, device, generator)
        tensors[name] = value
    return tensors
