"""One id per row from logits: nucleus before temperature, and another draw for repeated ids.

logits (R, V), V up to a few thousand; every setting is per row. The order:

    1. logits to float32; a row with NaN or +inf gets -1 and nothing else
    2. eos to -inf if the row may not end yet
    3. greedy rows: argmax, the lowest id wins a tie, and nothing below applies
    4. ids by falling logit, the lower id first among equals; the i-th is eligible while i < top_k
       and the mass of the first i ids, itself included, is at most top_p of the whole (softmax
       without temperature). The first is always eligible
    5. divide by temperature, softmax over the eligible ids, then the first id in id order whose
       cumulative mass exceeds uniform * total
    6. repetition: an id that is in the row's window, and is not eos, is replaced by another draw:
       the same logits and top_k, `window_top_p`, `window_temperature` and `window_uniform`

A row without anything to draw also gets -1. The id that crosses top_p is dropped, unlike in
`kernels/sampling/sample.py`. The noise is an argument, so a draw is a pure function of its row.

In PyTorch this is a sort and some twenty kernels, twice. Here one program has a whole row in
registers and walks down its distinct values; a nucleus has few.

Rounding: all arithmetic is float32. Sums over ids have another order than the reference's, so a
mark between two of their roundings can draw a neighbouring id.

Source: the sampler of the official fish-speech at 3dd1f85 (2026-04-06), in float32 and with our own
noise. There step 6 draws both and chooses; so does the reference, the kernel draws again if needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.op import op
from kernels.sampling.row import (
    RowSettings,
    check_draws,
    first_beyond,
    first_id_beyond,
    keep_usable,
    num_warps,
    row_of,
    top_of,
    without_end,
)


def sample_nucleus_ref(
    logits: Tensor,
    uniform: Tensor,
    settings: RowSettings,
    out: Tensor,
    *,
    eos: int = -1,
    no_eos: Tensor | None = None,
    window: Tensor | None = None,
    window_uniform: Tensor | None = None,
    window_temperature: float = 1.0,
    window_top_p: float = 1.0,
) -> Tensor:
    _check_window(window, window_uniform)
    greedy, temperature, top_k, top_p, _ = settings
    x = logits.float()
    incoming_top = x.amax(-1)  # NaN if the row has one
    x = without_end(x, logits, eos, no_eos)
    top = x.amax(-1)
    values, ids = x.sort(dim=-1, descending=True, stable=True)
    values = values - values[:, :1]
    mass = values.exp().cumsum(-1)
    rank = torch.arange(x.shape[1], device=x.device)
    is_ranked = (rank < top_k.unsqueeze(1)) | (top_k <= 0).unsqueeze(1)

    def draw(noise: Tensor, heat: Tensor, share: Tensor) -> Tensor:
        share = share.unsqueeze(1)
        is_kept = is_ranked & ((mass <= share * mass[:, -1:]) | (share >= 1))
        is_kept[:, 0] = True
        weight = (values / heat.unsqueeze(1)).exp() * is_kept
        return first_beyond(torch.zeros_like(weight).scatter_(1, ids, weight), noise)

    token = draw(uniform, temperature, top_p)
    if window is not None and window_uniform is not None:
        is_repeated = (window == token.unsqueeze(1)).any(1) & (token != eos)
        heat = torch.full_like(temperature, window_temperature)
        again = draw(window_uniform, heat, torch.full_like(top_p, window_top_p))
        token = torch.where(is_repeated, again, token)
    token = torch.where(greedy, x.argmax(-1), token)
    return keep_usable(token, incoming_top, top, out)


@jit
def _draw(x, top, mass, ids, num_ids, top_k, top_p, temperature, uniform):
    """Steps 4 and 5; `mass` is the sum of exp(x - top)."""
    limit = tl.where(top_p < 1.0, top_p * mass, float("inf"))
    most = tl.where(top_k > 0, top_k, num_ids)
    # The largest value is eligible whatever its mass; of its equals as many as fit.
    value = top
    count = tl.sum((x == value).to(tl.int32), axis=0)
    room = tl.minimum(limit, num_ids * 1.0).to(tl.int32)
    kept = tl.minimum(tl.minimum(count, most), tl.maximum(room, 1))  # eligible ids in total
    extra = kept  # of the ids of the last value
    above = count * 1.0  # mass of this and larger values
    is_open = kept == count
    while is_open & (kept < most):
        lower = tl.max(tl.where(x < value, x, float("-inf")), axis=0)
        weight = tl.exp(lower - top)
        is_open = (lower > float("-inf")) & (above + weight <= limit)
        if is_open:
            value = lower
            count = tl.sum((x == value).to(tl.int32), axis=0)
            room = tl.minimum((limit - above) / weight, num_ids * 1.0).to(tl.int32)
            extra = tl.minimum(tl.minimum(count, most - kept), tl.maximum(room, 1))
            kept += extra
            above += count * weight
            is_open = extra == count
    at_last = x == value
    place = tl.cumsum(at_last.to(tl.int32), axis=0)
    is_kept = (x > value) | (at_last & (place <= extra))
    weight = tl.where(is_kept, tl.exp(tl.div_rn(x - top, temperature)), 0.0)
    return first_id_beyond(weight, uniform, ids, num_ids)


@jit(do_not_specialize_on_alignment=["uniform_ptr", "out_ptr"])
def _sample_nucleus_kernel(
    logits_ptr, uniform_ptr, greedy_ptr, temperature_ptr, top_k_ptr, top_p_ptr, out_ptr, no_eos_ptr,
    window_ptr, window_uniform_ptr,
    logits_stride, uniform_stride, out_stride, window_stride, window_uniform_stride,
    num_ids, eos, window_size, window_temperature, window_top_p,
    HAS_NO_EOS: tl.constexpr, HAS_WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
    WINDOW_BLOCK: tl.constexpr,
):  # fmt: skip
    row, ids, x, is_greedy, temperature, top_k, top_p, uniform, is_usable = row_of(
        logits_ptr, uniform_ptr, (greedy_ptr, temperature_ptr, top_k_ptr, top_p_ptr),
        logits_stride, uniform_stride, num_ids, False, BLOCK,
    )  # fmt: skip
    x, top, is_usable, token = top_of(x, ids, row, eos, no_eos_ptr, is_usable, HAS_NO_EOS)
    if is_usable & is_greedy:
        token = tl.argmax(x, axis=0)
    if is_usable & (is_greedy == 0):
        mass = tl.sum(tl.exp(x - top), axis=0)
        token = _draw(x, top, mass, ids, num_ids, top_k, top_p, temperature, uniform)
        if HAS_WINDOW:
            entry = tl.arange(0, WINDOW_BLOCK)
            recent = tl.load(
                window_ptr + row * window_stride + entry, mask=entry < window_size, other=-1
            )
            is_repeated = tl.max((recent == token).to(tl.int32), axis=0) > 0
            if is_repeated & (token != eos):
                uniform = tl.load(window_uniform_ptr + row * window_uniform_stride)
                token = _draw(
                    x, top, mass, ids, num_ids, top_k, window_top_p, window_temperature, uniform
                )
    tl.store(out_ptr + row * out_stride, token.to(tl.int64))


def _check_window(window: Tensor | None, window_uniform: Tensor | None) -> None:
    if (window is None) != (window_uniform is None):
        raise ValueError("window and window_uniform must both be given or both be None")


@op(sample_nucleus_ref)
def sample_nucleus(
    logits: Tensor,
    uniform: Tensor,
    settings: RowSettings,
    out: Tensor,
    *,
    eos: int = -1,
    no_eos: Tensor | None = None,
    window: Tensor | None = None,
    window_uniform: Tensor | None = None,
    window_temperature: float = 1.0,
    window_top_p: float = 1.0,
) -> Tensor:
    """Draw one id per row into `out`, and return it; the module docstring gives the order of steps.

    Args:
        logits: (R, V).
        uniform: (R,) float32 in [0, 1); may be strided.
        out: (R,) int64, written in place; may be strided. -1 if a row cannot be drawn.
        eos: the end id; no_eos (R,) bool marks rows that may not draw it.
        window: (R, W) int64, recent ids, -1 for none; window_uniform (R,) float32, may be strided.
            Both or neither.
        window_temperature, window_top_p: of the draw that replaces a repeated id.
    """
    _check_window(window, window_uniform)
    num_rows, num_ids = logits.shape
    check_draws(logits, uniform, settings, out, no_eos)
    window_size = 1
    if window is not None and window_uniform is not None:
        window_size = window.shape[1]
        if window.shape[0] != num_rows or window.stride(1) != 1 or window.dtype != torch.int64:
            raise ValueError(f"window must be int64 ({num_rows}, W) with contiguous rows")
        if window_uniform.shape != (num_rows,):
            raise ValueError(f"window_uniform must be ({num_rows},)")
    block = next_power_of_2(num_ids)
    _sample_nucleus_kernel[(num_rows,)](
        logits, uniform, *settings[:4], out,
        no_eos if no_eos is not None else settings.greedy,
        window if window is not None else out,
        window_uniform if window_uniform is not None else uniform,
        logits.stride(0), uniform.stride(0), out.stride(0),
        window.stride(0) if window is not None else 0,
        window_uniform.stride(0) if window_uniform is not None else 0,
        num_ids, eos, window_size, float(window_temperature), float(window_top_p),
        HAS_NO_EOS=no_eos is not None and eos >= 0, HAS_WINDOW=window is not None,
        BLOCK=block,
        WINDOW_BLOCK=next_power_of_2(window_size),
        num_warps=num_warps(block),
    )  # fmt: skip
    return out
