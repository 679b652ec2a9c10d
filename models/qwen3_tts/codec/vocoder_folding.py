"""From the vocoder's official tensors to the state of `Vocoder`.

Besides what all vocoders do at load (`models/vocoder/fold.py`):
- codebooks: embedding_sum / max(cluster_usage, 1e-5), times the split's output projection, which
  leaves K tables to gather from and sum;
- q/k/v and gate/up stacked; layer scales multiplied into the layer before;
- SnakeBeta: exp(alpha) and 1 / (exp(beta) + 1e-9), kept in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.qwen3_tts.codec.vocoder_weights import splits
from models.vocoder.fold import Folding


def fold(config: VocoderConfig, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Vocoder` in float32, without RoPE tables, from checked tensors."""

    def snake(name: str) -> tuple[Tensor, Tensor]:
        alpha, beta = tensors[f"{name}.alpha"].float(), tensors[f"{name}.beta"].float()
        return alpha.exp(), 1.0 / (beta.exp() + 1e-9)

    folder = Folding(tensors, snake, ("act1", "conv1.conv", "act2", "conv2.conv"))
    take, put = folder.take, folder.put
    tables = []
    for split, count in splits(config):
        projection = take(f"{split}.output_proj.weight").squeeze(-1)
        for index in range(count):
            book = f"{split}.vq.layers.{index}._codebook"
            usage = take(f"{book}.cluster_usage").clamp(min=1e-5)
            tables.append(take(f"{book}.embedding_sum") / usage[:, None] @ projection.t())
    folder.state["codebooks"] = torch.cat(tables)
    folder.conv("decoder.pre_conv.conv", "pre_conv")

    for part in ("input_proj", "output_proj"):
        folder.affine(f"decoder.pre_transformer.{part}", f"pre_transformer.{part}")
    put("pre_transformer.norm", take("decoder.pre_transformer.norm.weight"))
    for index in range(config.num_layers):
        old, new = f"decoder.pre_transformer.layers.{index}", f"pre_transformer.layers.{index}"
        put(f"{new}.input_norm", take(f"{old}.input_layernorm.weight"))
        put(f"{new}.post_norm", take(f"{old}.post_attention_layernorm.weight"))
        put(f"{new}.qkv", torch.cat([take(f"{old}.self_attn.{p}_proj.weight") for p in "qkv"]))
        put(
            f"{new}.gate_up",
            torch.cat([take(f"{old}.mlp.{p}_proj.weight") for p in ("gate", "up")]),
        )
        for module, source, target in (("self_attn", "o_proj", "o"), ("mlp", "down_proj", "down")):
            scale = take(f"{old}.{module}_layer_scale.scale")
            put(f"{new}.{target}", scale[:, None] * take(f"{old}.{module}.{source}.weight"))

    folder.upsample("decoder.upsample", config)
    folder.decoder("decoder.decoder", config)
    return folder.state
