"""Linear layers of a decode step with what stands before and behind them in the same launch.

    norm_linear   rms_norm(x) . w^T, or SwiGLU of it               q/k/v; gate and up
    linear_add_   residual += x . w^T, and its sums of squares     o; down

A step of some dozen rows reads each weight once and computes little, so it is bound by launches: a
norm, an activation, a residual add and the second kernel of a product split along K each cost
about as much as a product. With these two a layer has five launches instead of eight or nine.

`linear_add_` splits K between programs where there are few columns. Each writes its float32 part;
the last to end at a tile adds the parts in their order, whoever it is, so results are the same at
every replay. It also writes the sum of squares of its tile of every row: one part per BLOCK_N
columns, from which the next `norm_linear` has the row's scale without another pass.

Rounding points are those of `rms_norm`, `swiglu` and `add_rms_norm_`.

With `use_dependent` a launch may start while the one in front of it still runs (CUDA's programmatic
dependent launch): it brings its weights into the L2 cache, then waits for the other to be complete.

Nothing of this is on until measured: see `enable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.dispatch import IS_INTERPRETED, jit, tl, use_triton
from kernels.persistent_stages import keep, touch
from kernels.rms_norm import add_rms_norm_ref_, rms_norm_ref
from kernels.swiglu import swiglu_ref

NUM_TICKETS = 4096  # tiles of one launch that may be split


@dataclass(frozen=True)
class RowSettings:
    """How one product is cut."""

    block_m: int = 64  # rows a tile
    block_n: int = 32  # columns a tile; with SwiGLU as many of gate and of up
    block_k: int = 128
    splits: int = 1  # of K, `linear_add_` only
    num_stages: int = 4
    num_warps: int = 4
    use_dependent: bool = False


@dataclass(frozen=True)
class StepSettings:
    """The four products of a layer."""

    qkv: RowSettings
    o: RowSettings
    gate_up: RowSettings
    down: RowSettings


_enabled: dict[str, bool] = {"rows": False, "dependent": False}
MIN_ROWS, MAX_ROWS = 3, 256


@contextmanager
def enable(use_dependent: bool = False) -> Iterator[None]:
    """Within the block, steps of MIN_ROWS to MAX_ROWS rows take these launches."""
    before = dict(_enabled)
    _enabled.update(rows=True, dependent=use_dependent)
    try:
        yield
    finally:
        _enabled.update(before)


def use_rows(x: Tensor, num_rows: int) -> bool:
    """Whether a step takes these launches: enabled, Triton, a half-width dtype, enough rows."""
    is_half = x.dtype in (torch.bfloat16, torch.float16)
    return _enabled["rows"] and is_half and MIN_ROWS <= num_rows <= MAX_ROWS and use_triton(x)


def default_settings(num_rows: int) -> StepSettings:
    """Tiles for the widths of the 0.6B models: about one a multiprocessor of an H200; a guess."""
    dependent = _enabled["dependent"]
    if num_rows <= 64:
        block_m = 16 if num_rows <= 16 else 32 if num_rows <= 32 else 64
        plain = RowSettings(block_m=block_m, use_dependent=dependent)
        split = RowSettings(block_m=block_m, splits=4, use_dependent=dependent)
        return StepSettings(plain, split, plain, split)
    block_m, warps = (64, 4) if num_rows <= 128 else (128, 8)

    def one(block_n: int, splits: int = 1) -> RowSettings:
        return RowSettings(block_m, block_n, 64, splits, 4, warps, dependent)

    return StepSettings(one(64), one(64, 4), one(32), one(64, 4))


def norm_linear_ref(
    x: Tensor, norm: Tensor | None, weight: Tensor, eps: float, is_mlp: bool
) -> Tensor:
    """Plain PyTorch: what the kernel is tested against."""
    hidden = x if norm is None else rms_norm_ref(x, norm, eps)
    out = torch.nn.functional.linear(hidden, weight)
    return swiglu_ref(out) if is_mlp else out


def linear_add_ref_(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    """Plain PyTorch: residual in place; returns the row's sum of squares (R, 1)."""
    out = torch.nn.functional.linear(x, weight)
    add_rms_norm_ref_(out, residual, torch.ones_like(residual[0]), 0.0)
    return residual.float().square().sum(1, keepdim=True)


@jit
def _norm_linear_kernel(
    x_ptr,
    sums_ptr,
    norm_ptr,
    w_ptr,
    out_ptr,
    num_rows,
    x_stride,
    eps,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
    IS_MLP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    BLOCK_LINES: tl.constexpr,
    IS_DEPENDENT: tl.constexpr,
    UPCAST: tl.constexpr,
):
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    LINE: tl.constexpr = 256 // dtype.primitive_bitwidth  # sectors of 32 bytes
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = tl.program_id(1) * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    is_row = rows < num_rows
    if IS_DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()
        kept = touch(w_ptr, first, 0, WIDTH, BLOCK_N, WIDTH // LINE, BLOCK_LINES, LINE)
        if IS_MLP:
            kept_up = touch(w_ptr, OUT + first, 0, WIDTH, BLOCK_N, WIDTH // LINE, BLOCK_LINES, LINE)
        tl.extra.cuda.gdc_wait()
    if PARTS > 0:
        part = tl.arange(0, BLOCK_PARTS)[None, :]
        sums = tl.load(
            sums_ptr + rows[:, None] * PARTS + part,
            mask=is_row[:, None] & (part < PARTS),
            other=0.0,
        )
        scale = tl.rsqrt(tl.sum(sums, axis=1) / WIDTH + eps)[:, None]
    x_tile = x_ptr + rows.to(tl.int64)[:, None] * x_stride + depth[None, :]
    w_tile = w_ptr + cols[None, :] * WIDTH + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in tl.range(0, WIDTH, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_tile + step, mask=is_row[:, None], other=0.0)
        w = tl.load(w_tile + step)
        if PARTS > 0:
            weight = tl.load(norm_ptr + step + depth).to(tl.float32)[None, :]
            normed = (x.to(tl.float32) * scale).to(dtype).to(tl.float32)
            x = (normed * weight).to(dtype)
        if UPCAST:
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        total = tl.dot(x, w, total, input_precision="ieee")
        if IS_MLP:
            w_up = tl.load(w_tile + step + OUT * WIDTH)
            if UPCAST:
                w_up = w_up.to(tl.float32)
            up = tl.dot(x, w_up, up, input_precision="ieee")
    out = total.to(dtype)
    if IS_MLP:
        gate = out.to(tl.float32)
        silu = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
        out = (silu * up.to(dtype).to(tl.float32)).to(dtype)
    target = out_ptr + rows.to(tl.int64)[:, None] * OUT + cols[None, :]
    tl.store(target, out, mask=is_row[:, None])
    if IS_DEPENDENT:
        keep(sums_ptr, kept.to(tl.float32))
        if IS_MLP:
            keep(sums_ptr, kept_up.to(tl.float32))


@jit
def _linear_add_kernel(
    x_ptr,
    w_ptr,
    residual_ptr,
    sums_ptr,
    parts_ptr,
    tickets_ptr,
    num_rows,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    BLOCK_LINES: tl.constexpr,
    IS_DEPENDENT: tl.constexpr,
    UPCAST: tl.constexpr,
):
    dtype: tl.constexpr = residual_ptr.dtype.element_ty
    LINE: tl.constexpr = 256 // dtype.primitive_bitwidth
    SPAN: tl.constexpr = WIDTH // SPLITS
    TILES: tl.constexpr = OUT // BLOCK_N
    m_tile = tl.program_id(0)
    n_tile = tl.program_id(1)
    split = tl.program_id(2)
    rows = m_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    first = n_tile * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    depth = split * SPAN + tl.arange(0, BLOCK_K)
    mask = (rows < num_rows)[:, None]
    if IS_DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()
        kept = touch(w_ptr, first, split * SPAN, WIDTH, BLOCK_N, SPAN // LINE, BLOCK_LINES, LINE)
        tl.extra.cuda.gdc_wait()
    x_tile = x_ptr + rows[:, None] * WIDTH + depth[None, :]
    w_tile = w_ptr + cols[None, :] * WIDTH + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in tl.range(0, SPAN, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_tile + step, mask=mask, other=0.0)
        w = tl.load(w_tile + step)
        if UPCAST:
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        total = tl.dot(x, w, total, input_precision="ieee")
    offset = rows[:, None] * OUT + cols[None, :]
    is_last = True
    if SPLITS > 1:
        tl.store(parts_ptr + split * num_rows * OUT + offset, total, mask=mask)
        tl.debug_barrier()
        ticket_ptr = tickets_ptr + m_tile * TILES + n_tile
        ticket = tl.atomic_add(ticket_ptr, 1, sem="acq_rel", scope="gpu")
        tl.debug_barrier()
        is_last = ticket == SPLITS - 1
        if is_last:
            tl.store(ticket_ptr, 0)
            total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for other in tl.static_range(SPLITS):
                part = parts_ptr + other * num_rows * OUT + offset
                total += tl.load(part, mask=mask, other=0.0, cache_modifier=".cg")
    if is_last:
        before = tl.load(residual_ptr + offset, mask=mask, other=0.0).to(tl.float32)
        new = (total.to(dtype).to(tl.float32) + before).to(dtype)
        tl.store(residual_ptr + offset, new, mask=mask)
        wide = new.to(tl.float32)
        tl.store(
            sums_ptr + rows * TILES + n_tile, tl.sum(wide * wide, axis=1), mask=rows < num_rows
        )
    if IS_DEPENDENT:
        keep(parts_ptr, kept.to(tl.float32))


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def norm_linear(
    x: Tensor,
    sums: Tensor | None,
    norm: Tensor | None,
    weight: Tensor,
    eps: float,
    settings: RowSettings,
    is_mlp: bool = False,
) -> Tensor:
    """Normalise and multiply.

    Args:
        x: (R, D), contiguous rows.
        sums: (R, P) float32 parts of each row's sum of squares; None: x is normalised already.
        norm: (D,) norm weight, with `sums`.
        weight: (N, D) contiguous, or gate and up (2N, D).
    Returns:
        (R, N), contiguous.
    Raises:
        ValueError: shapes that do not divide into the tiles, or tensors of another layout.
    """
    if not use_triton(x):
        return norm_linear_ref(x, None if sums is None else norm, weight, eps, is_mlp)
    num_rows, width = x.shape
    count = weight.shape[0] // (2 if is_mlp else 1)
    if weight.shape[1] != width or width % settings.block_k or count % settings.block_n:
        raise ValueError(f"weight {tuple(weight.shape)}, x {tuple(x.shape)} do not fit {settings}")
    if not weight.is_contiguous() or x.stride(1) != 1 or (sums is None) != (norm is None):
        raise ValueError("weight must be contiguous, x with contiguous rows, sums come with norm")
    if sums is not None and (sums.shape[0] != num_rows or not sums.is_contiguous()):
        raise ValueError(f"sums {tuple(sums.shape)} must be contiguous, of {num_rows} rows")
    out = torch.empty((num_rows, count), dtype=x.dtype, device=x.device)
    if num_rows == 0:
        return out
    parts = 0 if sums is None else sums.shape[1]
    _norm_linear_kernel[(-(-num_rows // settings.block_m), count // settings.block_n)](
        x,
        # Behind the dependent wait unread lines are "stored" to a float32 buffer, never in fact.
        x if sums is None else sums,
        x if norm is None else norm,
        weight,
        out,
        num_rows,
        x.stride(0),
        eps,
        WIDTH=width,
        OUT=count,
        PARTS=parts,
        BLOCK_PARTS=_power(max(1, parts)),
        IS_MLP=is_mlp,
        **_options(settings, width, x),
    )
    return out


def linear_add_(
    x: Tensor, weight: Tensor, residual: Tensor, tickets: Tensor, settings: RowSettings
) -> Tensor:
    """residual += x . weight^T in place, rounded to its dtype twice as separate operations do.

    Args:
        x: (R, K), contiguous.
        weight: (D, K), contiguous.
        residual: (R, D), contiguous.
        tickets: (NUM_TICKETS,) int32, zero before the first launch and left so.
    Returns:
        (R, P) float32: parts of each row's sum of squares.
    Raises:
        ValueError: shapes that do not divide into the tiles, or tensors of another layout.
    """
    if not use_triton(x):
        return linear_add_ref_(x, weight, residual)
    num_rows, width = x.shape
    count = weight.shape[0]
    span = width // settings.splits
    if width % (settings.splits * settings.block_k) or count % settings.block_n:
        raise ValueError(f"weight {tuple(weight.shape)} does not fit {settings}")
    if weight.shape[1] != width or residual.shape != (num_rows, count):
        raise ValueError(f"{tuple(x.shape)} . {tuple(weight.shape)}^T + {tuple(residual.shape)}")
    if not (x.is_contiguous() and weight.is_contiguous() and residual.is_contiguous()):
        raise ValueError("x, weight and residual must be contiguous")
    m_tiles, n_tiles = -(-num_rows // settings.block_m), count // settings.block_n
    if m_tiles * n_tiles > tickets.shape[0]:
        raise ValueError(f"{m_tiles} x {n_tiles} tiles, only {tickets.shape[0]} tickets")
    sums = torch.empty((num_rows, n_tiles), dtype=torch.float32, device=x.device)
    if num_rows == 0:
        return sums
    shape = (settings.splits if settings.splits > 1 else 0, num_rows, count)
    parts = torch.empty(shape, dtype=torch.float32, device=x.device)
    _linear_add_kernel[(m_tiles, n_tiles, settings.splits)](
        x,
        weight,
        residual,
        sums,
        parts if settings.splits > 1 else sums,
        tickets,
        num_rows,
        WIDTH=width,
        OUT=count,
        SPLITS=settings.splits,
        **_options(settings, span, x),
    )
    return sums


def _options(settings: RowSettings, span: int, x: Tensor) -> dict[str, object]:
    options: dict[str, object] = {"num_warps": settings.num_warps}
    is_dependent = settings.use_dependent and not IS_INTERPRETED
    if is_dependent:
        options["launch_pdl"] = True
    return options | {
        "BLOCK_M": settings.block_m,
        "BLOCK_N": settings.block_n,
        "BLOCK_K": settings.block_k,
        "STAGES": settings.num_stages,
        "BLOCK_LINES": _power(max(1, span * x.itemsize // 32)),
        "IS_DEPENDENT": is_dependent,
        "UPCAST": IS_INTERPRETED,
    }
