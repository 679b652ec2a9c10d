"""A whole decoder step, all its layers, in one launch.

A decode step is a chain of small operations: at a few hundred rows the GPU waits for launches and
for the first bytes of each kernel, not for arithmetic. Here one program a multiprocessor stays for
the whole step and takes its share of every stage; between stages programs wait for each other on
a counter in global memory. One layer is

    norm | q/k/v | QK norm, RoPE, cache, attention | o | add, norm | gate, up, SwiGLU | down | add

and the norm behind `down` is the next layer's first. Products with few columns are split along K;
their float32 parts are summed in fixed order by the stage behind, so a step is the same at every
replay. Rounding points are those of the separate operations (`rms_norm`, `qk_norm_rope_store`,
`decode_attention`, `swiglu`), which remain as the slow twin in `models.blocks.Decoder.step`.

The counter only grows during a launch, and every stage knows the count it waits for, so a program
without work in a stage neither waits nor arrives. The last program to leave sets it back to zero:
the host never does, and a recorded launch can be replayed.

All programs must run at once, or the first would wait for ever: the grid is no larger than the
multiprocessors and launched cooperatively, which makes the driver check it.

Source of the counter scheme: the usual grid barrier of cooperative kernels, with partial arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from kernels.dispatch import IS_INTERPRETED, jit, next_power_of_2, tl, use_triton
from kernels.persistent_stages import (
    arrive,
    attend_tile,
    keep,
    mlp_tile,
    norm_tile,
    product_tile,
    touch,
    wait_for,
)


@dataclass(frozen=True)
class Settings:
    """How the work of a step is cut."""

    block_m: int = 16  # rows a tile
    qkv_n: int = 32  # columns a tile, by product
    o_n: int = 32
    mlp_n: int = 32  # of gate and as many of up
    down_n: int = 32
    head_n: int = 16
    o_splits: int = 4  # of K
    down_splits: int = 4
    block_k: int = 128
    num_stages: int = 4
    num_warps: int = 4
    tasks: int = 1  # pairs of slot and KV head one program attends to at a time
    block_s: int = 16  # cache positions a step of attention
    attention_stages: int = 1
    norm_rows: int = 1  # rows a program normalises at a time
    # Every program normalises all rows for itself instead of waiting for those that do.
    is_redundant: bool = False
    use_prefetch: bool = True  # bring weights into the L2 cache while waiting
    use_atomic_poll: bool = False  # wait with acquiring atomics instead of volatile loads
    per_processor: int = 1  # programs a multiprocessor
    is_cooperative: bool = True


@dataclass(frozen=True)
class DecoderWeights:
    """All layers' weights of one kind stacked, so that one pointer and a stride reach each."""

    qkv: Tensor  # (L, (H + 2 H_kv) D_h, D)
    o: Tensor  # (L, D, H D_h)
    gate_up: Tensor  # (L, 2I, D)
    down: Tensor  # (L, D, I)
    norms: Tensor  # (L + 1, D): each layer's first norm, then the final one
    post_norms: Tensor  # (L, D)
    q_norms: Tensor | None  # (L, D_h)
    k_norms: Tensor | None


# Compiled once for all numbers of rows that share their settings, and for any column of codes.
@jit(
    do_not_specialize=["num_rows", "num_layers", "codes_stride"],
    do_not_specialize_on_alignment=["codes_ptr"],
)
def _persistent_decoder_kernel(
    x_ptr,
    codes_ptr,
    positions_ptr,
    qkv_w_ptr,
    o_w_ptr,
    gate_up_w_ptr,
    down_w_ptr,
    norms_ptr,
    post_norms_ptr,
    q_norms_ptr,
    k_norms_ptr,
    head_w_ptr,
    cos_ptr,
    sin_ptr,
    keys_ptr,
    values_ptr,
    out_ptr,
    logits_ptr,
    residual_ptr,
    hidden_ptr,
    qkv_ptr,
    attended_ptr,
    act_ptr,
    parts_ptr,
    counters_ptr,
    num_rows,
    num_layers,
    head_size,
    x_stride,
    codes_stride,
    layer_stride,
    slot_stride,
    head_stride,
    eps,
    scale,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROWS_PER_SLOT: tl.constexpr,
    HAS_QK_NORM: tl.constexpr,
    HAS_CODES: tl.constexpr,
    HAS_HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    QKV_N: tl.constexpr,
    O_N: tl.constexpr,
    MLP_N: tl.constexpr,
    DOWN_N: tl.constexpr,
    HEAD_N: tl.constexpr,
    O_SPLITS: tl.constexpr,
    DOWN_SPLITS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    TASKS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    ATTENTION_STAGES: tl.constexpr,
    NORM_ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_LINES: tl.constexpr,
    REDUNDANT: tl.constexpr,
    PREFETCH: tl.constexpr,
    POLL_ATOMIC: tl.constexpr,
    UPCAST: tl.constexpr,
):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    MIXED: tl.constexpr = NUM_HEADS * HEAD_DIM
    O_SPAN: tl.constexpr = MIXED // O_SPLITS
    DOWN_SPAN: tl.constexpr = INNER // DOWN_SPLITS
    LINE: tl.constexpr = 1024 // x_ptr.dtype.element_ty.primitive_bitwidth
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    m_tiles = tl.cdiv(num_rows, BLOCK_M)
    qkv_tiles = m_tiles * (QKV // QKV_N)
    o_tiles = m_tiles * (WIDTH // O_N) * O_SPLITS
    mlp_tiles = m_tiles * (INNER // MLP_N)
    down_tiles = m_tiles * (WIDTH // DOWN_N) * DOWN_SPLITS
    tasks = num_rows // ROWS_PER_SLOT * NUM_KV_HEADS
    task_tiles = tl.cdiv(tasks, TASKS)
    norm_tiles = tl.cdiv(num_rows, NORM_ROWS)
    # Norms go to the programs at the end of the grid, which have the least to do elsewhere.
    last = programs - 1 - pid
    tile_rows = tl.arange(0, BLOCK_M)
    norm_lines = tl.arange(0, NORM_ROWS)
    own_hidden = hidden_ptr
    if REDUNDANT:
        own_hidden += pid.to(tl.int64) * num_rows * WIDTH
    spare_ptr = residual_ptr + num_rows * WIDTH
    is_first = pid == 0
    long_zero = tl.zeros((), tl.int64)
    arrived = 0

    if not REDUNDANT:
        if last < norm_tiles:
            for tile in range(last, norm_tiles, programs):
                rows = tile * NORM_ROWS + norm_lines
                source_rows = rows.to(tl.int64)
                if HAS_CODES:
                    code = tl.load(
                        codes_ptr + source_rows * codes_stride, mask=rows < num_rows, other=0
                    )
                    source_rows = tl.maximum(code, 0)
                norm_tile(
                    x_ptr, source_rows, x_stride, parts_ptr, residual_ptr, norms_ptr, hidden_ptr,
                    rows, num_rows, True, eps, 0, WIDTH, BLOCK_D,
                )  # fmt: skip
            arrive(counters_ptr)
        arrived += tl.minimum(norm_tiles, programs)

    for layer in range(num_layers):
        long_layer = long_zero + layer
        # Norm (where each program does it for itself) and q/k/v.
        if pid < qkv_tiles:
            w_ptr = qkv_w_ptr + long_layer * (QKV * WIDTH)
            if PREFETCH:
                kept = touch(
                    w_ptr, pid // m_tiles * QKV_N, 0, WIDTH, QKV_N, WIDTH // LINE, BLOCK_LINES
                )
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            if PREFETCH:
                keep(parts_ptr, kept)
            if REDUNDANT:
                for first in range(0, num_rows, NORM_ROWS):
                    rows = first + norm_lines
                    source_rows = rows.to(tl.int64)
                    if layer == 0:
                        if HAS_CODES:
                            code = tl.load(
                                codes_ptr + source_rows * codes_stride,
                                mask=rows < num_rows,
                                other=0,
                            )
                            source_rows = tl.maximum(code, 0)
                        norm_tile(
                            x_ptr, source_rows, x_stride, parts_ptr, residual_ptr, norms_ptr,
                            own_hidden, rows, num_rows, is_first, eps, 0, WIDTH, BLOCK_D,
                        )  # fmt: skip
                    else:
                        norm_tile(
                            spare_ptr, source_rows, WIDTH, parts_ptr, residual_ptr,
                            norms_ptr + layer * WIDTH, own_hidden, rows, num_rows, is_first, eps,
                            DOWN_SPLITS, WIDTH, BLOCK_D,
                        )  # fmt: skip
                tl.debug_barrier()
            for tile in range(pid, qkv_tiles, programs):
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = tile // m_tiles * QKV_N + tl.arange(0, QKV_N)
                out = product_tile(
                    own_hidden, w_ptr, rows, cols, 0, num_rows, WIDTH, WIDTH, WIDTH, BLOCK_K,
                    STAGES, UPCAST,
                )  # fmt: skip
                target = qkv_ptr + rows[:, None] * QKV + cols[None, :]
                tl.store(target, out.to(dtype), mask=(rows < num_rows)[:, None])
            arrive(counters_ptr)
        arrived += tl.minimum(qkv_tiles, programs)

        # Attention.
        if pid < task_tiles:
            for tile in range(pid, task_tiles, programs):
                attend_tile(
                    qkv_ptr, q_norms_ptr + layer * HEAD_DIM, k_norms_ptr + layer * HEAD_DIM,
                    cos_ptr, sin_ptr, positions_ptr, keys_ptr + long_layer * layer_stride,
                    values_ptr + long_layer * layer_stride, attended_ptr, counters_ptr, arrived,
                    tile * TASKS, tasks, slot_stride, head_stride, eps, scale, NUM_HEADS,
                    NUM_KV_HEADS, HEAD_DIM, ROWS_PER_SLOT, HAS_QK_NORM, TASKS, BLOCK_S, BLOCK_H,
                    ATTENTION_STAGES, POLL_ATOMIC,
                )  # fmt: skip
            arrive(counters_ptr)
        arrived += tl.minimum(task_tiles, programs)

        # Output projection, in parts.
        if pid < o_tiles:
            w_ptr = o_w_ptr + long_layer * (WIDTH * MIXED)
            N_TILES: tl.constexpr = WIDTH // O_N
            if PREFETCH:
                unit = pid // m_tiles
                kept = touch(
                    w_ptr, unit % N_TILES * O_N, unit // N_TILES * O_SPAN, MIXED, O_N,
                    O_SPAN // LINE, BLOCK_LINES,
                )  # fmt: skip
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            if PREFETCH:
                keep(parts_ptr, kept)
            for tile in range(pid, o_tiles, programs):
                unit = tile // m_tiles
                split = unit // N_TILES
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = unit % N_TILES * O_N + tl.arange(0, O_N)
                out = product_tile(
                    attended_ptr, w_ptr, rows, cols, split * O_SPAN, num_rows, MIXED, MIXED, O_SPAN,
                    BLOCK_K, STAGES, UPCAST,
                )  # fmt: skip
                target = parts_ptr + (split * num_rows + rows)[:, None] * WIDTH + cols[None, :]
                tl.store(target, out, mask=(rows < num_rows)[:, None])
            arrive(counters_ptr)
        arrived += tl.minimum(o_tiles, programs)

        # Residual and second norm.
        post_ptr = post_norms_ptr + layer * WIDTH
        if not REDUNDANT:
            if last < norm_tiles:
                wait_for(counters_ptr, arrived, POLL_ATOMIC)
                for tile in range(last, norm_tiles, programs):
                    rows = tile * NORM_ROWS + norm_lines
                    norm_tile(
                        residual_ptr, rows.to(tl.int64), WIDTH, parts_ptr, spare_ptr, post_ptr,
                        hidden_ptr, rows, num_rows, True, eps, O_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
                arrive(counters_ptr)
            arrived += tl.minimum(norm_tiles, programs)

        # Gate, up and SwiGLU.
        if pid < mlp_tiles:
            w_ptr = gate_up_w_ptr + long_layer * (2 * INNER * WIDTH)
            if PREFETCH:
                col = pid // m_tiles * MLP_N
                kept = touch(w_ptr, col, 0, WIDTH, MLP_N, WIDTH // LINE, BLOCK_LINES)
                kept_up = touch(w_ptr, INNER + col, 0, WIDTH, MLP_N, WIDTH // LINE, BLOCK_LINES)
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            if PREFETCH:
                keep(parts_ptr, kept)
                keep(parts_ptr, kept_up)
            if REDUNDANT:
                for first in range(0, num_rows, NORM_ROWS):
                    rows = first + norm_lines
                    norm_tile(
                        residual_ptr, rows.to(tl.int64), WIDTH, parts_ptr, spare_ptr, post_ptr,
                        own_hidden, rows, num_rows, is_first, eps, O_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
                tl.debug_barrier()
            for tile in range(pid, mlp_tiles, programs):
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = tile // m_tiles * MLP_N + tl.arange(0, MLP_N)
                act = mlp_tile(
                    own_hidden, w_ptr, rows, cols, num_rows, WIDTH, INNER, BLOCK_K, STAGES, UPCAST
                )
                target = act_ptr + rows[:, None] * INNER + cols[None, :]
                tl.store(target, act, mask=(rows < num_rows)[:, None])
            arrive(counters_ptr)
        arrived += tl.minimum(mlp_tiles, programs)

        # Down, in parts.
        if pid < down_tiles:
            w_ptr = down_w_ptr + long_layer * (WIDTH * INNER)
            DOWN_TILES: tl.constexpr = WIDTH // DOWN_N
            if PREFETCH:
                unit = pid // m_tiles
                kept = touch(
                    w_ptr, unit % DOWN_TILES * DOWN_N, unit // DOWN_TILES * DOWN_SPAN, INNER,
                    DOWN_N, DOWN_SPAN // LINE, BLOCK_LINES,
                )  # fmt: skip
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            if PREFETCH:
                keep(parts_ptr, kept)
            for tile in range(pid, down_tiles, programs):
                unit = tile // m_tiles
                split = unit // DOWN_TILES
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = unit % DOWN_TILES * DOWN_N + tl.arange(0, DOWN_N)
                out = product_tile(
                    act_ptr, w_ptr, rows, cols, split * DOWN_SPAN, num_rows, INNER, INNER,
                    DOWN_SPAN, BLOCK_K, STAGES, UPCAST,
                )  # fmt: skip
                target = parts_ptr + (split * num_rows + rows)[:, None] * WIDTH + cols[None, :]
                tl.store(target, out, mask=(rows < num_rows)[:, None])
            arrive(counters_ptr)
        arrived += tl.minimum(down_tiles, programs)

        # Residual and the next layer's first norm, or the final one.
        if not REDUNDANT:
            if last < norm_tiles:
                wait_for(counters_ptr, arrived, POLL_ATOMIC)
                target_ptr = hidden_ptr
                if layer + 1 == num_layers:
                    target_ptr = out_ptr
                for tile in range(last, norm_tiles, programs):
                    rows = tile * NORM_ROWS + norm_lines
                    norm_tile(
                        spare_ptr, rows.to(tl.int64), WIDTH, parts_ptr, residual_ptr,
                        norms_ptr + (layer + 1) * WIDTH, target_ptr, rows, num_rows, True, eps,
                        DOWN_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
                arrive(counters_ptr)
            arrived += tl.minimum(norm_tiles, programs)

    head_tiles = 0
    if HAS_HEAD:
        head_tiles = m_tiles * (head_size // HEAD_N)
    if REDUNDANT:  # noqa: SIM102 - a constant: what it excludes is not compiled
        if is_first | (pid < head_tiles):
            wait_for(counters_ptr, arrived, POLL_ATOMIC)
            for first in range(0, num_rows, NORM_ROWS):
                rows = first + norm_lines
                last_norm_ptr = norms_ptr + num_layers * WIDTH
                norm_tile(
                    spare_ptr, rows.to(tl.int64), WIDTH, parts_ptr, residual_ptr, last_norm_ptr,
                    own_hidden, rows, num_rows, False, eps, DOWN_SPLITS, WIDTH, BLOCK_D,
                )  # fmt: skip
                if is_first:
                    norm_tile(
                        spare_ptr, rows.to(tl.int64), WIDTH, parts_ptr, residual_ptr, last_norm_ptr,
                        out_ptr, rows, num_rows, False, eps, DOWN_SPLITS, WIDTH, BLOCK_D,
                    )  # fmt: skip
            tl.debug_barrier()
    if HAS_HEAD:
        source_ptr = out_ptr
        if REDUNDANT:
            source_ptr = own_hidden
        if pid < head_tiles:
            if not REDUNDANT:
                if PREFETCH:
                    kept = touch(
                        head_w_ptr, pid // m_tiles * HEAD_N, 0, WIDTH, HEAD_N, WIDTH // LINE,
                        BLOCK_LINES,
                    )  # fmt: skip
                wait_for(counters_ptr, arrived, POLL_ATOMIC)
                if PREFETCH:
                    keep(parts_ptr, kept)
            for tile in range(pid, head_tiles, programs):
                rows = tile % m_tiles * BLOCK_M + tile_rows
                cols = tile // m_tiles * HEAD_N + tl.arange(0, HEAD_N)
                out = product_tile(
                    source_ptr, head_w_ptr, rows, cols, 0, num_rows, WIDTH, WIDTH, WIDTH, BLOCK_K,
                    STAGES, UPCAST,
                )  # fmt: skip
                target = logits_ptr + rows[:, None] * head_size + cols[None, :]
                tl.store(target, out.to(dtype), mask=(rows < num_rows)[:, None])

    # Whoever leaves last finds nobody waiting and clears the counters for the next launch.
    tl.debug_barrier()
    left = tl.atomic_add(counters_ptr + 1, 1, sem="acq_rel", scope="gpu")
    if left == programs - 1:
        tl.store(counters_ptr, 0)
        tl.store(counters_ptr + 1, 0)


@lru_cache
def num_processors(device: torch.device) -> int:
    """Multiprocessors of a CUDA device; 1 elsewhere, where the interpreter runs one program."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


MAX_ROWS = 256  # beyond, the separate operations are faster
_max_rows = MAX_ROWS
_DTYPES = (torch.bfloat16, torch.float16)


@contextmanager
def limit_rows(rows: int) -> Iterator[None]:
    """Within the block, only steps of at most `rows` rows take the persistent launch; 0: none."""
    global _max_rows
    before, _max_rows = _max_rows, rows
    try:
        yield
    finally:
        _max_rows = before


def use_persistent(
    weights: DecoderWeights,
    x: Tensor,
    num_rows: int,
    num_heads: int,
    cache: Tensor,
    head: Tensor | None = None,
) -> bool:
    """Whether a step of `num_rows` rows runs as one launch: Triton, a half-width dtype (float32
    products would want other tiles), not more rows than `MAX_ROWS`, shapes that divide into tiles.
    """
    if num_rows > _max_rows or x.dtype not in _DTYPES or not use_triton(x):
        return False
    settings = default_settings(num_rows, cache.shape[4])
    if head is not None and head.shape[0] % settings.head_n:
        return False
    return fits(weights, num_heads, cache.shape[5], settings)


def default_settings(num_rows: int, num_positions: int = 16) -> Settings:
    """Settings by rows and cache length, for the widths of the 0.6B models."""
    is_short = num_positions <= 32
    if num_rows <= 2:
        return Settings(is_redundant=True, norm_rows=num_rows, block_s=16 if is_short else 32)
    if num_rows <= 16:
        return Settings(block_s=16 if is_short else 32)
    if num_rows <= 32:
        return Settings(block_m=32, tasks=2)
    if num_rows <= 64:
        return Settings(block_m=64, tasks=4, num_warps=8)
    if num_rows <= 128:
        return Settings(
            block_m=64,
            qkv_n=64,
            o_n=64,
            mlp_n=64,
            down_n=64,
            head_n=32,
            tasks=4,
            block_k=64,
            num_warps=8,
        )
    return Settings(
        block_m=128,
        qkv_n=128,
        o_n=64,
        mlp_n=64,
        down_n=64,
        head_n=64,
        tasks=4,
        block_k=64,
        num_stages=3,
        num_warps=8,
        norm_rows=2,
    )


def fits(weights: DecoderWeights, num_heads: int, head_dim: int, settings: Settings) -> bool:
    """Whether the shapes divide into the tiles of `settings`."""
    width, inner = weights.down.shape[1], weights.down.shape[2]
    mixed, qkv = weights.o.shape[2], weights.qkv.shape[1]
    depth = settings.block_k
    return (
        head_dim % 2 == 0
        and mixed == num_heads * head_dim
        and qkv % settings.qkv_n == 0
        and width % settings.o_n == 0
        and width % settings.down_n == 0
        and inner % settings.mlp_n == 0
        and width % depth == 0
        and mixed % (settings.o_splits * depth) == 0
        and inner % (settings.down_splits * depth) == 0
    )


def persistent_step(
    weights: DecoderWeights,
    x: Tensor,
    positions: Tensor,
    cache: Tensor,
    cos: Tensor,
    sin: Tensor,
    counters: Tensor,
    num_heads: int,
    scale: float,
    eps: float,
    rows_per_slot: int = 1,
    codes: Tensor | None = None,
    head: Tensor | None = None,
    settings: Settings | None = None,
    programs: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """One new position a row through all layers and the final norm.

    Args:
        weights: L layers; every tensor contiguous, one dtype.
        x: (R, D) inputs, kept; with `codes` an embedding table (V, D).
        positions: (R,) int64 cache positions to write; a row sees 0..its position.
        cache: (L, 2, N, H_kv, S, D_h), keys and values, contiguous.
        cos, sin: (S, D_h) tables of x's dtype.
        counters: (2,) int32, zero before the first launch and left so. Launches that share
            counters must not overlap.
        rows_per_slot: consecutive rows that share a slot, at rising positions.
        codes: (R,) int64 rows of the table to start from, may be strided; below 0 counts as 0.
        head: (V, D) weight of a last product, contiguous, or None.
        programs: grid size; default one (or `per_processor`) a multiprocessor.
    Returns:
        hidden states (R, D) after the final norm, and logits (R, V) or None.
    Raises:
        ValueError: shapes that do not divide into the tiles, or tensors of another layout.
    """
    num_rows = positions.shape[0]
    settings = settings or default_settings(num_rows, cache.shape[4])
    num_layers, width, inner = weights.down.shape
    _, _, num_slots, num_kv_heads, num_positions, head_dim = cache.shape
    if not fits(weights, num_heads, head_dim, settings):
        raise ValueError(f"width {width}, MLP {inner} and {num_heads} heads do not fit {settings}")
    if num_rows % rows_per_slot or num_rows > num_slots * rows_per_slot:
        raise ValueError(f"{num_rows} rows, {rows_per_slot} a slot, do not fit {num_slots} slots")
    if codes is None and x.shape != (num_rows, width):
        raise ValueError(f"x {tuple(x.shape)} must be ({num_rows}, {width})")
    if not cache.is_contiguous() or not positions.is_contiguous() or x.stride(1) != 1:
        raise ValueError("cache and positions must be contiguous, x with contiguous rows")
    if cos.shape[0] < num_positions or not (cos.is_contiguous() and sin.is_contiguous()):
        raise ValueError("cos and sin must be contiguous and as long as the cache")
    if head is not None and (not head.is_contiguous() or head.shape[0] % settings.head_n):
        raise ValueError(f"head {tuple(head.shape)} must be contiguous, in tiles of its rows")
    programs = programs or settings.per_processor * num_processors(x.device)
    qkv_width, mixed = weights.qkv.shape[1], weights.o.shape[2]

    def empty(*shape: int, dtype: torch.dtype = x.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=x.device)

    out = empty(num_rows, width)
    logits = None if head is None else empty(num_rows, head.shape[0])
    splits = max(settings.o_splits, settings.down_splits)
    q_norms, k_norms = weights.q_norms, weights.k_norms
    options = {} if IS_INTERPRETED else {"launch_cooperative_grid": settings.is_cooperative}
    lines = max(width, mixed // settings.o_splits, inner // settings.down_splits)
    lines = lines * x.itemsize // 128
    _persistent_decoder_kernel[(programs,)](
        x,
        positions if codes is None else codes,
        positions,
        weights.qkv,
        weights.o,
        weights.gate_up,
        weights.down,
        weights.norms,
        weights.post_norms,
        weights.norms if q_norms is None else q_norms,
        weights.norms if k_norms is None else k_norms,
        x if head is None else head,
        cos,
        sin,
        cache,
        cache[:, 1:],
        out,
        out if logits is None else logits,
        empty(2, num_rows, width),
        empty(programs if settings.is_redundant else 1, num_rows, width),
        empty(num_rows, qkv_width),
        empty(num_rows, mixed),
        empty(num_rows, inner),
        empty(splits, num_rows, width, dtype=torch.float32),
        counters,
        num_rows,
        num_layers,
        0 if head is None else head.shape[0],
        x.stride(0),
        0 if codes is None else codes.stride(0),
        cache.stride(0),
        cache.stride(2),
        cache.stride(3),
        eps,
        scale,
        WIDTH=width,
        INNER=inner,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        ROWS_PER_SLOT=rows_per_slot,
        HAS_QK_NORM=q_norms is not None,
        HAS_CODES=codes is not None,
        HAS_HEAD=head is not None,
        BLOCK_M=settings.block_m,
        QKV_N=settings.qkv_n,
        O_N=settings.o_n,
        MLP_N=settings.mlp_n,
        DOWN_N=settings.down_n,
        HEAD_N=settings.head_n,
        O_SPLITS=settings.o_splits,
        DOWN_SPLITS=settings.down_splits,
        BLOCK_K=settings.block_k,
        STAGES=settings.num_stages,
        TASKS=settings.tasks,
        BLOCK_S=settings.block_s,
        ATTENTION_STAGES=settings.attention_stages,
        NORM_ROWS=settings.norm_rows,
        BLOCK_D=next_power_of_2(width),
        BLOCK_H=next_power_of_2(head_dim // 2),
        BLOCK_LINES=next_power_of_2(max(1, lines)),
        REDUNDANT=settings.is_redundant,
        PREFETCH=settings.use_prefetch and width * x.itemsize % 128 == 0,
        POLL_ATOMIC=settings.use_atomic_poll,
        UPCAST=IS_INTERPRETED,
        num_warps=settings.num_warps,
        **options,
    )
    return out, logits
