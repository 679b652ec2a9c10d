from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.attention import decode as module
from kernels.attention.decode import (
    _attend_masked,
    decode_attention,
    decode_attention_ref,
    num_splits,
)

pytestmark = pytest.mark.slow


def make(positions, heads, kv_heads, head_dim, num_positions, device, dtype, per_slot=1):
    """Arguments; the cache is a view with holes, and NaN wherever no row of a slot is."""
    rows = len(positions)
    slots = rows // per_slot
    q = torch.randn(rows, heads * head_dim, device=device).to(dtype)
    shape = (2, 2 * slots + 2, kv_heads, num_positions + 3, head_dim)
    cache = torch.full(shape, float("nan"), device=device, dtype=dtype)[:, ::2, :, 2:-1]
    for slot in range(slots):
        length = max(positions[slot * per_slot : (slot + 1) * per_slot]) + 1
        filled = torch.randn(2, kv_heads, length, head_dim, device=device)
        cache[:, slot, :, :length] = filled.to(dtype)
    return q, cache, torch.tensor(positions, device=device), per_slot


def slow_attention(q: Tensor, cache: Tensor, positions: Tensor, per_slot: int) -> Tensor:
    """Row by row and head by head in float64."""
    kv_heads, head_dim = cache.shape[2], cache.shape[4]
    num_heads = q.shape[1] // head_dim
    group = num_heads // kv_heads
    rows = []
    for row, position in enumerate(positions.tolist()):
        heads = []
        for head, query in enumerate(q[row].double().chunk(num_heads)):
            keys, values = cache[:, row // per_slot, head // group, : position + 1].double()
            heads.append(torch.softmax(keys @ query * head_dim**-0.5, dim=0) @ values)
        rows.append(torch.cat(heads))
    return torch.stack(rows)


CASES = [
    # positions, H, H_kv, D_h, S, rows_per_slot
    ([0], 1, 1, 16, 1, 1),
    ([6], 2, 1, 40, 16, 1),
    ([4, 4, 4], 2, 2, 64, 17, 1),
    ([99, 0, 63, 64], 6, 2, 40, 100, 1),
    ([0, 1, 0, 1], 4, 2, 64, 17, 2),
    ([30, 31, 0, 1, 16, 12], 4, 2, 40, 70, 2),
]
GPU_CASES = [
    pytest.param(case, marks=pytest.mark.gpu)
    for case in (
        ([900], 16, 8, 128, 2048, 1),
        ([3999], 16, 8, 128, 4096, 1),
        ([100, 4000, 700], 16, 8, 128, 4096, 1),
        ([16 * row % 600 for row in range(64)], 16, 8, 128, 1024, 1),
        ([16 * row % 600 for row in range(256)], 16, 8, 128, 640, 1),
        ([15] * 256, 16, 8, 128, 16, 1),
        ([0, 1] * 64, 16, 8, 128, 17, 2),
        ([500, 70], 16, 2, 64, 1024, 1),
    )
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("path", [decode_attention_ref, _attend_masked])
def test_references_are_attention(case, path, dtype, device, assert_close) -> None:
    if path is decode_attention_ref:
        device = "cpu"  # elsewhere it is the other
    *shape, per_slot = case
    arguments = make(*shape, device, dtype, per_slot)
    assert_close(path(*arguments), slow_attention(*arguments))


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernel_is_attention(case, dtype, device, with_kernel, assert_close) -> None:
    """Stale NaN fills every position no row sees, so this is also the test that none leaks."""
    *shape, per_slot = case
    arguments = make(*shape, device, dtype, per_slot)
    assert_close(with_kernel(decode_attention, *arguments), slow_attention(*arguments))


@pytest.mark.parametrize(
    ("case", "splits"),
    [
        *zip(CASES[1:], (16, 2, 2, 4, 2), strict=True),
        *((CASES[3], 16), (CASES[5], 4), (CASES[5], 16)),
    ],
)
def test_split_kernel_is_attention(
    case, splits, dtype, device, with_kernel, assert_close, monkeypatch
) -> None:
    """Splits that are empty, partly filled, or see nothing of the shorter row of a slot."""
    monkeypatch.setattr(module, "num_splits", lambda programs, positions: splits)
    *shape, per_slot = case
    arguments = make(*shape, device, dtype, per_slot)
    assert_close(with_kernel(decode_attention, *arguments), slow_attention(*arguments))


def test_rows_do_not_depend_on_their_batch(dtype, device, with_kernel, with_reference) -> None:
    q, cache, positions, _ = make([9, 50, 20], 4, 2, 40, 60, device, dtype)
    for run in (with_kernel, with_reference):
        if run is with_reference and device == "cuda":
            continue  # the masked reference promises no bits
        whole = run(decode_attention, q, cache, positions)
        for row in range(3):
            one = slice(row, row + 1)
            alone = run(decode_attention, q[one], cache[:, one], positions[one])
            assert torch.equal(alone[0], whole[row])


def test_the_length_of_the_cache_counts_for_nothing_where_asked(dtype, device, with_kernel) -> None:
    """It is made for the longest row of a manifest, which is none of a row's business."""
    positions = [9, 50, 20]
    q, cache, places, _ = make(positions, 4, 2, 40, 600, device, dtype)
    long = with_kernel(decode_attention, q, cache, places, is_long=True)
    short = with_kernel(decode_attention, q, cache[:, :, :, :64], places, is_long=True)
    assert torch.equal(short, long)
    assert num_splits(6, 64) != num_splits(6, 600)


def test_a_beginning_is_read_in_another_slot(
    dtype, device, with_kernel, with_reference, monkeypatch
) -> None:
    """Whole tiles of it: bits are those of a copy of one's own, which is not looked at."""
    monkeypatch.setattr(module, "launch_settings", lambda dtype, group: (16, 4, 2))
    q, cache, positions, _ = make([90, 40, 70, 20], 4, 2, 40, 100, device, dtype)
    alike = torch.tensor([[2, 50], [2, 36], [2, 50], [0, 0]], device=device)
    cache[:, 0, :, :50] = cache[:, 2, :, :50]
    cache[:, 1, :, :36] = cache[:, 2, :, :36]
    for splits in (1, 4):
        monkeypatch.setattr(module, "num_splits", lambda programs, positions, n=splits: n)
        own = with_kernel(decode_attention, q, cache, positions)
        away = with_kernel(decode_attention, q, cache, positions, prefixes=alike)
        assert torch.equal(own, away)
        spoilt = cache.clone()
        spoilt[:, 0, :, :48] = spoilt[:, 1, :, :32] = float("nan")
        assert torch.equal(with_kernel(decode_attention, q, spoilt, positions, prefixes=alike), own)
    plain = with_reference(decode_attention, q, cache, positions)
    assert torch.equal(with_reference(decode_attention, q, cache, positions, prefixes=alike), plain)


def test_nan_stays_in_its_row(device, with_kernel, with_reference) -> None:
    arguments = make([9, 50, 20], 4, 2, 40, 60, device, torch.float32)
    arguments[1][0, 1, :, 3] = float("nan")
    for run in (with_kernel, with_reference):
        out = run(decode_attention, *arguments)
        assert out[1].isnan().all()
        assert not out[[0, 2]].isnan().any()


@pytest.mark.parametrize(
    ("programs", "positions", "splits"),
    [
        (8, 16, 1),  # short cache
        (8, 511, 1),
        (8, 4096, 16),
        (64, 4096, 8),
        (256, 4096, 2),
        (512, 4096, 1),  # enough programs
    ],
)
def test_number_of_splits(programs, positions, splits) -> None:
    assert num_splits(programs, positions) == splits


def test_wrong_arguments_are_named(device, refused) -> None:
    q, cache, positions, _ = make([3, 5], 4, 2, 40, 8, device, torch.float32)
    for rows in (q[:, :-1], q[:, :40], q[:, :120], q.repeat(1, 2)[:, ::2]):
        refused("do not hold heads of 40 for 2 of keys", decode_attention, rows, cache, positions)
    refused("do not fit 1 slots", decode_attention, q, cache[:, :1], positions)
    refused("the dtype of the rows", decode_attention, q, cache.half(), positions)


@pytest.mark.gpu
def test_graph_replay_follows_the_positions(with_kernel) -> None:
    """Captured at one length, replayed at others: the grid is fixed, the lengths are read."""
    q, cache, *_ = make([1999] * 2, 16, 8, 128, 2048, "cuda", torch.bfloat16)
    positions = torch.zeros(2, dtype=torch.int64, device="cuda")
    with_kernel(decode_attention, q, cache, positions)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = decode_attention(q, cache, positions)
    for values in ([5, 1999], [1000, 0]):
        positions.copy_(torch.tensor(values))
        graph.replay()
        eager = decode_attention(q, cache, positions)
        assert torch.equal(out, eager)
