"""Tiny random Fish Speech checkpoints in the released layout: official files, keys and shapes.

Nothing here needs the official package. Weights come from numpy's raw PCG64 bits, so a spec and a
seed give the same bytes on every machine and version; the golden files of tests/oracle rely on it.
Scales are chosen so that greedy codes vary and rows end by themselves at different frames or hit
their cap.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_fish_codec import SMALL, write_codec
from tiny_qwen3_tts import uniform, write_json, write_weights
from tiny_qwen3_tts_configs import vocabulary

from models.base import Voice
from models.dual_ar.config import CodecConfig

MERGES = ["t h", "th e", "Ġ the", "i n", "e r", "Ġ a", "l l", "o u", "Ġ s", ". Ċ", "Ċ Ċ"]
SPECIAL = (  # in the order of the released tokenizer
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|pad|>",
    "<|phoneme_start|>",
    "<|phoneme_end|>",
    "<|text|>",
    "<|voice|>",
    "<|interleave|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
)
FIRST_SPECIAL = 256 + len(MERGES)
SEMANTIC_START = FIRST_SPECIAL + len(SPECIAL)
END = FIRST_SPECIAL + SPECIAL.index("<|im_end|>")
UNUSED_ROWS = 2  # of the embedding, as in the release
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Spec:
    """Sizes of one checkpoint."""

    width: int = 64
    mlp_width: int = 96
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 1e6
    norm_eps: float = 1e-6
    predictor_mlp_width: int = 80
    predictor_layers: int = 2
    predictor_heads: int = 4
    predictor_kv_heads: int = 2
    predictor_head_dim: int = 16
    num_codebooks: int = 4
    codebook_size: int = 64
    num_rest_codes: int = 16
    max_positions: int = 2048
    end_gain: float = 1.45  # how much the row of the end outgrows those of codes

    @property
    def text_vocab_size(self) -> int:
        """Rows of the text embedding."""
        return SEMANTIC_START + self.codebook_size + UNUSED_ROWS


SPECS = {
    "small": Spec(),
    # Heads wider than width / heads, groups of four, ten codebooks as released.
    "wide": Spec(
        width=48,
        num_layers=2,
        num_heads=8,
        num_kv_heads=2,
        head_dim=32,
        rope_theta=1e4,
        norm_eps=1e-5,
        predictor_heads=8,
        predictor_kv_heads=4,
        predictor_head_dim=8,
        num_codebooks=10,
        codebook_size=96,
        num_rest_codes=32,
        end_gain=1.3,
    ),
}


def write_checkpoint(
    folder: Path,
    spec: str | Spec = "small",
    seed: int = 0,
    *,
    dtype: torch.dtype = torch.bfloat16,
    num_shards: int = 2,
    has_codec: bool = True,
    as_pickle: bool = False,
    codec: CodecConfig = SMALL,
) -> Path:
    """Write a complete checkpoint into `folder` and return the folder.

    Args:
        spec: a name of `SPECS` or a Spec.
        num_shards: files the main weights are split over; above 1 with an index, as released.
        has_codec: False leaves the codec out.
        as_pickle: the codec as released, still to be converted.
        codec: its other sizes.
    """
    spec = SPECS[spec] if isinstance(spec, str) else spec
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", main_config(spec))
    write_json(folder / "tokenizer.json", tokenizer_json(spec))
    write_weights(folder, random_weights(spec, seed, dtype), num_shards, {"format": "pt"})
    if has_codec:
        write_codec(
            folder,
            codec,
            seed,
            as_pickle=as_pickle,
            num_codebooks=spec.num_codebooks,
            semantic_codes=spec.codebook_size,
            residual_codes=spec.num_rest_codes,
        )
    return folder


def digest(folder: Path) -> str:
    """SHA-256 over configuration, tokenizer and main weights: tells goldens of other weights."""
    found = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        found.update((folder / name).read_bytes())
    for path in sorted(folder.glob("model*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()


def main_config(spec: Spec) -> dict[str, Any]:
    """`config.json` with the keys of the released one."""
    common = {
        "attention_o_bias": False,
        "attention_qkv_bias": False,
        "dim": spec.width,
        "dropout": 0.0,
        "initializer_range": 0.02,
        "norm_eps": spec.norm_eps,
        "rope_base": spec.rope_theta,
        "use_moe": False,
    }
    return {
        "model_type": "fish_qwen3_omni",
        "dtype": "bfloat16",
        "eos_token_id": END,
        "pad_token_id": FIRST_SPECIAL + SPECIAL.index("<|pad|>"),
        "audio_pad_token_id": FIRST_SPECIAL + SPECIAL.index("<|audio_pad|>"),
        "semantic_start_token_id": SEMANTIC_START,
        "semantic_end_token_id": SEMANTIC_START + spec.codebook_size - 1,
        "text_config": {
            **common,
            "model_type": "fish_qwen3",
            "attention_qk_norm": True,
            "head_dim": spec.head_dim,
            "intermediate_size": spec.mlp_width,
            "max_seq_len": spec.max_positions,
            "n_head": spec.num_heads,
            "n_layer": spec.num_layers,
            "n_local_heads": spec.num_kv_heads,
            "tie_word_embeddings": True,
            "vocab_size": spec.text_vocab_size,
        },
        "audio_decoder_config": {
            **common,
            "model_type": "fish_qwen3_audio_decoder",
            "attention_qk_norm": False,
            "head_dim": spec.predictor_head_dim,
            "intermediate_size": spec.predictor_mlp_width,
            "max_seq_len": spec.num_codebooks + 1,
            "n_head": spec.predictor_heads,
            "n_layer": spec.predictor_layers,
            "n_local_heads": spec.predictor_kv_heads,
            "num_codebooks": spec.num_codebooks,
            "text_dim": spec.width,
            "tie_word_embeddings": False,
            "vocab_size": spec.codebook_size,
        },
    }


def tokenizer_json(spec: Spec) -> dict[str, Any]:
    """A byte-level BPE with a few merges and every special token."""
    added = [*SPECIAL, *(f"<|semantic:{code}|>" for code in range(spec.codebook_size))]
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": FIRST_SPECIAL + i, "content": token, **flags, "special": True}
            for i, token in enumerate(added)
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary(MERGES),
            "merges": MERGES,
        },
    }


def main_shapes(spec: Spec) -> Shapes:
    """Official name and shape of every tensor of talker and code predictor."""
    text, audio = "text_model.model.", "audio_decoder."
    shapes: Shapes = {
        f"{text}embeddings.weight": (spec.text_vocab_size, spec.width),
        f"{text}norm.weight": (spec.width,),
        f"{audio}codebook_embeddings.weight": (spec.num_codebooks * spec.codebook_size, spec.width),
        f"{audio}embeddings.weight": (spec.codebook_size, spec.width),
        f"{audio}norm.weight": (spec.width,),
        f"{audio}output.weight": (spec.codebook_size, spec.width),
    }

    def layers(prefix: str, count: int, heads: int, kv_heads: int, dim: int, mlp: int) -> None:
        for index in range(count):
            layer = f"{prefix}layers.{index}."
            shapes[f"{layer}attention.wqkv.weight"] = ((heads + 2 * kv_heads) * dim, spec.width)
            shapes[f"{layer}attention.wo.weight"] = (spec.width, heads * dim)
            if prefix == text:
                shapes[f"{layer}attention.q_norm.weight"] = (dim,)
                shapes[f"{layer}attention.k_norm.weight"] = (dim,)
            shapes[f"{layer}feed_forward.w1.weight"] = (mlp, spec.width)
            shapes[f"{layer}feed_forward.w3.weight"] = (mlp, spec.width)
            shapes[f"{layer}feed_forward.w2.weight"] = (spec.width, mlp)
            shapes[f"{layer}attention_norm.weight"] = (spec.width,)
            shapes[f"{layer}ffn_norm.weight"] = (spec.width,)

    layers(text, spec.num_layers, spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.mlp_width)
    layers(
        audio,
        spec.predictor_layers,
        spec.predictor_heads,
        spec.predictor_kv_heads,
        spec.predictor_head_dim,
        spec.predictor_mlp_width,
    )
    return shapes


def random_weights(
    spec: Spec, seed: int, dtype: torch.dtype = torch.bfloat16
) -> dict[str, torch.Tensor]:
    """Every tensor of `main_shapes`: a function of spec and seed alone."""
    weights = {}
    for name, shape in main_shapes(spec).items():
        value = uniform(seed, name, shape)
        if name.endswith("norm.weight"):
            value = np.float32(1) + value / 4
        elif name == "text_model.model.embeddings.weight":
            value = value * np.float32(0.5)
            value[END] *= np.float32(spec.end_gain)
        elif name.endswith("embeddings.weight"):
            value = value * np.float32(1.2)
        else:
            gain = 4.0 if name.endswith("output.weight") else 1.9
            value = value * np.float32(gain / shape[1] ** 0.5)
        value = np.ascontiguousarray(value, dtype=np.float32)
        weights[name] = torch.from_numpy(value).to(dtype)
    return weights


def random_voice(spec: str | Spec, frames: int, text: str, seed: int = 0) -> Voice:
    """A voice to clone, of random codes over the whole range of every codebook."""
    spec = SPECS[spec] if isinstance(spec, str) else spec
    sizes = np.array([spec.codebook_size] + [spec.num_rest_codes] * (spec.num_codebooks - 1))
    share = (uniform(seed, "voice", (frames, spec.num_codebooks)) + 1) / 2
    codes = torch.from_numpy((share * sizes).astype(np.int64))
    return Voice(torch.zeros(1), codes, text, "icl", "tiny", f"voice {seed}")
