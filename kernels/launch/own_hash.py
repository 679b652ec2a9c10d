"""Triton's hash of itself, a part of every name in its cache, which it makes before its first
kernel: of 416 MB, 0.35 s and hardly any of it in Python. Begun while weights are read it is there
when it is wanted; but whoever asks for it before that makes it once more, so `wait_for_hash` comes
first.

Not begun sooner: it is made in 416 pieces, for each of which it waits for its turn at Python twice,
and beside torch's import it took 2 s and made that 0.5 s longer (H200, 2026-11-23).
"""

from __future__ import annotations

import os
import threading

from kernels.launch.hooks import make_hash

_mutex = threading.Lock()
_thread: threading.Thread | None = None


def begin_hash() -> None:
    """Begin, unless somebody has, or kernels are interpreted; from any thread."""
    global _thread
    if os.environ.get("TRITON_INTERPRET", "0") == "1":
        return
    with _mutex:
        if _thread is None:
            _thread = threading.Thread(target=make_hash, name="hash", daemon=True)
            _thread.start()


def wait_for_hash() -> None:
    """Wait for what was begun, if anything was."""
    if _thread is not None:
        _thread.join()
