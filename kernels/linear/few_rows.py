"""Linear layers of a few rows: products that are bound by reading their weight once.

    row_linear         x . w^T + bias             rounded
    row_linear_parts   x . w^T over parts of K    float32, for the next operation to add
    row_swiglu         swiglu(x . gate_up^T)      rounded as the separate operations are

x is (R, K), R at most 64, or 256 with a small weight, which is (N, K). A decode step is a chain of
these products, and a library's kernels read a weight at one to three TB/s of an H200's 4.8. Here
tiles of the weight arrive by the tensor memory accelerator of Hopper GPUs, several ahead of the
product. Many programs are small enough to be resident concurrently, so their number need not be a
multiple of the multiprocessors. Measured with 64 rows (us, H200; in brackets cuBLAS, both with the
norm or activation that follows):

    Fish Speech S2     q/k/v 10.4 (11.2)   o 10.6 (11.8)   gate, up 27.7 (33)    down 19.4 (21.5)
    Qwen3-TTS 1.7B     q/k/v  7.1 (7.3)    o  7.1 (8.2)    gate, up 16.2 (19.2)  down 11.5 (14.2)
    Qwen3-TTS 0.6B     q/k/v  4.4 (5.4)    o  5.3 (7.6)    gate, up  6.0 (8.9)   down  5.9 (9.8)

If N gives too few programs, K is split and each part is written separately. `add_rms_norm_` adds
the parts in their order, so no further kernel is needed for that. With more rows a weight is read
once per 64 rows, which is cheap while it is in the L2 cache; for larger weights cuBLAS is as fast
or faster.

A row's result does not depend on its neighbours, nor on their number up to 16, from 17 to 32, from
33 to 64, to 128 and beyond. Each of these ranges has another tile, whose sums may round
differently.

Rounding: sums are float32. `row_linear` adds the bias in float32 and rounds once; parts are not
rounded; `row_swiglu` rounds gate, up, silu(gate) and the product, as `kernels.linear.swiglu`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.descriptors import ALIGNMENT_BYTES, described, use_descriptors
from kernels.launch.dispatch import factor, jit, next_power_of_2, tl
from kernels.launch.early_launch import launch_options, wait_for_previous
from kernels.launch.op import op
from kernels.linear.early_weights import early_linear, early_tile
from kernels.linear.swiglu import gated, swiglu_ref

TILE_ROWS = 64  # at most
MAX_ROWS = 256
MAX_SHARED_BYTES = 16 * 2**20  # of a weight that several tiles of rows read
# Below, launches count for more than bytes.
MIN_WEIGHT_BYTES = 2**20
WANTED_PROGRAMS = 128  # about one per multiprocessor
MAX_PARTS = 4
BLOCK_K = 128  # widths are multiples of this
NUM_WARPS = 4


def row_linear_ref(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Plain PyTorch, summed in float32."""
    total = x.float() @ weight.float().t()
    return (total if bias is None else total + bias.float()).to(x.dtype)


def row_linear_parts_ref(x: Tensor, weight: Tensor) -> Tensor:
    """Plain PyTorch, each part summed in float32."""
    parts = num_parts(x.shape[0], *weight.shape)
    span = part_span(weight.shape[1], parts)
    pieces = zip(x.float().split(span, 1), weight.float().split(span, 1), strict=True)
    return torch.stack([piece @ matrix.t() for piece, matrix in pieces])


def row_swiglu_ref(x: Tensor, gate_up: Tensor) -> Tensor:
    """Plain PyTorch, the product summed in float32 and rounded."""
    return swiglu_ref(row_linear_ref(x, gate_up))


@jit(do_not_specialize=["num_rows", "num_blocks"])
def _row_linear_kernel(
    x_desc, weight_desc, out_ptr, bias_ptr,
    num_rows, num_tiles, num_columns, num_blocks, part_blocks,
    IS_GATED: tl.constexpr,  # the weight is gate and up, each of num_columns
    IS_PART: tl.constexpr, IS_DEPENDENT: tl.constexpr, HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    wait_for_previous(IS_DEPENDENT)
    # Tiles of rows run first: they share their part of the weight.
    first_row = tl.program_id(0) % num_tiles * ROWS
    first_column = tl.program_id(0) // num_tiles * BLOCK_N
    part = tl.program_id(1)
    first = part * part_blocks
    total = tl.zeros((ROWS, BLOCK_N), tl.float32)
    up = total
    for block in tl.range(first, tl.minimum(first + part_blocks, num_blocks), num_stages=STAGES):
        x = x_desc.load([first_row, block * BLOCK_K])
        weight = weight_desc.load([first_column, block * BLOCK_K])
        if IS_GATED:
            up_weight = weight_desc.load([num_columns + first_column, block * BLOCK_K])
        total = tl.dot(factor(x), factor(weight).T, total, input_precision="ieee")
        if IS_GATED:
            up = tl.dot(factor(x), factor(up_weight).T, up, input_precision="ieee")
    # A tile may reach beyond the columns, or their half; results there are not stored.
    row = (first_row + tl.arange(0, ROWS))[:, None]
    column = (first_column + tl.arange(0, BLOCK_N))[None, :]
    place = row * num_columns + column
    if IS_PART:
        place += part * num_rows * num_columns
    mask = (row < num_rows) & (column < num_columns)
    if IS_GATED:
        total = gated(total, up, dtype)
    if HAS_BIAS:
        total += tl.load(bias_ptr + column, mask=column < num_columns, other=0.0).to(tl.float32)
    tl.store(out_ptr + place, total.to(dtype), mask=mask)


def use_row_kernels(x: Tensor, weight: Tensor) -> bool:
    """Whether these kernels multiply x (R, K) by a weight (N, K): few rows, a large weight in
    bfloat16, and a GPU with a copy engine.
    """
    most = MAX_ROWS if weight.nbytes <= MAX_SHARED_BYTES else TILE_ROWS
    return (
        x.shape[0] <= most
        and x.dtype == torch.bfloat16
        and weight.nbytes >= MIN_WEIGHT_BYTES
        and weight.shape[1] % BLOCK_K == 0
        and x.is_contiguous()
        and weight.is_contiguous()
        and x.data_ptr() % ALIGNMENT_BYTES == weight.data_ptr() % ALIGNMENT_BYTES == 0
        and use_descriptors(x)
    )


def tile_rows(num_rows: int) -> int:
    """Rows of a tile: the tensor memory accelerator is slow if much of a tile is outside."""
    return min(TILE_ROWS, max(16, next_power_of_2(num_rows)))


def tile_columns(num_columns: int, parts: int = 1) -> int:
    """Columns per program: fewer if the GPU would have too few programs."""
    return 64 if 4 * parts * num_columns >= 3 * 64 * WANTED_PROGRAMS else 32


def num_parts(num_rows: int, num_columns: int, width: int) -> int:
    """Parts of K, for about one program per multiprocessor."""
    programs = -(-num_columns // tile_columns(num_columns, MAX_PARTS))
    if num_rows > TILE_ROWS:  # two tiles of rows, or four twice as wide
        programs *= 2
    wanted = min(MAX_PARTS, max(1, WANTED_PROGRAMS // programs), -(-width // BLOCK_K))
    return -(-width // part_span(width, wanted))  # none of them empty


def part_span(width: int, parts: int) -> int:
    """Width of each part of K but the last, in whole blocks."""
    blocks = -(-width // BLOCK_K)
    return -(-blocks // parts) * BLOCK_K


@op(row_linear_ref, use_descriptors)
def row_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (R, K) times weight (N, K) transposed, plus bias (N,): (R, N) in x's dtype."""
    return _launch(x, weight, x.new_empty(x.shape[0], weight.shape[0]), bias=bias)


@op(row_linear_parts_ref, use_descriptors)
def row_linear_parts(x: Tensor, weight: Tensor) -> Tensor:
    """Parts (P, R, N) float32 whose sum over P is the product; P = num_parts(R, N, K)."""
    parts = num_parts(x.shape[0], *weight.shape)
    out = x.new_empty(parts, x.shape[0], weight.shape[0], dtype=torch.float32)
    return _launch(x, weight, out, parts)


@op(row_swiglu_ref, use_descriptors)
def row_swiglu(x: Tensor, gate_up: Tensor) -> Tensor:
    """silu(gate) * up of x (R, K) times gate_up (2I, K) transposed, gate first: (R, I)."""
    if gate_up.shape[0] % 2:
        raise ValueError(f"gate_up {tuple(gate_up.shape)} must have an even number of rows")
    return _launch(x, gate_up, x.new_empty(x.shape[0], gate_up.shape[0] // 2), is_gated=True)


def linear_settings(num_rows: int, num_columns: int, parts: int) -> tuple[int, int, int]:
    """Columns and depth of a tile, and stages: the fastest of those tried on an H200."""
    if num_rows <= TILE_ROWS:
        return tile_columns(num_columns, MAX_PARTS if parts > 1 else 1), BLOCK_K, 6
    if num_rows <= 2 * TILE_ROWS:
        return (32 if num_columns < 3 * 1024 else 64), BLOCK_K, 6
    # A weight that is read once for all rows takes wide tiles: fewer programs read x.
    return (64, BLOCK_K, 6) if num_columns < 3 * 1024 else (128, BLOCK_K, 4)


def swiglu_settings(num_rows: int, width: int) -> tuple[int, int, int]:
    """Columns and depth of a tile, and stages, by rows and I; the fastest of six on an H200."""
    programs = -(-width // 32)
    rows = tile_rows(num_rows)
    if num_rows > TILE_ROWS:
        return (64, BLOCK_K, 4) if num_rows <= 2 * TILE_ROWS else (64, BLOCK_K // 2, 4)
    if programs < WANTED_PROGRAMS:
        return (32, BLOCK_K, 5) if rows == TILE_ROWS else (16, BLOCK_K, 4)
    if rows == 16 or programs <= 2 * WANTED_PROGRAMS:
        return 32, BLOCK_K, 3
    # Many programs: small enough to be resident together.
    return (64 if rows == 32 else 32), BLOCK_K // 2, 4


def _launch(
    x: Tensor, weight: Tensor, out: Tensor, parts: int = 1, is_gated: bool = False,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Multiply into `out` (.., R, columns)."""
    _check(x, weight)
    num_rows, width = x.shape
    num_columns = out.shape[-1]
    if num_rows == 0:
        return out
    if bias is None and (tile := early_tile(x, weight)):
        early_linear(x, weight, out, tile, parts, is_gated)
        return out
    rows = tile_rows(num_rows)
    num_tiles = -(-num_rows // rows)
    if is_gated:
        block_n, block_k, num_stages = swiglu_settings(num_rows, num_columns)
    else:
        block_n, block_k, num_stages = linear_settings(num_rows, num_columns, parts)
    _row_linear_kernel[(-(-num_columns // block_n) * num_tiles, parts)](
        described(x, rows, block_k), described(weight, block_n, block_k), out,
        out if bias is None else bias, num_rows, num_tiles, num_columns, width // block_k,
        part_span(width, parts) // block_k, IS_GATED=is_gated, IS_PART=parts > 1,
        HAS_BIAS=bias is not None, ROWS=rows, BLOCK_N=block_n, BLOCK_K=block_k, STAGES=num_stages,
        num_warps=NUM_WARPS, **launch_options(),
    )  # fmt: skip
    return out


def _check(x: Tensor, weight: Tensor) -> None:
    is_fitting = x.ndim == 2 and weight.ndim == 2 and x.shape[1] == weight.shape[1]
    if not is_fitting or x.shape[0] > MAX_ROWS or x.shape[1] % BLOCK_K or x.dtype != weight.dtype:
        raise ValueError(
            f"x {tuple(x.shape)} {x.dtype} and weight {tuple(weight.shape)} {weight.dtype}: up to "
            f"{MAX_ROWS} rows of one width, a multiple of {BLOCK_K}, are served"
        )
    if not (x.is_contiguous() and weight.is_contiguous()):
        raise ValueError("x and weight must be contiguous")
