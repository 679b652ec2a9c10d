"""Causal attention over packed prompts: the tokens of all rows one after the other, no padding.

    out[t] = softmax(D_h^-0.5 * q[t] . K[0..p]) . V[0..p]     for each head, p = positions[t]

q is (T, H * D_h); K and V are in the static cache (2, N, H_kv, S, D_h), where `qk_norm_rope_store`
put them just before; token t belongs to the row in slot slots[t] and has position positions[t].
Tokens of a row are neighbours with rising positions, from 0 or from the end of its slot's content;
the slot distinguishes rows. Tokens with slot -1 are padding: they come last, read nothing and give
zeros.

A launch depends on the number of tokens alone, which suits one CUDA graph per bucket; a padded (B,
T) batch would waste time on padding, and every length would be a new shape. A program owns a tile
of tokens of one head and processes its rows one after the other, a block of a row's keys at a time:
online softmax as in FlashAttention (Dao et al., 2022). Blocks begin at a row's position 0, and keys
of other rows add exact zeros. So the result of a row does not depend on its place in a pass, its
neighbours, or whether the pass contains all of the row or only its end.

Rounding: scores, softmax and sums are float32. The weights of the softmax are rounded to the dtype
before they multiply the values (not in the reference); the result is rounded once, at the end.
"""

from __future__ import annotations

from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.attention.rope import query_heads
from kernels.launch.dispatch import factor, jit, next_power_of_2, tl, use_triton
from kernels.launch.op import op

# On a CPU the sums of attention depend on its length. In multiples of this many positions they are
# the same whether a prompt fills the last block or not.
WHOLE = 32
MAX_MASKED = 1024  # tokens that the reference on a GPU attends to in one product


def prefill_attention_ref(q: Tensor, cache: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
    """Plain PyTorch in float32. Row by row if the host can read values (a CPU), and for more
    tokens than any graph has; elsewhere rows must begin at position 0 (`can_go_on`).
    """
    if q.device.type != "cpu" and len(q) <= MAX_MASKED:
        return _attend_masked(q, cache, slots, positions)
    num_kv_heads, head_dim = cache.shape[2], cache.shape[4]
    num_heads = q.shape[1] // head_dim

    def whole(x: Tensor, before: int = 0) -> Tensor:
        """Pad (T, heads, D_h) to (1, heads, T', D_h) with zeros before, and up to a whole block."""
        behind = -(before + len(x)) % WHOLE
        return F.pad(x.float(), (0, 0, 0, 0, before, behind)).transpose(0, 1)[None]

    out = torch.zeros_like(q)
    places, first = positions.tolist(), 0
    for slot, row in groupby(slots.tolist()):
        if slot < 0:
            break
        last = first + len(list(row))
        start, length = places[first], places[last - 1] + 1
        keys, values = (whole(x.transpose(0, 1)) for x in cache[:, slot, :, :length])
        attended = F.scaled_dot_product_attention(
            # With queries for cached positions too, rounding is that of a pass over the whole row.
            whole(q[first:last].view(-1, num_heads, head_dim), start),
            keys,
            values,
            is_causal=True,
            scale=head_dim**-0.5,
            enable_gqa=num_heads != num_kv_heads,
        )[0, :, start:length]
        out[first:last] = attended.transpose(0, 1).flatten(1).to(q.dtype)
        first = last
    return out


def _attend_masked(q: Tensor, cache: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
    """Attend from every token to every other, masked to the earlier tokens of its row. Shapes
    depend on those of the arguments alone, so it can be captured. It reads only the keys of
    these tokens.
    """
    num_kv_heads, head_dim = cache.shape[2], cache.shape[4]
    is_real = slots >= 0
    is_seen = (slots[:, None] == slots) & (positions[:, None] >= positions)  # (T, T)
    owner = slots.clamp(min=0)
    keys = cache[0][owner, :, positions].float().transpose(0, 1)  # (H_kv, T, D_h)
    values = cache[1][owner, :, positions].float().transpose(0, 1)
    queries = q.view(len(q), num_kv_heads, -1, head_dim).float().permute(1, 2, 0, 3)
    scores = queries @ keys[:, None].transpose(2, 3) * head_dim**-0.5  # (H_kv, group, T, T)
    weights = scores.masked_fill(~is_seen, float("-inf")).softmax(-1)
    # A weight of zero does not silence a NaN: rows that attend to one get it separately.
    is_odd = ~values.isfinite()
    out = weights @ values.masked_fill(is_odd, 0.0)[:, None]
    is_hit = (is_seen & is_odd.any(-1)[:, None]).any(-1)  # (H_kv, T)
    out = out.masked_fill(is_hit[:, None, :, None], float("nan"))
    out = out.permute(2, 0, 1, 3).reshape(q.shape).to(q.dtype)
    return out.masked_fill(~is_real[:, None], 0.0)


@jit
def _prefill_attention_kernel(
    q_ptr, keys_ptr, values_ptr, slots_ptr, positions_ptr, out_ptr,
    num_tokens,
    q_stride, slot_stride, head_stride, position_stride,
    scale,
    NUM_HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    kv_head = (head // GROUP).to(tl.int64)
    token = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    is_token = token < num_tokens
    slot = tl.load(slots_ptr + token, mask=is_token, other=-1)
    is_real = slot >= 0
    position = tl.load(positions_ptr + token, mask=is_real, other=0).to(tl.int32)
    first = tile * BLOCK_M
    end = first + tl.sum(is_real.to(tl.int32), axis=0)  # a tile of padding alone reads nothing

    dim = tl.arange(0, BLOCK_D)
    is_dim = dim < HEAD_DIM
    tile_s = tl.arange(0, BLOCK_S)
    q_offset = token[:, None].to(tl.int64) * q_stride + head * HEAD_DIM + dim[None, :]
    q = factor(tl.load(q_ptr + q_offset, mask=is_real[:, None] & is_dim[None, :], other=0.0))
    k_base = keys_ptr + kv_head * head_stride
    v_base = values_ptr + kv_head * head_stride
    highest = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    mixed = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    while first < end:  # a row of the tile after the other
        key_slot = tl.load(slots_ptr + first)
        is_row = slot == key_slot
        num_keys = tl.max(tl.where(is_row, position + 1, 0), axis=0)
        k_row = k_base + key_slot * slot_stride
        v_row = v_base + key_slot * slot_stride
        for start in range(0, num_keys, BLOCK_S):
            place = start + tile_s
            is_key = place < num_keys
            k_offset = place[None, :].to(tl.int64) * position_stride + dim[:, None]
            k = tl.load(k_row + k_offset, mask=is_dim[:, None] & is_key[None, :], other=0.0)
            v_offset = place[:, None].to(tl.int64) * position_stride + dim[None, :]
            v = tl.load(v_row + v_offset, mask=is_key[:, None] & is_dim[None, :], other=0.0)
            # A weight of zero does not silence a NaN of another row, so values that are not finite
            # become 0 here, and their own row learns of them through its scores.
            wide = v.to(tl.float32)
            poison = tl.sum(wide * 0.0, axis=1)
            v = factor(tl.where(tl.abs(wide) < float("inf"), wide, 0.0).to(v.dtype))
            scores = tl.dot(q, factor(k), input_precision="ieee") * scale + poison[None, :]
            is_seen = is_row[:, None] & (place[None, :] <= position[:, None])
            scores = tl.where(is_seen, scores, -1e30)
            new_highest = tl.maximum(highest, tl.max(scores, axis=1))
            fade = tl.exp(highest - new_highest)
            # Exact zeros for masked keys, and a fade of exactly 1: another row's block changes
            # nothing.
            weight = tl.where(is_seen, tl.exp(scores - new_highest[:, None]), 0.0)
            total = total * fade + tl.sum(weight, axis=1)
            mixed = mixed * fade[:, None]
            mixed += tl.dot(weight.to(v.dtype), v, input_precision="ieee")
            highest = new_highest
        first += tl.sum(is_row.to(tl.int32), axis=0)  # at least 1

    mixed = mixed / tl.where(is_real, total, 1.0)[:, None]
    mixed = tl.where(is_real[:, None], mixed, 0.0).to(out_ptr.dtype.element_ty)
    out_offset = (token[:, None].to(tl.int64) * NUM_HEADS + head) * HEAD_DIM + dim[None, :]
    tl.store(out_ptr + out_offset, mixed, mask=is_token[:, None] & is_dim[None, :])


def launch_settings(dtype: torch.dtype, num_tokens: int) -> tuple[int, int, int, int]:
    """Tokens and keys per tile, warps, pipeline stages; small tiles spread a short prompt."""
    if dtype == torch.float32 or num_tokens <= 64:
        return 32, 32, 4, 1
    return 64, 64, 4, 2


def can_go_on(like: Tensor) -> bool:
    """Whether rows may continue after the content of their slots, by any tensor of the device:
    everywhere but in the reference on a GPU, which reads the keys of its own tokens alone.
    """
    return like.device.type == "cpu" or use_triton(like)


@op(prefill_attention_ref)
def prefill_attention(q: Tensor, cache: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
    """Attention of T packed tokens, each over the positions of its row up to its own.

    Args:
        q: (T, H * D_h), H a multiple of H_kv, last dimension contiguous.
        cache: (2, N, H_kv, S, D_h) of q's dtype, already filled for these tokens and for earlier
            ones; may be a view.
        slots: (T,) int64, each token's slot, a different one for each row; -1 for padding at the
            end.
        positions: (T,) int64, each token's position in its row, rising from 0, or from a later one
            if `can_go_on`.
    Returns:
        (T, H * D_h), contiguous; zeros for padding. NaN in a row does not affect other rows.
    """
    num_tokens = q.shape[0]
    num_kv_heads, head_dim = cache.shape[2], cache.shape[4]
    num_heads = query_heads(q, cache)
    for name, values in (("slots", slots), ("positions", positions)):
        if values.shape != (num_tokens,) or not values.is_contiguous():
            raise ValueError(f"{name} must be contiguous ({num_tokens},), not {values.shape}")
    out = torch.empty((num_tokens, num_heads * head_dim), dtype=q.dtype, device=q.device)
    block_m, block_s, num_warps, num_stages = launch_settings(q.dtype, num_tokens)
    _prefill_attention_kernel[(-(-num_tokens // block_m), num_heads)](
        q, *cache, slots, positions, out,
        num_tokens,
        q.stride(0), *cache.stride()[1:4],
        head_dim**-0.5,
        NUM_HEADS=num_heads, GROUP=num_heads // num_kv_heads, HEAD_DIM=head_dim,
        BLOCK_M=block_m, BLOCK_S=block_s, BLOCK_D=max(16, next_power_of_2(head_dim)),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
