"""Tiny random checkpoints of Audio8-TTS in the layout that others recorded of the released one.

Names, keys and the flat `config.json` are the released ones with smaller sizes; the tokenizer is
that of the tiny Fish Speech checkpoints, as the released ones share theirs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tiny_fish_codec
import tiny_fish_speech as fish
import torch
from safetensors.torch import save_file
from tiny_qwen3_tts import uniform

from models.dual_ar.config import CodecConfig

# Groups of seven, as released; further codes may be ones that the codec does not have.
SPEC = fish.Spec(
    num_heads=7,
    num_kv_heads=1,
    predictor_heads=7,
    predictor_kv_heads=1,
    max_positions=1024,
    end_gain=1.3,
)
# Fewer key heads and a narrower MLP before the decoder than after the encoder, as released.
CODEC: CodecConfig = replace(
    tiny_fish_codec.SMALL,
    num_codebooks=SPEC.num_codebooks,
    semantic_codes=SPEC.codebook_size,
    residual_codes=SPEC.num_rest_codes,
    frames=replace(tiny_fish_codec.SMALL.frames, num_kv_heads=1, mlp_width=24),
    encoder_frames=tiny_fish_codec.SMALL.frames,
)


def main_config() -> dict[str, Any]:
    """`config.json` with the keys of the released one."""
    stack = {
        "dim": SPEC.width,
        "n_head": SPEC.num_heads,
        "n_local_heads": SPEC.num_kv_heads,
        "head_dim": SPEC.head_dim,
        "attention_qk_norm": False,
        "attention_o_bias": False,
    }
    return {
        "model_type": "arktts",
        "architectures": ["ArkttsModel"],
        **stack,
        **{f"fast_{key}": value for key, value in stack.items()},
        "intermediate_size": SPEC.mlp_width,
        "fast_intermediate_size": SPEC.predictor_mlp_width,
        "attention_qkv_bias": True,
        "fast_attention_qkv_bias": False,
        "n_layer": SPEC.num_layers,
        "n_fast_layer": SPEC.predictor_layers,
        "rope_base": SPEC.rope_theta,
        "fast_rope_base": SPEC.rope_theta,
        "norm_eps": SPEC.norm_eps,
        "fast_norm_eps": SPEC.norm_eps,
        "vocab_size": SPEC.text_vocab_size,
        "codebook_size": SPEC.codebook_size,
        "num_codebooks": SPEC.num_codebooks,
        "max_seq_len": SPEC.max_positions,
        "norm_fastlayer_input": True,
        "tie_word_embeddings": True,
        "semantic_begin_id": fish.SEMANTIC_START,
        "semantic_end_id": fish.SEMANTIC_START + SPEC.codebook_size - 1,
        "eos_token_id": fish.END,
        "pad_token_id": fish.FIRST_SPECIAL,
        "ras_window_size": 10,
        "ras_temperature": 1.0,
        "ras_top_p": 0.9,
        "codec_filename": "codec.pth",
        "codec_sample_rate": 44100,
        "codec_frame_size": 2048,
        "dtype": "bfloat16",
    }


def official_name(name: str) -> str:
    """The name here of a tensor of Fish Speech's."""
    name = name.removeprefix("text_model.model.")
    name = name.replace("audio_decoder.codebook_embeddings", "codebook_embeddings")
    return name.replace("audio_decoder.", "fast_")


def random_weights(seed: int, dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    """Every tensor of talker and code predictor: a function of the seed alone."""
    weights = {
        official_name(name): value
        for name, value in fish.random_weights(SPEC, seed, dtype).items()
        if not name.endswith(("q_norm.weight", "k_norm.weight"))
    }
    rows = (SPEC.num_heads + 2 * SPEC.num_kv_heads) * SPEC.head_dim
    for index in range(SPEC.num_layers):
        name = f"layers.{index}.attention.wqkv.bias"
        value = uniform(seed, name, (rows,)) * np.float32(0.8)
        weights[name] = torch.from_numpy(np.ascontiguousarray(value, np.float32)).to(dtype)
    return weights


def write_checkpoint(
    folder: Path,
    seed: int = 0,
    *,
    has_codec: bool = True,
    generation: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Write a complete checkpoint into `folder` and return the folder.

    Args:
        has_codec: False leaves the codec out.
        generation: of `generation_config.json`; None leaves the file out.
        changes: to `config.json`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = json.dumps(main_config() | changes, indent=1)
    (folder / "config.json").write_text(config, encoding="utf-8")
    tokenizer = json.dumps(fish.tokenizer_json(SPEC), indent=1)
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    save_file(random_weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
    if has_codec:
        tiny_fish_codec.write_codec(folder, CODEC, seed)
    return folder
