"""16-bit samples made on the device against those the encoder makes on the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tts_cli.audio import file as audio_file
from tts_cli.engine.pieces import NOT_A_SAMPLE
from tts_cli.engine.vocoder import to_int16

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_every_value_equals_the_encoders_bit_for_bit(device: str) -> None:
    ties = (torch.arange(-32767, 32767).double() + 0.5) / 32767
    steps = torch.arange(-32768, 32769).double() / 32768
    noise = torch.randn(100_000).double()
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.0001, -7.0, 1e30, -1e30, 1e-40]).double()
    samples = torch.cat([ties, ties.float().nextafter(torch.tensor(9.0)), steps, noise, edges])
    samples = samples.float()
    expected = audio_file.to_int16(samples.numpy())
    found = to_int16(samples.to(device)).cpu().numpy()
    assert found.dtype == expected.dtype == np.int16
    assert np.array_equal(found, expected)
    assert expected.min() == -32767


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_finite_becomes_what_no_sample_can_be(device: str) -> None:
    samples = torch.tensor([-1e30, float("nan"), 0.5, float("inf"), -float("inf"), 1e30])
    found = to_int16(samples.to(device)).tolist()
    assert found == [-32767, NOT_A_SAMPLE, 16384, NOT_A_SAMPLE, NOT_A_SAMPLE, 32767]
