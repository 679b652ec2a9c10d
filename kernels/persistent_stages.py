"""Device functions of `kernels.persistent_decoder`: waiting between programs, and one tile of work
of each stage but attention, which is `kernels.step_attention`'s.

Programs of one launch hand work to each other through global memory, so whatever another program
wrote in this launch is read with `.cg`: past the L1 cache, which is not coherent. A program's
stores come before its arrival: a barrier of its threads, then one release by a single thread,
which in the PTX memory model also covers what the barrier ordered before it (PTX ISA, memory
consistency model, causality order).
"""

from __future__ import annotations

from kernels.dispatch import jit, tl


@jit
def arrive(counter_ptr):
    """Tell the others that this program's stores of a stage are done."""
    tl.debug_barrier()
    tl.atomic_add(counter_ptr, 1, sem="release", scope="gpu")


@jit
def wait_for(counter_ptr, target, POLL_ATOMIC: tl.constexpr):
    """Spin until `target` arrivals of this launch are counted."""
    if POLL_ATOMIC:
        while tl.atomic_add(counter_ptr, 0, sem="acquire", scope="gpu") < target:
            pass
    else:
        while tl.load(counter_ptr, volatile=True) < target:
            pass
    tl.debug_barrier()


@jit
def touch(
    w_ptr,
    first_col,
    first_k,
    W_STRIDE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    LINES: tl.constexpr,
    BLOCK_LINES: tl.constexpr,
    LINE: tl.constexpr,
):
    """Start to bring BLOCK_N rows of a weight, LINES lines of LINE elements, into the L2 cache.

    One element a line is loaded; `keep` takes them.
    """
    lines = tl.arange(0, BLOCK_LINES)
    row = (first_col + tl.arange(0, BLOCK_N))[:, None]
    offset = row * W_STRIDE + (first_k + lines * LINE)[None, :]
    return tl.load(w_ptr + offset, mask=(lines < LINES)[None, :], other=0.0)


@jit
def keep(sink_ptr, kept):
    """Use what `touch` loaded, so that the loads are not dropped; nothing is ever stored."""
    row = tl.arange(0, kept.shape[0])[:, None]
    column = tl.arange(0, kept.shape[1])[None, :]
    never = kept.to(tl.float32) > 1e38
    tl.store(sink_ptr + row * kept.shape[1] + column, kept, mask=never)


@jit
def norm_tile(
    source_ptr,
    source_rows,
    source_stride,
    parts_ptr,
    residual_ptr,
    weight_ptr,
    hidden_ptr,
    rows,
    num_rows,
    is_writer,
    eps,
    SPLITS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Sum the parts of a linear layer, add them to the residual stream, normalise: rows (BLOCK_R,).

    SPLITS 0 adds nothing. Only a writer stores the new residual; hidden is stored always.
    """
    dtype: tl.constexpr = hidden_ptr.dtype.element_ty
    column = tl.arange(0, BLOCK_D)[None, :]
    mask = (rows < num_rows)[:, None] & (column < WIDTH)
    offset = rows[:, None] * WIDTH + column
    source = source_ptr + source_rows[:, None] * source_stride + column
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    x = tl.load(source, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    if SPLITS > 0:
        total = tl.load(parts_ptr + offset, mask=mask, other=0.0, cache_modifier=".cg")
        for split in tl.static_range(1, SPLITS):
            part = parts_ptr + split * num_rows * WIDTH + offset
            total += tl.load(part, mask=mask, other=0.0, cache_modifier=".cg")
        x = (total.to(dtype).to(tl.float32) + x).to(dtype).to(tl.float32)
    if is_writer:
        tl.store(residual_ptr + offset, x.to(dtype), mask=mask)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + eps)[:, None]
    normed = (x * scale).to(dtype).to(tl.float32)
    tl.store(hidden_ptr + offset, (normed * weight).to(dtype), mask=mask)


@jit
def product_tile(
    x_ptr,
    w_ptr,
    rows,
    cols,
    first_k,
    num_rows,
    X_STRIDE: tl.constexpr,
    W_STRIDE: tl.constexpr,
    SPAN: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """x (R, K) times w (N, K) transposed at (rows, cols), over SPAN of K from first_k; float32."""
    depth = first_k + tl.arange(0, BLOCK_K)
    x_tile = x_ptr + rows[:, None] * X_STRIDE + depth[None, :]
    w_tile = w_ptr + cols[None, :] * W_STRIDE + depth[:, None]
    is_row = (rows < num_rows)[:, None]
    total = tl.zeros((rows.shape[0], cols.shape[0]), tl.float32)
    for step in tl.range(0, SPAN, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_tile + step, mask=is_row, other=0.0, cache_modifier=".cg")
        w = tl.load(w_tile + step)
        if UPCAST:
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        total = tl.dot(x, w, total, input_precision="ieee")
    return total


@jit
def mlp_tile(
    x_ptr,
    w_ptr,
    rows,
    cols,
    num_rows,
    WIDTH: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """SwiGLU of x (R, D) times gate and up (2I, D) transposed at (rows, cols), rounded."""
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    depth = tl.arange(0, BLOCK_K)
    x_tile = x_ptr + rows[:, None] * WIDTH + depth[None, :]
    gate_tile = w_ptr + cols[None, :] * WIDTH + depth[:, None]
    up_tile = gate_tile + INNER * WIDTH
    is_row = (rows < num_rows)[:, None]
    gate = tl.zeros((rows.shape[0], cols.shape[0]), tl.float32)
    up = tl.zeros((rows.shape[0], cols.shape[0]), tl.float32)
    for step in tl.range(0, WIDTH, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_tile + step, mask=is_row, other=0.0, cache_modifier=".cg")
        w_gate = tl.load(gate_tile + step)
        w_up = tl.load(up_tile + step)
        if UPCAST:
            x = x.to(tl.float32)
            w_gate = w_gate.to(tl.float32)
            w_up = w_up.to(tl.float32)
        gate = tl.dot(x, w_gate, gate, input_precision="ieee")
        up = tl.dot(x, w_up, up, input_precision="ieee")
    gate = gate.to(dtype).to(tl.float32)
    silu = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    return (silu * up.to(dtype).to(tl.float32)).to(dtype)
