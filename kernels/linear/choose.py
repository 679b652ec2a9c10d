"""Linear layers: chooses the kernel by the number of rows.

Few rows on a GPU are multiplied by a large weight in `kernels/linear/few_rows.py`, all others in
PyTorch. Products are rounded once, except `linear_parts`, which may return float32 parts.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from kernels.linear.few_rows import row_linear, row_linear_parts, row_swiglu, use_row_kernels
from kernels.linear.swiglu import swiglu

EVEN_ROWS = 4  # on a CPU, matrix products of a multiple of this many rows round alike


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (R, D_in) times weight (D_out, D_in) transposed; on a CPU a row is rounded as in any batch.

    MKL sums a row among one to three rows in another order than among four or more (PyTorch 2.13,
    AVX-512), so a row's draws would depend on its batch mates. Few rows are therefore padded; from
    12 rows on it made no difference, with one thread and with two.
    """
    if bias is None and use_row_kernels(x, weight):
        return row_linear(x, weight)
    rows = x.shape[0]
    missing = -rows % EVEN_ROWS
    if x.device.type != "cpu" or not missing or rows > 3 * EVEN_ROWS:
        return F.linear(x, weight, bias)
    return F.linear(F.pad(x, (0, 0, 0, missing)), weight, bias)[:rows]


def linear_biased(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`linear`, with a bias in the row kernels too: a layer's q/k/v, in every step."""
    return row_linear(x, weight, bias) if use_row_kernels(x, weight) else linear(x, weight, bias)


def linear_parts(x: Tensor, weight: Tensor) -> Tensor:
    """The product for `add_rms_norm_`: (R, D_out), or float32 parts (P, R, D_out)."""
    return row_linear_parts(x, weight) if use_row_kernels(x, weight) else linear(x, weight)


def linear_swiglu(x: Tensor, gate_up: Tensor) -> Tensor:
    """SwiGLU of x (R, D) times gate_up (2I, D) transposed: (R, I)."""
    if use_row_kernels(x, gate_up):
        return row_swiglu(x, gate_up)
    return swiglu(linear(x, gate_up))
