"""The common parts of both samplers: a row's inputs, where it may not end, whether it can be
drawn, and the draw by cumulative mass. First for the references, then for the kernels. All of
it is float32; logits are widened first.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, tl
from kernels.launch.early_launch import wait_for_all

INF = float("inf")


class RowSettings(NamedTuple):
    """Sampling settings of each row; all (R,), contiguous."""

    greedy: Tensor  # bool; true rows take the argmax and ignore temperature, top_k and top_p
    temperature: Tensor  # float32, above 0 where the row is not greedy
    top_k: Tensor  # int32, 0 = off
    top_p: Tensor  # float32, 1 = off
    repetition_penalty: Tensor | None = None  # float32, of ids in `seen`; `sample` alone takes it


def without_end(x: Tensor, given: Tensor, eos: int, no_eos: Tensor | None) -> Tensor:
    """x (R, V) with eos at -inf in the rows of no_eos (R,), in place unless x is `given`."""
    if no_eos is None or eos < 0:
        return x
    if x is given:
        x = x.clone()
    x[:, eos].masked_fill_(no_eos, -INF)
    return x


def first_beyond(weight: Tensor, uniform: Tensor) -> Tensor:
    """The first id in id order whose cumulative weight exceeds uniform * total: (R,)."""
    # Zero at dropped ids: neither they nor a rounding of the scan can be drawn, and some id always
    # exceeds the mark.
    mass = weight.cumsum(-1) * (weight > 0)
    mark = uniform.unsqueeze(1) * mass.amax(-1, keepdim=True)
    return (mass > mark).view(torch.uint8).argmax(-1)


def keep_usable(token: Tensor, incoming_top: Tensor, top: Tensor, out: Tensor) -> Tensor:
    """Fill `out` with the ids; -1 for rows with NaN or +inf, or without an id to draw."""
    usable = (incoming_top < INF) & (top > -INF)
    return out.copy_(torch.where(usable, token, -1))


def check_draws(
    logits: Tensor, uniform: Tensor, settings: RowSettings, out: Tensor, no_eos: Tensor | None
) -> None:
    """Raise ValueError unless all settings of rows are contiguous (R,), and so are the draws."""
    num_rows = logits.shape[0]
    for name, value in {**settings._asdict(), "no_eos": no_eos}.items():
        if value is not None and (value.shape != (num_rows,) or not value.is_contiguous()):
            raise ValueError(f"{name} must be contiguous ({num_rows},), got {tuple(value.shape)}")
    if uniform.shape != (num_rows,) or out.shape != (num_rows,) or out.dtype != torch.int64:
        raise ValueError(f"uniform and out (int64) must be ({num_rows},)")
    if logits.stride(1) != 1:
        raise ValueError("logits must have contiguous rows")


def num_warps(block: int) -> int:
    return 16 if block > 2048 else max(1, block // 512)


@jit
def row_of(
    logits_ptr, uniform_ptr,
    settings,
    logits_stride, uniform_stride,
    num_ids,
    IS_DEPENDENT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Load a program's row: its number, ids, logits as float32, settings, and whether logits are
    finite or -inf. `settings`: addresses of the first four of `RowSettings`.
    """
    row = tl.program_id(0).to(tl.int64)
    ids = tl.arange(0, BLOCK)
    inside = ids < num_ids
    place = logits_ptr + row * logits_stride + ids
    # All settings together: one after the other, each would wait for memory.
    is_greedy = tl.load(settings[0] + row) != 0
    temperature = tl.load(settings[1] + row)
    top_k = tl.load(settings[2] + row)
    top_p = tl.load(settings[3] + row)
    uniform = tl.load(uniform_ptr + row * uniform_stride)
    wait_for_all(IS_DEPENDENT)
    x = tl.load(place, mask=inside, other=float("-inf")).to(tl.float32)
    # False for NaN as well as +inf.
    is_usable = tl.min((x < float("inf")).to(tl.int32), axis=0) > 0
    return row, ids, x, is_greedy, temperature, top_k, top_p, uniform, is_usable


@jit
def top_of(x, ids, row, eos, no_eos_ptr, is_usable, HAS_NO_EOS: tl.constexpr):
    """Return the logits, with the end masked if HAS_NO_EOS asks for it; the largest; whether a
    draw is possible; and the id of a row without a draw.
    """
    if HAS_NO_EOS:
        may_not_end = tl.load(no_eos_ptr + row)
        x = tl.where((ids == eos) & (may_not_end != 0), float("-inf"), x)
    top = tl.max(x, axis=0)
    return x, top, is_usable & (top > float("-inf")), tl.full((), -1, tl.int32)


@jit
def first_id_beyond(weight, uniform, ids, num_ids):
    """`first_beyond` of one row; -1 if no id qualifies."""
    mass = tl.where(weight > 0, tl.cumsum(weight, axis=0), 0.0)
    mark = uniform * tl.max(mass, axis=0)
    token = tl.min(tl.where(mass > mark, ids, num_ids), axis=0)
    return tl.where(token < num_ids, token, -1)
