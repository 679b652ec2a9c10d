"""A small kernel that tests whether Triton works here, before a run depends on it. Compiling and
launching it needs a C compiler, ptxas, a driver and a GPU that fit each other.
"""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import Future
from contextlib import nullcontext

import torch

from kernels.launch.dispatch import ABSENCE, HAS_TRITON, KernelFailed, jit, tl
from kernels.launch.hooks import find_ptxas
from kernels.launch.own_hash import wait_for_hash

SIZE = 16
COMPILER_REMEDY = "install gcc (with the headers of Python and libc), or name a compiler in CC"
PTXAS_REMEDY = (
    "install the Triton that this PyTorch asks for, or name a newer ptxas in TRITON_PTXAS_PATH"
)
IMPORT_REMEDY = "install the Triton that this PyTorch asks for: pip install 'triton>=3.6'"
OTHER_REMEDY = "`tts-cli doctor` shows what Triton finds"


@jit
def _probe_kernel(out_ptr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out_ptr + place, 2 * place)


def probe(device: torch.device) -> str | None:
    """Return why Triton cannot be used on a device; None: the probe's result was right."""
    if not HAS_TRITON:
        return ABSENCE
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        out = torch.zeros(SIZE, dtype=torch.int32, device=device)
        try:
            _probe_kernel[(1,)](out, BLOCK=SIZE)
        except KernelFailed as error:
            return str(error)
        found = out.tolist()
    return None if found == list(range(0, 2 * SIZE, 2)) else f"probe: it wrote {found}"


def begin_probe(device: torch.device) -> Future[str | None]:
    """Start the probe in a thread: it takes a while, hardly any of it in Python."""
    found: Future[str | None] = Future()

    def work() -> None:
        wait_for_hash()
        try:
            found.set_result(probe(device))
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, name="probe").start()  # not a daemon: an exit waits for it
    return found


def remedy_for(failure: str) -> str:
    if not HAS_TRITON:
        return IMPORT_REMEDY
    words = failure.lower()
    if "ptxas" in words:
        return PTXAS_REMEDY
    if any(sign in words for sign in ("compiler", "gcc", "clang", " cc", ".c'", "python.h")):
        return COMPILER_REMEDY
    return OTHER_REMEDY


def tools(device: torch.device) -> dict[str, str]:
    """Return the tools that Triton builds kernels with, by name: their paths, or `not found`."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if compiler is not None:
        compiler = shutil.which(compiler)
    return {
        "C compiler": compiler or "not found",
        "ptxas": find_ptxas(device) if HAS_TRITON else "not found",
    }
