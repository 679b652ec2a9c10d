"""Uniform numbers addressed by (row seed, frame, codebook): a counter-based generator, no state.

    h = mix(seed)
    x = mix(h + (frame * 1024 + codebook + 1) * golden)        all modulo 2^64
    uniform = top 24 bits of x * 2^-24                          in [0, 1)

mix is the finaliser of SplitMix64 and golden its increment (Steele, Lea, Flood: Fast Splittable
Pseudorandom Number Generators, 2014). A draw depends on its address alone, so a row sounds the
same in any slot, batch or order, and a rerun repeats it. Kernel and reference agree bit for bit:
the arithmetic is integer until one exact multiplication, so nothing is rounded.

The reference works in int64, where multiplication and addition wrap alike and right shifts need a
mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.op import op

MAX_CODEBOOKS = 1023  # codebook + 1 must stay below the frame's stride of 1024


def _signed(value: int) -> int:
    """The int64 with the same bits as an unsigned 64-bit constant."""
    return value - (1 << 64) if value >> 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MULTIPLY_1 = _signed(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = _signed(0x94D049BB133111EB)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: int64 shifts in copies of the sign, which the mask removes."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix_ref(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MULTIPLY_1
    x = (x ^ _shift_right(x, 27)) * _MULTIPLY_2
    return x ^ _shift_right(x, 31)


def _check_count(count: int) -> None:
    if not 0 < count <= MAX_CODEBOOKS:
        raise ValueError(f"count must be 1..{MAX_CODEBOOKS}, got {count}")


def uniforms_ref(seeds: Tensor, frames: Tensor, count: int) -> Tensor:
    _check_count(count)
    counter = torch.arange(1, count + 1, device=seeds.device) + frames.unsqueeze(1) * 1024
    x = _mix_ref(_mix_ref(seeds).unsqueeze(1) + counter * _GOLDEN)
    return _shift_right(x, 40).float() * 2.0**-24


@jit
def _mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@jit
def _uniforms_kernel(seeds_ptr, frames_ptr, out_ptr, count, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    codebook = tl.arange(0, BLOCK)
    inside = codebook < count
    seed = _mix(tl.load(seeds_ptr + row).to(tl.uint64))
    counter = (tl.load(frames_ptr + row) * 1024 + codebook + 1).to(tl.uint64)
    x = _mix(seed + counter * 0x9E3779B97F4A7C15)
    uniform = (x >> 40).to(tl.int32).to(tl.float32) * (1.0 / 16777216.0)
    tl.store(out_ptr + row * count + codebook, uniform, mask=inside)


@op(uniforms_ref)
def uniforms(seeds: Tensor, frames: Tensor, count: int) -> Tensor:
    """Draws of codebooks 0..count-1 for each row.

    Args:
        seeds: (B,) int64, one per row.
        frames: (B,) int64, each row's own frame number.
        count: draws a row, at most 1023.
    Returns:
        (B, count) float32 in [0, 1).
    """
    _check_count(count)
    num_rows = seeds.shape[0]
    for name, value in (("seeds", seeds), ("frames", frames)):
        if value.dtype != torch.int64 or value.shape != (num_rows,) or not value.is_contiguous():
            raise ValueError(
                f"{name} must be contiguous (B,) int64, got {value.dtype} {tuple(value.shape)}"
            )
    out = torch.empty((num_rows, count), dtype=torch.float32, device=seeds.device)
    _uniforms_kernel[(num_rows,)](
        seeds, frames, out, count, BLOCK=next_power_of_2(count), num_warps=1
    )
    return out
