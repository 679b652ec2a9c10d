"""The number of kernels of a stage."""

from __future__ import annotations

import pytest
import torch

from tts_cli.app.profile import count_kernels


def test_a_cpu_has_no_kernels() -> None:
    assert count_kernels(lambda: None, torch.device("cpu")) is None


@pytest.mark.gpu
def test_kernels_are_counted() -> None:
    x = torch.zeros(100, device="cuda")
    assert count_kernels(lambda: x.add_(1).mul_(2), x.device) == 2
