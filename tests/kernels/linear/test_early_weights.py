"""Products that ask for their weight before the launch in front has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from warm_process import run_with_triton

from kernels.launch.early_launch import dependent_launches
from kernels.launch.gluon import HAS_GLUON
from kernels.linear import early_weights, few_rows
from kernels.linear.early_weights import DEPTH, MIN_ROWS, TILES, EarlyTile, early_tile
from kernels.linear.few_rows import BLOCK_K, num_parts, row_linear, row_linear_parts, row_swiglu

pytestmark = pytest.mark.slow

MAX_SHARED = 227 * 2**10  # of a block on Hopper
ROWS = (64, 128, 256)
OPERATIONS = {3072: (row_linear_parts,), 2048: (row_linear_parts,), 1024: (row_linear, row_swiglu)}


def groups_of(tile: EarlyTile, width: int, parts: int) -> int:
    groups, rest = divmod(width, parts * DEPTH * tile.blocks)
    assert rest == 0
    return groups


@pytest.mark.parametrize("shape", TILES)
def test_every_tile_fits(shape: tuple[int, int]) -> None:
    """Its parts of K are those of the other kernel, whole groups, and in shared memory."""
    columns, width = shape
    for rows, tile in zip(ROWS, TILES[shape], strict=True):
        parts = num_parts(rows, *shape) if columns == 1024 else 1
        groups = groups_of(tile, width, parts)
        assert columns % tile.columns == 0
        assert tile.rows % 64 == BLOCK_K % DEPTH == 0
        places = min(tile.x_groups, groups) * tile.rows
        places += min(tile.weight_groups, groups) * tile.columns
        assert places * tile.blocks * DEPTH * 2 + 8 * groups + 1024 <= MAX_SHARED


def test_who_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough rows of a known weight, on Hopper, where launches are early."""
    weight, known = torch.empty(1024, 2048), TILES[1024, 2048]
    x = torch.empty(256, 2048)
    assert early_tile(x, weight) is None
    monkeypatch.setattr(early_weights, "are_launches_early", lambda: True)
    monkeypatch.setattr(early_weights, "has_warp_groups", lambda _: False)
    assert early_tile(x, weight) is None
    monkeypatch.setattr(early_weights, "has_warp_groups", lambda _: True)
    for rows, tile in ((33, 0), (64, 0), (65, 1), (128, 1), (129, 2), (256, 2)):
        assert early_tile(x[:rows], weight) is known[tile]
    assert early_tile(x[: MIN_ROWS - 1], weight) is None
    assert early_tile(x, torch.empty(1025, 2048)) is None


def test_operations_hand_on_what_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts of K where the next norm adds them, and gated."""
    tile, seen = TILES[1024, 2048][0], []

    def launch(x: Tensor, weight: Tensor, out: Tensor, *rest: object) -> None:
        seen.append((tuple(out.shape), rest))

    monkeypatch.setattr(few_rows, "early_tile", lambda *_: tile)
    monkeypatch.setattr(few_rows, "early_linear", launch)
    x, weight = torch.zeros(64, 2048).bfloat16(), torch.zeros(1024, 2048).bfloat16()
    for operation in (row_linear, row_linear_parts, row_swiglu):
        operation.__wrapped__(x, weight)  # type: ignore[attr-defined]
    assert seen == [
        ((64, 1024), (tile, 1, False)),
        ((4, 64, 1024), (tile, 4, False)),
        ((64, 512), (tile, 1, True)),
    ]


PROGRAM = """
import torch
torch.cuda.is_available = lambda: True
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import NVMMASharedLayout
from kernels.linear.early_weights import DEPTH, TILES, _early_linear_kernel as kernel

layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
for shape, is_gated, parts in (((6144, 1024), True, 1), ((1024, 3072), False, 4)):
    tile = TILES[shape][0]
    groups = shape[1] // parts // DEPTH // tile.blocks
    block = tile.columns // 2 if is_gated else tile.columns
    types = {"out_ptr": "*fp32" if parts > 1 else "*bf16"}
    for name, rows in (("x_desc", tile.rows), ("weight_desc", block)):
        types[name] = f"tensordesc<bf16[{rows}, {DEPTH}],{layout!r}>"
    for name in ("num_rows", "num_tiles", "num_columns", "part_width", "half"):
        types[name] = "i32"
    values = dict(
        IS_GATED=is_gated, IS_PART=parts > 1, IS_DEPENDENT=True, ROWS=tile.rows,
        COLUMNS=tile.columns, DEPTH=DEPTH, GROUPS=groups, BLOCKS=tile.blocks,
        X_RING=min(tile.x_groups, groups), WEIGHT_RING=min(tile.weight_groups, groups),
        num_warps=tile.rows // 16,
    )
    places = {(kernel.arg_names.index(name),): value for name, value in values.items()}
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    source = GluonASTSource(kernel, signature, places)
    options = {"num_warps": tile.rows // 16, "launch_pdl": True}
    text = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
    asked = [text.index(word) for word in ("launch_dependents", "bulk.tensor", "control.wait")]
    print(asked == sorted(asked), text.count("wgmma.mma_async"))
"""


def test_it_is_compiled_and_asks_before_it_waits(tmp_path: Path) -> None:
    """Without a GPU: by each Triton that it is known for, as far as it is installed."""
    # A product a step of 16 of K.
    assert run_with_triton(PROGRAM, tmp_path).split() == ["True", "64", "True", "48"]


@pytest.mark.gpu
@pytest.mark.copy_engine
@pytest.mark.skipif(not HAS_GLUON, reason="a Triton that it is not known for")
@pytest.mark.parametrize("rows", [33, 64, 100, 128, 200, 256])
@pytest.mark.parametrize("shape", TILES)
def test_the_other_kernel_makes_the_same_bits(
    shape: tuple[int, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, width = shape
    x = torch.randn(rows, width, device="cuda").bfloat16()
    weight = (torch.randn(columns, width, device="cuda") * width**-0.5).bfloat16()
    launched = []
    monkeypatch.setattr(few_rows, "early_linear", counted(few_rows.early_linear, launched))
    for operation in OPERATIONS[width]:
        expected = operation(x, weight)
        with dependent_launches(x, True):
            found = operation(x, weight)
        assert torch.equal(found, expected)
        assert found.isfinite().all()
    assert len(launched) == len(OPERATIONS[width])


def counted(function: Callable[..., None], launched: list[int]) -> Callable[..., None]:
    def launch(*args: object, **named: object) -> None:
        launched.append(1)
        function(*args, **named)

    return launch
