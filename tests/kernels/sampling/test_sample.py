from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.linear.code_embedding import Beginning, code_embedding
from kernels.sampling.sample import sample

pytestmark = pytest.mark.slow

INF = float("inf")
SAMPLER = sample
LAST = 0.99999994  # the largest float32 below 1


def random_settings(rows: int, ids: int, device: str) -> dict[str, Any]:
    """Every setting at once, different in each row."""

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, device=device)

    return {
        "uniform": rand(rows),
        "greedy": rand(rows) < 0.2,
        "temperature": rand(rows) + 0.3,
        "top_k": torch.randint(0, ids + 20, (rows,), dtype=torch.int32, device=device),
        "top_p": (rand(rows) * 1.5).clamp(max=1),
        "seen": rand(rows, ids) < 0.2,
        "repetition_penalty": rand(rows) + 0.7,
        "suppress": rand(ids) < 0.2,
        "eos": ids // 3,
        "no_eos": rand(rows) < 0.5,
    }


@pytest.mark.parametrize(
    "shape",
    [
        (1, 63),
        (3, 100),
        (40, 100),
        (3, 1),
        pytest.param((256, 2048), marks=pytest.mark.gpu),
        pytest.param((64, 3072), marks=pytest.mark.gpu),
        pytest.param((7, 4096), marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_kernel_equals_reference(shape, masked, dtype, device, draw_kernel, draw_reference) -> None:
    logits = (torch.randn(shape, device=device) * 3).to(dtype)
    changes = random_settings(*shape, device)
    if not masked:
        for name in ("seen", "repetition_penalty", "suppress", "no_eos"):
            changes[name] = None
    assert torch.equal(draw_kernel(logits, **changes), draw_reference(logits, **changes))


@pytest.mark.parametrize(
    ("rows", "width"), [(3, 64), (5, 320), pytest.param(256, 1024, marks=pytest.mark.gpu)]
)
def test_a_draw_begins_the_next_step(
    rows, width, dtype, device, draw_kernel, draw_reference, with_kernel
) -> None:
    """As the embedding of the ids does, in an operation of its own."""
    logits = (torch.randn(rows, 100, device=device) * 3).to(dtype)
    logits[1, 7] = float("nan")  # a failed row
    changes = random_settings(rows, 100, device)
    for name in ("seen", "repetition_penalty", "suppress", "no_eos"):
        changes[name] = None
    table = torch.randn(100, 2 * width, device=device).to(dtype)[:, :width]
    weight = torch.rand(width, device=device).to(dtype)

    def beginning() -> Beginning:
        made = (torch.full((rows, width), -1.0, device=device, dtype=dtype) for _ in range(2))
        return Beginning(table, weight, 1e-6, *made)

    expected = draw_kernel(logits, **changes)
    assert expected[1] == -1
    embedded = torch.empty(rows, width, device=device, dtype=dtype)
    normed = with_kernel(code_embedding, expected, table, weight, 1e-6, embedded)
    for draw in (draw_kernel, draw_reference):
        then = beginning()
        assert torch.equal(draw(logits, **changes, then=then), expected)
        assert torch.equal(then.out, embedded)
        difference = (then.normed.float() - normed.float()).abs().max()
        if draw is draw_kernel and width == 1024:  # in float32 sums can be in another order
            assert difference <= (0 if dtype is torch.bfloat16 else 1e-6)
        assert difference <= 0.05


def test_a_step_that_does_not_fit_is_refused(device, draw_kernel) -> None:
    table, made = torch.randn(9, 64, device=device), torch.empty(3, 64, device=device)
    then = Beginning(table, table[0, :32], 1e-6, made, made.clone())
    with pytest.raises(ValueError, match="do not fit 3 rows of 64"):
        draw_kernel(torch.zeros(3, 9, device=device), then=then)


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.4])
@pytest.mark.parametrize("top_k", [0, 7])
def test_draws_follow_transformers_processors(top_k, top_p, draw_many, device) -> None:
    """A grid of uniforms through one row gives the inverse of the processors' own distribution."""
    process = pytest.importorskip("transformers.generation.logits_process")
    grid, ids, seen_ids = 2000, 50, [3, 8, 11, 30]
    logits = torch.randn(1, ids) * 2
    scores = process.RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([seen_ids]), logits.clone())
    scores = process.SuppressTokensLogitsProcessor([0, 1, 40], device="cpu")(None, scores)
    scores = process.TemperatureLogitsWarper(0.7)(None, scores)
    if top_k:
        scores = process.TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = process.TopPLogitsWarper(top_p)(None, scores)
    mass = scores[0].double().softmax(0).cumsum(0)

    uniform = (torch.arange(grid) + 0.5) / grid
    expected = torch.searchsorted(mass, uniform.double(), right=True)
    clear = (mass.unsqueeze(0) - uniform.unsqueeze(1)).abs().amin(1) > 1e-5
    assert clear.sum() > grid * 0.9
    seen = torch.zeros(grid, ids, dtype=torch.bool)
    seen[:, seen_ids] = True
    suppress = torch.zeros(ids, dtype=torch.bool)
    suppress[[0, 1, 40]] = True
    out = draw_many(
        logits.expand(grid, ids).contiguous().to(device),
        uniform=uniform.to(device),
        temperature=0.7,
        top_k=top_k,
        top_p=top_p,
        seen=seen.to(device),
        repetition_penalty=1.3,
        suppress=suppress.to(device),
    )
    assert torch.equal(out.cpu()[clear], expected[clear])


def test_greedy_takes_the_lowest_of_the_largest(draw, device) -> None:
    logits = torch.zeros(3, 63, device=device)
    logits[0, [5, 60]] = 2.0
    logits[1] = -4.0
    logits[2, 62] = 1e-6
    # Settings that would break a draw are ignored.
    out = draw(logits, greedy=True, temperature=0.0, top_k=3, top_p=0.1)
    assert out.tolist() == [5, 0, 62]


@pytest.mark.parametrize("is_greedy", [True, False])
def test_bad_rows_give_minus_one_and_spare_the_others(is_greedy, draw, device) -> None:
    logits = torch.randn(6, 40, device=device)
    clean = draw(logits.clone(), greedy=is_greedy)
    logits[0, 7] = float("nan")
    logits[2, 39] = INF
    logits[3, 5] = -INF
    logits[4] = -INF
    suppress = torch.zeros(40, dtype=torch.bool, device=device)
    suppress[7] = True  # masking the NaN does not make the row good
    out = draw(logits, greedy=is_greedy, suppress=suppress)
    assert out[[0, 2, 4]].tolist() == [-1, -1, -1]
    assert (out[[1, 3, 5]] >= 0).all()
    assert draw(logits, greedy=is_greedy)[[1, 5]].tolist() == clean[[1, 5]].tolist()


def test_masked_ids_are_never_drawn(draw, device) -> None:
    """At both ends of the uniform range, with the masked ids first and last and most likely."""
    for ids in (63, 100):
        logits = torch.randn(4, ids, device=device)
        logits[:, [0, 1, ids - 2, ids - 1]] = 20.0
        suppress = torch.zeros(ids, dtype=torch.bool, device=device)
        suppress[[0, 1, ids - 2]] = True
        for top_k in (0, 1, 5, ids):
            out = draw(
                logits,
                uniform=[0.0, 1e-8, 0.999, LAST],
                top_k=top_k,
                suppress=suppress,
                eos=ids - 1,
                no_eos=True,
            )
            assert (out >= 2).all()
            assert (out < ids - 2).all()


def test_largest_uniform_draws_the_last_kept_id(draw, device) -> None:
    logits = torch.zeros(1, 100, device=device)
    logits[0, 80:] = -INF
    assert draw(logits, uniform=LAST).tolist() == [79]
    assert draw(logits, uniform=0.0).tolist() == [0]


def test_eos_only_where_the_row_may_end(draw, device) -> None:
    logits = torch.tensor([[0.0, 9.0, 1.0]], device=device).repeat(2, 1)
    given = logits.clone()
    assert draw(logits, greedy=True, eos=1, no_eos=[True, False]).tolist() == [2, 1]
    assert draw(logits, greedy=True, eos=-1, no_eos=[True, True]).tolist() == [1, 1]
    assert torch.equal(logits, given)  # the caller's logits are left alone


def test_top_k_keeps_ties(draw, device) -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, -0.0, 0.0, 2.0]], device=device).repeat(8, 1)
    uniform = (torch.arange(8.0, device=device) + 0.5) / 8
    for top_k, kept in ((1, {1}), (2, {1, 2, 3, 6}), (4, {1, 2, 3, 6}), (6, set(range(7)))):
        out = draw(logits, uniform=uniform, top_k=top_k, temperature=50.0)
        assert set(out.tolist()) == kept, top_k


def test_top_k_among_neighbouring_floats(draw, device) -> None:
    """A crowd of values one rounding step apart, far above two that stretch the range."""
    crowd = [1.0 + step * 2.0**-23 for step in (5, 3, 1, 4, 2, 2, 0)]
    logits = torch.tensor([[-1e12, -1e9, *crowd]], device=device).repeat(12, 1)
    uniform = (torch.arange(12.0, device=device) + 0.5) / 12  # the crowd shares it evenly
    for top_k, kept in ((1, {2}), (3, {2, 3, 5}), (4, {2, 3, 5, 6, 7}), (7, set(range(2, 9)))):
        out = draw(logits, uniform=uniform, top_k=top_k)
        assert set(out.tolist()) == kept, top_k


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # the interpreter divides by zero
def test_unused_row_with_zero_settings_ends(draw, device) -> None:
    """A padded row may hold zeros everywhere; it must neither hang nor touch the others."""
    logits = torch.randn(2, 63, device=device)
    logits[1, :5] = 0.0
    out = draw(logits, temperature=[1.0, 0.0], top_k=[5, 5], top_p=[0.9, 0.0])
    assert out[:1].tolist() == draw(logits[:1], top_k=5, top_p=0.9).tolist()
    assert -1 <= out[1] < 63


def test_top_p_ties_share_their_fate(draw, device) -> None:
    """Four ids of mass 0.2 and two of 0.1: each group stays or goes as a whole."""
    probabilities = torch.tensor([0.2, 0.2, 0.1, 0.2, 0.2, 0.1], device=device)
    logits = probabilities.log().repeat(24, 1)
    uniform = (torch.arange(24.0, device=device) + 0.5) / 24
    for top_p, kept in ((0.85, range(6)), (0.7, (0, 1, 3, 4)), (0.05, (0, 1, 3, 4))):
        out = draw(logits, uniform=uniform, top_p=top_p)
        assert set(out.tolist()) == set(kept), top_p
    top = torch.tensor([[0.0, 2.0, 1.0]], device=device).repeat(2, 1)
    assert draw(top, uniform=[0.0, LAST], top_p=0.0).tolist() == [1, 1]


def test_rows_do_not_depend_on_their_batch(draw, device) -> None:
    logits = torch.randn(5, 100, device=device) * 2
    changes = random_settings(5, 100, device)
    whole = draw(logits, **changes)
    order = torch.tensor([3, 1, 4, 0, 2], device=device)

    def pick(rows: Tensor) -> dict[str, Any]:
        by_row = {k: v for k, v in changes.items() if isinstance(v, Tensor) and k != "suppress"}
        return changes | {name: value[rows].contiguous() for name, value in by_row.items()}

    assert torch.equal(draw(logits[order], **pick(order)), whole[order])
    for row in range(5):
        rows = torch.tensor([row], device=device)
        assert torch.equal(draw(logits[rows], **pick(rows)), whole[rows])


def test_strided_uniform_out_and_logits(device, draw_kernel, draw_reference) -> None:
    """As the engine calls it: a column of noise in, a column of the code history out."""
    noise = torch.rand(3, 16, device=device)
    wide = torch.randn(3, 200, device=device)
    expected = draw_reference(wide[:, 7:70].contiguous(), uniform=noise[:, 4])
    for draw in (draw_kernel, draw_reference):
        history = torch.full((3, 9), -5, dtype=torch.int64, device=device)
        draw(wide[:, 7:70], uniform=noise[:, 4], out=history[:, 2])
        assert torch.equal(history[:, 2], expected)
        history[:, 2] = -5
        assert (history == -5).all()


def test_wrong_arguments_are_named(device, draw, draw_kernel) -> None:
    logits = torch.randn(3, 40, device=device)
    with pytest.raises(ValueError, match="seen and repetition_penalty"):
        draw(logits, repetition_penalty=1.1)
    short = torch.zeros(2, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="top_k must be contiguous"):
        draw_kernel(logits, top_k=short)
    with pytest.raises(ValueError, match="out"):
        draw_kernel(logits, out=torch.zeros(3, dtype=torch.int32, device=device))
