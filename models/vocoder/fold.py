"""Changes of a codec's tensors at load: weight norm is folded, then the ways of `tensors.py`
apply, each a function of float32 tensors, whatever dtype they are stored in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from models.checkpoint.weights import WAYS
from models.vocoder.tensors import WEIGHT_NORM

SNAKE_FLOOR = 1e-9
USAGE_FLOOR = 1e-5


def plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return float32 tensors with weight norm: w = g * v / |v| over all but the first dimension."""
    found = {}
    for name, tensor in tensors.items():
        for length, direction in WEIGHT_NORM:
            if name.endswith(direction):
                stem = name.removesuffix(direction)
                v = tensor.float()
                norm = v.square().sum(tuple(range(1, v.dim())), keepdim=True).sqrt()
                found[f"{stem}weight"] = v * (tensors[stem + length].float() / norm)
                break
            if name.endswith(length):
                break
        else:
            found[name] = tensor.float()
    return found


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


def grouped_taps(weight: Tensor, stride: int) -> Tensor:
    """A convolution of kernel 2 * stride as one of kernel 2 over `stride` steps side by side."""
    outputs, inputs, _ = weight.shape
    taps = weight.view(outputs, inputs, 2, stride).permute(0, 3, 1, 2)  # step, channel, group
    return columns(taps.reshape(outputs, stride * inputs, 2).contiguous())


def all_steps(weight: Tensor) -> Tensor:
    """A transposed convolution (C_in, C_out, ratio) of that stride as a linear map."""
    return weight.permute(2, 1, 0).flatten(0, 1).contiguous()


def one_step(weight: Tensor) -> Tensor:
    """A convolution (C_out, C_in, ratio) of that stride as a linear map."""
    return weight.permute(0, 2, 1).flatten(1).contiguous()


def pointwise(*weights: Tensor) -> Tensor:
    """A convolution of kernel 1 as a linear map; several are stacked."""
    found = [weight.squeeze(-1) for weight in weights]
    return found[0] if len(found) == 1 else torch.stack(found)


def total(first: Tensor, *biases: Tensor) -> Tensor:
    for bias in biases:
        first = first + bias
    return first


def scaled(scale: Tensor, weight: Tensor) -> Tensor:
    """Each output of a layer times its scale."""
    return (scale[:, None] if weight.dim() > 1 else scale) * weight


def inverse(alpha: Tensor) -> Tensor:
    """The factor of a Snake's square."""
    return 1.0 / (alpha.flatten() + SNAKE_FLOOR)


def code_tables(*parts: Tensor) -> Tensor:
    """(codes of all codebooks, D): the addend of each code to a latent. Three parts per
    codebook: its entries, and weight and bias of its projection.
    """
    books = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return torch.cat([entries @ weight.squeeze(-1).t() + bias for entries, weight, bias in books])


def average(usage: Tensor, sums: Tensor) -> Tensor:
    """Entries of a codebook that are stored as sums and counts."""
    return sums / usage.clamp(min=USAGE_FLOOR)[:, None]


def averages(*parts: Tensor) -> Tensor:
    """(codebooks, entries, width) of entries stored as sums and counts."""
    return torch.stack([average(*book) for book in zip(parts[::2], parts[1::2], strict=True)])


def averaged_tables(*parts: Tensor) -> Tensor:
    """`code_tables` of entries stored as sums and counts, without bias."""
    books = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return torch.cat(
        [average(usage, sums) @ weight.squeeze(-1).t() for usage, sums, weight in books]
    )


FOLDS: dict[str, Callable[..., Tensor]] = WAYS | {
    **{
        way.__name__: way
        for way in (
            *(columns, phases, grouped_taps, all_steps, one_step, pointwise, total),
            *(scaled, inverse, code_tables, averages, averaged_tables),
        )
    },
    "exp": torch.exp,
    "flat": torch.flatten,
    "nothing": lambda alpha: torch.zeros_like(alpha.flatten()),
    "inverse_exp": lambda beta: inverse(beta.exp()),
    "directions": lambda *books: F.normalize(torch.cat(books)),
}
