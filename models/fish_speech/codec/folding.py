"""From the codec's official tensors to the state of our modules, in float32.

Besides what all vocoders do at load (`models/vocoder/fold.py`; layer scales go into the layer
before):
- Snake is sin^2(alpha x) / (alpha + 1e-9) of the stored alpha: SnakeBeta with beta = alpha and no
  exponential;
- a codebook and its output projection become one table to gather from;
- rows of queries and keys are put from interleaved pairs into two halves, so that the RoPE all
  other code uses is the right one. The tables are rounded to bfloat16, as in training.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from models.fish_speech.codec.config import CodecConfig, WindowConfig
from models.fish_speech.codec.weights import (
    DIRECTION,
    LENGTH,
    OLD_DIRECTION,
    OLD_LENGTH,
    books,
    steps_name,
)
from models.fish_speech.rope import halves
from models.vocoder.fold import Folding, columns
from models.vocoder.sizes import DILATIONS

SNAKE_FLOOR = 1e-9
State = dict[str, Tensor]


def fold_decoder(config: CodecConfig, tensors: State) -> State:
    """The state of `FishVocoder`, without RoPE tables, of float32 tensors without weight norm."""
    folder = _folder(tensors)
    folder.state["codebooks"] = code_tables(config, tensors)
    _transformer(folder, "quantizer.post_module", "transformer", config.frames)
    folder.upsample("quantizer.upsample", config)
    folder.decoder("decoder.model", config)
    return folder.state


def fold_encoder(config: CodecConfig, tensors: State) -> State:
    """The state of `CodecEncoder` of float32 tensors without weight norm."""
    folder, names = _folder(tensors), books(config)
    take, put = folder.take, folder.put
    entries = [take(f"{book}.codebook.weight") for book in names]
    folder.state |= {
        "codebooks": code_tables(config, tensors),
        "directions": F.normalize(torch.cat(entries)),
        "in_weights": torch.stack([take(f"{book}.in_proj.weight").squeeze(-1) for book in names]),
        "in_biases": torch.stack([take(f"{book}.in_proj.bias") for book in names]),
    }
    folder.conv("encoder.block.0.conv", "first_conv")
    num_units = len(DILATIONS)
    for index, stride in enumerate(config.encoder_strides):
        old, new = f"encoder.block.{index + 1}.block", f"blocks.{index}"
        nothing = torch.zeros_like(take(f"{old}.{num_units}.alpha").flatten())
        stream = folder.units(old, 0, new, nothing)
        folder.snake(f"{old}.{num_units}", f"{new}.snake", stream)
        down = f"{old}.{num_units + 1}.conv"
        put(f"{new}.down", grouped_taps(take(f"{down}.weight"), stride), take(f"{down}.bias"))
    _transformer(folder, steps_name(config), "steps", config.steps)
    last = f"encoder.block.{len(config.encoder_strides) + 1}"
    folder.snake(last, "last_snake", torch.zeros_like(take(f"{last}.alpha").flatten()))
    folder.conv(f"encoder.block.{len(config.encoder_strides) + 2}.conv", "last_conv")
    for index in range(len(config.upsampling_ratios)):
        old, new = f"quantizer.downsample.{index}", f"downsample.{index}"
        weight = take(f"{old}.0.conv.weight")  # (C_out, C_in, ratio)
        weight = weight.permute(0, 2, 1).flatten(1).contiguous()
        put(f"{new}.reduce", weight, take(f"{old}.0.conv.bias"))
        folder.convnext(f"{old}.1", new)
    _transformer(folder, "quantizer.pre_module", "frames", config.frames)
    return folder.state


def code_tables(config: CodecConfig, tensors: State) -> Tensor:
    """(codes of all codebooks, latent_dim): what each code adds to a frame's latent."""
    return torch.cat(
        [
            tensors[f"{book}.codebook.weight"] @ tensors[f"{book}.out_proj.weight"].squeeze(-1).t()
            + tensors[f"{book}.out_proj.bias"]
            for book in books(config)
        ]
    )


def grouped_taps(weight: Tensor, stride: int) -> Tensor:
    """A convolution of kernel 2 * stride as one of kernel 2 over `stride` steps side by side."""
    outputs, inputs, _ = weight.shape
    taps = weight.view(outputs, inputs, 2, stride).permute(0, 3, 1, 2)  # step, channel, group
    return columns(taps.reshape(outputs, stride * inputs, 2).contiguous())


def _folder(tensors: State) -> Folding:
    def snake(name: str) -> tuple[Tensor, Tensor]:
        alpha = tensors[f"{name}.alpha"].flatten()
        return alpha, 1.0 / (alpha + SNAKE_FLOOR)

    return Folding(tensors, snake, ("block.0", "block.1.conv", "block.2", "block.3.conv"))


def _transformer(folder: Folding, old: str, new: str, config: WindowConfig) -> None:
    take, put = folder.take, folder.put
    for index in range(config.num_layers):
        source, target = f"{old}.layers.{index}", f"{new}.layers.{index}"
        put(f"{target}.input_norm", take(f"{source}.attention_norm.weight"))
        put(f"{target}.post_norm", take(f"{source}.ffn_norm.weight"))
        qkv, rotated = take(f"{source}.attention.wqkv.weight"), 2 * config.num_heads
        put(f"{target}.qkv", halves(qkv, rotated, config.head_dim))
        gate, up = (take(f"{source}.feed_forward.{part}.weight") for part in ("w1", "w3"))
        put(f"{target}.gate_up", torch.cat((gate, up)))
        scale = take(f"{source}.attention_layer_scale.gamma")
        put(f"{target}.o", scale[:, None] * take(f"{source}.attention.wo.weight"))
        scale = take(f"{source}.ffn_layer_scale.gamma")
        put(f"{target}.down", scale[:, None] * take(f"{source}.feed_forward.w2.weight"))
    put(f"{new}.norm", take(f"{old}.norm.weight"))


def without_weight_norm(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """float32 tensors, `g` and `v` of each weight as one; the others as they are."""
    folded = {}
    for name, tensor in tensors.items():
        for length, direction in ((LENGTH, DIRECTION), (OLD_LENGTH, OLD_DIRECTION)):
            if name.endswith(direction):
                stem = name.removesuffix(direction)
                v = tensor.float()
                norm = v.square().sum(_but_first(v), keepdim=True).sqrt()
                folded[f"{stem}weight"] = v * (tensors[stem + length].float() / norm)
                break
            if name.endswith(length):
                break
        else:
            folded[name] = tensor.float()
    return folded


def _but_first(tensor: Tensor) -> tuple[int, ...]:
    return tuple(range(1, tensor.dim()))
