"""Count the kernels that Triton compiles or finds compiled, to explain a slow first run.

Triton stores compiled kernels in a folder (`TRITON_CACHE_DIR`, or `~/.triton/cache`) and reports
every kernel that it compiles, or reads from there, to a listener.
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
    """Kernels that Triton compiled or read within a `with` block."""

    compiled: int = 0
    compile_s: float = 0.0
    cached: int = 0  # read from the folder of compiled kernels


def cache_folder() -> Path:
    return Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")


def use_cache_folder(folder: Path) -> None:
    os.environ["TRITON_CACHE_DIR"] = str(folder.absolute())


@contextmanager
def watch(on_compiled: Callable[[Compilation], None] | None = None) -> Iterator[Compilation]:
    """Count kernels inside a `with` block; `on_compiled` is called after each compilation.
    Without Triton, or without its listener, nothing is counted.
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
