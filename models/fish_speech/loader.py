"""From a checkpoint folder to a `FishSpeech`; or from random weights in the released size, so that
hardware can be judged before any download.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from models.base import Reader, RequestError, Tokenizer, library_errors
from models.checkpoint.files import CheckpointError
from models.checkpoint.random import MARKERS, byte_tokenizer, randomise
from models.checkpoint.weights import META, load_networks, read_tensors
from models.fish_speech.codec.config import CodecConfig
from models.fish_speech.codec.load import load_codec, random_codec
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.info import describe, describe_synthetic
from models.fish_speech.model import FishSpeech
from models.fish_speech.prompt import reader_of
from models.fish_speech.talker import FishCodePredictor, FishTalker
from models.fish_speech.tensors import network_table


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> FishSpeech:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    reader = read(folder)
    config = reader.config
    codec = CodecConfig.from_folder(folder)
    networks = _empty_networks(config, codec)
    table = network_table(config, codec.residual_codes)
    load_networks(networks, table, read_tensors(folder, device), dtype, f"{folder}: model")
    vocoder, voices = load_codec(folder, device, dtype)
    return FishSpeech(use_graphs, reader, info, vocoder, voices, **networks)


def read(folder: Path) -> Reader:
    """What lays requests out, without a weight. Raises CheckpointError."""
    config = FishSpeechConfig.from_folder(folder)
    tokenize = load_tokenizer(folder, config)
    with library_errors(CheckpointError, f"{folder}: its tokenizer"):
        return reader_of(config, tokenize)


def load_tokenizer(folder: Path, config: FishSpeechConfig) -> Tokenizer:
    """The checkpoint's byte-level BPE (`tokenizer.json`); special tokens are recognised.

    Raises:
        CheckpointError: it cannot be read, or has other ids than `config.json` says.
    """
    from tokenizers import Tokenizer as Library

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder}: its tokenizer is missing ({path.name})")
    with library_errors(CheckpointError, f"{path}: cannot be read"):
        tokenizer = Library.from_file(str(path))
        largest = max(tokenizer.get_vocab().values())

    def tokenize(text: str) -> list[int]:
        with library_errors(RequestError, f"{path}: cannot split this text, so change it"):
            return list(tokenizer.encode(text, add_special_tokens=False).ids)

    with library_errors(CheckpointError, f"{folder}: its tokenizer"):
        _check_tokens(path, config, tokenize)
    if largest >= config.text_vocab_size:
        raise CheckpointError(
            f"{path}: id {largest} is not below the vocabulary's {config.text_vocab_size}"
        )
    return tokenize


def _check_tokens(path: Path, config: FishSpeechConfig, tokenize: Tokenizer) -> None:
    """Raise CheckpointError where the special tokens have other ids than the configuration says."""
    last = config.codebook_size - 1
    for token, expected in (
        ("<|im_end|>", config.end),
        ("<|semantic:0|>", config.semantic_start),
        (f"<|semantic:{last}|>", config.semantic_start + last),
    ):
        if tokenize(token) != [expected]:
            raise CheckpointError(f"{path}: {token} is {tokenize(token)}, not {expected}")
    for token in ("<|im_start|>", "<|voice|>"):
        if len(tokenize(token)) != 1:
            raise CheckpointError(f"{path}: {token} is not one token")


byte_ids = byte_tokenizer(MARKERS | {"<|voice|>": 151673, "system": 8948})


@torch.inference_mode()
def load_synthetic(
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    use_graphs: bool,
    seed: int = 0,
    config: FishSpeechConfig | None = None,
) -> FishSpeech:
    """Draw the weights on the device; the same seed and device give the same weights.

    Args:
        config: another one than the released, for tests.
    """
    config = config or FishSpeechConfig.released()
    generator = torch.Generator(device).manual_seed(seed)
    codec = CodecConfig.released()
    networks = _empty_networks(config, codec)
    randomise(networks, config.eos, dtype, generator)
    vocoder, voices = random_codec(dtype, generator)
    reader, info = reader_of(config, byte_ids), describe_synthetic(name)
    return FishSpeech(use_graphs, reader, info, vocoder, voices, **networks)


def read_synthetic(name: str) -> Reader:
    """As `read`, of random weights."""
    return reader_of(FishSpeechConfig.released(), byte_ids)


def _empty_networks(config: FishSpeechConfig, codec: CodecConfig) -> dict[str, Any]:
    with META:
        predictor = FishCodePredictor(config, codec.residual_codes)
        return {"talker": FishTalker(config), "predictor": predictor}
