"""The codec of a checkpoint folder: its vocoder and its voice encoder, loaded or made up."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from models.checkpoint.random import LOUDNESS, random_tensors
from models.checkpoint.table import Table
from models.checkpoint.weights import read_file
from models.fish_speech.codec.config import WEIGHTS_FILE, CodecConfig
from models.fish_speech.codec.encoder import CodecEncoder, FishVoiceEncoder
from models.fish_speech.codec.tensors import check_codec, decoder_table, encoder_table
from models.fish_speech.codec.vocoder import FishVocoder
from models.fish_speech.codec.weight_norm import plain_shapes, without_weight_norm


def load_codec(
    folder: Path, device: torch.device, dtype: torch.dtype
) -> tuple[FishVocoder, FishVoiceEncoder]:
    """The vocoder of a folder, and its encoder of references in float32.

    Raises:
        CheckpointError: names or shapes do not fit, the file is broken, or `codec.pth` is another
            one by now.
    """
    config = CodecConfig.from_folder(folder)
    header = check_codec(folder, config)

    def read(table: Table) -> dict[str, Tensor]:
        tensors = read_file(folder / WEIGHTS_FILE, header, table.shapes, device)
        return without_weight_norm(tensors)

    vocoder = FishVocoder.from_state(config, read(decoder_table(config)), dtype)
    return vocoder, FishVoiceEncoder(CodecEncoder.from_state(config, read(encoder_table(config))))


def random_codec(
    dtype: torch.dtype, generator: torch.Generator
) -> tuple[FishVocoder, FishVoiceEncoder]:
    """Both of the released size with random weights; samples are neither silent nor clipped."""
    config = CodecConfig.released()
    tensors = _random(decoder_table(config), generator)
    tensors[f"decoder.model.{len(config.upsample_rates) + 2}.conv.weight"] *= LOUDNESS
    vocoder = FishVocoder.from_state(config, tensors, dtype)
    encoder = CodecEncoder.from_state(config, _random(encoder_table(config), generator))
    return vocoder, FishVoiceEncoder(encoder)


def _random(table: Table, generator: torch.Generator) -> dict[str, Tensor]:
    """Random tensors without weight norm; a Snake's alpha is no exponent here, so it is 1."""
    tensors = random_tensors(plain_shapes(table.shapes), generator)
    for name, tensor in tensors.items():
        if name.endswith(".alpha"):
            tensor.fill_(1)
    return tensors
