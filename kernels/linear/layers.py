"""The layers of a transformer, with any attention.

    h = norm(x);   x += attend(h . qkv) . o
    h = norm(x);   x += swiglu(h . gate_up) . down

Talkers, code predictors (prefill and step) and the vocoders' transformers run these layers. A sum
and the following norm, which belongs to the next half or to the next layer, are one operation.

Rounding: products are rounded, except parts that `add_rms_norm_` sums; x, norms and SwiGLU are
rounded as in `kernels.linear.rms_norm` and `kernels.linear.swiglu`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from kernels.linear.choose import linear_biased, linear_parts, linear_swiglu
from kernels.linear.few_rows import use_row_kernels
from kernels.linear.rms_norm import add_rms_norm_, rms_norm
from kernels.linear.swiglu import swiglu


class LayerWeights(NamedTuple):
    """The weights of a layer, without those of its attention."""

    input_norm: Tensor  # (D,)
    qkv: Tensor  # ((H + 2 H_kv) D_h, D)
    o: Tensor  # (D, H D_h)
    post_norm: Tensor  # (D,)
    gate_up: Tensor  # (2I, D)
    down: Tensor  # (D, I)
    qkv_bias: Tensor | None = None  # ((H + 2 H_kv) D_h,)


class Products(NamedTuple):
    """The functions that multiply rows (R, K) by a weight (N, K)."""

    whole: Callable[[Tensor, Tensor, Tensor | None], Tensor]  # with a bias (N,)
    parts: Callable[[Tensor, Tensor], Tensor]  # whole or in parts, for `add_rms_norm_`
    gated: Callable[[Tensor, Tensor], Tensor]  # SwiGLU of the product


CHOSEN = Products(linear_biased, linear_parts, linear_swiglu)  # chosen by `kernels.linear.choose`
PLAIN = Products(F.linear, F.linear, lambda x, weight: swiglu(F.linear(x, weight)))


def run_layers(
    x: Tensor,
    layers: Sequence[LayerWeights],
    last_norm: Tensor,
    eps: float,
    attend: Callable[[Tensor, int], Tensor],
    *,
    leaving: Tensor | None = None,
    normed: Tensor | None = None,
    products: Products = CHOSEN,
) -> Tensor:
    """Run all layers and the norm after them.

    Args:
        x: (R, D) inputs, overwritten by the residual stream.
        last_norm: (D,).
        attend: the attention of a layer: its q/k/v products (R, (H + 2 H_kv) D_h) and its index to
            (R, H D_h).
        leaving: (n,) int64 rows to return; the others end with the last layer's attention.
        normed: (R, D), the first layer's norm of x, if it was computed before.
    Returns:
        (R, D) after the last norm, or (n, D) of the rows `leaving`.
    """
    norms = [*(layer.input_norm for layer in layers[1:]), last_norm]
    hidden = rms_norm(x, layers[0].input_norm, eps) if normed is None else normed
    for index, (layer, next_norm) in enumerate(zip(layers, norms, strict=True)):
        attended = attend(products.whole(hidden, layer.qkv, layer.qkv_bias), index)
        if leaving is not None and index + 1 == len(layers):
            attended, x = attended[leaving], x[leaving]
        mixed = products.parts(attended, layer.o)
        hidden = add_rms_norm_(mixed, x, layer.post_norm, eps)
        mlp = products.parts(products.gated(hidden, layer.gate_up), layer.down)
        hidden = add_rms_norm_(mlp, x, next_norm, eps)
    return hidden


def is_all_ours(x: Tensor, layer: LayerWeights) -> bool:
    """Whether our kernels make all products of x (R, D) with a layer of these sizes."""
    return all(use_row_kernels(x, w) for w in (layer.qkv, layer.o, layer.gate_up, layer.down))
