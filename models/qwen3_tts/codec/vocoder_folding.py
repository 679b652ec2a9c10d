"""From the vocoder's official tensors to the state of `Vocoder`.

Folded once, in float32, whatever dtype they are stored in:
- codebooks: embedding_sum / max(cluster_usage, 1e-5), times the split's output projection, which
  leaves K tables to gather from and sum;
- q/k/v and gate/up stacked; layer scales and ConvNeXt's gamma multiplied into the layer before;
- SnakeBeta: exp(alpha) and 1 / (exp(beta) + 1e-9), kept in float32;
- transposed convolutions turned into convolutions that produce all phases of a step at once;
- in the decoder blocks each convolution's bias moves into the Snake behind it. A residual unit adds
  onto its input, so a Snake on the residual stream gets the sum of all biases since it began.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.qwen3_tts.codec.vocoder_weights import splits
from models.vocoder.fold import columns, phases
from models.vocoder.upsampling import DILATIONS


def fold(config: VocoderConfig, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Vocoder` in float32, without RoPE tables, from checked tensors."""
    folded: dict[str, Tensor] = {}

    def take(name: str) -> Tensor:
        return tensors[name].float()

    def put(name: str, weight: Tensor, bias: Tensor | None = None) -> None:
        folded[f"{name}.weight"] = weight
        if bias is not None:
            folded[f"{name}.bias"] = bias

    def affine(source: str, target: str) -> None:
        put(target, take(f"{source}.weight"), take(f"{source}.bias"))

    def snake(source: str, target: str, bias: Tensor) -> None:
        folded[f"{target}.alpha_exp"] = take(f"{source}.alpha").exp()
        folded[f"{target}.inv_beta"] = 1.0 / (take(f"{source}.beta").exp() + 1e-9)
        folded[f"{target}.bias"] = bias

    tables = []
    for split, count in splits(config):
        projection = take(f"{split}.output_proj.weight").squeeze(-1)
        for index in range(count):
            book = f"{split}.vq.layers.{index}._codebook"
            usage = take(f"{book}.cluster_usage").clamp(min=1e-5)
            tables.append(take(f"{book}.embedding_sum") / usage[:, None] @ projection.t())
    folded["codebooks"] = torch.cat(tables)
    put(
        "pre_conv",
        columns(take("decoder.pre_conv.conv.weight")),
        take("decoder.pre_conv.conv.bias"),
    )

    for part in ("input_proj", "output_proj"):
        affine(f"decoder.pre_transformer.{part}", f"pre_transformer.{part}")
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

    for index, ratio in enumerate(config.upsampling_ratios):
        old, new = f"decoder.upsample.{index}", f"upsample.{index}"
        weight = take(f"{old}.0.conv.weight")  # (C_in, C_out, ratio)
        bias = take(f"{old}.0.conv.bias").repeat(ratio)
        put(f"{new}.expand", weight.permute(2, 1, 0).flatten(0, 1).contiguous(), bias)
        depthwise = take(f"{old}.1.dwconv.conv.weight")
        put(f"{new}.depthwise", columns(depthwise), take(f"{old}.1.dwconv.conv.bias"))
        affine(f"{old}.1.norm", f"{new}.norm")
        affine(f"{old}.1.pwconv1", f"{new}.widen")
        gamma = take(f"{old}.1.gamma")
        weight = gamma[:, None] * take(f"{old}.1.pwconv2.weight")
        put(f"{new}.narrow", weight, gamma * take(f"{old}.1.pwconv2.bias"))

    put("first_conv", columns(take("decoder.decoder.0.conv.weight")))
    stream = take("decoder.decoder.0.conv.bias")  # the constant the activations lack at this point
    for index, rate in enumerate(config.upsample_rates):
        old, new = f"decoder.decoder.{index + 1}.block", f"blocks.{index}"
        snake(f"{old}.0", f"{new}.snake", stream)
        put(f"{new}.expand", phases(take(f"{old}.1.conv.weight"), rate))
        stream = take(f"{old}.1.conv.bias")
        for unit in range(len(DILATIONS)):
            source, target = f"{old}.{unit + 2}", f"{new}.units.{unit}"
            snake(f"{source}.act1", f"{target}.snake1", stream)
            put(f"{target}.conv1", columns(take(f"{source}.conv1.conv.weight")))
            snake(f"{source}.act2", f"{target}.snake2", take(f"{source}.conv1.conv.bias"))
            put(f"{target}.conv2", take(f"{source}.conv2.conv.weight").squeeze(-1))
            stream = stream + take(f"{source}.conv2.conv.bias")
    last = f"decoder.decoder.{len(config.upsample_rates) + 1}"
    snake(last, "last_snake", stream)
    last = f"decoder.decoder.{len(config.upsample_rates) + 2}.conv"
    put("last_conv", columns(take(f"{last}.weight")), take(f"{last}.bias"))
    return folded
