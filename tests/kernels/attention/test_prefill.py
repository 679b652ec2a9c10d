from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.attention.prefill import (
    WHOLE,
    _attend_masked,
    prefill_attention,
    prefill_attention_ref,
)

pytestmark = pytest.mark.slow


def pack(lengths: list[int], slots: list[int], padding: int) -> tuple[Tensor, Tensor]:
    """Slots and positions of packed rows, padding behind them."""
    owners = [slot for length, slot in zip(lengths, slots, strict=True) for _ in range(length)]
    places = [place for length in lengths for place in range(length)]
    return torch.tensor(owners + [-1] * padding), torch.tensor(places + [0] * padding)


def make(lengths, slots, padding, heads, kv_heads, head_dim, device, dtype):
    """Arguments; the cache is a view with holes, and NaN wherever no row is."""
    owners, places = pack(lengths, slots, padding)
    q = torch.randn(len(owners), heads * head_dim, device=device).to(dtype)
    shape = (2, 2 * (max(slots) + 2), kv_heads, max(lengths) + 6, head_dim)
    cache = torch.full(shape, float("nan"), device=device, dtype=dtype)[:, ::2, :, 2:-1]
    for slot, length in zip(slots, lengths, strict=True):
        cache[:, slot, :, :length] = torch.randn(2, kv_heads, length, head_dim, device=device)
    return q, cache, owners.to(device), places.to(device)


def slow_attention(q, cache, slots, positions) -> Tensor:
    """Token by token and head by head in float64."""
    kv_heads, head_dim = cache.shape[2], cache.shape[4]
    heads = q.shape[1] // head_dim
    group = heads // kv_heads
    rows = []
    for token, (slot, place) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
        if slot < 0:
            rows.append(torch.zeros_like(q[token], dtype=torch.float64))
            continue
        parts = []
        for head, query in enumerate(q[token].double().chunk(heads)):
            keys, values = cache[:, slot, head // group, : place + 1].double()
            parts.append(torch.softmax(keys @ query * head_dim**-0.5, dim=0) @ values)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


CASES = [
    # lengths, slots, padding, H, H_kv, D_h
    ([1], [0], 0, 1, 1, 16),
    ([5], [2], 3, 2, 1, 40),
    ([3, 1, 7], [1, 4, 0], 5, 2, 2, 16),
    ([40, 2, 33, 20], [3, 0, 2, 5], 1, 4, 2, 16),
    ([2, 2], [1, 0], 60, 2, 1, 64),
]
GPU_CASES = [
    pytest.param(case, marks=pytest.mark.gpu)
    for case in (
        ([80] * 30, list(range(30)), 2560 - 2400, 16, 8, 128),
        ([10 + 37 * row % 300 for row in range(20)], list(range(20))[::-1], 70, 16, 8, 128),
        ([1500], [3], 36, 16, 8, 128),
        ([63, 1, 100], [2, 0, 1], 0, 16, 2, 64),
    )
]


@pytest.mark.parametrize("case", CASES)
def test_reference_equals_the_definition(case, dtype, device, with_reference, assert_close) -> None:
    arguments = make(*case, device, dtype)
    assert_close(with_reference(prefill_attention, *arguments), slow_attention(*arguments))


@pytest.mark.parametrize("case", [*CASES, *GPU_CASES])
def test_kernel_equals_reference(
    case, dtype, device, with_kernel, with_reference, assert_close
) -> None:
    arguments = make(*case, device, dtype)
    out = with_kernel(prefill_attention, *arguments)
    assert_close(out, with_reference(prefill_attention, *arguments))
    padding = case[2]
    assert not out[len(out) - padding :].any()


def test_only_padding_gives_zeros(device, with_kernel) -> None:
    q, cache, *_ = make([3], [0], 61, 2, 1, 16, device, torch.float32)
    slots = torch.full((64,), -1, device=device)
    out = with_kernel(prefill_attention, q, cache, slots, torch.zeros_like(slots))
    assert not out.any()


def ends_of(q: Tensor, owners: Tensor, places: Tensor, starts: dict[int, int]):
    """The tokens from each slot's start on, as a pass of their own: q, slots, positions, which."""
    wanted = [
        place >= starts.get(slot, 0)
        for slot, place in zip(owners.tolist(), places.tolist(), strict=True)
    ]
    chosen = torch.tensor(wanted, device=q.device)
    return q[chosen], owners[chosen], places[chosen], chosen


# By slot: where the tokens of a pass begin. Neighbours of one length and start, a start in the
# middle of a block of keys, one of none, and one token behind all others.
STARTS = [
    (([40, 2, 33, 20], [3, 0, 2, 5], 1, 4, 2, 16), {3: 39, 2: 7, 5: 19}),
    (([70, 70, 9], [1, 0, 4], 3, 2, 1, 40), {1: 66, 0: 66}),
    (([100], [2], 0, 2, 2, 16), {2: 64}),
]
GPU_STARTS = [
    pytest.param(*start, marks=pytest.mark.gpu)
    for start in (
        (([306] * 12, list(range(12)), 64, 32, 8, 128), {slot: 226 for slot in range(12)}),
        (([300 + 50 * row for row in range(8)], list(range(8)), 24, 16, 8, 128), {1: 20, 5: 511}),
    )
]


@pytest.mark.parametrize(("case", "starts"), [*STARTS, *GPU_STARTS])
def test_behind_what_a_slot_holds_the_kernel_equals_the_reference(
    case, starts, dtype, device, with_kernel, assert_close
) -> None:
    q, cache, owners, places = make(*case, device, dtype)
    q, owners, places, _ = ends_of(q, owners, places, starts)
    out = with_kernel(prefill_attention, q, cache, owners, places)
    on_cpu = (x.cpu() for x in (q, cache, owners, places))
    ref = prefill_attention_ref(*on_cpu)
    assert_close(out.cpu(), ref)
    if device == "cpu":
        assert_close(ref, slow_attention(q, cache, owners, places))
    padding = case[2]
    assert not out[len(out) - padding :].any()


@pytest.mark.parametrize(("case", "starts"), STARTS)
def test_on_a_cpu_the_end_of_a_row_rounds_as_in_a_pass_over_all_of_it(case, starts) -> None:
    q, cache, owners, places = make(*case, "cpu", torch.float32)
    whole = prefill_attention(q, cache, owners, places)
    q, owners, places, chosen = ends_of(q, owners, places, starts)
    assert torch.equal(prefill_attention(q, cache, owners, places), whole[chosen])


@pytest.mark.gpu  # see below
@pytest.mark.parametrize(("case", "starts"), [*STARTS, *GPU_STARTS])
def test_the_end_of_a_row_rounds_as_in_a_pass_over_all_of_it(
    case, starts, device, with_kernel
) -> None:
    """In a pass of as many tokens, as with fixed shapes: what is left out is padding."""
    q, cache, owners, places = make(*case, device, torch.bfloat16)
    whole = with_kernel(prefill_attention, q, cache, owners, places)
    some, owners, places, chosen = ends_of(q, owners, places, starts)
    missing = len(q) - len(some)
    filled = torch.cat([some, torch.zeros_like(q[:missing])])
    owners = torch.cat([owners, owners.new_full((missing,), -1)])
    places = torch.cat([places, places.new_zeros(missing)])
    found = with_kernel(prefill_attention, filled, cache, owners, places)
    assert torch.equal(found[: len(some)], whole[chosen])


@pytest.mark.parametrize("case", CASES)
def test_the_references_of_both_devices_agree(case, dtype, device, assert_close) -> None:
    arguments = make(*case, device, dtype)
    out = _attend_masked(*arguments)
    on_cpu = (value.cpu() for value in arguments)
    assert_close(out.cpu(), prefill_attention_ref(*on_cpu))
    assert out.is_contiguous()
    assert not out[len(out) - case[2] :].any()


# The interpreter's NumPy warns of arithmetic with infinity, and warnings are errors.
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (_attend_masked, float("nan")),
        (_attend_masked, float("inf")),
        (prefill_attention, float("nan")),
        pytest.param(prefill_attention, float("inf"), marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_a_row_that_is_not_finite_stays_alone(path, value, where, device, with_kernel) -> None:
    """In the reference of a GPU as well. Its tokens share tiles with its neighbours', where 0 * NaN
    would reach them.
    """
    q, cache, owners, places = make([6, 9, 5], [2, 0, 1], 4, 2, 1, 16, device, torch.float32)
    clean = with_kernel(path, q, cache, owners, places)
    if where == "q":
        q[6:15] = value
    else:
        cache["kv".index(where), 0, :, 3] = value
    out = with_kernel(path, q, cache, owners, places)
    neighbours = torch.cat([torch.arange(6), torch.arange(15, 24)]).to(device)
    assert torch.equal(out[neighbours], clean[neighbours])
    if where != "k" or value != value:  # a score of -inf is a weight of 0
        assert not out[10:15].isfinite().all(dim=-1).any()


def test_wrong_arguments_are_named(device, refused) -> None:
    q, cache, owners, places = make([3], [0], 0, 2, 1, 16, device, torch.float32)
    refused(
        "do not hold heads of 16 for 1 of keys", prefill_attention, q[:, 1:], cache, owners, places
    )
    refused("positions must be contiguous", prefill_attention, q, cache, owners, places[:2])
    refused("the dtype of the rows", prefill_attention, q, cache.bfloat16(), owners, places)


def test_on_a_cpu_a_row_rounds_as_in_any_pass() -> None:
    """Alone or among others, and whether or not its last block is full: attention by length alone
    made the audio of a prompt depend on what stood beside it.
    """
    lengths, slots = [21, 31, 60, 43], [3, 0, 2, 1]
    q, cache, owners, places = make(lengths, slots, 5, 4, 2, 16, "cpu", torch.float32)
    out = prefill_attention(q, cache, owners, places)
    first = 0
    for length in lengths:
        row = slice(first, first + length)
        alone = prefill_attention(q[row], cache, owners[row], places[row])
        assert torch.equal(out[row], alone)
        grown = torch.cat([q[row], torch.randn(-length % WHOLE, q.shape[1])])
        longer = cache[:, owners[first], None].nan_to_num()
        longer = torch.nn.functional.pad(longer, (0, 0, 0, WHOLE))
        more = torch.zeros(len(grown), dtype=torch.int64), torch.arange(len(grown))
        whole = prefill_attention(grown, longer, *more)
        assert torch.equal(whole[:length], alone)
        first += length


@pytest.mark.gpu  # NumPy, which multiplies in the interpreter, sums by where in a tile a row is
@pytest.mark.parametrize(
    ("before", "length", "behind"),
    [([7], 40, [5]), ([33, 20], 40, []), ([80, 63, 100], 150, [81] * 6), ([11], 700, [3, 90])],
)
def test_a_row_rounds_alike_wherever_it_stands(before, length, behind, device, with_kernel) -> None:
    """Blocks of keys began where a tile's first row did, so that a row's sums were cut otherwise
    behind other rows than alone.
    """
    lengths = [*before, length, *behind]
    slots, padding = list(range(len(lengths))), -sum(lengths) % 128
    q, cache, owners, places = make(lengths, slots, padding, 4, 2, 64, device, torch.bfloat16)
    out = with_kernel(prefill_attention, q, cache, owners, places)
    row = slice(sum(before), sum(before) + length)
    alone = torch.zeros_like(q)
    alone[:length] = q[row]
    row_slots, row_places = (x.to(device) for x in pack([length], [len(before)], len(q) - length))
    found = with_kernel(prefill_attention, alone, cache, row_slots, row_places)
    assert torch.equal(found[:length], out[row])
