"""What Triton compiles and what it finds compiled: so that a first run can say why it is slow.

Triton keeps compiled kernels in a folder of its own (`TRITON_CACHE_DIR`, or `~/.triton/cache`) and
tells a listener of every kernel it compiles or reads from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from kernels.launch.hooks import hooked


@dataclass
class Compilation:
    """Kernels met in a stretch of time."""

    compiled: int = 0
    compile_s: float = 0.0
    cached: int = 0  # read from the folder of compiled kernels


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")


def use_cache_folder(folder: Path) -> None:
    """Keep compiled kernels in a folder, from now on."""
    os.environ["TRITON_CACHE_DIR"] = str(folder.absolute())


@contextmanager
def watch(on_compiled: Callable[[Compilation], None] | None = None) -> Iterator[Compilation]:
    """Count kernels inside a `with` block; `on_compiled` is called after each that was compiled.

    Where Triton is missing or has no listener, nothing is counted.
    """
    found, mutex = Compilation(), Lock()

    def after(before: Callable[..., None] | None) -> Callable[..., None]:
        def listen(**event: Any) -> None:
            if before is not None:
                before(**event)
            with mutex:  # several threads may compile
                if event.get("cache_hit"):
                    found.cached += 1
                    return
                found.compiled += 1
                found.compile_s += getattr(event.get("times"), "total", 0) / 1e6
                if on_compiled is not None:
                    on_compiled(found)

        return listen

    with hooked("compilation", "listener", after):
        yield found
