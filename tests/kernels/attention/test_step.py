from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.attention import step as module
from kernels.attention.decode import decode_attention
from kernels.attention.rope import qk_norm_rope_store, rope_tables
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
    ([9, 0, 17], 8, 2, 40, 20, True, 1),  # query heads shared out to two programs
    ([5], 8, 1, 16, 16, False, 1),  # to four
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


def make(case, device: str, dtype: torch.dtype) -> dict[str, Tensor | int | float | None]:
    """Arguments; the caches are views with holes, and NaN where no row of a slot has been."""
    positions, heads, kv_heads, head_dim, num_positions, has_norm, per_slot = case
    rows = len(positions)
    caches = []
    for _ in range(2):
        shape = (2 * rows // per_slot + 2, kv_heads, num_positions, head_dim)
        cache = torch.full(shape, float("nan"), device=device, dtype=dtype)[::2]
        for row, position in enumerate(positions):
            filled = torch.randn(kv_heads, position, head_dim, device=device)
            cache[row // per_slot, :, :position] = filled.to(dtype)
        caches.append(cache)
    cos, sin = rope_tables(num_positions, head_dim, 1e4, device, dtype)
    weights = [torch.rand(head_dim, device=device).to(dtype) if has_norm else None for _ in "qk"]
    qkv = torch.randn(rows, (heads + 2 * kv_heads) * head_dim, device=device).to(dtype)
    return {
        "qkv": qkv,
        "q_weight": weights[0],
        "k_weight": weights[1],
        "cos": cos,
        "sin": sin,
        "positions": torch.tensor(positions, device=device),
        "k_cache": caches[0],
        "v_cache": caches[1],
        "num_heads": heads,
        "scale": head_dim**-0.5,
        "eps": 1e-6,
        "rows_per_slot": per_slot,
    }


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_one_launch_equals_the_two_operations(
    case, dtype, device, with_kernel, with_reference, assert_close, assert_same_rounding
) -> None:
    one = make(case, device, dtype)
    two = {name: value.clone() if "cache" in name else value for name, value in one.items()}
    scale = two.pop("scale")
    caches = one["k_cache"], one["v_cache"]
    assert with_kernel(module.use_one_launch, one["qkv"], *caches)
    out = with_kernel(step_attention, **one)
    q = with_reference(qk_norm_rope_store, two.pop("qkv"), **two)
    expected = with_reference(
        decode_attention,
        q,
        two["k_cache"],
        two["v_cache"],
        two["positions"],
        two["num_heads"],
        scale,
        two["rows_per_slot"],
    )
    assert_close(out, expected)
    for name in ("k_cache", "v_cache"):
        cache, other = one[name], two[name]
        assert torch.equal(cache.isnan(), other.isnan())
        # Only what this step stored: the rest of a cache would hide a rounding left out.
        rows = torch.arange(len(case[0]), device=device) // case[-1]
        stored, meant = (tensor[rows, :, one["positions"]] for tensor in (cache, other))
        assert_same_rounding(stored, meant)
        if dtype == torch.bfloat16 and not (case[5] and name == "k_cache"):
            assert torch.equal(stored, meant)  # without a norm nothing is summed
        assert_close(stored, meant)


def test_which_shapes_take_one_launch(device, with_kernel) -> None:
    arguments = make(CASES[2], device, torch.float32)
    qkv, keys, values = (arguments[name] for name in ("qkv", "k_cache", "v_cache"))
    assert with_kernel(module.use_one_launch, qkv, keys, values)
    assert not with_kernel(module.use_one_launch, qkv, keys, values.clone())
    long = keys.new_zeros(3, 2, 64, 64)
    assert not with_kernel(module.use_one_launch, qkv, long, long)
    if device == "cpu":
        assert not module.use_one_launch(qkv, keys, values)


def test_wrong_arguments_are_named(device, with_kernel) -> None:
    arguments = make(CASES[2], device, torch.float32)
    with pytest.raises(ValueError, match="must hold 4 \\+ 2 \\* 2 heads"):
        with_kernel(step_attention, **{**arguments, "num_heads": 4})
    with pytest.raises(ValueError, match="do not fit"):
        with_kernel(step_attention, **{**arguments, "rows_per_slot": 2})
