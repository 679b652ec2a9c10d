"""A tile of a dilated convolution over time, for kernels that process it further.

A tile is a main part and a rest, so that it can be as wide as the channels even if those are not a
power of two (96 = 64 + 32, 192 = 128 + 64): with few channels the limit is not arithmetic but the
reads of programs, each its steps once per tap and all weights of its channels.

Everything large is read by tensor descriptors, which Hopper's copy engine follows without registers
for addresses. The registers saved let two or three programs run concurrently: one multiplies while
another finishes.

Rounding: the sums stay float32; the kernels that use them round.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.launch.descriptors import described, use_descriptors
from kernels.launch.dispatch import factor, jit, next_power_of_2, tl


class Tile(NamedTuple):
    steps: int
    out: int  # channels, a power of two
    out_rest: int  # further channels, 0 or a power of two
    summed: int  # channels per product, a power of two
    num_warps: int
    num_stages: int
    max_registers: int | None = None  # of a thread, so that more programs run concurrently

    @property
    def parts(self) -> tuple[int, int]:
        """Widths of both parts; kernels ignore the second without a rest."""
        return self.out, self.out_rest or self.out

    def options(self) -> dict[str, Any]:
        return {
            "BLOCK_M": self.steps,
            "BLOCK_N": self.out,
            "REST_N": self.out_rest,
            "BLOCK_K": self.summed,
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "maxnreg": self.max_registers,
        }


@jit
def tap_sums(
    x, weight, weight_rest, row, first_step, first_channel, dilation,
    TAPS: tl.constexpr, C: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, REST_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Return the convolution's sums over BLOCK_M steps of a row: (BLOCK_M, BLOCK_N) float32 of the
    channels from `first_channel` on, then (BLOCK_M, REST_N) of the following ones; without a
    rest the second has no meaning.

    Args:
        x, weight, weight_rest: results of `described_inputs`.
    """
    # Beyond its channels x reads zeros, so the weights there do not matter.
    num_k: tl.constexpr = (C + BLOCK_K - 1) // BLOCK_K
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    rest = tl.zeros((BLOCK_M, REST_N if REST_N > 0 else 16), tl.float32)
    for index in range(0, TAPS * num_k):
        tap = index // num_k
        first = index % num_k * BLOCK_K
        s = factor(x.load([row, first_step + tap * dilation, first]).reshape(BLOCK_M, BLOCK_K))
        w = weight.load([first_channel, tap * C + first])
        total = tl.dot(s, factor(w).T, total, input_precision="ieee")
        if REST_N > 0:
            w = weight_rest.load([first_channel + BLOCK_N, tap * C + first])
            rest = tl.dot(s, factor(w).T, rest, input_precision="ieee")
    return total, rest


def parts_of(channels: int) -> tuple[int, int]:
    """Main part and rest of a tile as wide as the channels, powers of two; 0 for no rest."""
    main = max(16, 1 << (channels.bit_length() - 1))
    return main, max(16, next_power_of_2(channels - main)) if main < channels else 0


def described_inputs(x: Tensor, weight: Tensor, tile: Tile) -> tuple[Any, Any, Any]:
    """Descriptors for `tap_sums`: x, and the weights' matrix (N, taps * C) in both parts."""
    matrix = weight.permute(0, 3, 2, 1).reshape(weight.shape[0], -1)  # a view
    return (
        described(x, 1, tile.steps, tile.summed),
        *(described(matrix, part, tile.summed) for part in tile.parts),
    )


def has_kernel(x: Tensor) -> bool:
    """Whether x runs the kernel: not float32 on a GPU, and not without a copy engine."""
    return use_descriptors(x) and not (x.is_cuda and x.dtype == torch.float32)


def checked_shape(x: Tensor, weight: Tensor, dilation: int) -> tuple[int, int, int]:
    """Return rows, steps and channels of the result. Raises ValueError."""
    num_out, num_in, height, taps = weight.shape
    steps = x.shape[1] - (taps - 1) * dilation
    if (x.shape[2], 1) != (num_in, height) or weight.dtype != x.dtype or steps < 1:
        raise ValueError(
            f"weight {tuple(weight.shape)} {weight.dtype} with dilation {dilation} does not fit x "
            f"{tuple(x.shape)} {x.dtype}"
        )
    if x.stride(2) != 1 or weight.stride(1) != 1 or (taps > 1 and weight.stride(3) != num_in):
        raise ValueError("channels must be innermost in x and in weight")
    return x.shape[0], steps, num_out
