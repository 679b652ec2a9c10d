"""Layers of vocoders: each fast path against the plain one."""

from __future__ import annotations

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from kernels.launch import dispatch
from models.vocoder import layers
from models.vocoder.layers import ResidualUnit, conv, conv_unfolded, has_unit_kernels


def make(channels, dilation, device, dtype):
    unit = ResidualUnit(channels, dilation).to(device)
    for name, parameter in unit.named_parameters():
        scale = (channels * (7 if "conv1" in name else 1)) ** -0.5
        parameter.data = (scale * torch.randn_like(parameter)).to(dtype)
    weight = unit.conv1.weight
    weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    for constants in unit.buffers():
        constants.copy_(torch.rand_like(constants))
    return unit


@pytest.mark.gpu
@pytest.mark.copy_engine
@pytest.mark.parametrize("dilation", [1, 3, 9])
@pytest.mark.parametrize("channels", [64, 96, 192, 256, 384, 768])
@torch.no_grad()
def test_kernels_equal_the_separate_steps(channels, dilation) -> None:
    unit = make(channels, dilation, "cuda", torch.bfloat16)
    x = torch.randn(2, 3000, channels, device="cuda", dtype=torch.bfloat16)
    kept = torch.rand(2, 30, device="cuda") < 0.8
    assert has_unit_kernels(x)
    with dispatch.override("reference"):
        assert not has_unit_kernels(x)
        ref = unit(x.clone(), kept)
    out = unit(x, kept)
    assert out.data_ptr() == x.data_ptr()
    # bfloat16 keeps eight bits; a few values are rounded the other way in each of three steps.
    error = (out.double() - ref.double()).square().mean().sqrt()
    assert error <= 5e-3 * ref.double().square().mean().sqrt()


def test_unfolded_convolution() -> None:
    x = torch.randn(2, 40, 6)
    weight = torch.randn(5, 6, 1, 7).contiguous(memory_format=torch.channels_last)
    expected = torch.nn.functional.conv1d(x.transpose(1, 2), weight.squeeze(2), dilation=3)
    torch.testing.assert_close(conv_unfolded(x, weight, 3), expected.transpose(1, 2))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@torch.no_grad()
def test_only_half_precision_is_unfolded(dtype, monkeypatch) -> None:
    # float32 was too: 261 ms in place of 203 for a batch of Qwen3-TTS on an H200.
    unfolded = []

    def watched(*args):
        unfolded.append(args)
        return conv_unfolded(*args)

    monkeypatch.setattr(layers, "conv_unfolded", watched)
    x = torch.randn(2, 300, 768, device="cuda", dtype=dtype)
    weight = torch.randn(768, 768, 1, 7, device="cuda", dtype=dtype) * 5376**-0.5
    weight = weight.contiguous(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(allow_tf32=False):
        out = conv(x, weight, dilation=3)
    assert len(unfolded) == (dtype != torch.float32)
    expected = conv_unfolded(x.double(), weight.double(), 3)
    error = (out.double() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
    assert error <= {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 5e-3}[dtype]


@torch.no_grad()
def test_a_cpu_takes_the_separate_steps() -> None:
    unit = make(8, 3, "cpu", torch.float32)
    x = torch.randn(2, 20, 8)
    assert not has_unit_kernels(x.bfloat16())
    alpha_exp, inv_beta, bias = unit.snake1.alpha_exp, unit.snake1.inv_beta, unit.snake1.bias
    h = x + bias
    h = torch.nn.functional.pad(h + inv_beta * (h * alpha_exp).sin().square(), (0, 0, 18, 0))
    h = torch.nn.functional.conv1d(h.transpose(1, 2), unit.conv1.weight[:, :, 0], dilation=3)
    alpha_exp, inv_beta, bias = unit.snake2.alpha_exp, unit.snake2.inv_beta, unit.snake2.bias
    h = h.transpose(1, 2) + bias
    h = h + inv_beta * (h * alpha_exp).sin().square()
    expected = x + h @ unit.conv2.weight.t()
    torch.testing.assert_close(unit(x), expected)


@torch.no_grad()
def test_no_more_than_two_activations_beside_the_residual(monkeypatch) -> None:
    # The first one's 1.6 GB in bfloat16 (3.2 in float32) were kept to the end of the unit.
    made: list[StorageWeakRef] = []
    left: list[int] = []
    snake_beta = layers.snake_beta

    def watched(x, *args):
        left.append(sum(not ref.expired() for ref in made))
        out = snake_beta(x, *args)
        made.append(StorageWeakRef(out.untyped_storage()))
        return out

    monkeypatch.setattr(layers, "snake_beta", watched)
    make(8, 3, "cpu", torch.float32)(torch.randn(2, 20, 8))
    assert left == [0, 0]
    assert all(ref.expired() for ref in made)
