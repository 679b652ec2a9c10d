"""The vocoder's tensors: their official names and shapes, and what becomes of them at load.

Besides what all vocoders do at load (`models/vocoder/fold.py`):
- codebooks: embedding_sum / max(cluster_usage, 1e-5), times the split's output projection, which
  leaves K tables to gather from and sum;
- q/k/v and gate/up stacked; layer scales multiplied into the layer before;
- SnakeBeta: exp(alpha) and 1 / (exp(beta) + 1e-9), kept in float32.

The quantizer's input projections serve encoding only; they may be there or not, and are not used.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.checkpoint.files import Shapes, check_shapes, shapes_of
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.vocoder.fold import Folder
from models.vocoder.sizes import DILATIONS, KERNEL

UNUSED = (
    "decoder.quantizer.rvq_first.input_proj.weight",
    "decoder.quantizer.rvq_rest.input_proj.weight",
)


def expected_shapes(config: VocoderConfig) -> Shapes:
    """Official name and shape of every tensor the vocoder needs: `decoder.*`."""
    shapes: Shapes = {}

    def affine(name: str, *shape: int, outputs: int | None = None) -> None:
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = (shape[0] if outputs is None else outputs,)

    def snake(name: str, channels: int) -> None:
        shapes[f"{name}.alpha"] = shapes[f"{name}.beta"] = (channels,)

    code, latent, width = config.codebook_dim, config.latent_dim, config.width
    for split, count in _splits(config):
        shapes[f"{split}.output_proj.weight"] = (code, code // 2, 1)
        for index in range(count):
            book = f"{split}.vq.layers.{index}._codebook"
            shapes[f"{book}.cluster_usage"] = (config.codebook_size,)
            shapes[f"{book}.embedding_sum"] = (config.codebook_size, code // 2)
    affine("decoder.pre_conv.conv", latent, code, 3)

    affine("decoder.pre_transformer.input_proj", width, latent)
    affine("decoder.pre_transformer.output_proj", latent, width)
    shapes["decoder.pre_transformer.norm.weight"] = (width,)
    for index in range(config.num_layers):
        layer = f"decoder.pre_transformer.layers.{index}"
        counts = {"q": config.num_heads, "k": config.num_kv_heads, "v": config.num_kv_heads}
        for part, heads in counts.items():
            shapes[f"{layer}.self_attn.{part}_proj.weight"] = (heads * config.head_dim, width)
        shapes[f"{layer}.self_attn.o_proj.weight"] = (width, config.num_heads * config.head_dim)
        for part in ("gate", "up"):
            shapes[f"{layer}.mlp.{part}_proj.weight"] = (config.mlp_width, width)
        shapes[f"{layer}.mlp.down_proj.weight"] = (width, config.mlp_width)
        for name in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            shapes[f"{layer}.{name}"] = (width,)
        for name in ("self_attn_layer_scale.scale", "mlp_layer_scale.scale"):
            shapes[f"{layer}.{name}"] = (width,)

    for index, ratio in enumerate(config.upsampling_ratios):
        block = f"decoder.upsample.{index}"
        affine(f"{block}.0.conv", latent, latent, ratio)
        affine(f"{block}.1.dwconv.conv", latent, 1, 7)
        affine(f"{block}.1.norm", latent)
        affine(f"{block}.1.pwconv1", 4 * latent, latent)
        affine(f"{block}.1.pwconv2", latent, 4 * latent)
        shapes[f"{block}.1.gamma"] = (latent,)

    channels = config.decoder_dim
    affine("decoder.decoder.0.conv", channels, latent, 7)
    for index, rate in enumerate(config.upsample_rates, 1):
        block, half = f"decoder.decoder.{index}.block", channels // 2
        snake(f"{block}.0", channels)
        affine(f"{block}.1.conv", channels, half, 2 * rate, outputs=half)
        for unit in range(2, 2 + len(DILATIONS)):
            snake(f"{block}.{unit}.act1", half)
            affine(f"{block}.{unit}.conv1.conv", half, half, KERNEL)
            snake(f"{block}.{unit}.act2", half)
            affine(f"{block}.{unit}.conv2.conv", half, half, 1)
        channels = half
    last = len(config.upsample_rates) + 1
    snake(f"decoder.decoder.{last}", channels)
    affine(f"decoder.decoder.{last + 1}.conv", 1, channels, 7)
    return shapes


def check_tensors(config: VocoderConfig, tensors: dict[str, Tensor]) -> None:
    """Raise CheckpointError with every missing, unexpected or misshapen tensor by name."""
    found = {name: shape for name, shape in shapes_of(tensors).items() if name not in UNUSED}
    check_shapes(found, expected_shapes(config), "speech tokenizer")


def fold(config: VocoderConfig, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Vocoder` in float32, without RoPE tables, from checked tensors."""

    def snake(name: str) -> tuple[Tensor, Tensor]:
        alpha, beta = tensors[f"{name}.alpha"].float(), tensors[f"{name}.beta"].float()
        return alpha.exp(), 1.0 / (beta.exp() + 1e-9)

    folder = Folder(tensors, snake, ("act1", "conv1.conv", "act2", "conv2.conv"))
    take, put = folder.take, folder.put
    tables = []
    for split, count in _splits(config):
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


def _splits(config: VocoderConfig) -> tuple[tuple[str, int], tuple[str, int]]:
    """Prefix and codebooks of the semantic and the acoustic quantizer.

    That one codebook is semantic is fixed in the official code.
    """
    prefix = "decoder.quantizer.rvq_"
    return (f"{prefix}first", 1), (f"{prefix}rest", config.num_codebooks - 1)
