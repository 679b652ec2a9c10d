"""What a vocoder's weights are turned into at load, so that every convolution is a plain one."""

from __future__ import annotations

import torch
from torch import Tensor


def columns(weight: Tensor) -> Tensor:
    """A 1-D convolution's weight as that of a 2-D one of height 1, channels innermost in memory."""
    return weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)


def phases(weight: Tensor, rate: int) -> Tensor:
    """A transposed convolution of stride `rate` and kernel 2 * rate as a convolution of kernel 2.

    Output step t * rate + j is the current input step times tap j plus the previous one times tap
    rate + j; the result's channel j * C_out + c is channel c of that step.
    """
    now, before = weight[:, :, :rate], weight[:, :, rate:]  # (C_in, C_out, rate)
    taps = torch.stack((before, now), dim=-1)  # (C_in, C_out, rate, 2)
    return columns(taps.permute(2, 1, 0, 3).flatten(0, 1).contiguous())
