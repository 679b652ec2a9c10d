"""Triton's interpreter as the tests need it: rounding as hardware does, and no work done twice.

A kernel's operations cost some 50 us each there whatever they work on, all of it Python, so the
number of programs times the operations of one is what an interpreted test takes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter


def round_like_hardware(patch: pytest.MonkeyPatch) -> None:
    """Make it round float32 to bfloat16 to nearest even, as GPUs and PyTorch do.

    It truncates by itself, which would hide whether a kernel rounds where its reference does.
    """
    plain = interpreter._convert_float

    def convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16:
            values = torch.from_numpy(np.array(data, dtype=np.float32))
            return values.bfloat16().view(torch.int16).numpy().view(np.uint16)
        return plain(data, source, target, rounding)

    patch.setattr(interpreter, "_convert_float", convert)


def interpret_quickly(patch: pytest.MonkeyPatch) -> None:
    """Leave out what takes nearly half of its time and changes no result.

    - Every call of one kernel function by another replaces all of `triton.language` anew, though
      the launch around it, or the call before, has done so.
    - Every sum and product of 32-bit integers is done again in 64 bits, to see whether it ran over:
      addresses of tensors that fit an interpreted test are thousands of times too small for that.
    - The table of dtypes is built for each look into it.
    - Each tensor and each type of a block has its shape checked, and kept in objects of its own.
    - Blocks of one shape are compared side by side before an operation takes both.

    Where a version of Triton lacks one of these names, its tests only take longer.
    """

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        language = self.fn.__globals__.get("tl", tl.core)  # Triton's own functions see the latter
        if tl.core.is_builtin(language.load):
            interpreter._patch_lang(self.fn)
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    patch.setattr(interpreter.InterpretedFunction, "__call__", call, raising=False)

    builder = interpreter.interpreter_builder
    options = replace(builder.options, sanitize_overflow=False)
    patch.setattr(builder, "options", options, raising=False)

    plain_dtype_of = interpreter._get_np_dtype
    found: dict[str, np.dtype[Any]] = {}

    def dtype_of(given: Any) -> np.dtype[Any]:
        if (name := given.scalar.name) not in found:
            found[name] = plain_dtype_of(given)
        return found[name]

    patch.setattr(interpreter, "_get_np_dtype", dtype_of, raising=False)

    core, plain = tl.core, tl.core._unwrap_if_constexpr
    light = frozenset((int, float, bool, str, type(None), tl.dtype, tl.core.tensor))
    patch.setattr(core, "_unwrap_if_constexpr", lambda o: o if type(o) in light else plain(o))

    new_block, new_tensor = core.block_type.__init__, core.tensor.__init__
    blocks: dict[tuple[int, ...], tuple[Any, ...]] = {}
    tensors: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def block(self: Any, element_ty: tl.dtype, shape: Any) -> None:
        key = (*map(plain, shape),)
        if (known := blocks.get(key)) is None or not all(type(size) is int for size in key):
            new_block(self, element_ty, shape)
            blocks[key] = self.shape, self.numel, str(self.shape)
            return
        self.element_ty, (self.shape, self.numel, name) = element_ty, known
        self.name = f"<{name}, {element_ty}>"

    def tensor(self: Any, handle: Any, type: Any) -> None:
        key = (*type.shape.values,) if type.is_block() else ()
        if key not in tensors:
            new_tensor(self, handle, type)
            tensors[key] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = tensors[key]

    patch.setattr(core.block_type, "__init__", block)
    patch.setattr(core.tensor, "__init__", tensor)

    semantic = type(interpreter.interpreter_semantic)
    broadcast = semantic.broadcast_impl_value

    def broadcast_two(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one.is_block() and other.is_block() and one.shape.values == other.shape.values:
            return lhs, rhs
        return broadcast(self, lhs, rhs)

    patch.setattr(semantic, "broadcast_impl_value", broadcast_two)
