"""From a checkpoint folder to a `FishSpeech`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from models.base import Prompts, Tokenizer
from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import fuse, load_strictly, read_tensors, rename
from models.decoder.config import TransformerConfig
from models.device.graphs import EAGER, cuda_capturers
from models.fish_speech.code_predictor import FishCodePredictor
from models.fish_speech.codec.config import CodecConfig
from models.fish_speech.codec.load import load_codec, load_codec_encoder
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.info import describe
from models.fish_speech.model import FishSpeech
from models.fish_speech.prompt import prompt_builder
from models.fish_speech.rope import halves
from models.fish_speech.talker import FishTalker
from models.fish_speech.weights import AUDIO, TEXT

RENAMES = {
    f"{TEXT}embeddings.weight": "talker.text_embedding.weight",
    f"{TEXT}norm.weight": "talker.decoder.norm.weight",
    f"{AUDIO}codebook_embeddings.weight": "talker.code_embedding.weight",
    f"{AUDIO}embeddings.weight": "predictor.embedding.weight",
    f"{AUDIO}output.weight": "predictor.head.weight",
    f"{AUDIO}norm.weight": "predictor.decoder.norm.weight",
}
LAYER_RENAMES = {
    "attention_norm.weight": "input_norm.weight",
    "ffn_norm.weight": "post_norm.weight",
    "attention.wqkv.weight": "qkv.weight",
    "attention.q_norm.weight": "q_norm.weight",
    "attention.k_norm.weight": "k_norm.weight",
    "attention.wo.weight": "o.weight",
    "feed_forward.w2.weight": "down.weight",
}


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> FishSpeech:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    config, codec = FishSpeechConfig.from_folder(folder), CodecConfig.from_folder(folder)
    tokenize = load_tokenizer(folder, config)
    tensors = read_tensors(folder, device)
    what = f"{folder}: model"
    talker, predictor = load_networks(config, codec.residual_codes, tensors, dtype, what)
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


def load_networks(
    config: FishSpeechConfig,
    num_rest_codes: int,
    tensors: dict[str, Tensor],
    dtype: torch.dtype,
    what: str,
) -> tuple[FishTalker, FishCodePredictor]:
    """Talker and code predictor from the released tensors, which are used up.

    Args:
        num_rest_codes: codes of each codebook but the first; the predictor's head is cut to them.
    Raises:
        CheckpointError: keys missing, unexpected or of the wrong shape.
    """
    _rename_layers(tensors, f"{TEXT}layers.", "talker.decoder.layers.", config.talker)
    _rename_layers(tensors, f"{AUDIO}layers.", "predictor.decoder.layers.", config.predictor)
    rename(tensors, RENAMES)
    _cut_heads(config, num_rest_codes, tensors, what)
    with torch.device("meta"):
        talker, predictor = FishTalker(config), FishCodePredictor(config, num_rest_codes)
    networks = torch.nn.ModuleDict({"talker": talker, "predictor": predictor})
    load_strictly(networks, tensors, dtype, what)
    return talker, predictor


def _cut_heads(
    config: FishSpeechConfig, num_rest_codes: int, tensors: dict[str, Tensor], what: str
) -> None:
    """Keep the rows of both heads that can be drawn, and give each codebook its table."""
    text = tensors.get("talker.text_embedding.weight")
    shape = (config.text_vocab_size, config.talker.width)
    if text is not None and text.shape == shape:
        first = config.semantic_start
        rows = text[first : first + config.codebook_size], text[config.end, None]
        tensors["talker.head.weight"] = torch.cat(rows)
    table = tensors.get("talker.code_embedding.weight")
    rows_of_all = config.num_codebooks * config.codebook_size
    if table is not None and table.shape == (rows_of_all, config.talker.width):
        by_book = config.num_codebooks, config.codebook_size, config.talker.width
        tensors["talker.code_embedding.weight"] = table.view(by_book)
    head = tensors.get("predictor.head.weight")
    if head is not None:
        if head.shape != (config.codebook_size, config.predictor.width):
            raise CheckpointError(
                f"{what}: {AUDIO}output.weight has shape {tuple(head.shape)}, the config says "
                f"{(config.codebook_size, config.predictor.width)}"
            )
        tensors["predictor.head.weight"] = head[:num_rest_codes].clone()


def _rename_layers(
    tensors: dict[str, Tensor], source: str, target: str, shape: TransformerConfig
) -> None:
    """Turn Fish Speech's names of a decoder into ours, in place, and its rotations into halves."""
    for index in range(shape.num_layers):
        old, new = f"{source}{index}.", f"{target}{index}."
        fuse(
            tensors, [f"{old}feed_forward.{w}.weight" for w in ("w1", "w3")], f"{new}gate_up.weight"
        )
        rename(tensors, LAYER_RENAMES, old, new)
        heads = shape.num_heads + shape.num_kv_heads
        for name, count in (("qkv", heads), ("q_norm", 1), ("k_norm", 1)):
            weight = tensors.get(f"{new}{name}.weight")
            rows = count * shape.head_dim
            if weight is not None and weight.shape[0] >= rows:
                tensors[f"{new}{name}.weight"] = halves(weight, count, shape.head_dim)
