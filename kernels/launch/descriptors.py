"""Tensor descriptors, by which Hopper's copy engine fetches blocks of a tensor."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from kernels.launch.dispatch import TensorDescriptor, has_copy_engine, use_triton

ALIGNMENT_BYTES = 16  # of the copy engine's reads


def use_descriptors(tensor: Tensor) -> bool:
    """Whether an operation on `tensor` runs a kernel made for the copy engine. Its tiles need
    more shared memory than some GPUs have, and were never measured without the engine.
    """
    return use_triton(tensor) and (not tensor.is_cuda or has_copy_engine(tensor.device))


def described(tensor: Tensor, *block: int) -> Any:
    """A descriptor of blocks of a tensor. Outside of it they read zeros and store nothing."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    for dim in reversed(range(len(shape) - 1)):
        if shape[dim] == 1:  # its stride may be anything in PyTorch
            strides[dim] = shape[dim + 1] * strides[dim + 1]
    starts = tensor.data_ptr(), *(stride * tensor.element_size() for stride in strides[:-1])
    if any(start % ALIGNMENT_BYTES for start in starts):
        raise ValueError(
            f"steps must start at multiples of {ALIGNMENT_BYTES} bytes: {tuple(shape)} with "
            f"strides {tuple(strides)} of {tensor.dtype}"
        )
    return TensorDescriptor(tensor, shape, strides, list(block))
