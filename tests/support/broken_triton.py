"""A command with a Triton that fails: `python broken_triton.py HOW ARGUMENT...`.

HOW is `launch:N`, every launch from that number on fails; `kernel:NAME:N`, those of one kernel;
`captured`, those inside of a capture; `capture`, every capture as such; or `nothing`.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
from triton.errors import TritonError
from triton.runtime.jit import JITFunction

from tts_cli.main import main


def break_launches(name: str, first: int, only_captured: bool = False) -> None:
    """Have launches of kernels with `name` in theirs fail, from number `first` on."""
    real = JITFunction.run
    count = 0

    def run(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal count
        is_ahead = triton.knobs.runtime.jit_cache_hook is not None  # compiled, but not launched
        if not options.get("warmup") and not is_ahead and name in self.fn.__name__:
            count += 1
            is_captured = torch.cuda.is_current_stream_capturing()
            if count >= first and is_captured >= only_captured:
                raise TritonError("Triton Error [CUDA]: device kernel image is invalid")
        return real(self, *args, **options)

    JITFunction.run = run


def break_captures() -> None:
    """Have every capture fail, by an error of Triton's at that."""

    def fail(*args: Any, **options: Any) -> None:
        raise TritonError("no capture today")

    torch.cuda.CUDAGraph.capture_begin = fail


if __name__ == "__main__":
    how, *numbers = sys.argv[1].split(":")
    if how == "launch":
        break_launches("", int(numbers[0]))
    elif how == "kernel":
        break_launches(numbers[0], int(numbers[1]))
    elif how == "captured":
        break_launches("", 1, only_captured=True)
    elif how == "capture":
        break_captures()
    sys.exit(main(sys.argv[2:]))
