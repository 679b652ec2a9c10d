from __future__ import annotations

import pytest
import torch

from kernels.sampling.draws import uniforms, uniforms_ref

_MASK = (1 << 64) - 1


def mix(x: int) -> int:
    """SplitMix64's finaliser in Python's unbounded integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def expected(seed: int, frame: int, codebook: int) -> float:
    counter = (frame * 1024 + codebook + 1) * 0x9E3779B97F4A7C15
    return (mix((mix(seed) + counter) & _MASK) >> 40) * 2.0**-24


SEEDS = [0, 1, 12345678901, 2**63 - 1]
FRAMES = [0, 7, 8191, 3]


def test_generator_is_splitmix64() -> None:
    """The first outputs of SplitMix64 from state 0, as published with its reference code."""
    assert mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert mix((2 * 0x9E3779B97F4A7C15) & _MASK) == 0x6E789E6AA1B965F4


@pytest.mark.parametrize("count", [1, 16])
def test_bits(count, device, with_kernel) -> None:
    seeds = torch.tensor(SEEDS, device=device)
    frames = torch.tensor(FRAMES, device=device)
    wanted = torch.tensor(
        [
            [expected(seed, frame, codebook) for codebook in range(count)]
            for seed, frame in zip(SEEDS, FRAMES, strict=True)
        ],
        device=device,
    )
    assert torch.equal(uniforms_ref(seeds, frames, count), wanted)
    assert torch.equal(with_kernel(uniforms, seeds, frames, count), wanted)


def test_a_draw_depends_on_its_address_alone(device, with_kernel) -> None:
    seeds, frames = torch.tensor(SEEDS, device=device), torch.tensor(FRAMES, device=device)
    whole = with_kernel(uniforms, seeds, frames, 16)
    order = torch.tensor([2, 0, 3, 1], device=device)
    assert torch.equal(with_kernel(uniforms, seeds[order], frames[order], 16), whole[order])
    assert torch.equal(with_kernel(uniforms, seeds[1:2], frames[1:2], 5), whole[1:2, :5])


def test_uniform_over_frames_codebooks_and_seeds() -> None:
    """Chi-square over 64 bins for each way of walking through addresses, and no correlation."""
    n = 4096
    same, walk = torch.full((n,), 17), torch.arange(n)
    for seeds, frames in ((same, walk), (walk, same)):
        draws = uniforms_ref(seeds, frames, 16)
        assert draws.min() >= 0
        assert draws.max() < 1
        counts = torch.histc(draws, bins=64, min=0, max=1)
        chi_square = ((counts - n / 4) ** 2 / (n / 4)).sum()
        assert chi_square < 120  # 63 degrees of freedom: one in 100,000 beyond
        assert len(draws.unique()) > 0.99 * draws.numel()
        correlation = torch.corrcoef(draws.T) - torch.eye(16)
        assert correlation.abs().max() < 0.08  # five standard errors
        shifted = torch.corrcoef(torch.stack((draws[:-1, 0], draws[1:, 0])))
        assert shifted[0, 1].abs() < 0.08


@pytest.mark.parametrize("count", [0, 1024])
def test_count_out_of_range_is_refused(count) -> None:
    with pytest.raises(ValueError, match=r"1\.\.1023"):
        uniforms(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), count)


def test_wrong_dtype_is_refused(device, refused) -> None:
    rows = torch.zeros(1, dtype=torch.int64, device=device)
    refused("frames must be", uniforms, rows, rows.int(), 4)
