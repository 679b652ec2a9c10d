"""A whole decoder step of one slot, all its layers, in one launch.

With one row a step is a chain of small operations: the GPU waits for launches and for the first
bytes of each kernel, not for arithmetic. Here the programs run for the whole step and each takes a
share of every stage; between stages they wait for each other on a counter in global memory. A layer
has five waits:

    norm, q/k/v | QK norm, RoPE, cache, attention | o, add | norm, gate, up, SwiGLU | down, add

A program loads its columns of a stage's weight into registers before it waits for the stage's input
(`kernels.persistent.kernel`). Rounding points are those of the separate operations (`rms_norm`,
`row_linear`, `qk_norm_rope_store`, `decode_attention`, `swiglu`), which remain as the slow twin in
`models.decoder.decoder.Decoder.step`; all sums have a fixed order, so a step is the same at every
replay.

A frame of the 0.6B model takes 2.601 ms in 43 launches against 3.643 in 835 separate operations
(bf16, H200). A launch has the rows of one slot: one new position or, in a code predictor's first
pass, two; with two slots the gain is 1.4 %. Compile time grows with the square of a kernel's size,
so the rows are a loop. Only a model allocated for one slot has these launches
(`models.decoder.decoder.Decoder.allocate`).

The counter only grows during a launch, and every stage knows the count it waits for, so a program
without work in a stage neither waits nor arrives. The last program to leave resets it to zero. The
host never does, so a captured launch can be replayed.

All programs must run concurrently, or the first would wait forever: the grid has at most as many
programs as the GPU has multiprocessors, and is launched cooperatively, so the driver checks it.

Source of the counter scheme: the usual grid barrier of cooperative kernels, with partial arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.launch.dispatch import IS_INTERPRETED, next_power_of_2
from kernels.linear.layers import LayerWeights
from kernels.persistent.kernel import _persistent_decoder_kernel


@dataclass(frozen=True)
class StepSettings:
    num_programs: int = 0  # at most one a multiprocessor; 0: one on each
    num_warps: int = 4
    attention_splits: int = 1  # of a row's cache, a power of two
    block_s: int = 16  # cache positions per step of attention


class DecoderWeights(NamedTuple):
    """The weights of all layers, stacked by kind: one pointer and a stride reach each."""

    qkv: Tensor  # (L, (H + 2 H_kv) D_h, D)
    o: Tensor  # (L, D, H D_h)
    gate_up: Tensor  # (L, 2I, D)
    down: Tensor  # (L, D, I)
    norms: Tensor  # (L + 1, D): each layer's first norm, then the final one
    post_norms: Tensor  # (L, D)
    q_norms: Tensor | None  # (L, D_h)
    k_norms: Tensor | None
    qkv_biases: Tensor | None = None  # (L, (H + 2 H_kv) D_h)

    @property
    def first(self) -> LayerWeights:
        """The weights of the first layer; all have its sizes."""
        qkv, o, gate_up, down = self.qkv[0], self.o[0], self.gate_up[0], self.down[0]
        return LayerWeights(self.norms[0], qkv, o, self.post_norms[0], gate_up, down)


@lru_cache
def num_processors(device: torch.device) -> int:
    """Multiprocessors of a CUDA device; 1 elsewhere, where the interpreter runs one program."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


MAX_ROWS = 2  # of a launch: the kernel is unrolled over them
MAX_KV_HEADS = 16
# Counters of a launch: arrivals, leavers, and one per row and KV head for attention in splits.
NUM_COUNTERS = 2 + MAX_ROWS * MAX_KV_HEADS
MAX_HELD_REGISTERS = 200  # for weights, of the 255 a thread has


def choose_settings(layer: LayerWeights, head_dim: int, num_positions: int) -> StepSettings | None:
    """Return the default settings, with more warps for a GPU with fewer multiprocessors; None:
    weights that do not fit into registers, or float32, which takes twice as many.
    """
    if layer.qkv.itemsize != 2:
        return None
    best = default_settings(num_positions)
    for settings in (best, replace(best, num_warps=8)):
        if fits(layer, head_dim, settings):
            return settings
    return None


def default_settings(num_positions: int) -> StepSettings:
    """Return settings by cache length, measured on an H200. 128 programs: the products of the
    0.6B models have 4096, 1024, 3072 and 2048 columns.
    """
    is_short = num_positions <= 32
    return StepSettings(
        num_programs=128, num_warps=8 if is_short else 4, attention_splits=1 if is_short else 16
    )


def fits(layer: LayerWeights, head_dim: int, settings: StepSettings) -> bool:
    """Whether the kernel can take such heads, and a program's columns of every layer's weights
    fit into its registers: those of the 0.6B models do, those of the 1.7B talker, twice as
    wide, do not.
    """
    width, inner = layer.down.shape
    mixed, qkv = layer.o.shape[1], len(layer.qkv)
    programs = _num_programs(settings, layer.qkv.device)
    # Columns of a weight, and their depth: gate and up have one together.
    counts = ((qkv, width), (width, mixed), (inner, 2 * next_power_of_2(width)), (width, inner))
    held = max(
        sum(_columns(count, programs)[1:]) * next_power_of_2(depth) for count, depth in counts
    )
    registers = held * layer.qkv.itemsize // (settings.num_warps * 32 * 4)  # a thread
    return (
        head_dim % 2 == mixed % head_dim == 0
        and qkv <= mixed + 2 * MAX_KV_HEADS * head_dim
        and (programs == 1 or registers <= MAX_HELD_REGISTERS)
    )


def _num_programs(settings: StepSettings, device: torch.device) -> int:
    most = num_processors(device)
    return min(settings.num_programs or most, most)


def _columns(count: int, programs: int) -> tuple[int, int, int]:
    """Return columns per program, their largest power of two, and one that covers the remaining."""
    per = max(1, -(-count // programs))
    first = 1 << (per.bit_length() - 1)
    return per, first, 0 if per == first else next_power_of_2(per - first)


def persistent_step(
    weights: DecoderWeights,
    x: Tensor,
    positions: Tensor,
    cache: Tensor,
    tables: tuple[Tensor, Tensor],
    counters: Tensor,
    eps: float,
    codes: Tensor | None = None,
    head: Tensor | None = None,
    settings: StepSettings | None = None,
) -> tuple[Tensor, Tensor | None]:
    """New positions of slot 0, one per row, through all layers and the final norm.

    Args:
        weights: L layers; every tensor contiguous, one dtype.
        x: (R, D) inputs, not changed; with `codes` an embedding table (V, D).
        positions: (R,) int64 rising cache positions to write; a row sees 0..its position.
        cache: (L, 2, N, H_kv, S, D_h), keys and values, contiguous.
        tables: cos and sin, (S, D_h) of x's dtype.
        counters: (NUM_COUNTERS,) int32, zero before the first launch and left so. Launches that
            share counters must not overlap.
        codes: (R,) int64 rows of the table to start from, may be strided; below 0 counts as 0.
        head: (V, D) weight of a last product, contiguous, or None.
        settings: default `choose_settings`.
    Returns:
        hidden states (R, D) after the final norm, and logits (R, V) or None.
    Raises:
        ValueError: shapes that do not fit, or tensors of another layout.
    """
    num_rows = positions.shape[0]
    num_layers, width, inner = weights.down.shape
    num_kv_heads, num_positions, head_dim = cache.shape[3:]
    qkv_width, mixed = weights.qkv.shape[1], weights.o.shape[2]
    layer = weights.first
    if settings is None:
        settings = choose_settings(layer, head_dim, num_positions)
    is_fitting = settings is not None and fits(layer, head_dim, settings)
    if settings is None or not is_fitting or qkv_width != mixed + 2 * num_kv_heads * head_dim:
        wanted = settings or "any settings"
        raise ValueError(f"width {width}, MLP {inner} and heads of {head_dim} do not fit {wanted}")
    if num_rows > MAX_ROWS:
        raise ValueError(f"{num_rows} rows are too many: at most {MAX_ROWS}")
    if x.shape[1:] != (width,) or (codes is None and x.shape[0] != num_rows):
        raise ValueError(f"x {tuple(x.shape)} must be ({num_rows}, {width}), or a table as wide")
    if not cache.is_contiguous() or not positions.is_contiguous() or x.stride(1) != 1:
        raise ValueError("cache and positions must be contiguous, x with contiguous rows")
    if any(len(table) < num_positions or not table.is_contiguous() for table in tables):
        raise ValueError("cos and sin must be contiguous and as long as the cache")
    if head is not None and not (head.is_contiguous() and head.shape[1] == width):
        raise ValueError(f"head {tuple(head.shape)} must be contiguous, rows of {width}")
    if counters.shape != (NUM_COUNTERS,):
        raise ValueError(f"counters {tuple(counters.shape)} must be ({NUM_COUNTERS},)")
    programs = _num_programs(settings, x.device)
    head_size = 0 if head is None else head.shape[0]

    def empty(*shape: int, dtype: torch.dtype = x.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=x.device)

    out = empty(num_rows, width)
    logits = None if head is None else empty(num_rows, head_size)
    splits = settings.attention_splits
    num_heads = mixed // head_dim
    spans = num_rows * num_heads * splits
    q_norms, k_norms, biases = weights.q_norms, weights.k_norms, weights.qkv_biases
    options: dict[str, int] = {} if IS_INTERPRETED else {"launch_cooperative_grid": True}
    for name, count in (("QKV", qkv_width), ("OUT", width), ("MLP", inner), ("HEAD", head_size)):
        per, first, more = _columns(count, programs)
        options |= {f"{name}_PER": per, f"{name}_A": first, f"{name}_B": more}
    _persistent_decoder_kernel[(programs,)](
        x,
        positions if codes is None else codes,
        positions, *weights[:6], weights.norms if biases is None else biases,
        weights.norms if q_norms is None else q_norms,
        weights.norms if k_norms is None else k_norms,
        x if head is None else head,
        *tables, cache, cache[:, 1:], out,
        out if logits is None else logits,
        empty(num_rows, width), empty(num_rows, qkv_width), empty(num_rows, mixed),
        empty(num_rows, inner), empty(spans, head_dim, dtype=torch.float32),
        empty(spans, 2, dtype=torch.float32), counters,
        num_layers, x.stride(0), 0 if codes is None else codes.stride(0),
        cache.stride(0), cache.stride(3), eps, head_dim**-0.5,
        ROWS=num_rows, WIDTH=width, INNER=inner, HEAD_SIZE=head_size, NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads, HEAD_DIM=head_dim, HAS_QKV_BIAS=biases is not None,
        HAS_QK_NORM=q_norms is not None, HAS_CODES=codes is not None, SPLITS=splits,
        BLOCK_S=settings.block_s, BLOCK_H=next_power_of_2(head_dim // 2),
        BLOCK_D=next_power_of_2(width), BLOCK_MIXED=next_power_of_2(mixed),
        BLOCK_INNER=next_power_of_2(inner),
        IS_ONE_BLOCK=num_positions <= splits * settings.block_s,
        num_warps=settings.num_warps, **options,
    )  # fmt: skip
    return out, logits
