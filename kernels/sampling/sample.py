"""One id per row from logits: penalty, masks, temperature, top-k, top-p and draw in one kernel.

logits (R, V), V up to a few thousand; every setting is per row. The order, which matches the
models' own generation:

    1. logits to float32; a row with NaN or +inf gets -1 and nothing else
    2. repetition penalty on seen ids: positive values divided, negative multiplied
    3. eos to -inf if the row may not end yet; suppressed ids to -inf
    4. greedy rows: argmax, the lowest id wins a tie
    5. divide by temperature
    6. top-k: drop what is below the k-th largest value; ties with it stay
    7. top-p: drop each value whose mass, with all smaller or equal ones, is at most 1 - top_p of
       what is left; ties share their fate, the largest value stays
    8. softmax, then the first id in id order whose cumulative mass exceeds uniform * total

A row without anything to draw also gets -1. The noise is an argument, so a draw is a pure function
of its row. The same launch may begin the next step with the id's embedding and its norm
(`kernels.linear.code_embedding`), as fourteen times per frame in Qwen3-TTS.

In PyTorch this is a sort or two and some thirty kernels. Here one program has a whole row in
registers. It searches for thresholds instead of sorting: the k-th value by counting at two marks
per pass (more marks are slower), the top-p limit bit by bit in the order-preserving integer form of
float32. Both are exact.

Rounding: all arithmetic is float32, divisions by penalty and temperature are IEEE. Sums over ids
have another order than the reference's, so a mark between two of their roundings can draw a
neighbouring id. The embedding is rounded as in `code_embedding`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options
from kernels.launch.op import op
from kernels.linear.code_embedding import Beginning, check_embedding, code_embedding_ref, embed_row
from kernels.sampling.row import (
    INF,
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


def sample_ref(
    logits: Tensor,
    uniform: Tensor,
    settings: RowSettings,
    out: Tensor,
    *,
    seen: Tensor | None = None,
    suppress: Tensor | None = None,
    eos: int = -1,
    no_eos: Tensor | None = None,
    then: Beginning | None = None,
) -> Tensor:
    """Plain PyTorch. On a CPU it reads the settings, and skips steps that no row needs."""
    greedy, penalty = settings.greedy, settings.repetition_penalty
    _check_penalty(seen, penalty)
    x = logits.float()
    incoming_top = top = x.amax(-1)  # NaN if the row has one
    given = x
    if seen is not None and penalty is not None:
        factor = penalty.unsqueeze(1)
        x = torch.where(seen, torch.where(x > 0, x / factor, x * factor), x)
    if suppress is not None:
        x = x.masked_fill(suppress, -INF)
    x = without_end(x, given, eos, no_eos)
    if x is not logits:
        top = x.amax(-1)
    on_host = logits.device.type == "cpu"
    some_greedy, all_greedy = True, False
    if on_host:
        flags = greedy.tolist()
        some_greedy, all_greedy = any(flags), all(flags)
    if all_greedy:
        token = x.argmax(-1)
    else:
        token = _draw(x, top, uniform, settings, on_host)
        if some_greedy:
            token = torch.where(greedy, x.argmax(-1), token)
    keep_usable(token, incoming_top, top, out)
    if then is not None:
        then.normed.copy_(code_embedding_ref(out, *then[:4]))
    return out


def _draw(x: Tensor, top: Tensor, uniform: Tensor, settings: RowSettings, on_host: bool) -> Tensor:
    """Steps 5 to 8; x (R, V) float32, top its (R,) maxima."""
    _, temperature, top_k, top_p, _ = settings
    num_ids = x.shape[1]
    x = x / temperature.unsqueeze(1)
    top = (top / temperature).unsqueeze(1)  # division preserves the order, so still the maximum
    lowest_k, highest_k, has_top_p = 0, num_ids, True
    if on_host:
        counts = top_k.tolist()
        lowest_k, highest_k, has_top_p = min(counts), max(counts), min(top_p.tolist()) < 1.0
    if highest_k > 0:
        widest = min(highest_k, num_ids)
        values = x.topk(widest).values
        if lowest_k == highest_k:
            kth = values[:, -1:]
        else:
            kth = values.gather(1, (top_k.long().clamp(1, widest) - 1).unsqueeze(1))
            kth = kth.masked_fill((top_k <= 0).unsqueeze(1), -INF)
        x = x.masked_fill(x < kth, -INF)
    if has_top_p:
        ordered = x.sort(-1).values
        mass = (ordered - top).exp_().cumsum(-1)
        limit = (1.0 - top_p).unsqueeze(1) * mass[:, -1:]
        first_kept = (mass <= limit).sum(-1, keepdim=True).clamp_(max=num_ids - 1)
        x = x.masked_fill(x < ordered.gather(1, first_kept), -INF)
    return first_beyond((x - top).exp_(), uniform)


@jit
def _kth_largest(x, top, k):
    """Return a threshold for exactly the k largest values above -inf and ties with the k-th."""
    is_number = x > float("-inf")
    low = tl.min(tl.where(is_number, x, float("inf")), axis=0)  # reached by at least k values
    at_low = tl.sum(is_number.to(tl.int32), axis=0)
    high = top + float("inf")  # reached by fewer
    at_high = at_low * 0
    # Search the values, at two marks a pass, until few are left in between. Logits in bfloat16 have
    # many ties, which would keep a search for the last bit busy. One sum has both counts.
    span = tl.minimum(high, top) / 3 - low / 3
    lower = low + span
    upper = lower + span
    while (at_low > k) & (at_low - at_high > 4) & (lower > low) & (upper < high):
        counts = tl.sum((x >= lower).to(tl.int32) + ((x >= upper).to(tl.int32) << 16), axis=0)
        at_lower = counts & 0xFFFF
        at_upper = counts >> 16
        if at_lower < k:
            high = lower
            at_high = at_lower
        else:
            low = lower
            at_low = at_lower
            if at_upper < k:
                high = upper
                at_high = at_upper
            else:
                low = upper
                at_low = at_upper
        span = tl.minimum(high, top) / 3 - low / 3
        lower = low + span
        upper = lower + span
    # Then go down from above, one distinct value at a time.
    if at_low > k:
        while (at_high < k) & (high > float("-inf")):
            high = tl.max(tl.where(x < high, x, float("-inf")), axis=0)
            at_high = tl.sum((x >= high).to(tl.int32), axis=0)
        low = high
    return low


# Draws and codes of a codebook are columns, whose addresses are aligned only sometimes: a kernel
# for each case would gain nothing.
@jit(do_not_specialize_on_alignment=["uniform_ptr", "out_ptr"])
def _sample_kernel(
    logits_ptr, uniform_ptr, greedy_ptr, temperature_ptr, top_k_ptr, top_p_ptr, out_ptr, seen_ptr,
    penalty_ptr, suppress_ptr, no_eos_ptr, table_ptr, norm_ptr, embedded_ptr, normed_ptr,
    logits_stride, uniform_stride, out_stride, seen_stride, table_stride,
    num_ids, eos, width, eps,
    HAS_SEEN: tl.constexpr, HAS_SUPPRESS: tl.constexpr, HAS_NO_EOS: tl.constexpr,
    IS_EMBEDDED: tl.constexpr, IS_DEPENDENT: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    if IS_EMBEDDED:
        column = tl.arange(0, BLOCK_D)
        norm = tl.load(norm_ptr + column, mask=column < width, other=0.0)
    row, ids, x, is_greedy, temperature, k, top_p, uniform, is_usable = row_of(
        logits_ptr, uniform_ptr, (greedy_ptr, temperature_ptr, top_k_ptr, top_p_ptr),
        logits_stride, uniform_stride, num_ids, IS_DEPENDENT, BLOCK,
    )  # fmt: skip
    inside = ids < num_ids
    low = float("-inf")
    if HAS_SEEN:
        seen = tl.load(seen_ptr + row * seen_stride + ids, mask=inside, other=0)
        penalty = tl.load(penalty_ptr + row)
        x = tl.where(seen != 0, tl.where(x > 0, tl.div_rn(x, penalty), x * penalty), x)
    if HAS_SUPPRESS:
        suppressed = tl.load(suppress_ptr + ids, mask=inside, other=0)
        x = tl.where(suppressed != 0, low, x)
    x, top, is_usable, token = top_of(x, ids, row, eos, no_eos_ptr, is_usable, HAS_NO_EOS)
    if is_usable & is_greedy:
        token = tl.argmax(x, axis=0)
    if is_usable & (is_greedy == 0):
        x = tl.div_rn(x, temperature)
        top = tl.div_rn(top, temperature)
        if k > 0:
            x = tl.where(x >= _kth_largest(x, top, k), x, low)
        if top_p < 1.0:
            weight = tl.exp(x - top)
            limit = (1.0 - top_p) * tl.sum(weight, axis=0)
            # Unsigned integers in the order of the floats, both zeros made one. The largest of
            # them with at most the limit's mass below it is the lowest eligible value.
            bits = tl.where(x == 0.0, 0.0, x).to(tl.uint32, bitcast=True)
            key = tl.where(bits >= 0x80000000, bits ^ 0xFFFFFFFF, bits ^ 0x80000000)
            threshold = tl.full((), 0, tl.uint32)
            bit = tl.full((), 0x80000000, tl.uint32)
            while bit > 0:
                candidate = threshold | bit
                below = tl.sum(tl.where(key < candidate, weight, 0.0), axis=0)
                threshold = tl.where(below <= limit, candidate, threshold)
                bit = bit >> 1
            # With top_p at 0 no mass exceeds the limit; the largest value stays all the same.
            x = tl.where((key >= threshold) | (x == top), x, low)
        token = first_id_beyond(tl.exp(x - top), uniform, ids, num_ids)
    token = token.to(tl.int64)
    tl.store(out_ptr + row * out_stride, token)
    if IS_EMBEDDED:
        embed_row(
            token, row, column, norm, table_ptr, embedded_ptr, normed_ptr, table_stride, width, eps
        )


def _check_penalty(seen: Tensor | None, penalty: Tensor | None) -> None:
    if (seen is None) != (penalty is None):
        raise ValueError("seen and repetition_penalty must both be given or both be None")


@op(sample_ref)
def sample(
    logits: Tensor,
    uniform: Tensor,
    settings: RowSettings,
    out: Tensor,
    *,
    seen: Tensor | None = None,
    suppress: Tensor | None = None,
    eos: int = -1,
    no_eos: Tensor | None = None,
    then: Beginning | None = None,
) -> Tensor:
    """Draw one id per row into `out`, and return it; the module docstring gives the order of steps.

    Args:
        logits: (R, V).
        uniform: (R,) float32 in [0, 1); may be strided.
        out: (R,) int64, written in place; may be strided. -1 if a row cannot be drawn.
        seen: (R, V) bool, ids that `repetition_penalty` applies to. Both or neither.
        suppress: (V,) bool, ids no row may draw.
        eos: the end id; no_eos (R,) bool marks rows that may not draw it.
        then: fill its tensors (R, D), contiguous, from the ids. The launch may be an early one; the
            next kernel may then read everything that was written before this launch.
    """
    greedy, temperature, *_, penalty = settings
    _check_penalty(seen, penalty)
    num_rows, num_ids = logits.shape
    check_draws(logits, uniform, settings, out, no_eos)
    if seen is not None and seen.stride(1) != 1:
        raise ValueError("seen must have contiguous rows")
    width = table_stride = 0
    beginning = logits, logits, logits, logits
    if then is not None:
        check_embedding(out, then.table, then.weight, then.out)
        width, table_stride = then.out.shape[1], then.table.stride(0)
        beginning = then.table, then.weight, then.out, then.normed
    block = next_power_of_2(num_ids)
    _sample_kernel[(num_rows,)](
        logits, uniform, *settings[:4], out,
        seen if seen is not None else greedy,
        penalty if penalty is not None else temperature,
        suppress if suppress is not None else greedy,
        no_eos if no_eos is not None else greedy,
        *beginning,
        logits.stride(0), uniform.stride(0), out.stride(0),
        seen.stride(0) if seen is not None else 0,
        table_stride, num_ids, eos, width,
        0.0 if then is None else then.eps,
        HAS_SEEN=seen is not None, HAS_SUPPRESS=suppress is not None,
        HAS_NO_EOS=no_eos is not None and eos >= 0, IS_EMBEDDED=then is not None,
        BLOCK=block, BLOCK_D=next_power_of_2(max(1, width)),
        num_warps=num_warps(block), **launch_options(then is not None),
    )  # fmt: skip
    return out
