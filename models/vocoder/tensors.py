"""The tensors of all codecs, and how they are changed at load so that every convolution is a plain
one. Without torch; the ways are functions of `fold.py`.

- ConvNeXt's gamma is multiplied into the layer before;
- transposed convolutions become convolutions that produce all phases of a step together;
- in the decoder blocks each convolution's bias moves into the following Snake. A residual unit adds
  to its input, so a Snake on the residual stream gets the sum of all biases since it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from models.checkpoint.table import Table
from models.vocoder.sizes import DILATIONS, KERNEL, DecoderSizes

# Length and direction of a weight under weight norm, in PyTorch's two spellings.
LENGTH, DIRECTION = "parametrizations.weight.original0", "parametrizations.weight.original1"
OLD_LENGTH, OLD_DIRECTION = "weight_g", "weight_v"
WEIGHT_NORM = ((LENGTH, DIRECTION), (OLD_LENGTH, OLD_DIRECTION))


@dataclass
class CodecTable(Table):
    """A codec's tensors. A family adds how its Snakes and convolutions are stored."""

    UNIT: ClassVar[Sequence[str]]  # of a residual unit: Snake, convolution, Snake, convolution

    def snake(self, theirs: str, ours: str, channels: int, stream: Sequence[str]) -> None:
        """Add a Snake of x and the sum of the biases `stream`."""
        raise NotImplementedError

    def hold_conv(self, theirs: str, *shape: int, outputs: int | None = None) -> None:
        self.hold_affine(theirs, *shape, outputs=outputs)

    def hold_affine(self, theirs: str, *shape: int, outputs: int | None = None) -> None:
        self.hold(f"{theirs}.weight", *shape)
        self.hold(f"{theirs}.bias", outputs or shape[0])

    def conv(self, theirs: str, ours: str, way: str, *shape: int, stride: int = 0) -> None:
        self.hold_conv(theirs, *shape)
        numbers = (stride,) if stride else ()
        self.make(f"{ours}.weight", way, f"{theirs}.weight", numbers=numbers)
        self.make(f"{ours}.bias", "rows", f"{theirs}.bias")

    def convnext(self, theirs: str, ours: str, channels: int) -> None:
        self.hold_affine(f"{theirs}.dwconv.conv", channels, 1, KERNEL)
        self.make(f"{ours}.depthwise.weight", "columns", f"{theirs}.dwconv.conv.weight")
        self.make(f"{ours}.depthwise.bias", "rows", f"{theirs}.dwconv.conv.bias")
        self.affine(f"{theirs}.norm", f"{ours}.norm", channels)
        self.affine(f"{theirs}.pwconv1", f"{ours}.widen", 4 * channels, channels)
        self.hold_affine(f"{theirs}.pwconv2", channels, 4 * channels)
        gamma = self.hold(f"{theirs}.gamma", channels)
        for part in ("weight", "bias"):
            self.make(f"{ours}.narrow.{part}", "scaled", gamma, f"{theirs}.pwconv2.{part}")

    def units(
        self, theirs: str, first: int, ours: str, channels: int, stream: Sequence[str]
    ) -> list[str]:
        """Add the residual units `first`, ... of a block. `stream`: the biases that the
        activations lack before these units. Return the biases that they lack after them.
        """
        found = list(stream)
        for unit in range(len(DILATIONS)):
            new = f"{ours}.units.{unit}"
            snake1, conv1, snake2, conv2 = (f"{theirs}.{first + unit}.{p}" for p in self.UNIT)
            self.snake(snake1, f"{new}.snake1", channels, found)
            self.hold_conv(conv1, channels, channels, KERNEL)
            self.make(f"{new}.conv1.weight", "columns", f"{conv1}.weight")
            self.snake(snake2, f"{new}.snake2", channels, [f"{conv1}.bias"])
            self.hold_conv(conv2, channels, channels, 1)
            self.make(f"{new}.conv2.weight", "pointwise", f"{conv2}.weight")
            found.append(f"{conv2}.bias")
        return found

    def upsample(self, theirs: str, config: DecoderSizes) -> None:
        latent = config.latent_dim
        for index, ratio in enumerate(config.upsampling_ratios):
            old, new = f"{theirs}.{index}", f"upsample.{index}"
            self.hold_affine(f"{old}.0.conv", latent, latent, ratio)
            self.make(f"{new}.expand.weight", "all_steps", f"{old}.0.conv.weight")
            self.make(f"{new}.expand.bias", "rows", *[f"{old}.0.conv.bias"] * ratio)
            self.convnext(f"{old}.1", new, latent)

    def decoder(self, theirs: str, config: DecoderSizes) -> None:
        """The first convolution, the decoder blocks and the last one."""
        channels = config.decoder_dim
        self.hold_conv(f"{theirs}.0.conv", channels, config.latent_dim, KERNEL)
        self.make("first_conv.weight", "columns", f"{theirs}.0.conv.weight")
        stream = [f"{theirs}.0.conv.bias"]  # biases that the activations lack
        for index, rate in enumerate(config.upsample_rates):
            old, new, half = f"{theirs}.{index + 1}.block", f"blocks.{index}", channels // 2
            self.snake(f"{old}.0", f"{new}.snake", channels, stream)
            self.hold_conv(f"{old}.1.conv", channels, half, 2 * rate, outputs=half)
            self.make(f"{new}.expand.weight", "phases", f"{old}.1.conv.weight", numbers=(rate,))
            stream = self.units(old, 2, new, half, [f"{old}.1.conv.bias"])
            channels = half
        last = len(config.upsample_rates) + 1
        self.snake(f"{theirs}.{last}", "last_snake", channels, stream)
        self.conv(f"{theirs}.{last + 1}.conv", "last_conv", "columns", 1, channels, KERNEL)
