from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.sampling.nucleus import sample_nucleus

pytestmark = pytest.mark.slow

INF = float("inf")
SAMPLER = sample_nucleus
LAST = 0.99999994  # the largest float32 below 1


def official(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Probabilities of one row by the words of the rule, in float64, one id at a time."""
    p = logits.double().softmax(0)
    order = sorted(range(len(p)), key=lambda i: (-float(logits[i]), i))
    kept, mass = [], 0.0
    for rank, i in enumerate(order):
        mass += float(p[i])
        if rank == 0 or ((not top_k or rank < top_k) and (top_p >= 1 or mass <= top_p)):
            kept.append(i)
    weight = torch.zeros_like(p)
    weight[kept] = (logits.double()[kept] / temperature).softmax(0)
    return weight


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (1.0, 30, 0.9), (0.8, 7, 0.8), (1.3, 0, 0.6), (0.5, 5, 1.0), (1.0, 0, 1e-6)],
)
def test_draws_follow_the_official_rule(temperature, top_k, top_p, draw_many, device) -> None:
    """A grid of uniforms through one row gives the inverse of the rule's distribution."""
    grid, ids = 2000, 50
    logits = torch.randn(ids) * 2
    mass = official(logits, temperature, top_k, top_p).cumsum(0)
    uniform = (torch.arange(grid) + 0.5) / grid
    expected = torch.searchsorted(mass, uniform.double(), right=True)
    clear = (mass.unsqueeze(0) - uniform.unsqueeze(1)).abs().amin(1) > 1e-5
    assert clear.sum() > grid * 0.9
    rows = logits.to(device).expand(grid, -1).contiguous()
    out = draw_many(
        rows, uniform=uniform.to(device), temperature=temperature, top_k=top_k, top_p=top_p
    ).cpu()
    assert torch.equal(out[clear], expected[clear])


@pytest.mark.parametrize(
    "shape",
    [
        (1, 63),
        (3, 100),
        (24, 65),
        (3, 1),
        pytest.param((256, 1024), marks=pytest.mark.gpu),
        pytest.param((64, 4097), marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize("has_window", [False, True])
def test_kernel_equals_reference(
    shape, has_window, dtype, device, draw_kernel, draw_reference
) -> None:
    rows, ids = shape

    def rand(*sizes: int) -> Tensor:
        return torch.rand(*sizes, device=device)

    logits = (torch.randn(shape, device=device) * 3).to(dtype)
    changes: dict[str, Any] = {
        "uniform": rand(rows),
        "greedy": rand(rows) < 0.2,
        "temperature": rand(rows) + 0.3,
        "top_k": torch.randint(0, ids + 20, (rows,), dtype=torch.int32, device=device),
        "top_p": (rand(rows) * 1.5).clamp(max=1),
        "eos": ids // 3,
        "no_eos": rand(rows) < 0.5,
    }
    if has_window:
        likely = logits.float().topk(min(5, ids), dim=-1).indices
        changes |= {"window": likely, "window_uniform": rand(rows), "window_top_p": 0.9}
    out, expected = draw_kernel(logits, **changes), draw_reference(logits, **changes)
    # Where thousands of ids are kept, a mark may fall between two roundings of the same sum.
    assert int((out != expected).sum()) <= rows // 64


@pytest.mark.parametrize(("top_k", "kept"), [(1, [2]), (3, [2, 4, 5]), (4, [2, 4, 5, 7])])
def test_equal_logits_are_kept_by_lower_id(top_k, kept, draw, device) -> None:
    logits = torch.zeros(40, 9, device=device)
    logits[:, 2] = 1.0
    logits[:, [0, 1, 3, 6, 8]] = -1.0
    uniform = (torch.arange(40, device=device) + 0.5) / 40
    assert sorted(set(draw(logits, uniform=uniform, top_k=top_k).tolist())) == kept


def test_equal_logits_share_a_nucleus_up_to_its_edge(draw, device) -> None:
    logits = torch.zeros(40, 10, device=device)
    uniform = (torch.arange(40, device=device) + 0.5) / 40
    out = draw(logits, uniform=uniform, top_p=0.55)
    assert sorted(set(out.tolist())) == [0, 1, 2, 3, 4]


def test_a_repeated_id_is_drawn_anew(draw, device) -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2]], device=device).log().repeat(5, 1)
    window = torch.tensor([[-1, -1], [1, -1], [-1, 0], [0, 1], [2, 2]], device=device)
    out = draw(
        logits,
        uniform=0.0,
        top_p=0.6,
        window=window,
        window_uniform=LAST,
        window_temperature=1.0,
        window_top_p=0.9,
    )
    # 0.5 + 0.3 fits into 0.9, the last id does not; the new draw may be a repeated id again.
    assert out.tolist() == [0, 0, 1, 1, 0]


def test_the_end_is_never_a_repetition(draw, device) -> None:
    logits = torch.tensor([[0.0, 9.0, 8.0]], device=device)
    window = torch.tensor([[1, 0]], device=device)
    arguments = {"window": window, "window_uniform": LAST, "top_k": 2, "uniform": 0.0}
    assert draw(logits, eos=1, **arguments).tolist() == [1]
    assert draw(logits, eos=2, **arguments).tolist() == [2]


def test_greedy_rows_take_the_likeliest_and_repeat(draw, device) -> None:
    logits = torch.tensor([[1.0, 4.0, 4.0]], device=device)
    window = torch.tensor([[1]], device=device)
    out = draw(logits, greedy=True, window=window, window_uniform=0.99, temperature=0.0)
    assert out.tolist() == [1]


def test_no_end_where_it_is_too_early(draw, device) -> None:
    logits = torch.tensor([[1.0, 50.0, 4.0]], device=device).repeat(4, 1)
    flags = {"greedy": [True, False, True, False], "no_eos": [True, True, False, False]}
    assert draw(logits, eos=1, top_k=1, **flags).tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize("greedy", [True, False])
def test_rows_that_cannot_be_drawn(greedy, draw, device) -> None:
    logits = torch.zeros(4, 6, device=device)
    logits[0, 3] = float("nan")
    logits[1, 2] = INF
    logits[2] = -INF
    logits[3, 4] = 30.0
    window = torch.full((4, 3), 4, device=device)
    out = draw(logits, greedy=greedy, top_p=0.9, window=window, window_uniform=0.3)
    assert out.tolist() == [-1, -1, -1, 4]


def test_strided_noise_and_output(draw_kernel, device) -> None:
    logits = torch.randn(5, 33, device=device)
    noise = torch.rand(5, 4, device=device)
    plain = draw_kernel(logits, uniform=noise[:, 2].contiguous())
    wide = torch.zeros(5, 3, dtype=torch.int64, device=device)
    draw_kernel(logits, uniform=noise[:, 2], out=wide[:, 1])
    assert torch.equal(wide[:, 1], plain)
    assert not wide[:, [0, 2]].any()


def test_wrong_arguments_are_refused(draw, draw_kernel, device) -> None:
    logits = torch.randn(2, 9, device=device)
    with pytest.raises(ValueError, match="both be given"):
        draw(logits, window=torch.zeros(2, 3, dtype=torch.int64, device=device))
    with pytest.raises(ValueError, match=r"top_p must be contiguous \(2,\)"):
        draw_kernel(logits, top_p=torch.ones(3, device=device))
