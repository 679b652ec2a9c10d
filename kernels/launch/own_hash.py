"""Triton's hash of itself, computed in advance.

It is a part of every name in Triton's cache and is computed before the first kernel: from 416 MB,
in 0.35 s, hardly any of it in Python. If it is started while weights are read, it is ready in time;
during torch's import both become slower. A caller that needs it earlier would compute it a second
time, so `wait_for_hash` comes first.
"""

from __future__ import annotations

import os
import threading

from kernels.launch.hooks import make_hash

_mutex = threading.Lock()
_thread: threading.Thread | None = None


def begin_hash() -> None:
    """Start, unless it was started before or kernels are interpreted. Thread-safe."""
    global _thread
    if os.environ.get("TRITON_INTERPRET", "0") == "1":
        return
    with _mutex:
        if _thread is None:
            _thread = threading.Thread(target=make_hash, name="hash", daemon=True)
            _thread.start()


def wait_for_hash() -> None:
    if _thread is not None:
        _thread.join()
