"""Products of a decode step that load their weight before the previous launch has ended.

The same products as in `kernels.linear.few_rows`, bit for bit, for 33 rows and more, if launches
are early (`kernels.launch.early_launch`). A program owns some columns of a weight, and a part of K.
It requests its whole weight, or as much as fits into shared memory, then waits for the previous
launch, requests x, and multiplies group by group as both arrive. Triton's own loops request weight
and x together, so that a weight, which is constant, waits for the inputs of x. The products of one
frame of Qwen3-TTS 0.6B's code predictor took 2,093 us before and 2,010 now (64 rows, H200).

Rounding is that of `few_rows`: float32 sums in the same order, the result rounded once, gate and up
rounded before SwiGLU.

In Gluon, for Hopper: see `kernels.launch.gluon`.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from kernels.launch.early_launch import (
    are_launches_early,
    launch_options,
    start_next,
    wait_for_previous,
)
from kernels.launch.gluon import fetch, gl, gluon_jit, has_warp_groups, hopper, shared_block

MIN_ROWS = 33  # fewer are multiplied by other instructions, which may round differently
DEPTH = 64  # of K in a block: 128 bytes of shared memory


class EarlyTile(NamedTuple):
    """The tile of a program, and how much of its data is in flight."""

    rows: int
    columns: int
    blocks: int  # of DEPTH, in a group that is waited for together
    x_groups: int  # in shared memory
    weight_groups: int


# By columns and width of a weight, for up to 64, 128 and 256 rows: the fastest of a sweep inside
# whole steps of the code predictor, one number after the other (H200, 2026-11-28).
TILES = {
    shape: tuple(EarlyTile(*tile) for tile in tiles)
    for shape, tiles in {
        (4096, 1024): ((64, 32, 4, 4, 4), (64, 64, 1, 8, 12), (64, 64, 1, 4, 6)),
        (1024, 2048): ((64, 64, 2, 4, 4), (64, 32, 2, 4, 8), (64, 64, 2, 6, 6)),
        (6144, 1024): ((64, 64, 1, 6, 10), (128, 64, 1, 8, 10), (64, 128, 1, 4, 5)),
        (1024, 3072): ((64, 32, 2, 6, 6), (64, 32, 2, 4, 8), (64, 64, 2, 4, 6)),
        (2048, 1024): ((64, 32, 4, 4, 4), (64, 32, 4, 4, 4), (64, 64, 2, 4, 4)),
    }.items()
}


def early_tile(x: Tensor, weight: Tensor) -> EarlyTile | None:
    """Return the tile for x (R, K) and a weight (N, K); None: Triton's own loop multiplies them."""
    num_rows = x.shape[0]
    tiles = TILES.get((weight.shape[0], weight.shape[1]))
    if tiles is None or num_rows < MIN_ROWS or not are_launches_early():
        return None
    if not has_warp_groups(x.device):
        return None
    return tiles[0 if num_rows <= 64 else 1 if num_rows <= 128 else 2]


@gluon_jit
def _ask_for_x(x_desc, first_row, k, group, bars, xs, RING: gl.constexpr, BLOCKS: gl.constexpr):
    bar = bars.index(group)
    hopper.mbarrier.expect(bar, BLOCKS * xs.shape[1] * xs.shape[2] * 2)
    for block in gl.static_range(BLOCKS):
        place = xs.index(group % RING * BLOCKS + block)
        at = k + (group * BLOCKS + block) * xs.shape[2]
        fetch(x_desc, [first_row, at], bar, place)


@gluon_jit
def _ask_for_weight(
    weight_desc, first_column, half, k, group, bars, ws,
    RING: gl.constexpr, BLOCKS: gl.constexpr, IS_GATED: gl.constexpr,
):  # fmt: skip
    """Request a group of blocks of a weight, half of gate and half of up if it contains both."""
    bar = bars.index(group)
    COLUMNS: gl.constexpr = ws.shape[1]
    hopper.mbarrier.expect(bar, BLOCKS * COLUMNS * ws.shape[2] * 2)
    for block in gl.static_range(BLOCKS):
        place = ws.index(group % RING * BLOCKS + block)
        at = k + (group * BLOCKS + block) * ws.shape[2]
        if IS_GATED:
            gate = place.slice(0, COLUMNS // 2, 0)
            up = place.slice(COLUMNS // 2, COLUMNS // 2, 0)
            fetch(weight_desc, [first_column, at], bar, gate)
            fetch(weight_desc, [half + first_column, at], bar, up)
        else:
            fetch(weight_desc, [first_column, at], bar, place)


@gluon_jit
def _early_linear_kernel(
    x_desc, weight_desc, out_ptr,
    num_rows, num_tiles, num_columns, part_width, half,
    IS_GATED: gl.constexpr, IS_PART: gl.constexpr, IS_DEPENDENT: gl.constexpr,
    ROWS: gl.constexpr, COLUMNS: gl.constexpr, DEPTH: gl.constexpr, GROUPS: gl.constexpr,
    BLOCKS: gl.constexpr,
    X_RING: gl.constexpr, WEIGHT_RING: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """Every group has one barrier, at which x and weight both arrive."""
    dtype: gl.constexpr = x_desc.dtype
    shared: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    made: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[num_warps, 1], instr_shape=[16, COLUMNS, 16]
    )
    ws = gl.allocate_shared_memory(dtype, [WEIGHT_RING * BLOCKS, COLUMNS, DEPTH], shared)
    xs = gl.allocate_shared_memory(dtype, [X_RING * BLOCKS, ROWS, DEPTH], shared)
    bars = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], hopper.mbarrier.MBarrierLayout())
    start_next(IS_DEPENDENT)
    for group in gl.static_range(GROUPS):
        hopper.mbarrier.init(bars.index(group), count=2)
    hopper.fence_async_shared()
    OUT: gl.constexpr = COLUMNS // 2 if IS_GATED else COLUMNS
    first_row = gl.program_id(0) % num_tiles * ROWS
    first_column = gl.program_id(0) // num_tiles * OUT
    part = gl.program_id(1)
    k = part * part_width
    for group in gl.static_range(WEIGHT_RING):
        _ask_for_weight(
            weight_desc, first_column, half, k, group, bars, ws, WEIGHT_RING, BLOCKS, IS_GATED
        )
    wait_for_previous(IS_DEPENDENT)
    for group in gl.static_range(X_RING):
        _ask_for_x(x_desc, first_row, k, group, bars, xs, X_RING, BLOCKS)
    total = gl.zeros([ROWS, COLUMNS], gl.float32, made)
    for group in gl.static_range(GROUPS):
        hopper.mbarrier.wait(bars.index(group), 0, deps=[xs, ws])
        for block in gl.static_range(BLOCKS):
            total = hopper.warpgroup_mma(
                xs.index(group % X_RING * BLOCKS + block),
                ws.index(group % WEIGHT_RING * BLOCKS + block).permute((1, 0)),
                total,
                is_async=True,
            )
        # The previous group is multiplied: its places are free.
        if group >= 1 and (group - 1 + X_RING < GROUPS or group - 1 + WEIGHT_RING < GROUPS):
            total = hopper.warpgroup_mma_wait(BLOCKS, deps=[total])
            if group - 1 + X_RING < GROUPS:
                _ask_for_x(x_desc, first_row, k, group - 1 + X_RING, bars, xs, X_RING, BLOCKS)
            if group - 1 + WEIGHT_RING < GROUPS:
                _ask_for_weight(
                    weight_desc, first_column, half, k, group - 1 + WEIGHT_RING, bars, ws,
                    WEIGHT_RING, BLOCKS, IS_GATED,
                )  # fmt: skip
    total = hopper.warpgroup_mma_wait(0, deps=[total, xs, ws])[0]
    if IS_PART:
        row = first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, made))
        column = first_column + gl.arange(0, OUT, layout=gl.SliceLayout(0, made))
        place = (part * num_rows + row)[:, None] * num_columns + column[None, :]
        gl.store(out_ptr + place, total, mask=(row < num_rows)[:, None])
    else:
        if IS_GATED:  # rounded as `few_rows` does
            gate, up = gl.split(total.reshape([ROWS, 2, OUT]).permute((0, 2, 1)))
            gate = gate.to(dtype).to(gl.float32)
            up = up.to(dtype).to(gl.float32)
            total = (gate / (1.0 + gl.exp(-gate))).to(dtype).to(gl.float32) * up
        flat: gl.constexpr = gl.BlockedLayout(
            [1, 8], [32 // (OUT // 8), OUT // 8], [num_warps, 1], [1, 0]
        )
        out = gl.convert_layout(total.to(dtype), flat)
        row = first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, flat))
        column = first_column + gl.arange(0, OUT, layout=gl.SliceLayout(0, flat))
        place = row[:, None] * num_columns + column[None, :]
        gl.store(out_ptr + place, out, mask=(row < num_rows)[:, None])


def early_linear(
    x: Tensor, weight: Tensor, out: Tensor, tile: EarlyTile, parts: int, is_gated: bool
) -> None:
    """Multiply into `out`, which an operation of `few_rows` has allocated.

    Args:
        x: (R, K) bfloat16, contiguous; so is the weight (N, K).
        out: (R, N) of x's dtype, (parts, R, N) float32, or (R, N / 2) if the product is gated.
    """
    num_rows, width = x.shape
    num_columns = weight.shape[0]
    num_tiles = -(-num_rows // tile.rows)
    groups = width // parts // (DEPTH * tile.blocks)
    _early_linear_kernel[(num_columns // tile.columns * num_tiles, parts)](
        shared_block(x, tile.rows, DEPTH),
        shared_block(weight, tile.columns // 2 if is_gated else tile.columns, DEPTH),
        out,
        num_rows, num_tiles, out.shape[-1], width // parts, num_columns // 2,
        IS_GATED=is_gated, IS_PART=parts > 1,
        ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=DEPTH, GROUPS=groups,
        BLOCKS=tile.blocks,
        X_RING=min(tile.x_groups, groups), WEIGHT_RING=min(tile.weight_groups, groups),
        num_warps=tile.rows // 16, **launch_options(),
    )  # fmt: skip
