"""The released Fish Speech S2 Pro at full size, without its weights and without their disk space.

Nobody here has the released files. Names, shapes and ids are those on record for revision 1de9996b
of `fishaudio/s2-pro`; a fingerprint that others took of its weight files' headers tells whether
these are they. Which tensor is in which of its two files is not on record, nor the codec's header.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny_fish_speech as tiny
import torch
from released_checkpoint import Tensors, write_sparse, write_sparse_parts
from released_files import read

from models.dual_ar.config import CONFIG_FILE, PICKLED_FILE, SOURCE_BYTES, WEIGHTS_FILE, CodecConfig
from models.dual_ar.tensors import official_shapes

# SHA-256 of the sorted lines `name|BF16|2560x4096`, and the sum of both files' data.
FINGERPRINT = "7080b1c9b5d5e95589a1efa18db19616170d7e35664e2e4e7f744bbf7180adad"
DATA_BYTES = 9_123_704_832
NUM_CODEC_TENSORS, NUM_CODEC_WEIGHTS = 535, 391_430_530
FIRST_ADDED, FIRST_OWN = 151_643, 151_669  # ids: of Qwen's added tokens, and of Fish Speech's
STALE = {
    "encoder.block.4.block.5": 16384,
    "quantizer.pre_module": 4096,
    "quantizer.post_module": 4096,
}


@dataclass(frozen=True)
class Released(tiny.Spec):
    """The released sizes."""

    @property
    def text_vocab_size(self) -> int:
        """Rows of the text embedding, two of them unused."""
        return 155_776


SPEC = Released(
    width=2560,
    mlp_width=9728,
    num_layers=36,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    predictor_mlp_width=9728,
    predictor_layers=4,
    predictor_heads=32,
    predictor_kv_heads=8,
    predictor_head_dim=128,
    num_codebooks=10,
    codebook_size=4096,
    num_rest_codes=1024,
    max_positions=32_768,
)


def write_checkpoint(folder: Path, *, as_pickle: bool = False) -> Path:
    """Write the checkpoint into `folder` and return the folder.

    Args:
        as_pickle: the codec as released, still to be converted, with one number for all entries of
            a tensor, so that it is small too; otherwise converted, and sparse.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", main_config()), ("tokenizer.json", tokenizer_json())):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    write_sparse_parts(folder, tensor_list(), num_shards=2, metadata={"format": "pt"})
    config = CodecConfig.released()
    if as_pickle:
        torch.save(pickled_codec(config), folder / PICKLED_FILE)
        return folder
    (folder / CONFIG_FILE).write_text(json.dumps(config.as_json()), encoding="utf-8")
    write_sparse(folder / WEIGHTS_FILE, codec_list(), {"format": "pt", SOURCE_BYTES: "0"})
    return folder


def tensor_list() -> Tensors:
    """Stored type and shape of each tensor of talker and code predictor."""
    return {name: ("BF16", shape) for name, shape in tiny.main_shapes(SPEC).items()}


def codec_list() -> Tensors:
    """Stored type and shape of each weight of the codec."""
    shapes = official_shapes(CodecConfig.released())
    return {name: ("F32", shape) for name, shape in shapes.items()}


def fingerprint(tensors: Tensors) -> str:
    """What `FINGERPRINT` is of."""
    lines = sorted(
        f"{name}|{kind}|{'x'.join(map(str, shape))}" for name, (kind, shape) in tensors.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def added_tokens() -> list[str]:
    """Every added token, by id from `FIRST_ADDED` on: Qwen's, Fish Speech's, the semantic codes."""
    qwen = read("common/tokenizer_config.json")["added_tokens_decoder"]
    tokens = [qwen[str(index)]["content"] for index in range(FIRST_ADDED, FIRST_OWN)]
    tokens += [token for token in tiny.SPECIAL if token not in tokens]
    return [*tokens, *(f"<|semantic:{code}|>" for code in range(SPEC.codebook_size))]


def main_config() -> dict[str, Any]:
    """`config.json`."""
    ids = {token: FIRST_ADDED + place for place, token in enumerate(added_tokens())}
    return tiny.main_config(SPEC) | {
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|pad|>"],
        "audio_pad_token_id": ids["<|audio_pad|>"],
        "semantic_start_token_id": ids["<|semantic:0|>"],
        "semantic_end_token_id": ids[f"<|semantic:{SPEC.codebook_size - 1}|>"],
    }


def tokenizer_json() -> dict[str, Any]:
    """`tokenizer.json` with few merges, but as many entries and added tokens as the release.

    The tokenizers library gives an added token the next free id, whatever the file says.
    """
    content = tiny.tokenizer_json(SPEC)
    vocab = content["model"]["vocab"]
    vocab |= {f"no text {index}": index for index in range(len(vocab), FIRST_ADDED)}
    like = content["added_tokens"][0]
    content["added_tokens"] = [
        {**like, "id": FIRST_ADDED + place, "content": token}
        for place, token in enumerate(added_tokens())
    ]
    return content


def pickled_codec(config: CodecConfig) -> dict[str, torch.Tensor]:
    """The content of `codec.pth`: all weights 1, and the tables that the official code saves."""
    one = torch.ones(())
    content = {name: one.expand(shape) for name, shape in official_shapes(config).items()}
    for name, steps in STALE.items():
        content[f"{name}.freqs_cis"] = torch.ones((), dtype=torch.bfloat16).expand(steps, 32, 2)
        content[f"{name}.causal_mask"] = torch.ones((), dtype=torch.bool).expand(steps, steps)
    return content
