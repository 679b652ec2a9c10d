"""The common part of the descriptions of dual-AR families, without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.base import Tokenizer, library_errors
from models.checkpoint.config import Section
from models.checkpoint.files import CheckpointError, read_header
from models.dual_ar.config import (
    PICKLED_FILE,
    SOURCE_BYTES,
    WEIGHTS_FILE,
    CodecConfig,
    DualARConfig,
)
from models.dual_ar.prompt import OVERHEAD, Chat, TextRules
from models.dual_ar.tensors import decoder_table, encoder_table, network_table
from models.family import MARKERS, Family, NetworkPart, tokenizer_of
from models.pace import Pace

STACK = {  # Fish's and Audio8's names of a transformer's sizes
    "width": "dim",
    "mlp_width": "intermediate_size",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "num_kv_heads": "n_local_heads",
    "max_positions": "max_seq_len",
    "rope_theta": "rope_base",
}
CONVERT = "models.dual_ar.convert:convert"
RELEASED_MARKERS = MARKERS | {"<|voice|>": 151673, "system": 8948}


@dataclass(frozen=True)
class DualARConfigs:
    """The configurations of a checkpoint. Raises CheckpointError: talker and codec differ."""

    main: DualARConfig
    codec: CodecConfig

    def __post_init__(self) -> None:
        main, codec = self.main, self.codec
        for what, ours, theirs in (
            ("codebooks", main.num_codebooks, codec.num_codebooks),
            ("codes of the first codebook", main.codebook_size, codec.semantic_codes),
        ):
            if ours != theirs:
                raise CheckpointError(f"the talker has {ours} {what}, the codec {theirs}")
        if codec.residual_codes > main.codebook_size:
            raise CheckpointError(
                f"the codec has {codec.residual_codes} codes a further codebook, the code "
                f"predictor {main.codebook_size}"
            )
        if not main.num_rest_codes:  # only those that the codec has
            main = replace(main, num_rest_codes=codec.residual_codes)
            object.__setattr__(self, "main", main)


def check_last(root: Section, key: str, config: DualARConfig) -> None:
    """Raise CheckpointError if the last semantic id is not that of the last first code."""
    first, last = config.semantic_start, root.token_id(key, config.text_vocab_size)
    if last != first + config.codebook_size - 1:
        raise root.wrong(
            f"semantic ids {first}..{last} are not as many as the {config.codebook_size} first "
            "codes"
        )


def read_codec(folder: Path) -> CodecConfig:
    """Return the configuration of a folder's codec. Raises CheckpointError: it is missing, or
    does not belong to the `codec.pth` next to it.
    """
    codec = CodecConfig.from_folder(folder)
    path, pickled = folder / WEIGHTS_FILE, folder / PICKLED_FILE
    notes = read_header(path).notes
    if pickled.is_file() and notes.get(SOURCE_BYTES, "") != str(pickled.stat().st_size):
        raise CheckpointError(
            f"{path} was not made of the {PICKLED_FILE} next to it; "
            f"run `tts-cli models convert {folder}` again"
        )
    return codec


def parts(configs: DualARConfigs) -> list[NetworkPart]:
    home, main, codec = "models.dual_ar", configs.main, configs.codec
    decoder, encoder = decoder_table(codec), encoder_table(codec)
    name = f"{home}.codec:CodecEncoder"
    return [
        NetworkPart("model", f"{home}.model:DualARNetworks", main, network_table(main)),
        NetworkPart("vocoder", f"{home}.codec:DACVocoder", codec, decoder, WEIGHTS_FILE),
        NetworkPart("codec encoder", name, codec, encoder, WEIGHTS_FILE, is_float32=True),
    ]


def size_of(config: DualARConfig) -> str:
    """Billions (or millions) of weights, with the embeddings, as in 4.6b."""
    total = network_table(config).num_weights
    return f"{total / 1e9:.1f}b" if total >= 1e8 else f"{total / 1e6:.1f}m"


def family_of(
    name: str,
    read: Callable[[Path], DualARConfig],
    released: Callable[[], tuple[DualARConfig, CodecConfig]],
    rules: TextRules,
    pace: Pace,
    **others: Any,
) -> Family:
    """Return a family of dual-AR models.

    Args:
        read: reads the configuration of talker and code predictor of a folder.
        released: the released configuration, and that of its codec.
        others: fields of Family.
    """

    def info(configs: DualARConfigs) -> dict[str, Any]:
        return {
            "type": "dual_ar",
            "mode": "dual AR: chooses a voice, or clones a reference recording",
            "size": size_of(configs.main),
            "can_clone": True,
            "clone_modes": ("icl",),
            "prompt_overhead": OVERHEAD,
            "ref_silence_s": 0.0,  # the reference is in another turn than the new speech
            "pace": pace,
        }

    return Family(
        name=name,
        model="models.dual_ar.model:DualAR",
        read=lambda folder: DualARConfigs(read(folder), read_codec(folder)),
        released=lambda _: DualARConfigs(*released()),
        parts=parts,
        info=info,
        tokenizer=lambda folder, configs: load_tokenizer(folder, configs.main),
        prompt=lambda configs, tokenize: Chat(configs.main, tokenize, rules).build,
        pace=pace,
        markers=RELEASED_MARKERS,
        **others,
    )


def load_tokenizer(folder: Path, config: DualARConfig) -> Tokenizer:
    """Return the checkpoint's byte-level BPE (`tokenizer.json`); special tokens are recognised.
    Raises CheckpointError: it cannot be read, or its ids differ from `config.json`.
    """
    from tokenizers import Tokenizer as Library

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder}: its tokenizer is missing ({path.name})")
    with library_errors(CheckpointError, f"{path}: cannot be read"):
        tokenizer = Library.from_file(str(path))
        largest = max(tokenizer.get_vocab().values())
    tokenize = tokenizer_of(tokenizer, f"{path}:")
    with library_errors(CheckpointError, f"{folder}: its tokenizer"):
        _check_tokens(path, config, tokenize)
    if largest >= config.text_vocab_size:
        raise CheckpointError(
            f"{path}: id {largest} is not below the vocabulary's {config.text_vocab_size}"
        )
    return tokenize


def _check_tokens(path: Path, config: DualARConfig, tokenize: Tokenizer) -> None:
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
