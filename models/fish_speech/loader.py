"""From a checkpoint folder to a `FishSpeech`."""

from __future__ import annotations

from pathlib import Path

import torch

from models.base import Prompts, Tokenizer
from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import load_networks, read_tensors
from models.device.graphs import EAGER, cuda_capturers
from models.fish_speech.code_predictor import FishCodePredictor
from models.fish_speech.codec.config import CodecConfig
from models.fish_speech.codec.load import load_codec, load_codec_encoder
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.info import describe
from models.fish_speech.model import FishSpeech
from models.fish_speech.prompt import prompt_builder
from models.fish_speech.talker import FishTalker
from models.fish_speech.tensors import network_table


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> FishSpeech:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    config, codec = FishSpeechConfig.from_folder(folder), CodecConfig.from_folder(folder)
    tokenize = load_tokenizer(folder, config)
    tensors = read_tensors(folder, device)
    with torch.device("meta"):
        talker = FishTalker(config)
        predictor = FishCodePredictor(config, codec.residual_codes)
    networks = {"talker": talker, "predictor": predictor}
    table = network_table(config, codec.residual_codes)
    load_networks(networks, table, tensors, dtype, f"{folder}: model")
    vocoder = load_codec(folder, device, dtype)
    voices = load_codec_encoder(folder, device)
    capturers = cuda_capturers(device) if use_graphs else EAGER
    return FishSpeech(config, info, tokenize, talker, predictor, vocoder, capturers, voices)


def prompts(folder: Path) -> Prompts:
    """What lays requests out, without a weight. Raises CheckpointError."""
    config = FishSpeechConfig.from_folder(folder)
    builder = prompt_builder(config, load_tokenizer(folder, config))
    return builder, config.talker.width, config.num_codebooks


def load_tokenizer(folder: Path, config: FishSpeechConfig) -> Tokenizer:
    """The checkpoint's byte-level BPE (`tokenizer.json`); special tokens are recognised.

    Raises:
        CheckpointError: it cannot be read, or has other ids than `config.json` says.
    """
    from tokenizers import Tokenizer as Library

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder}: its tokenizer is missing ({path.name})")
    try:
        tokenizer = Library.from_file(str(path))
        largest = max(tokenizer.get_vocab().values())
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise CheckpointError(f"{path}: cannot be read: {error}") from None

    def tokenize(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

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
    if largest >= config.text_vocab_size:
        raise CheckpointError(
            f"{path}: id {largest} is not below the vocabulary's {config.text_vocab_size}"
        )
    return tokenize
