"""From the codec's official tensors to the state of our modules, in float32.

Besides what all vocoders do at load (`models/vocoder/fold.py`; biases of convolutions go into
the Snake behind them; layer scales and ConvNeXt's gamma into the layer before):
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
from models.vocoder.fold import columns, phases
from models.vocoder.upsampling import DILATIONS

SNAKE_FLOOR = 1e-9
State = dict[str, Tensor]


def fold_decoder(config: CodecConfig, tensors: State) -> State:
    """The state of `FishVocoder`, without RoPE tables, of float32 tensors without weight norm."""
    state: State = {"codebooks": code_tables(config, tensors)}
    _transformer(state, tensors, "quantizer.post_module", "transformer", config.frames)
    for index, ratio in enumerate(config.upsampling_ratios):
        old, new = f"quantizer.upsample.{index}", f"upsample.{index}"
        weight = tensors[f"{old}.0.conv.weight"]  # (C_in, C_out, ratio)
        state[f"{new}.expand.weight"] = weight.permute(2, 1, 0).flatten(0, 1).contiguous()
        state[f"{new}.expand.bias"] = tensors[f"{old}.0.conv.bias"].repeat(ratio)
        _convnext(state, tensors, f"{old}.1", new)
    state["first_conv.weight"] = columns(tensors["decoder.model.0.conv.weight"])
    stream = tensors["decoder.model.0.conv.bias"]  # the constant the activations lack here
    for index, rate in enumerate(config.upsample_rates):
        old, new = f"decoder.model.{index + 1}.block", f"blocks.{index}"
        _snake(state, tensors, f"{old}.0", f"{new}.snake", stream)
        state[f"{new}.expand.weight"] = phases(tensors[f"{old}.1.conv.weight"], rate)
        stream = _units(state, tensors, old, 2, new, tensors[f"{old}.1.conv.bias"])
    last = len(config.upsample_rates) + 1
    _snake(state, tensors, f"decoder.model.{last}", "last_snake", stream)
    _conv(state, tensors, f"decoder.model.{last + 1}.conv", "last_conv")
    return state


def fold_encoder(config: CodecConfig, tensors: State) -> State:
    """The state of `CodecEncoder` of float32 tensors without weight norm."""
    names = books(config)
    entries = [tensors[f"{book}.codebook.weight"] for book in names]
    state: State = {
        "codebooks": code_tables(config, tensors),
        "directions": F.normalize(torch.cat(entries)),
        "in_weights": torch.stack(
            [tensors[f"{book}.in_proj.weight"].squeeze(-1) for book in names]
        ),
        "in_biases": torch.stack([tensors[f"{book}.in_proj.bias"] for book in names]),
    }
    _conv(state, tensors, "encoder.block.0.conv", "first_conv")
    num_units = len(DILATIONS)
    for index, stride in enumerate(config.encoder_strides):
        old, new = f"encoder.block.{index + 1}.block", f"blocks.{index}"
        nothing = torch.zeros_like(tensors[f"{old}.{num_units}.alpha"].flatten())
        stream = _units(state, tensors, old, 0, new, nothing)
        _snake(state, tensors, f"{old}.{num_units}", f"{new}.snake", stream)
        down = f"{old}.{num_units + 1}.conv"
        state[f"{new}.down.weight"] = grouped_taps(tensors[f"{down}.weight"], stride)
        state[f"{new}.down.bias"] = tensors[f"{down}.bias"]
    _transformer(state, tensors, steps_name(config), "steps", config.steps)
    last = f"encoder.block.{len(config.encoder_strides) + 1}"
    nothing = torch.zeros_like(tensors[f"{last}.alpha"].flatten())
    _snake(state, tensors, last, "last_snake", nothing)
    _conv(state, tensors, f"encoder.block.{len(config.encoder_strides) + 2}.conv", "last_conv")
    for index in range(len(config.upsampling_ratios)):
        old, new = f"quantizer.downsample.{index}", f"downsample.{index}"
        weight = tensors[f"{old}.0.conv.weight"]  # (C_out, C_in, ratio)
        state[f"{new}.reduce.weight"] = weight.permute(0, 2, 1).flatten(1).contiguous()
        state[f"{new}.reduce.bias"] = tensors[f"{old}.0.conv.bias"]
        _convnext(state, tensors, f"{old}.1", new)
    _transformer(state, tensors, "quantizer.pre_module", "frames", config.frames)
    return state


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


def _conv(state: State, tensors: State, old: str, new: str) -> None:
    state[f"{new}.weight"] = columns(tensors[f"{old}.weight"])
    state[f"{new}.bias"] = tensors[f"{old}.bias"]


def _snake(state: State, tensors: State, old: str, new: str, bias: Tensor) -> None:
    alpha = tensors[f"{old}.alpha"].flatten()
    state[f"{new}.alpha_exp"] = alpha
    state[f"{new}.inv_beta"] = 1.0 / (alpha + SNAKE_FLOOR)
    state[f"{new}.bias"] = bias


def _units(state: State, tensors: State, old: str, first: int, new: str, stream: Tensor) -> Tensor:
    """The residual units `first`, ... of a block.

    Args:
        stream: the constant per channel that the activations lack in front of them.
    Returns:
        The same behind them.
    """
    for unit in range(len(DILATIONS)):
        source, target = f"{old}.{first + unit}.block", f"{new}.units.{unit}"
        _snake(state, tensors, f"{source}.0", f"{target}.snake1", stream)
        state[f"{target}.conv1.weight"] = columns(tensors[f"{source}.1.conv.weight"])
        _snake(state, tensors, f"{source}.2", f"{target}.snake2", tensors[f"{source}.1.conv.bias"])
        state[f"{target}.conv2.weight"] = tensors[f"{source}.3.conv.weight"].squeeze(-1)
        stream = stream + tensors[f"{source}.3.conv.bias"]
    return stream


def _convnext(state: State, tensors: State, old: str, new: str) -> None:
    _conv(state, tensors, f"{old}.dwconv.conv", f"{new}.depthwise")
    for part in ("weight", "bias"):
        state[f"{new}.norm.{part}"] = tensors[f"{old}.norm.{part}"]
        state[f"{new}.widen.{part}"] = tensors[f"{old}.pwconv1.{part}"]
    gamma = tensors[f"{old}.gamma"]
    state[f"{new}.narrow.weight"] = gamma[:, None] * tensors[f"{old}.pwconv2.weight"]
    state[f"{new}.narrow.bias"] = gamma * tensors[f"{old}.pwconv2.bias"]


def _transformer(state: State, tensors: State, old: str, new: str, config: WindowConfig) -> None:
    for index in range(config.num_layers):
        source, target = f"{old}.layers.{index}", f"{new}.layers.{index}"
        state[f"{target}.input_norm.weight"] = tensors[f"{source}.attention_norm.weight"]
        state[f"{target}.post_norm.weight"] = tensors[f"{source}.ffn_norm.weight"]
        qkv, rotated = tensors[f"{source}.attention.wqkv.weight"], 2 * config.num_heads
        state[f"{target}.qkv.weight"] = halves(qkv, rotated, config.head_dim)
        gate, up = (tensors[f"{source}.feed_forward.{part}.weight"] for part in ("w1", "w3"))
        state[f"{target}.gate_up.weight"] = torch.cat((gate, up))
        scale = tensors[f"{source}.attention_layer_scale.gamma"]
        state[f"{target}.o.weight"] = scale[:, None] * tensors[f"{source}.attention.wo.weight"]
        scale = tensors[f"{source}.ffn_layer_scale.gamma"]
        state[f"{target}.down.weight"] = (
            scale[:, None] * tensors[f"{source}.feed_forward.w2.weight"]
        )
    state[f"{new}.norm.weight"] = tensors[f"{old}.norm.weight"]


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
