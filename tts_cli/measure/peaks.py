"""What a GPU can do at best, and the shortest time a stage can take on it.

Rates are measured ones, not a datasheet's: a roofline drawn with them can be reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Peak:
    """Rates of one GPU."""

    copy_gb_s: float  # a large copy on the device, bytes read plus bytes written
    bf16_tflop_s: float  # a large matrix product of random bfloat16 numbers


# By the name the driver gives. NVIDIA H200 (SXM, 141 GB): PyTorch, copy of 8.6 GB; product of two
# 8192 x 8192 matrices, 769 to 798 TFLOP/s over several machines. Other GPUs have no entry until
# someone measures them, and their figures come without shares.
PEAKS = {"NVIDIA H200": Peak(4300, 790)}


def peak_of(device: torch.device) -> Peak | None:
    """The device's rates; None where they are not known."""
    if device.type != "cuda":
        return None
    return PEAKS.get(torch.cuda.get_device_name(device))


def roofline_ms(num_bytes: int, num_ops: int, peak: Peak, has_bf16: bool) -> float | None:
    """The longer of moving the bytes and doing the operations, in ms.

    None where nothing is known of the stage, or where it computes in another type than bfloat16.
    """
    if not num_bytes and not num_ops:
        return None
    if num_ops and not has_bf16:
        return None
    return max(num_bytes / peak.copy_gb_s / 1e6, num_ops / peak.bf16_tflop_s / 1e9)
