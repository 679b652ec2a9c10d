from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from kernels.attention.rope import (
    QKNormRope,
    _written_rows,
    apply_rope,
    qk_norm_rope_store,
    rope_tables,
)
from kernels.linear.rms_norm import rms_norm_ref


@dataclass
class Setup:
    """Inputs of one fused call."""

    qkv: Tensor
    heads: QKNormRope
    positions: Tensor
    cache: Tensor
    rows_per_slot: int = 1

    def call(self, run, cache: Tensor, **slots: Tensor) -> Tensor:
        given = self.qkv, self.heads, self.positions, cache, self.rows_per_slot
        return run(qk_norm_rope_store, *given, **slots)


def make(
    positions, heads, kv_heads, head_dim, device, dtype, num_positions=19, has_norm=True, per_slot=1
) -> Setup:
    rows = len(positions)
    cos, sin = rope_tables(num_positions, head_dim, 10000.0, device, dtype)
    # Twice as many slots, every second one used, so that the cache is a view with holes.
    shape = (2, 2 * (rows // per_slot + 2), kv_heads, num_positions, head_dim)
    cache = torch.full(shape, float("nan"), device=device, dtype=dtype)[:, ::2]
    weights = [torch.randn(head_dim, device=device).to(dtype) for _ in range(2)]
    qkv = torch.randn(rows, (heads + 2 * kv_heads) * head_dim, device=device).to(dtype)
    positions = torch.tensor(positions, device=device)
    through = QKNormRope(*(weights if has_norm else (None, None)), cos, sin, 1e-6)
    return Setup(qkv, through, positions, cache, per_slot)


CASES = [
    # positions, H, H_kv, D_h, has_norm, rows_per_slot
    ([4], 1, 1, 40, True, 1),
    ([0, 18, 7], 2, 1, 64, True, 1),
    ([5, 5, 5], 2, 2, 40, False, 1),
    ([0, 1, 0, 1], 4, 2, 16, True, 2),
    ([3, 9, 17, 2], 2, 2, 64, False, 2),
]
GPU_CASES = [
    pytest.param((list(range(64)), 16, 8, 128, True, 1), marks=pytest.mark.gpu),
    pytest.param(([0, 1] * 256, 16, 8, 128, True, 2), marks=pytest.mark.gpu),
]


def test_tables_are_the_angles() -> None:
    cos, sin = rope_tables(300, 64, 1e6, "cpu", torch.float32)
    assert cos.shape == sin.shape == (300, 64)
    for position, pair in ((0, 0), (1, 0), (299, 5), (120, 31)):
        angle = position * 1e6 ** (-2 * pair / 64)
        assert cos[position, pair] == cos[position, pair + 32]
        assert math.isclose(cos[position, pair], math.cos(angle), abs_tol=3e-5)
        assert math.isclose(sin[position, pair + 32], math.sin(angle), abs_tol=3e-5)
    half = rope_tables(300, 64, 1e6, "cpu", torch.bfloat16)
    assert torch.equal(half[0], cos.bfloat16())


@pytest.mark.slow
def test_rotation_equals_transformers(dtype) -> None:
    modeling = pytest.importorskip("transformers.models.qwen3.modeling_qwen3")
    cos, sin = rope_tables(9, 64, 10000.0, "cpu", dtype)
    q, k = torch.randn(2, 1, 3, 9, 64).to(dtype)
    expected = modeling.apply_rotary_pos_emb(q, k, cos.unsqueeze(0), sin.unsqueeze(0))
    assert torch.equal(apply_rope(q, cos, sin), expected[0])
    assert torch.equal(apply_rope(k, cos, sin), expected[1])


@pytest.mark.parametrize("case", CASES)
def test_reference_is_norm_then_rope_then_store(case, dtype, device, with_reference) -> None:
    *shape, has_norm, per_slot = case
    setup = make(*shape, device, dtype, has_norm=has_norm, per_slot=per_slot)
    cache = setup.cache.clone()
    q = setup.call(with_reference, setup.cache)
    _, heads, kv_heads, head_dim = shape
    for row, position in enumerate(setup.positions.tolist()):
        parts = setup.qkv[row].view(-1, head_dim).split((heads, kv_heads, kv_heads))
        queries, keys, values = parts
        if has_norm:
            queries = rms_norm_ref(queries, setup.heads.q_weight, 1e-6)
            keys = rms_norm_ref(keys, setup.heads.k_weight, 1e-6)
        table = setup.heads.cos[position], setup.heads.sin[position]
        assert torch.equal(q[row].view(heads, head_dim), apply_rope(queries, *table))
        cache[0, row // per_slot, :, position] = apply_rope(keys, *table)
        cache[1, row // per_slot, :, position] = values
    # Nothing but the rows' own positions was written.
    torch.testing.assert_close(setup.cache, cache, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernel_equals_reference(
    case, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    *shape, has_norm, per_slot = case
    positions = 19 if device == "cpu" else 600
    setup = make(*shape, device, dtype, positions, has_norm, per_slot)
    caches = [setup.cache.clone() for _ in range(2)]
    out = setup.call(with_kernel, caches[0])
    ref = setup.call(with_reference, caches[1])
    assert torch.equal(caches[0][0].isnan(), caches[1][0].isnan())
    torch.testing.assert_close(caches[0][1], caches[1][1], rtol=0, atol=0, equal_nan=True)
    keys = [cache[0].nan_to_num() for cache in caches]
    if not has_norm:  # no sum whose order could differ
        assert torch.equal(out, ref)
        assert torch.equal(*keys)
    assert_close(out, ref)
    assert_close(*keys)
    assert_same_rounding(out, ref)
    assert_same_rounding(*keys)


def test_kernel_writes_into_views(device, with_kernel, with_reference) -> None:
    """A cache with holes between slots and a row of qkv cut from a wider tensor."""
    setup = make([3, 0, 11], 2, 1, 40, device, torch.float32)
    setup.qkv = torch.cat((setup.qkv, setup.qkv), dim=1)[:, : setup.qkv.shape[1]]
    cache = setup.cache.clone()
    assert not setup.cache.is_contiguous()
    out = setup.call(with_kernel, setup.cache)
    ref = setup.call(with_reference, cache)
    torch.testing.assert_close(out, ref)
    torch.testing.assert_close(setup.cache, cache, equal_nan=True)


def test_nan_stays_in_its_row(device, with_kernel) -> None:
    setup = make([3, 5, 7], 2, 1, 40, device, torch.float32)
    setup.qkv[1] = float("nan")
    out = setup.call(with_kernel, setup.cache)
    assert out[1].isnan().all()
    assert not out[[0, 2]].isnan().any()
    assert not setup.cache[0, 0, :, 3].isnan().any()


def test_wrong_arguments_are_named(device, with_kernel) -> None:
    setup = make([3, 5, 7], 2, 1, 40, device, torch.float32)
    with pytest.raises(ValueError, match="do not fit 2 slots"):
        setup.call(with_kernel, setup.cache[:, :2])
    setup.qkv = setup.qkv[:, 1:]
    with pytest.raises(ValueError, match="do not hold heads of 40"):
        setup.call(with_kernel, setup.cache)
    setup.heads = setup.heads._replace(k_weight=None)
    with pytest.raises(ValueError, match="both"):
        setup.call(with_kernel, setup.cache)


SLOTS = [3, 3, 3, 0, 0, 5, -1, -1]
PLACES = [0, 1, 2, 0, 1, 0, 0, 0]


def test_rows_that_name_their_slots(
    dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    """Tokens of packed prompts; padding writes nothing."""
    setup = make(PLACES, 2, 1, 40, device, dtype)
    slots = torch.tensor(SLOTS, device=device)
    results = []
    for run in (with_kernel, with_reference):
        cache = setup.cache.clone()
        q = setup.call(run, cache, slots=slots)
        results.append((q, *cache))
    (out, k_out, v_out), (ref, k_ref, v_ref) = results
    assert_close(out, ref)
    assert_same_rounding(out, ref)
    assert torch.equal(k_out.isnan(), k_ref.isnan())
    assert_close(k_out.nan_to_num(), k_ref.nan_to_num())
    torch.testing.assert_close(v_out, v_ref, rtol=0, atol=0, equal_nan=True)
    written = [(slot, place) for slot, place in zip(SLOTS, PLACES, strict=True) if slot >= 0]
    found = (~v_out[:, 0].isnan().any(dim=-1)).nonzero().tolist()
    assert sorted(map(tuple, found)) == sorted(written)
    for token, (slot, place) in enumerate(written):
        values = setup.qkv[token].view(-1, 40)[3:]
        assert torch.equal(v_out[slot, :, place], values)


@pytest.mark.parametrize("slots", [SLOTS, [-1, -1, 2, -1, 4], [0, 1]])
def test_where_the_host_may_not_look_rows_without_a_slot_repeat_one(slots, monkeypatch) -> None:
    given = torch.tensor(slots)
    mask = _written_rows(given)
    monkeypatch.setattr("kernels.attention.rope._may_look", lambda tensor: False)
    rows = _written_rows(given)
    assert len(rows) == len(slots)
    assert set(rows.tolist()) == set(mask.nonzero().flatten().tolist())
    assert rows[mask].tolist() == mask.nonzero().flatten().tolist()


def test_slots_must_fit_the_rows(device, with_kernel) -> None:
    setup = make([3, 5, 7], 2, 1, 40, device, torch.float32)
    with pytest.raises(ValueError, match=r"slots must be contiguous \(3,\)"):
        setup.call(with_kernel, setup.cache, slots=torch.tensor([0, 1], device=device))
