"""The vocoder's tensors: their official names and shapes; no torch.

The quantizer's input projections serve encoding only; they may be there or not, and are not used.
"""

from __future__ import annotations

from models.checkpoint.files import Shapes, check_shapes
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.vocoder.sizes import DILATIONS, KERNEL

UNUSED = (
    "decoder.quantizer.rvq_first.input_proj.weight",
    "decoder.quantizer.rvq_rest.input_proj.weight",
)


def expected_shapes(config: VocoderConfig) -> dict[str, tuple[int, ...]]:
    """Official name and shape of every tensor the vocoder needs: `decoder.*`."""
    shapes: dict[str, tuple[int, ...]] = {}

    def affine(name: str, *shape: int, outputs: int | None = None) -> None:
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = (shape[0] if outputs is None else outputs,)

    def snake(name: str, channels: int) -> None:
        shapes[f"{name}.alpha"] = shapes[f"{name}.beta"] = (channels,)

    code, latent, width = config.codebook_dim, config.latent_dim, config.width
    for split, count in splits(config):
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


def check_tensors(config: VocoderConfig, found: Shapes) -> None:
    """Raise CheckpointError with every missing, unexpected or misshapen tensor by name."""
    needed = {name: shape for name, shape in found.items() if name not in UNUSED}
    check_shapes(needed, expected_shapes(config), "speech tokenizer")


def splits(config: VocoderConfig) -> tuple[tuple[str, int], tuple[str, int]]:
    """Prefix and codebooks of the semantic and the acoustic quantizer.

    That one codebook is semantic is fixed in the official code.
    """
    prefix = "decoder.quantizer.rvq_"
    return (f"{prefix}first", 1), (f"{prefix}rest", config.num_codebooks - 1)
