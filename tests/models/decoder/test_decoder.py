"""The decoder: prefill and step against each other and against a plain transformer."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.launch import dispatch
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder

WIDTH, MLP, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 24, 40, 3, 4, 2, 8
THETA, EPS = 10000.0, 1e-6
SLOTS, POSITIONS = 5, 16


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture
def decoder() -> Decoder:
    decoder = Decoder(
        TransformerConfig(WIDTH, MLP, LAYERS, HEADS, KV_HEADS, HEAD_DIM, THETA, EPS, POSITIONS)
    )
    for name, weight in decoder.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
        else:
            weight.normal_(0, 1.5 / math.sqrt(weight.shape[1]))
    decoder.allocate(SLOTS, POSITIONS)
    return decoder


def plain_transformer(decoder: Decoder, x: Tensor) -> Tensor:
    """(T, D) through the same weights, from the definition, in float64: no cache, no kernels."""

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight.double()

    length = x.shape[0]
    frequency = THETA ** (-torch.arange(0, HEAD_DIM, 2).double() / HEAD_DIM)
    angle = torch.arange(length).double()[:, None] * frequency

    def rotate(x: Tensor) -> Tensor:  # (T, heads, D_h)
        low, high = x[..., : HEAD_DIM // 2], x[..., HEAD_DIM // 2 :]
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)

    x = x.double()
    hidden_from_later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    for layer in decoder.layers:
        qkv = norm(x, layer.input_norm.weight) @ layer.qkv.weight.double().T
        qkv = qkv.view(length, HEADS + 2 * KV_HEADS, HEAD_DIM)
        q = rotate(norm(qkv[:, :HEADS], layer.q_norm.weight))
        k = rotate(norm(qkv[:, HEADS : HEADS + KV_HEADS], layer.k_norm.weight))
        v = qkv[:, HEADS + KV_HEADS :]
        mixed = []
        for head in range(HEADS):
            group = head // (HEADS // KV_HEADS)
            scores = q[:, head] @ k[:, group].T / math.sqrt(HEAD_DIM)
            mixed.append(
                scores.masked_fill(hidden_from_later, -torch.inf).softmax(-1) @ v[:, group]
            )
        x = x + torch.stack(mixed, dim=1).view(length, -1) @ layer.o.weight.double().T
        gate, up = (norm(x, layer.post_norm.weight) @ layer.gate_up.weight.double().T).chunk(2, -1)
        x = x + (F.silu(gate) * up) @ layer.down.weight.double().T
    return norm(x, decoder.norm.weight)


def assert_close(out: Tensor, expected: Tensor) -> None:
    """rms(out - expected) / rms(expected) within 1e-5, the tolerance of float32."""
    error = (
        (out.double() - expected.double()).square().mean() / expected.double().square().mean()
    ).sqrt()
    assert error < 1e-5, f"relative rms error {error:.2e}"


def prefill(
    decoder: Decoder, rows: list[Tensor], slots: list[int], padding: int = 0, pad: float = 0.0
) -> Tensor:
    """Rows one behind the other, padding behind them."""
    lengths = [len(row) for row in rows]
    x = torch.cat([*rows, torch.full((padding, WIDTH), pad)])
    owners = torch.tensor(slots).repeat_interleave(torch.tensor(lengths))
    owners = torch.cat([owners, torch.full((padding,), -1)])
    places = torch.cat([torch.arange(n) for n in [*lengths, *[1] * padding]])
    return decoder.prefill(x, owners, places, torch.tensor(lengths).cumsum(0) - 1)


@pytest.mark.parametrize("prompt", [1, 6])
def test_prefill_and_steps_equal_one_full_pass(decoder: Decoder, prompt: int) -> None:
    x = torch.randn(POSITIONS, WIDTH)
    expected = plain_transformer(decoder, x)
    prefill(decoder, [x[:prompt]], [0])
    for position in range(prompt, POSITIONS):
        out = decoder.step(x[position : position + 1].clone(), torch.tensor([position]))
        assert_close(out[0], expected[position])


INTERPRETED = pytest.mark.skipif(
    not dispatch.IS_INTERPRETED, reason="kernels take no CPU tensors beside a GPU"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "padding"),
    [("reference", 0), ("reference", 3), pytest.param("triton", 3, marks=INTERPRETED)],
)
def test_packed_rows_equal_a_plain_transformer(decoder: Decoder, padding: int, mode: str) -> None:
    rows = [torch.randn(length, WIDTH) for length in (2, 9, 1, 5)]
    with dispatch.override(mode):
        out = prefill(decoder, rows, [4, 0, 1, 2], padding, pad=7.0)
    assert out.shape == (4, WIDTH)
    for index, row in enumerate(rows):
        assert_close(out[index], plain_transformer(decoder, row)[-1])


def test_a_row_that_is_not_finite_stays_alone(decoder: Decoder) -> None:
    rows = [torch.randn(4, WIDTH) for _ in range(3)]
    clean = prefill(decoder, rows, [0, 1, 2])
    rows[1][2] = float("nan")
    out = prefill(decoder, rows, [0, 1, 2])
    assert out[1].isnan().all()
    assert torch.equal(out[[0, 2]], clean[[0, 2]])
    stepped = decoder.step(torch.randn(3, WIDTH), torch.tensor([4, 4, 4]))
    assert stepped[1].isnan().all()
    assert stepped[[0, 2]].isfinite().all()


def test_steps_of_a_batch_at_different_positions(decoder: Decoder) -> None:
    rows = [torch.randn(10, WIDTH) for _ in range(3)]
    lengths = [2, 7, 4]
    prefill(decoder, [row[:n] for row, n in zip(rows, lengths, strict=True)], [0, 1, 2])
    for step in range(3):
        x = torch.stack([row[n + step] for row, n in zip(rows, lengths, strict=True)])
        out = decoder.step(x, torch.tensor(lengths) + step)
        for index, (row, n) in enumerate(zip(rows, lengths, strict=True)):
            assert_close(out[index], plain_transformer(decoder, row[: n + step + 1])[-1])


def test_what_lies_beyond_a_row_is_never_read(decoder: Decoder) -> None:
    x = torch.randn(6, WIDTH)
    prefill(decoder, [x[:3]], [0])
    clean = decoder.step(x[3:4].clone(), torch.tensor([3]))
    decoder.cache.data[:, :, 0, :, 4:] = float("nan")
    decoder.cache.data[:, :, 1:] = float("nan")
    assert torch.equal(decoder.step(x[3:4].clone(), torch.tensor([3])), clean)
