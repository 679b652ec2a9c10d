"""The kernel of `kernels.persistent.step`: stages of a layer, and the waits between them.

`arrived` is the count of arrivals that the current stage waits for. The stages are one chain, and
every stage waits for all programs of the previous one, and so for all earlier stages: a buffer may
be written again as soon as the stage that reads it is over.

Every product is cut by output columns, one run of columns per program: nothing is split along K, so
the owner of a column adds the residual itself. A program loads its columns of a stage into
registers before it waits for the stage's input: the memory works while programs wait for each
other, and only the rows are read after the wait. Every program computes the norm in registers.
Attention is split over positions between programs (`kernels.persistent.attention`).

Columns per program: N / programs, as the largest power of two (A) and the remainder (B).

Rounding: as in the separate operations (`kernels.persistent.step`). Every product is rounded after
its bias, before SwiGLU or the residual; sums with the residual are rounded.
"""

from __future__ import annotations

from kernels.launch.dispatch import jit, tl
from kernels.persistent.attention import attend_split
from kernels.persistent.stages import (
    arrive,
    columns,
    given_row,
    norm_weight,
    normed_row,
    row,
    store,
    store_act,
    store_sum,
    wait_for,
)


# Compiled once for any column of codes and row of positions.
@jit(
    do_not_specialize=["num_layers", "codes_stride"],
    do_not_specialize_on_alignment=["codes_ptr", "positions_ptr"],
)
def _persistent_decoder_kernel(
    x_ptr, codes_ptr, positions_ptr, qkv_w_ptr, o_w_ptr, gate_up_w_ptr, down_w_ptr, norms_ptr,
    post_norms_ptr, qkv_b_ptr, q_norms_ptr, k_norms_ptr, head_w_ptr, cos_ptr, sin_ptr, keys_ptr,
    values_ptr, out_ptr, logits_ptr, residual_ptr, qkv_ptr, attended_ptr, act_ptr, mixed_ptr,
    stats_ptr, counters_ptr,
    num_layers,
    x_stride, codes_stride, layer_stride, head_stride,
    eps, scale,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, INNER: tl.constexpr, HEAD_SIZE: tl.constexpr,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    HAS_QKV_BIAS: tl.constexpr, HAS_QK_NORM: tl.constexpr, HAS_CODES: tl.constexpr,
    QKV_PER: tl.constexpr, QKV_A: tl.constexpr, QKV_B: tl.constexpr, OUT_PER: tl.constexpr,
    OUT_A: tl.constexpr, OUT_B: tl.constexpr, MLP_PER: tl.constexpr, MLP_A: tl.constexpr,
    MLP_B: tl.constexpr, HEAD_PER: tl.constexpr, HEAD_A: tl.constexpr, HEAD_B: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_MIXED: tl.constexpr,
    BLOCK_INNER: tl.constexpr,
    IS_ONE_BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    QKV: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    MIXED: tl.constexpr = NUM_HEADS * HEAD_DIM
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    tickets_ptr = counters_ptr + 2
    long_zero = tl.zeros((), tl.int64)
    arrived = 0

    for layer in range(num_layers):
        long_layer = long_zero + layer
        # Norm and q/k/v.
        first = pid * QKV_PER
        if first < QKV:
            end = tl.minimum(first + QKV_PER, QKV)
            w_ptr = qkv_w_ptr + long_layer * (QKV * WIDTH)
            w = columns(w_ptr, first, end, WIDTH, QKV_A, QKV_B, BLOCK_D)
            weight = norm_weight(norms_ptr + layer * WIDTH, WIDTH, BLOCK_D)
            wait_for(counters_ptr, arrived)
            for index in range(ROWS):
                source = residual_ptr + index * WIDTH
                if layer == 0:
                    source = given_row(x_ptr, x_stride, codes_ptr, codes_stride, index, HAS_CODES)
                x = normed_row(source, weight, eps, dtype, WIDTH, BLOCK_D)
                target, bias_ptr = qkv_ptr + index * QKV, qkv_b_ptr + layer * QKV
                store(target, bias_ptr, first, end, w, x, HAS_QKV_BIAS, QKV_A, QKV_B)
            arrive(counters_ptr)
        arrived += tl.cdiv(QKV, QKV_PER)

        # Attention.
        for task in range(pid, ROWS * NUM_KV_HEADS * SPLITS, programs):
            attend_split(
                qkv_ptr, q_norms_ptr + layer * HEAD_DIM, k_norms_ptr + layer * HEAD_DIM, cos_ptr,
                sin_ptr, positions_ptr, keys_ptr + long_layer * layer_stride,
                values_ptr + long_layer * layer_stride, attended_ptr, mixed_ptr, stats_ptr,
                tickets_ptr, counters_ptr, arrived, task, head_stride, eps, scale,
                NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, ROWS, HAS_QK_NORM, SPLITS, BLOCK_S,
                BLOCK_H, IS_ONE_BLOCK,
            )  # fmt: skip
        arrived += ROWS * NUM_KV_HEADS

        # Output projection and residual.
        first = pid * OUT_PER
        if first < WIDTH:
            end = tl.minimum(first + OUT_PER, WIDTH)
            w_ptr = o_w_ptr + long_layer * (WIDTH * MIXED)
            w = columns(w_ptr, first, end, MIXED, OUT_A, OUT_B, BLOCK_MIXED)
            wait_for(counters_ptr, arrived)
            for index in range(ROWS):
                target = residual_ptr + index * WIDTH
                source = target
                if layer == 0:
                    source = given_row(x_ptr, x_stride, codes_ptr, codes_stride, index, HAS_CODES)
                x = row(attended_ptr + index * MIXED, MIXED, BLOCK_MIXED)
                store_sum(target, source, first, end, w, x, OUT_A, OUT_B)
            arrive(counters_ptr)
        arrived += tl.cdiv(WIDTH, OUT_PER)

        # Norm, gate, up and SwiGLU.
        first = pid * MLP_PER
        if first < INNER:
            end = tl.minimum(first + MLP_PER, INNER)
            w_ptr = gate_up_w_ptr + long_layer * (2 * INNER * WIDTH)
            up_ptr = w_ptr + INNER * WIDTH
            gate = columns(w_ptr, first, end, WIDTH, MLP_A, MLP_B, BLOCK_D)
            up = columns(up_ptr, first, end, WIDTH, MLP_A, MLP_B, BLOCK_D)
            weight = norm_weight(post_norms_ptr + layer * WIDTH, WIDTH, BLOCK_D)
            wait_for(counters_ptr, arrived)
            for index in range(ROWS):
                x = normed_row(residual_ptr + index * WIDTH, weight, eps, dtype, WIDTH, BLOCK_D)
                store_act(act_ptr + index * INNER, first, end, gate, up, x, MLP_A, MLP_B)
            arrive(counters_ptr)
        arrived += tl.cdiv(INNER, MLP_PER)

        # Down and residual.
        first = pid * OUT_PER
        if first < WIDTH:
            end = tl.minimum(first + OUT_PER, WIDTH)
            w_ptr = down_w_ptr + long_layer * (WIDTH * INNER)
            w = columns(w_ptr, first, end, INNER, OUT_A, OUT_B, BLOCK_INNER)
            wait_for(counters_ptr, arrived)
            for index in range(ROWS):
                target = residual_ptr + index * WIDTH
                x = row(act_ptr + index * INNER, INNER, BLOCK_INNER)
                store_sum(target, target, first, end, w, x, OUT_A, OUT_B)
            arrive(counters_ptr)
        arrived += tl.cdiv(WIDTH, OUT_PER)

    # Final norm and head.
    first = pid * HEAD_PER
    if (pid == 0) | (first < HEAD_SIZE):
        end = tl.minimum(first + HEAD_PER, HEAD_SIZE)
        if HEAD_SIZE > 0:
            w = columns(head_w_ptr, first, end, WIDTH, HEAD_A, HEAD_B, BLOCK_D)
        weight = norm_weight(norms_ptr + num_layers * WIDTH, WIDTH, BLOCK_D)
        wait_for(counters_ptr, arrived)
        for index in range(ROWS):
            x = normed_row(residual_ptr + index * WIDTH, weight, eps, dtype, WIDTH, BLOCK_D)
            if pid == 0:
                depth = tl.arange(0, BLOCK_D)
                tl.store(out_ptr + index * WIDTH + depth, x.to(dtype), mask=depth < WIDTH)
            if HEAD_SIZE > 0:
                target = logits_ptr + index * HEAD_SIZE
                store(target, target, first, end, w, x, False, HEAD_A, HEAD_B)

    # The last program to leave clears the counters for the next launch: no other waits any more.
    tl.debug_barrier()
    left = tl.atomic_add(counters_ptr + 1, 1, sem="acq_rel", scope="gpu")
    if left == programs - 1:
        tl.store(counters_ptr, 0)
        tl.store(counters_ptr + 1, 0)
