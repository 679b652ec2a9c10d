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

from kernels.dispatch import IS_INTERPRETED, next_power_of_2, use_triton
from kernels.persistent_kernel import _persistent_decoder_kernel
from kernels.persistent_vector import _persistent_vector_kernel


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
    # Weights brought into the L2 cache while waiting: 0 none, 1 the stage's, 2 the next product's.
    prefetch: int = 1
    # Bytes between the elements that bring a weight into the L2 cache: one load fetches a
    # sector of 32 and perhaps its neighbour, so 128 leaves part of each line behind.
    touch_bytes: int = 128
    # Wait with acquiring atomics instead of volatile loads: an empty barrier of 132 programs took
    # 0.87 us instead of 1.11 (4 warps) or 1.61 (8 warps) on an H200.
    use_atomic_poll: bool = False
    per_processor: int = 1  # programs a multiprocessor
    is_cooperative: bool = True
    # `kernels.persistent_vector` for one or two rows; of the above it heeds block_s, num_warps,
    # use_atomic_poll, per_processor and is_cooperative.
    is_vector: bool = False
    attention_splits: int = 1  # of a row's cache, a power of two; heeded by it alone
    num_programs: int = 0  # 0: per_processor times the multiprocessors


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


@lru_cache
def num_processors(device: torch.device) -> int:
    """Multiprocessors of a CUDA device; 1 elsewhere, where the interpreter runs one program."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


# Beyond, the separate operations are faster: a frame of the 0.6B model took 3.5 ms against 4.8 with
# one row, 8.5 against 4.1 with 64 and 23.7 against 6.5 with 256 (H200, PyTorch 2.11, Triton 3.6).
MAX_ROWS = 2
MAX_VECTOR_ROWS = 2
# Counters of a launch: arrivals, leavers, and one a row and KV head for attention in splits.
NUM_COUNTERS = 2 + 16 * MAX_VECTOR_ROWS
MAX_HELD_BYTES = 128 << 10  # of weights a program holds in registers: half of them
_use_vector = True
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


@contextmanager
def prefer_vector(is_on: bool = True) -> Iterator[None]:
    """Within the block, one or two rows keep the weights in registers, or do not."""
    global _use_vector
    before, _use_vector = _use_vector, is_on
    try:
        yield
    finally:
        _use_vector = before


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
    settings = choose_settings(weights, num_heads, num_rows, cache)
    if head is not None and not settings.is_vector and head.shape[0] % settings.head_n:
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


def vector_settings(num_positions: int = 16, num_rows: int = 2) -> Settings:
    """One or two rows with the weights in registers.

    128 programs: the products of the 0.6B models have 4096, 1024, 3072 and 2048 columns. Measured
    on an H200, microseconds of a step with 4 / 8 / 16 warps: code predictor 134 / 126 / 162, talker
    735 / 786 / 1,086; in tiles 145 and 1,186, as separate operations 221 and 1,312.
    """
    is_short = num_positions <= 32
    return Settings(
        is_vector=True,
        num_warps=8 if is_short or num_rows > 1 else 4,
        use_atomic_poll=True,
        attention_splits=1 if is_short else 16,
        num_programs=128,
    )


def choose_settings(
    weights: DecoderWeights, num_heads: int, num_rows: int, cache: Tensor
) -> Settings:
    """Weights in registers where they fit, else `default_settings`."""
    num_positions, head_dim = cache.shape[4], cache.shape[5]
    if _use_vector and num_rows <= MAX_VECTOR_ROWS:
        settings = vector_settings(num_positions, num_rows)
        if fits(weights, num_heads, head_dim, settings):
            return settings
    return default_settings(num_rows, num_positions)


def fits(weights: DecoderWeights, num_heads: int, head_dim: int, settings: Settings) -> bool:
    """Whether the shapes divide into the tiles of `settings`."""
    width, inner = weights.down.shape[1], weights.down.shape[2]
    mixed, qkv = weights.o.shape[2], weights.qkv.shape[1]
    depth = settings.block_k
    if settings.is_vector:
        programs = _num_programs(settings, weights.qkv.device)
        counts = ((qkv, width), (width, mixed), (2 * inner, width), (width, inner))
        held = max(-(-count // programs) * depth for count, depth in counts)
        is_held = programs == 1 or held * weights.qkv.itemsize <= MAX_HELD_BYTES
        return head_dim % 2 == 0 and mixed == num_heads * head_dim and is_held
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


def _num_programs(settings: Settings, device: torch.device) -> int:
    most = settings.per_processor * num_processors(device)
    return min(settings.num_programs or most, most)


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
        counters: (NUM_COUNTERS,) int32, zero before the first launch and left so. Launches that
            share counters must not overlap.
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
    settings = settings or choose_settings(weights, num_heads, num_rows, cache)
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
    head_n = 1 if settings.is_vector else settings.head_n
    if head is not None and (not head.is_contiguous() or head.shape[0] % head_n):
        raise ValueError(f"head {tuple(head.shape)} must be contiguous, in tiles of its rows")
    if counters.shape != (NUM_COUNTERS,):
        raise ValueError(f"counters {tuple(counters.shape)} must be ({NUM_COUNTERS},)")
    programs = programs or _num_programs(settings, x.device)
    if settings.is_vector:
        return _vector_step(
            weights, x, positions, cache, cos, sin, counters, num_heads, scale, eps, rows_per_slot,
            codes, head, settings, programs,
        )  # fmt: skip
    qkv_width, mixed = weights.qkv.shape[1], weights.o.shape[2]

    def empty(*shape: int, dtype: torch.dtype = x.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=x.device)

    out = empty(num_rows, width)
    logits = None if head is None else empty(num_rows, head.shape[0])
    splits = max(settings.o_splits, settings.down_splits)
    q_norms, k_norms = weights.q_norms, weights.k_norms
    options = {} if IS_INTERPRETED else {"launch_cooperative_grid": settings.is_cooperative}
    lines = max(width, mixed // settings.o_splits, inner // settings.down_splits)
    lines = lines * x.itemsize // settings.touch_bytes
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
        TOUCH_BYTES=settings.touch_bytes,
        PREFETCH=settings.prefetch if width * x.itemsize % 128 == 0 else 0,
        POLL_ATOMIC=settings.use_atomic_poll,
        UPCAST=IS_INTERPRETED,
        num_warps=settings.num_warps,
        **options,
    )
    return out, logits


def _columns(count: int, programs: int) -> tuple[int, int, int]:
    """Columns a program, their largest power of two, and one that holds the remaining."""
    per = max(1, -(-count // programs))
    first = 1 << (per.bit_length() - 1)
    return per, first, 0 if per == first else next_power_of_2(per - first)


def _vector_step(
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
    rows_per_slot: int,
    codes: Tensor | None,
    head: Tensor | None,
    settings: Settings,
    programs: int,
) -> tuple[Tensor, Tensor | None]:
    """`persistent_step` of one or two rows; arguments are checked."""
    num_rows = positions.shape[0]
    num_layers, width, inner = weights.down.shape
    num_kv_heads, head_dim = cache.shape[3], cache.shape[5]
    qkv_width, mixed = weights.qkv.shape[1], weights.o.shape[2]
    head_size = 0 if head is None else head.shape[0]
    if num_rows > MAX_VECTOR_ROWS or num_rows * num_kv_heads > NUM_COUNTERS - 2:
        raise ValueError(f"{num_rows} rows of {num_kv_heads} KV heads are too many for {settings}")

    def empty(*shape: int, dtype: torch.dtype = x.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=x.device)

    out = empty(num_rows, width)
    logits = None if head is None else empty(num_rows, head_size)
    splits = settings.attention_splits
    spans = num_rows * num_heads * splits
    q_norms, k_norms = weights.q_norms, weights.k_norms
    options = {} if IS_INTERPRETED else {"launch_cooperative_grid": settings.is_cooperative}
    for name, count in (("QKV", qkv_width), ("OUT", width), ("MLP", inner), ("HEAD", head_size)):
        per, first, more = _columns(count, programs)
        options |= {f"{name}_PER": per, f"{name}_A": first, f"{name}_B": more}
    _persistent_vector_kernel[(programs,)](
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
        empty(num_rows, width),
        empty(num_rows, qkv_width),
        empty(num_rows, mixed),
        empty(num_rows, inner),
        empty(spans, head_dim, dtype=torch.float32),
        empty(spans, 2, dtype=torch.float32),
        counters,
        num_layers,
        x.stride(0),
        0 if codes is None else codes.stride(0),
        cache.stride(0),
        cache.stride(2),
        cache.stride(3),
        eps,
        scale,
        ROWS=num_rows,
        WIDTH=width,
        INNER=inner,
        HEAD_SIZE=head_size,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        ROWS_PER_SLOT=rows_per_slot,
        HAS_QK_NORM=q_norms is not None,
        HAS_CODES=codes is not None,
        SPLITS=splits,
        BLOCK_S=settings.block_s,
        BLOCK_H=next_power_of_2(head_dim // 2),
        BLOCK_D=next_power_of_2(width),
        BLOCK_MIXED=next_power_of_2(mixed),
        BLOCK_INNER=next_power_of_2(inner),
        POLL_ATOMIC=settings.use_atomic_poll,
        num_warps=settings.num_warps,
        **options,
    )
    return out, logits
