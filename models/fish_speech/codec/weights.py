"""The codec's tensors: official names and shapes, and the check of a whole file; no torch.

Convolutions of encoder and decoder and the quantizer's projections are stored as direction v and
length g, in two spellings; w = g * v / |v|, the norm over everything but the first dimension.

Source: the released `codec.pth` as recorded by others (names, shapes, six stale tables), and the
module tree of fish-speech 0.1.0 (Fish Audio, Apache-2.0), which has the same 535 parameters.
"""

from __future__ import annotations

from pathlib import Path

from models.checkpoint.files import CheckpointError, Shapes, TensorHeader, check_shapes, read_header
from models.fish_speech.codec.config import PICKLED_FILE, WEIGHTS_FILE, CodecConfig, WindowConfig
from models.vocoder.sizes import DILATIONS, KERNEL

# Tables of RoPE and attention that the official code saves along; made anew where needed.
STALE = ("freqs_cis", "causal_mask")
LENGTH, DIRECTION = "parametrizations.weight.original0", "parametrizations.weight.original1"
OLD_LENGTH, OLD_DIRECTION = "weight_g", "weight_v"
SOURCE_BYTES = "source_bytes"  # a note of a converted file
LAST_KERNEL = 3  # of the encoder's last convolution


def is_stale(name: str) -> bool:
    """Whether a tensor of the released file is none of the weights."""
    return name.endswith(STALE)


def is_decoding(name: str) -> bool:
    """Whether the way from codes to samples needs a tensor."""
    return name.startswith(
        ("decoder.", "quantizer.post_module.", "quantizer.upsample.")
    ) or _is_quantizing(name)


def is_encoding(name: str) -> bool:
    """Whether the way from samples to codes needs a tensor."""
    return name.startswith(
        ("encoder.", "quantizer.pre_module.", "quantizer.downsample.")
    ) or _is_quantizing(name)


def _is_quantizing(name: str) -> bool:
    return name.startswith(("quantizer.semantic_quantizer.", "quantizer.quantizer."))


def books(config: CodecConfig) -> list[str]:
    """Where each codebook is."""
    residual = [f"quantizer.quantizer.quantizers.{k}" for k in range(config.num_codebooks - 1)]
    return ["quantizer.semantic_quantizer.quantizers.0", *residual]


def official_shapes(config: CodecConfig) -> Shapes:
    """Official name and shape of every parameter."""
    shapes: Shapes = {}

    def normed(name: str, *shape: int, outputs: int | None = None) -> None:
        shapes[f"{name}.{LENGTH}"] = (shape[0], 1, 1)
        shapes[f"{name}.{DIRECTION}"] = shape
        shapes[f"{name}.bias"] = (shape[0] if outputs is None else outputs,)

    def projection(name: str, *shape: int) -> None:
        shapes[f"{name}.{OLD_LENGTH}"] = (shape[0], 1, 1)
        shapes[f"{name}.{OLD_DIRECTION}"] = (*shape, 1)
        shapes[f"{name}.bias"] = shape[:1]

    def affine(name: str, *shape: int, outputs: int | None = None) -> None:
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = (shape[0] if outputs is None else outputs,)

    def units(block: str, first: int, channels: int) -> None:
        for unit in range(first, first + len(DILATIONS)):
            for part in (0, 2):
                shapes[f"{block}.{unit}.block.{part}.alpha"] = (1, channels, 1)
            normed(f"{block}.{unit}.block.1.conv", channels, channels, KERNEL)
            normed(f"{block}.{unit}.block.3.conv", channels, channels, 1)

    normed("encoder.block.0.conv", config.encoder_dim, 1, KERNEL)
    channels = config.encoder_dim
    for index, stride in enumerate(config.encoder_strides, 1):
        block = f"encoder.block.{index}.block"
        units(block, 0, channels)
        shapes[f"{block}.{len(DILATIONS)}.alpha"] = (1, channels, 1)
        normed(f"{block}.{len(DILATIONS) + 1}.conv", 2 * channels, channels, 2 * stride)
        channels *= 2
    _transformer(shapes, steps_name(config), config.steps)
    last = len(config.encoder_strides) + 1
    shapes[f"encoder.block.{last}.alpha"] = (1, channels, 1)
    normed(f"encoder.block.{last + 1}.conv", config.latent_dim, channels, LAST_KERNEL)

    latent = config.latent_dim
    for book, size in zip(books(config), config.codebook_sizes, strict=True):
        projection(f"{book}.in_proj", config.code_dim, latent)
        projection(f"{book}.out_proj", latent, config.code_dim)
        shapes[f"{book}.codebook.weight"] = (size, config.code_dim)
    for part in ("pre_module", "post_module"):
        _transformer(shapes, f"quantizer.{part}", config.frames)
    halves = {"upsample": config.upsampling_ratios, "downsample": config.upsampling_ratios[::-1]}
    for part, ratios in halves.items():
        for index, ratio in enumerate(ratios):
            block = f"quantizer.{part}.{index}"
            affine(f"{block}.0.conv", latent, latent, ratio)
            affine(f"{block}.1.dwconv.conv", latent, 1, KERNEL)
            affine(f"{block}.1.norm", latent)
            affine(f"{block}.1.pwconv1", 4 * latent, latent)
            affine(f"{block}.1.pwconv2", latent, 4 * latent)
            shapes[f"{block}.1.gamma"] = (latent,)

    channels = config.decoder_dim
    normed("decoder.model.0.conv", channels, latent, KERNEL)
    for index, rate in enumerate(config.upsample_rates, 1):
        block, half = f"decoder.model.{index}.block", channels // 2
        shapes[f"{block}.0.alpha"] = (1, channels, 1)
        normed(f"{block}.1.conv", channels, half, 2 * rate, outputs=half)
        units(block, 2, half)
        channels = half
    last = len(config.upsample_rates) + 1
    shapes[f"decoder.model.{last}.alpha"] = (1, channels, 1)
    normed(f"decoder.model.{last + 1}.conv", 1, channels, KERNEL)
    return shapes


def steps_name(config: CodecConfig) -> str:
    """Where the encoder's transformer is: the last part of its last block."""
    return f"encoder.block.{len(config.encoder_strides)}.block.{len(DILATIONS) + 2}"


def _transformer(shapes: Shapes, name: str, config: WindowConfig) -> None:
    width, inner = config.width, config.num_heads * config.head_dim
    for index in range(config.num_layers):
        layer = f"{name}.layers.{index}"
        shapes[f"{layer}.attention.wqkv.weight"] = (3 * inner, width)
        shapes[f"{layer}.attention.wo.weight"] = (width, inner)
        shapes[f"{layer}.feed_forward.w1.weight"] = (config.mlp_width, width)
        shapes[f"{layer}.feed_forward.w3.weight"] = (config.mlp_width, width)
        shapes[f"{layer}.feed_forward.w2.weight"] = (width, config.mlp_width)
        for part in ("attention_norm.weight", "ffn_norm.weight"):
            shapes[f"{layer}.{part}"] = (width,)
        for part in ("attention_layer_scale.gamma", "ffn_layer_scale.gamma"):
            shapes[f"{layer}.{part}"] = (width,)
    shapes[f"{name}.norm.weight"] = (width,)


def check_codec(folder: Path, config: CodecConfig) -> TensorHeader:
    """The header of a converted codec; no weight is read.

    Raises:
        CheckpointError: names or shapes do not fit, the file is broken, or `codec.pth` is another
            one by now.
    """
    path, pickled = folder / WEIGHTS_FILE, folder / PICKLED_FILE
    header = read_header(path)
    check_shapes(header.shapes, official_shapes(config), str(path))
    if pickled.is_file() and header.notes.get(SOURCE_BYTES, "") != str(pickled.stat().st_size):
        raise CheckpointError(
            f"{path} was not made of the {PICKLED_FILE} beside it; "
            f"run `tts-cli models convert {folder}` again"
        )
    return header
