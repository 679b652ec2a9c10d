"""What a vocoder's weights are turned into at load, so that every convolution is a plain one.

Folded once, in float32, whatever dtype they are stored in:
- ConvNeXt's gamma is multiplied into the layer before;
- transposed convolutions become convolutions that produce all phases of a step at once;
- in the decoder blocks each convolution's bias moves into the Snake behind it. A residual unit adds
  onto its input, so a Snake on the residual stream gets the sum of all biases since it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.vocoder.sizes import DILATIONS, DecoderSizes


def columns(weight: Tensor) -> Tensor:
    """A 1-D convolution's weight as that of a 2-D one of height 1, channels innermost in memory."""
    return weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)


def phases(weight: Tensor, rate: int) -> Tensor:
    """A transposed convolution of stride `rate` and kernel 2 * rate as a convolution of kernel 2.

    Output step t * rate + j is the current input step times tap j plus the previous one times tap
    rate + j; the result's channel j * C_out + c is channel c of that step.
    """
    now, before = weight[:, :, :rate], weight[:, :, rate:]  # (C_in, C_out, rate)
    taps = torch.stack((before, now), dim=-1)  # (C_in, C_out, rate, 2)
    return columns(taps.permute(2, 1, 0, 3).flatten(0, 1).contiguous())


@dataclass
class Folding:
    """Puts the parts that all codecs have into `state`, under the names of our modules.

    An official name is that of a layer, or of a block of them.
    """

    tensors: Mapping[str, Tensor]  # under official names, of any floating dtype; left unchanged
    snake_constants: Callable[[str], tuple[Tensor, Tensor]]  # alpha_exp and inv_beta of a Snake
    unit_parts: Sequence[str]  # of a residual unit: Snake, convolution, Snake, convolution
    state: dict[str, Tensor] = field(default_factory=dict)

    def take(self, name: str) -> Tensor:
        """A tensor in float32."""
        return self.tensors[name].float()

    def put(self, new: str, weight: Tensor, bias: Tensor | None = None) -> None:
        """A layer's weight and bias."""
        self.state[f"{new}.weight"] = weight
        if bias is not None:
            self.state[f"{new}.bias"] = bias

    def affine(self, old: str, new: str) -> None:
        """Weight and bias as they are."""
        self.put(new, self.take(f"{old}.weight"), self.take(f"{old}.bias"))

    def conv(self, old: str, new: str) -> None:
        """A convolution with a bias."""
        self.put(new, columns(self.take(f"{old}.weight")), self.take(f"{old}.bias"))

    def snake(self, old: str, new: str, bias: Tensor) -> None:
        """A Snake of x + bias."""
        constants = self.snake_constants(old)
        self.state[f"{new}.alpha_exp"], self.state[f"{new}.inv_beta"] = constants
        self.state[f"{new}.bias"] = bias

    def convnext(self, old: str, new: str) -> None:
        """A ConvNeXt block."""
        self.conv(f"{old}.dwconv.conv", f"{new}.depthwise")
        self.affine(f"{old}.norm", f"{new}.norm")
        self.affine(f"{old}.pwconv1", f"{new}.widen")
        gamma = self.take(f"{old}.gamma")
        weight, bias = self.take(f"{old}.pwconv2.weight"), self.take(f"{old}.pwconv2.bias")
        self.put(f"{new}.narrow", gamma[:, None] * weight, gamma * bias)

    def units(self, old: str, first: int, new: str, stream: Tensor) -> Tensor:
        """The residual units `first`, ... of a block.

        Args:
            stream: the constant per channel that the activations lack in front of them.
        Returns:
            The same behind them.
        """
        for unit in range(len(DILATIONS)):
            target = f"{new}.units.{unit}"
            snake1, conv1, snake2, conv2 = (f"{old}.{first + unit}.{p}" for p in self.unit_parts)
            self.snake(snake1, f"{target}.snake1", stream)
            self.put(f"{target}.conv1", columns(self.take(f"{conv1}.weight")))
            self.snake(snake2, f"{target}.snake2", self.take(f"{conv1}.bias"))
            self.put(f"{target}.conv2", self.take(f"{conv2}.weight").squeeze(-1))
            stream = stream + self.take(f"{conv2}.bias")
        return stream

    def upsample(self, old: str, config: DecoderSizes) -> None:
        """The blocks at latent width."""
        for index, ratio in enumerate(config.upsampling_ratios):
            source, target = f"{old}.{index}", f"upsample.{index}"
            weight = self.take(f"{source}.0.conv.weight")  # (C_in, C_out, ratio)
            bias = self.take(f"{source}.0.conv.bias").repeat(ratio)
            self.put(f"{target}.expand", weight.permute(2, 1, 0).flatten(0, 1).contiguous(), bias)
            self.convnext(f"{source}.1", target)

    def decoder(self, old: str, config: DecoderSizes) -> None:
        """The first convolution, the decoder blocks and the last one."""
        self.put("first_conv", columns(self.take(f"{old}.0.conv.weight")))
        stream = self.take(f"{old}.0.conv.bias")  # the constant the activations lack here
        for index, rate in enumerate(config.upsample_rates):
            source, target = f"{old}.{index + 1}.block", f"blocks.{index}"
            self.snake(f"{source}.0", f"{target}.snake", stream)
            self.put(f"{target}.expand", phases(self.take(f"{source}.1.conv.weight"), rate))
            stream = self.units(source, 2, target, self.take(f"{source}.1.conv.bias"))
        last = len(config.upsample_rates) + 1
        self.snake(f"{old}.{last}", "last_snake", stream)
        self.conv(f"{old}.{last + 1}.conv", "last_conv")
