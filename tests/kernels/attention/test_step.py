from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.attention import step as module
from kernels.attention.decode import decode_attention
from kernels.attention.rope import QKNormRope, qk_norm_rope_store, rope_tables
from kernels.attention.step import step_attention

pytestmark = pytest.mark.slow

CASES = [
    # positions, H, H_kv, D_h, S, has_norm, rows_per_slot
    ([0], 1, 1, 16, 1, True, 1),
    ([6], 2, 1, 40, 16, True, 1),
    ([4, 4, 4], 2, 2, 64, 17, False, 1),
    ([20, 0, 16, 31], 6, 2, 40, 32, True, 1),
    ([0, 1, 0, 1], 4, 2, 64, 17, True, 2),
    ([17, 18, 0, 1, 16, 12], 8, 2, 40, 20, True, 2),
    ([9, 0, 17], 8, 2, 40, 20, True, 1),  # query heads shared out to four programs
    ([5], 8, 1, 16, 16, False, 1),  # to eight
]
GPU_CASES = [
    pytest.param((positions, 16, 8, 128, 16, True, per_slot), marks=pytest.mark.gpu)
    for positions, per_slot in (
        ([15], 1),
        ([row % 16 for row in range(64)], 1),
        ([15] * 256, 1),
        ([0, 1] * 256, 2),
    )
]
GPU_CASES += [
    pytest.param(([row % 10 for row in range(64)], 32, 8, 128, 10, False, 1), marks=pytest.mark.gpu)
]


def make(case, device: str, dtype: torch.dtype) -> tuple[Tensor, QKNormRope, Tensor, Tensor, int]:
    """Arguments; the cache is a view with holes, and NaN where no row of a slot has been."""
    positions, heads, kv_heads, head_dim, num_positions, has_norm, per_slot = case
    rows = len(positions)
    shape = (2, 2 * rows // per_slot + 2, kv_heads, num_positions, head_dim)
    cache = torch.full(shape, float("nan"), device=device, dtype=dtype)[:, ::2]
    for row, position in enumerate(positions):
        filled = torch.randn(2, kv_heads, position, head_dim, device=device)
        cache[:, row // per_slot, :, :position] = filled.to(dtype)
    cos, sin = rope_tables(num_positions, head_dim, 1e4, device, dtype)
    weights = [torch.rand(head_dim, device=device).to(dtype) if has_norm else None for _ in "qk"]
    qkv = torch.randn(rows, (heads + 2 * kv_heads) * head_dim, device=device).to(dtype)
    through = QKNormRope(*weights, cos, sin, 1e-6)
    return qkv, through, torch.tensor(positions, device=device), cache, per_slot


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_one_launch_equals_the_two_operations(
    case, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    qkv, heads, positions, cache, per_slot = make(case, device, dtype)
    other = cache.clone()
    assert with_kernel(module.use_one_launch, qkv, cache)
    out = with_kernel(step_attention, qkv, heads, positions, cache, per_slot)
    q = with_reference(qk_norm_rope_store, qkv, heads, positions, other, per_slot)
    expected = with_reference(decode_attention, q, other, positions, per_slot)
    assert_close(out, expected)
    assert torch.equal(cache.isnan(), other.isnan())
    # Only what this step stored: the rest of a cache would hide a rounding left out.
    rows = torch.arange(len(case[0]), device=device) // per_slot
    for part in range(2):
        stored, meant = (tensor[part][rows, :, positions] for tensor in (cache, other))
        assert_same_rounding(stored, meant)
        if dtype == torch.bfloat16 and not (case[5] and part == 0):
            assert torch.equal(stored, meant)  # without a norm nothing is summed
        assert_close(stored, meant)


@pytest.mark.parametrize("case", [CASES[6], CASES[7]])
def test_two_query_heads_a_program_round_as_one_does(
    case, dtype, device, with_kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where programs are many, each serves a pair of heads."""
    found = []
    for most in (0, module.MAX_SINGLE):
        monkeypatch.setattr(module, "MAX_SINGLE", most)
        torch.manual_seed(0)
        *given, cache, per_slot = make(case, device, dtype)
        found.append((with_kernel(step_attention, *given, cache, per_slot), cache))
    (pair, pair_cache), (single, single_cache) = found
    assert pair.isfinite().all()
    assert torch.equal(pair, single)
    assert torch.equal(pair_cache.nan_to_num(), single_cache.nan_to_num())


def test_which_shapes_take_one_launch(device, with_kernel) -> None:
    qkv, _, _, cache, _ = make(CASES[2], device, torch.float32)
    assert with_kernel(module.use_one_launch, qkv, cache)
    assert not with_kernel(module.use_one_launch, qkv, cache[..., ::2])
    assert not with_kernel(module.use_one_launch, qkv, cache.new_zeros(2, 3, 2, 64, 64))
    if device == "cpu":
        assert not module.use_one_launch(qkv, cache)


def test_wrong_arguments_are_named(device, refused) -> None:
    qkv, *others, _ = make(CASES[2], device, torch.float32)
    refused("do not hold heads of 64 for 2 of keys", step_attention, qkv[:, 64:], *others)
    refused(
        "must be contiguous",
        step_attention,
        torch.cat([qkv, qkv], dim=1)[:, : qkv.shape[1]],
        *others,
    )
    refused("do not fit", step_attention, qkv, *others, rows_per_slot=2)
