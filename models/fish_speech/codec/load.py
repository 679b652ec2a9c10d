"""The codec of a checkpoint folder: its vocoder and its voice encoder, loaded or made up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.checkpoint.files import Shapes, unreadable
from models.checkpoint.random import LOUDNESS, random_tensors
from models.checkpoint.weights import META, meta_tensors
from models.fish_speech.codec.config import WEIGHTS_FILE, CodecConfig
from models.fish_speech.codec.encoder import CodecEncoder, FishVoiceEncoder
from models.fish_speech.codec.tensors import check_codec, decoder_table, encoder_table
from models.fish_speech.codec.vocoder import FishVocoder
from models.fish_speech.codec.weight_norm import plain_shapes, without_weight_norm


def load_codec(folder: Path, device: torch.device | str, dtype: torch.dtype) -> FishVocoder:
    """The vocoder of a folder. Raises CheckpointError."""
    config = CodecConfig.from_folder(folder)
    tensors = read_codec(folder, config, device, decoder_table(config).shapes)
    return FishVocoder.from_state(config, tensors, device, dtype)


def load_codec_encoder(folder: Path, device: torch.device | str) -> FishVoiceEncoder:
    """The encoder of references, in float32. Raises CheckpointError."""
    config = CodecConfig.from_folder(folder)
    tensors = read_codec(folder, config, device, encoder_table(config).shapes)
    return FishVoiceEncoder(CodecEncoder.from_state(config, tensors, device))


def read_codec(
    folder: Path, config: CodecConfig, device: torch.device | str, names: Iterable[str]
) -> dict[str, Tensor]:
    """float32 tensors of a converted codec without weight norm; all names and shapes are checked.

    Raises:
        CheckpointError: they do not fit, the file is broken, or `codec.pth` is another one by now.
    """
    path, header = folder / WEIGHTS_FILE, check_codec(folder, config)
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
    tensors = _random(decoder_table(config).shapes, device, generator)
    tensors[f"decoder.model.{len(config.upsample_rates) + 2}.conv.weight"] *= LOUDNESS
    return FishVocoder.from_state(config, tensors, device, dtype)


def random_encoder(device: torch.device, generator: torch.Generator) -> FishVoiceEncoder:
    """A voice encoder of the released size with random weights."""
    config = CodecConfig.released()
    tensors = _random(encoder_table(config).shapes, device, generator)
    return FishVoiceEncoder(CodecEncoder.from_state(config, tensors, device))


def _random(shapes: Shapes, device: torch.device, generator: torch.Generator) -> dict[str, Tensor]:
    """Random tensors without weight norm; a Snake's alpha is no exponent here, so it is 1."""
    tensors = random_tensors(plain_shapes(shapes), device, generator)
    for name, tensor in tensors.items():
        if name.endswith(".alpha"):
            tensor.fill_(1)
    return tensors
