"""Rotary positions, and the fused step between a decode step's QKV product and its attention.

    rope(x) = x * cos[p] + rotate_half(x) * sin[p],    rotate_half(x) = (-second half, first half)

Tables are (S, D_h) in the NeoX layout: two equal halves, so cos[:, i] and cos[:, i + D_h/2] share a
frequency.

`qk_norm_rope_store` takes the fused product qkv (R, (H + 2*H_kv) * D_h), normalises each query and
key head (RMSNorm over D_h), rotates them by the row's position, writes key and value into the row's
cache slot, and returns the queries (R, H * D_h). PyTorch needs about twenty kernels for this; here
it is one, with one program per tile of heads. Rows are the new positions of a step, or the tokens
of packed prompts with their slots.

Rounding: tables are computed in float32 and cast to the model's dtype. The norm's mean and root are
float32; the normalised value is rounded, and so is its product with the weight. Of the rotation
each product is rounded, and so is their sum. Values are stored unchanged. Tables more precise than
in training end the speech early, so these roundings are part of the definition.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kernels.launch.dispatch import HAS_PTX, jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options, wait_for_previous
from kernels.launch.op import op


def rope_tables(
    num_positions: int, head_dim: int, theta: float, device: torch.device | str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return cos and sin, each (S, D_h), from the CPU, so that all devices get the same."""
    exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    angle = torch.outer(torch.arange(num_positions).float(), 1.0 / (theta**exponent))
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().to(device, dtype), angle.sin().to(device, dtype)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate x (..., D_h) by tables of its dtype that broadcast to it; every step is rounded."""
    first, second = x.chunk(2, dim=-1)
    return (x * cos).add_(torch.cat((-second, first), dim=-1).mul_(sin))


class QKNormRope(NamedTuple):
    """Norms and rotation of the queries and keys of a layer."""

    q_weight: Tensor | None  # (D_h,) of the RMSNorm; both or neither
    k_weight: Tensor | None
    cos: Tensor  # (S, D_h) of the dtype of the rows, from `rope_tables`
    sin: Tensor
    eps: float  # of the norms


def qk_norm_rope_store_ref(
    qkv: Tensor,
    heads: QKNormRope,
    positions: Tensor,
    cache: Tensor,
    rows_per_slot: int = 1,
    slots: Tensor | None = None,
) -> Tensor:
    """Plain PyTorch. On a GPU its shapes are those of its arguments, so it can be captured."""
    q_weight, k_weight, cos, sin, eps = heads
    _check_norms(q_weight, k_weight)
    num_rows, num_kv_heads, head_dim = len(qkv), cache.shape[2], cache.shape[4]
    every = qkv.view(num_rows, -1, head_dim)
    qk, v = every[:, :-num_kv_heads], every[:, -num_kv_heads:]
    num_heads = qk.shape[1] - num_kv_heads
    if q_weight is not None and k_weight is not None:
        # One rms_norm for both; each part is then multiplied by its own weight.
        wide = qk.float()
        scale = wide.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        qk = (wide * scale).to(qkv.dtype)
        qk[:, :num_heads].mul_(q_weight)
        qk[:, num_heads:].mul_(k_weight)
    same = _shared_position(positions) if slots is None and rows_per_slot == 1 else None
    if same is not None:
        # On the CPU a batch at one position needs no gather and no scatter.
        qk = apply_rope(qk, cos[same], sin[same])
        cache[0, :num_rows, :, same] = qk[:, num_heads:]
        cache[1, :num_rows, :, same] = v
    else:
        rows = slice(None) if slots is None else _written_rows(slots)
        if slots is None:
            slots = torch.arange(num_rows, device=qkv.device) // rows_per_slot
        qk = apply_rope(qk, cos[positions].unsqueeze(1), sin[positions].unsqueeze(1))
        cache[0][slots[rows], :, positions[rows]] = qk[rows, num_heads:]
        cache[1][slots[rows], :, positions[rows]] = v[rows]
    return qk[:, :num_heads].reshape(num_rows, num_heads * head_dim)


def query_heads(rows: Tensor, cache: Tensor, others: int = 0) -> int:
    """Return H, the number of query heads in rows (R, (H + others) * D_h).

    Raises:
        ValueError: H is not a multiple of H_kv, or rows or cache (2, N, H_kv, S, D_h) have another
            layout or dtype.
    """
    num_kv_heads, head_dim = cache.shape[2], cache.shape[4]
    num_heads = rows.shape[1] // head_dim - others
    is_whole = rows.shape[1] % head_dim == head_dim % 2 == 0 and rows.stride(1) == 1
    if not is_whole or num_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(
            f"rows {tuple(rows.shape)} do not hold heads of {head_dim} for {num_kv_heads} of keys"
        )
    if cache.stride(4) != 1 or cache.dtype != rows.dtype:
        raise ValueError("the cache must have the dtype of the rows, and contiguous heads")
    return num_heads


def check_rows(num_rows: int, cache: Tensor, rows_per_slot: int) -> None:
    """Raise ValueError unless the cache (2, N, H_kv, S, D_h) has slots for `num_rows` rows."""
    num_slots = cache.shape[1]
    if num_rows % rows_per_slot or num_rows > num_slots * rows_per_slot:
        raise ValueError(f"{num_rows} rows, {rows_per_slot} a slot, do not fit {num_slots} slots")


def _check_norms(q_weight: Tensor | None, k_weight: Tensor | None) -> None:
    if (q_weight is None) != (k_weight is None):
        raise ValueError("q_weight and k_weight must both be given or both be None")


def _may_look(tensor: Tensor) -> bool:
    """Whether the host may read values: on a CPU, where no graph is captured."""
    return tensor.device.type == "cpu"


def _written_rows(slots: Tensor) -> Tensor:
    """Return the rows to write to the cache: those with a slot. If the host may not read values,
    their number does not change: a row without a slot repeats the first row that has one.
    """
    is_row = slots >= 0
    if _may_look(slots):
        return is_row
    return torch.where(is_row, torch.arange(len(slots), device=slots.device), is_row.int().argmax())


def _shared_position(positions: Tensor) -> int | None:
    """Return the position that all rows share; None: they differ, or cannot be read."""
    if not _may_look(positions):
        return None
    values = positions.tolist()
    return values[0] if values.count(values[0]) == len(values) else None


@jit
def product(x, y):
    """x * y in float32, protected from being fused with a following sum.

    If a product is rounded to bfloat16 and added to another one, LLVM makes one fused bfloat16
    multiply-add of them, which drops a rounding that the models were trained with.
    """
    if HAS_PTX:
        return tl.inline_asm_elementwise(
            "mul.rn.f32 $0, $1, $2;", "=f,f,f", [x, y], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return x * y


@jit
def wide_halves(source, low, mask, HALF: tl.constexpr):
    """Both halves of data that is constant during the launch, as float32."""
    x_low = tl.load(source + low, mask=mask, other=0.0).to(tl.float32)
    x_high = tl.load(source + HALF + low, mask=mask, other=0.0).to(tl.float32)
    return x_low, x_high


@jit
def rotate(x, weight, cos, sin, eps, HEAD_DIM: tl.constexpr, HAS_NORM: tl.constexpr):
    """Normalise and rotate heads, one per line; every step is rounded to the dtype of x. Norm
    weights and tables are float32 in registers. Everything is a pair of halves. Returns float32.
    """
    dtype: tl.constexpr = x[0].dtype
    low = x[0].to(tl.float32)
    high = x[1].to(tl.float32)
    if HAS_NORM:
        total = tl.sum(low * low + high * high, axis=1)
        scale = tl.rsqrt(total / HEAD_DIM + eps)[:, None]
        low = ((low * scale).to(dtype).to(tl.float32) * weight[0]).to(dtype).to(tl.float32)
        high = ((high * scale).to(dtype).to(tl.float32) * weight[1]).to(dtype).to(tl.float32)
    y_low = product(low, cos[0]).to(dtype).to(tl.float32)
    y_low -= product(high, sin[0]).to(dtype).to(tl.float32)
    y_high = product(high, cos[1]).to(dtype).to(tl.float32)
    y_high += product(low, sin[1]).to(dtype).to(tl.float32)
    return y_low.to(dtype).to(tl.float32), y_high.to(dtype).to(tl.float32)


@jit
def _qk_norm_rope_store_kernel(
    qkv_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, positions_ptr, slots_ptr, q_out_ptr,
    keys_ptr, values_ptr,
    qkv_stride, table_stride, slot_stride, head_stride, position_stride,
    eps,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    ROWS_PER_SLOT: tl.constexpr,
    HAS_SLOTS: tl.constexpr, HAS_NORM: tl.constexpr, IS_DEPENDENT: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    wait_for_previous(IS_DEPENDENT)
    row = tl.program_id(0).to(tl.int64)
    slot = row // ROWS_PER_SLOT
    if HAS_SLOTS:
        slot = tl.load(slots_ptr + row)
    HALF: tl.constexpr = HEAD_DIM // 2
    dtype: tl.constexpr = q_out_ptr.dtype.element_ty
    # A tile of heads of any kind: queries, keys and values are stored in three places at the end.
    head = (tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H))[:, None]
    is_query = head < NUM_HEADS
    is_key = (head >= NUM_HEADS) & (head < NUM_HEADS + NUM_KV_HEADS)
    is_value = (head >= NUM_HEADS + NUM_KV_HEADS) & (head < NUM_HEADS + 2 * NUM_KV_HEADS)
    low = tl.arange(0, BLOCK_D)[None, :]
    high = low + HALF
    is_dim = low < HALF
    inside = (head < NUM_HEADS + 2 * NUM_KV_HEADS) & is_dim
    source = qkv_ptr + row * qkv_stride + head * HEAD_DIM
    position = tl.load(positions_ptr + row)
    given_low = tl.load(source + low, mask=inside, other=0.0)
    given_high = tl.load(source + high, mask=inside, other=0.0)
    table = position * table_stride
    cos = wide_halves(cos_ptr + table, low, is_dim, HALF)
    sin = wide_halves(sin_ptr + table, low, is_dim, HALF)
    weight = cos
    if HAS_NORM:
        q_low, q_high = wide_halves(q_weight_ptr, low, is_dim, HALF)
        k_low, k_high = wide_halves(k_weight_ptr, low, is_dim, HALF)
        weight = tl.where(is_query, q_low, k_low), tl.where(is_query, q_high, k_high)
    y_low, y_high = rotate((given_low, given_high), weight, cos, sin, eps, HEAD_DIM, HAS_NORM)
    y_low = y_low.to(dtype)
    y_high = y_high.to(dtype)

    q = q_out_ptr + (row * NUM_HEADS + head) * HEAD_DIM
    tl.store(q + low, y_low, mask=is_query & is_dim)
    tl.store(q + high, y_high, mask=is_query & is_dim)
    if HAS_SLOTS:
        # Padding is not stored. A block, because the interpreter takes no scalars as masks.
        has_slot = (slot + 0 * head) >= 0
        is_key = is_key & has_slot
        is_value = is_value & has_slot
    k_head = (head - NUM_HEADS).to(tl.int64)
    place = slot * slot_stride + k_head * head_stride + position * position_stride
    k = keys_ptr + place
    tl.store(k + low, y_low, mask=is_key & is_dim)
    tl.store(k + high, y_high, mask=is_key & is_dim)
    v = values_ptr + place - NUM_KV_HEADS * head_stride
    tl.store(v + low, given_low, mask=is_value & is_dim)
    tl.store(v + high, given_high, mask=is_value & is_dim)


def launch_settings(num_rows: int) -> tuple[int, int]:
    """Heads per program, and its warps: single heads spread a few rows over the GPU."""
    return (1, 1) if num_rows <= 8 else (8, 2)


@op(qk_norm_rope_store_ref)
def qk_norm_rope_store(
    qkv: Tensor,
    heads: QKNormRope,
    positions: Tensor,
    cache: Tensor,
    rows_per_slot: int = 1,
    slots: Tensor | None = None,
) -> Tensor:
    """Normalise and rotate queries and keys, write keys and values to the cache, return queries.

    Args:
        qkv: (R, (H + 2*H_kv) * D_h): query heads, key heads, value heads.
        positions: (R,) int64, each row's position in its slot.
        cache: (2, N, H_kv, S, D_h) keys and values of a layer, written in place at each row's
            position; may be a view.
        rows_per_slot: row r belongs to slot r // rows_per_slot.
        slots: (R,) int64, each row's slot instead of `rows_per_slot`; -1: nothing is written.
    Returns:
        q (R, H * D_h), contiguous.
    """
    q_weight, k_weight, cos, sin, eps = heads
    _check_norms(q_weight, k_weight)
    num_rows, num_kv_heads, head_dim = len(qkv), cache.shape[2], cache.shape[4]
    num_heads = query_heads(qkv, cache, 2 * num_kv_heads)
    if slots is None:
        check_rows(num_rows, cache, rows_per_slot)
    elif slots.shape != (num_rows,) or not slots.is_contiguous():
        raise ValueError(f"slots must be contiguous ({num_rows},), not {tuple(slots.shape)}")
    if cos.stride() != sin.stride() or cos.stride(1) != 1 or not positions.is_contiguous():
        raise ValueError(
            "cos and sin must share a layout with contiguous rows; positions contiguous"
        )
    q = torch.empty((num_rows, num_heads * head_dim), dtype=qkv.dtype, device=qkv.device)
    block_h, num_warps = launch_settings(num_rows)
    # Without fused multiply-add the float32 norm rounds where the reference's does.
    _qk_norm_rope_store_kernel[(num_rows, -(-(num_heads + 2 * num_kv_heads) // block_h))](
        qkv,
        q_weight if q_weight is not None else qkv,
        k_weight if k_weight is not None else qkv,
        cos, sin, positions,
        positions if slots is None else slots,
        q, *cache,
        qkv.stride(0), cos.stride(0), *cache.stride()[1:4],
        eps,
        NUM_HEADS=num_heads, NUM_KV_HEADS=num_kv_heads, HEAD_DIM=head_dim,
        ROWS_PER_SLOT=rows_per_slot,
        HAS_SLOTS=slots is not None, HAS_NORM=q_weight is not None,
        BLOCK_H=block_h, BLOCK_D=next_power_of_2(head_dim // 2),
        num_warps=num_warps, enable_fp_fusion=False, **launch_options(),
    )  # fmt: skip
    return q
