"""The rotation keeps every rounding when it is compiled, with Triton free to fuse.

Interpreted kernels round as they are written, so this reads what is compiled for a GPU, which takes
none. The default of Triton's fusion has changed before and changes again with 3.10.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from warm_process import run_with_triton

from kernels.launch.dispatch import jit, tl

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
import torch
torch.cuda.is_available = lambda: True
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kernels.attention import rope

@triton.jit
def plain(x, y):
    return x * y

@triton.jit
def turn(ptr):
    at = tl.arange(0, 128)[None, :]
    low = tl.load(ptr + at)
    high = tl.load(ptr + 128 + at)
    cos = tl.load(ptr + 256 + at).to(tl.float32)
    sin = tl.load(ptr + 384 + at).to(tl.float32)
    low, high = rope.rotate((low, high), (cos, cos), (cos, cos), (sin, sin), 0.0, 256, False)
    tl.store(ptr + at, low.to(ptr.dtype.element_ty))
    tl.store(ptr + 128 + at, high.to(ptr.dtype.element_ty))

if sys.argv[1] == "plain":
    rope.product = plain
for dtype in ("*bf16", "*fp32"):
    source = ASTSource(turn, {"ptr": dtype}, {})
    options = {"enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    print(sum(" " in line and "fma.rn" in line for line in compiled.asm["ptx"].splitlines()))
"""


@pytest.mark.parametrize(("product", "is_fused"), [("guarded", False), ("plain", True)])
def test_no_product_is_joined_with_the_sum_behind_it(
    product: str, is_fused: bool, tmp_path: Path
) -> None:
    """What a plain product would become tells that the test sees it."""
    fused = [int(line) for line in run_with_triton(PROGRAM, tmp_path, product).split()]
    assert len(fused) == 2
    assert all(count > 0 for count in fused) if is_fused else fused == [0, 0]


def test_every_launch_says_whether_to_fuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums outside of the rotation are fused, as they were when the figures were measured."""

    @jit
    def _kernel(x, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
        pass

    said = []
    monkeypatch.setattr(type(_kernel), "run", lambda *_, **given: said.append(given))
    _kernel[(1,)](None, WIDTH=1)
    _kernel[(1,)](None, WIDTH=1, enable_fp_fusion=False)
    assert [given["enable_fp_fusion"] for given in said] == [True, False]
