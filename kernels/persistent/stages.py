"""Device functions of `kernels.persistent.kernel`: waiting between programs, columns of a weight
held in registers, and the norm of one row.

Programs of one launch exchange data through global memory. Data that another program may have
written in this launch is read with `.cg`: past the L1 cache, which is not coherent. A program's
stores come before its arrival: a barrier of its threads, then one release by a single thread,
which in the PTX memory model also covers what the barrier ordered before it (PTX ISA, memory
consistency model, causality order).

Rounding: products are summed in float32 and rounded after the bias; `store_sum` rounds the product,
then the sum; `store_act` rounds as `kernels.linear.swiglu`, the norm as `kernels.linear.rms_norm`.
"""

from __future__ import annotations

from kernels.launch.dispatch import jit, tl
from kernels.linear import rms_norm
from kernels.linear.swiglu import gated


@jit
def arrive(counter_ptr):
    """Count this program's arrival: its stores of a stage are done."""
    tl.debug_barrier()
    tl.atomic_add(counter_ptr, 1, sem="release", scope="gpu")


@jit
def wait_for(counter_ptr, target):
    """Spin until `target` arrivals of this launch are counted, by acquiring atomics: faster than
    volatile loads.
    """
    while tl.atomic_add(counter_ptr, 0, sem="acquire", scope="gpu") < target:
        pass
    tl.debug_barrier()


@jit
def _columns(w_ptr, first, end, SIZE: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr):
    cols = first + tl.arange(0, COLS)
    depth = tl.arange(0, BLOCK_K)
    mask = (cols < end)[:, None] & (depth < SIZE)[None, :]
    return tl.load(w_ptr + cols[:, None] * SIZE + depth[None, :], mask=mask, other=0.0)


@jit
def columns(
    w_ptr, first, end, SIZE: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Load rows first..end of a weight (N, SIZE), at most A and then B of them, into registers.
    Without B the second part repeats the first.
    """
    w = _columns(w_ptr, first, end, SIZE, A, BLOCK_K)
    more = w
    if B > 0:
        more = _columns(w_ptr, first + A, end, SIZE, B, BLOCK_K)
    return w, more


@jit
def _dot(w, x):
    """w (COLS, K) times x (K,), float32."""
    return tl.sum(w.to(tl.float32) * x[None, :], axis=1)


@jit
def row(ptr, SIZE: tl.constexpr, BLOCK_K: tl.constexpr):
    """A row that other programs of this launch may have written, as float32."""
    depth = tl.arange(0, BLOCK_K)
    return tl.load(ptr + depth, mask=depth < SIZE, other=0.0, cache_modifier=".cg").to(tl.float32)


@jit
def given_row(x_ptr, x_stride, codes_ptr, codes_stride, index, HAS_CODES: tl.constexpr):
    """Address of an input of the step: a row of x, or of a table that a code chooses."""
    source_row = tl.zeros((), tl.int64) + index
    if HAS_CODES:
        source_row = tl.maximum(tl.load(codes_ptr + index * codes_stride), 0)
    return x_ptr + source_row * x_stride


@jit
def norm_weight(ptr, SIZE: tl.constexpr, BLOCK_K: tl.constexpr):
    depth = tl.arange(0, BLOCK_K)
    return tl.load(ptr + depth, mask=depth < SIZE, other=0.0).to(tl.float32)


@jit
def normed_row(ptr, weight, eps, dtype: tl.constexpr, SIZE: tl.constexpr, BLOCK_K: tl.constexpr):
    """RMSNorm of a row, rounded where `kernels.linear.rms_norm` rounds, as float32."""
    return rms_norm.normed_row(row(ptr, SIZE, BLOCK_K), weight, SIZE, eps, dtype).to(tl.float32)


@jit
def _store(out_ptr, bias_ptr, first, end, w, x, HAS_BIAS: tl.constexpr, COLS: tl.constexpr):
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    cols = first + tl.arange(0, COLS)
    total = _dot(w, x)
    if HAS_BIAS:
        total += tl.load(bias_ptr + cols, mask=cols < end, other=0.0).to(tl.float32)
    tl.store(out_ptr + cols, total.to(dtype), mask=cols < end)


@jit
def store(
    out_ptr, bias_ptr, first, end, w, x, HAS_BIAS: tl.constexpr, A: tl.constexpr, B: tl.constexpr
):
    """Round and store a product's columns, of both parts of w, after adding the bias."""
    _store(out_ptr, bias_ptr, first, end, w[0], x, HAS_BIAS, A)
    if B > 0:
        _store(out_ptr, bias_ptr, first + A, end, w[1], x, HAS_BIAS, B)


@jit
def _store_sum(out_ptr, source_ptr, first, end, out, COLS: tl.constexpr):
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    cols = first + tl.arange(0, COLS)
    before = tl.load(source_ptr + cols, mask=cols < end, other=0.0, cache_modifier=".cg")
    total = out.to(dtype).to(tl.float32) + before.to(tl.float32)
    tl.store(out_ptr + cols, total.to(dtype), mask=cols < end)


@jit
def store_sum(out_ptr, source_ptr, first, end, w, x, A: tl.constexpr, B: tl.constexpr):
    """Round a product's columns, of both parts of w, add those at `source_ptr`, store."""
    _store_sum(out_ptr, source_ptr, first, end, _dot(w[0], x), A)
    if B > 0:
        _store_sum(out_ptr, source_ptr, first + A, end, _dot(w[1], x), B)


@jit
def _store_act(out_ptr, first, end, gate, up, COLS: tl.constexpr):
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    cols = first + tl.arange(0, COLS)
    tl.store(out_ptr + cols, gated(gate, up, dtype), mask=cols < end)


@jit
def store_act(out_ptr, first, end, gate, up, x, A: tl.constexpr, B: tl.constexpr):
    """SwiGLU of both parts of two weights, rounded where `kernels.linear.swiglu` rounds."""
    _store_act(out_ptr, first, end, _dot(gate[0], x), _dot(up[0], x), A)
    if B > 0:
        _store_act(out_ptr, first + A, end, _dot(gate[1], x), _dot(up[1], x), B)
