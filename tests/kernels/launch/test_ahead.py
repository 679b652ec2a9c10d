"""Compiling ahead: what is found, what is compiled, and the mark that spares others the search."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from warm_process import run_with_triton

from kernels.launch import ahead, dispatch, hooks
from kernels.launch.compilation import watch
from kernels.launch.dispatch import jit, tl


class FakeTriton:
    """What `ahead` uses of Triton: a hook that may refuse, preload, and the executor's mode.

    Args:
        holds_pending: what is being compiled stands among the compiled, as from 3.7 on.
    """

    __version__ = "0"

    def __init__(self, holds_pending: bool = False) -> None:
        self.holds_pending = holds_pending
        self.kernels: dict[str, Any] = {}
        self.refused = 0
        self.knobs = SimpleNamespace(runtime=SimpleNamespace(jit_cache_hook=None))
        self.launched: list[str] = []
        self.preloaded: list[str] = []
        self.is_async = False

    @contextmanager
    def AsyncCompileMode(self, pool: object, ignore_errors: bool) -> Iterator[None]:  # noqa: N802
        assert ignore_errors
        self.is_async = True
        yield
        self.is_async = False

    def launch(self, name: str) -> None:
        """Launch what stands under a name, or ask whether to compile it."""
        asked: dict[str, Any] = {"key": name, "compile": {"specialization_data": name}}
        function = SimpleNamespace(preload=self._load)
        function.device_caches = {0: (self.kernels, {}, "target", "backend", "binder")}
        asked["fn"] = SimpleNamespace(name=name, jit_function=function)
        hook = self.knobs.runtime.jit_cache_hook
        if name in self.kernels:
            self.kernels[name].run(self.launched, name)
        elif hook is None or not hook(**asked):
            self.launched.append(name)
        else:
            self.refused += 1

    def _load(self, name: str) -> None:
        if name == "broken":
            raise TypeError("not to be serialised")
        assert self.is_async
        assert not self.knobs.runtime.jit_cache_hook(fn=None, key=name)  # a question of our own
        self.preloaded.append(name)
        if self.holds_pending:
            self.kernels[name] = SimpleNamespace(run=list.append)  # waits, and launches


@pytest.fixture(params=[False, True], ids=["3.6", "3.7 to 3.9"])
def triton(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> FakeTriton:
    fake = FakeTriton(request.param)
    monkeypatch.setattr(hooks, "triton", fake)
    monkeypatch.setattr(dispatch, "HAS_TRITON", True)
    monkeypatch.setattr(ahead, "IS_INTERPRETED", False)
    monkeypatch.setattr(ahead, "_digest", lambda name: name)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return fake


def launches(triton: FakeTriton, *names: str) -> Callable[[], None]:
    return lambda: [triton.launch(name) for name in names] and None


def test_each_kernel_is_compiled_once_and_none_is_launched(triton: FakeTriton) -> None:
    ahead.compile_ahead([launches(triton, "a", "b", "a"), launches(triton, "b", "c")], "m")
    assert triton.preloaded == ["a", "b", "c"]
    assert triton.launched == []
    assert triton.refused == 3  # a second launch asks nobody
    assert triton.knobs.runtime.jit_cache_hook is None


def test_a_mark_spares_the_next_process_the_search(triton: FakeTriton, tmp_path: Path) -> None:
    ahead.compile_ahead([launches(triton, "a")], "m")
    assert (tmp_path / "cache" / ahead.MARKS / "m").exists()
    ahead.compile_ahead([launches(triton, "a")], "m")
    assert triton.preloaded == ["a"]
    ahead.compile_ahead([launches(triton, "a")], "another model")
    assert triton.preloaded == ["a", "a"]


def test_what_cannot_be_described_is_left_to_its_launch(triton: FakeTriton) -> None:
    ahead.compile_ahead([launches(triton, "broken", "a")], "m")
    assert triton.preloaded == ["a"]
    triton.launch("broken")
    assert triton.launched == ["broken"]


def test_work_that_fails_leaves_no_hook_and_no_mark(triton: FakeTriton, tmp_path: Path) -> None:
    def fail() -> None:
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        ahead.compile_ahead([fail], "m")
    assert triton.knobs.runtime.jit_cache_hook is None
    assert not (tmp_path / "cache").exists()


def test_what_became_no_kernel_is_launched_as_ever(triton: FakeTriton) -> None:
    """Whether the walk went well or not; what was compiled meanwhile stays."""

    def fail() -> None:
        for name in ("a", "b"):
            triton.launch(name)
        triton.kernels["b"] = compiled
        raise torch.OutOfMemoryError("no room")

    compiled = SimpleNamespace(run=list.append)
    with pytest.raises(torch.OutOfMemoryError):
        ahead.compile_ahead([fail], "m")
    assert triton.kernels == {"b": compiled}
    triton.launch("a")
    triton.launch("b")
    assert triton.launched == ["a", "b"]


def test_a_folder_that_cannot_be_written_costs_only_the_mark(
    triton: FakeTriton, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    ahead.compile_ahead([launches(triton, "a")], "m")
    assert triton.preloaded == ["a"]


class FakeKernel:
    """As Triton's compiled kernels: what launches one is made when `run` is asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self._run: str | None = None

    @property
    def run(self) -> str:
        if self._run is None:
            self._run = "half made"
            if self.error is not None:
                raise self.error
            self._run = threading.current_thread().name
        return self._run


def test_kernels_are_made_ready_to_launch_where_they_are_compiled() -> None:
    kernel = FakeKernel()
    with ahead.Loaders(2) as pool:
        assert pool.submit(lambda: kernel).result() is kernel
    assert kernel.run.startswith("kernels")


def test_a_kernel_that_cannot_be_loaded_begins_anew_at_its_launch() -> None:
    kernel = FakeKernel(RuntimeError("out of memory"))
    with ahead.Loaders(1) as pool:
        assert pool.submit(lambda: kernel).result() is kernel
    kernel.error = None
    assert kernel.run == threading.current_thread().name


@jit
def _add_kernel(x, out, amount, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, WIDTH)
    tl.store(out + at, tl.load(x + at) + amount)


PROGRAM = """
import hopper
import torch
from kernels.launch import ahead
from kernels.launch.dispatch import jit, tl

@jit
def copy_kernel(x, out, scale, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    tl.store(out + at, tl.load(x + at) * scale)

def work():
    for width in (16, 32):
        for scale in (2.5, 3.5):
            copy_kernel[(1,)](torch.ones(width), torch.ones(width), scale, WIDTH=width)

ahead._digest = lambda name: name
print(ahead.compile_ahead([work], "test"))
kernels, *_ = copy_kernel.device_caches[0]
print(*[type(kernel).__name__ for kernel in kernels.values()])
"""


@pytest.mark.slow
def test_the_installed_triton_compiles_ahead_and_launches_nothing(tmp_path: Path) -> None:
    said = run_with_triton(PROGRAM, tmp_path).split()
    assert said == ["2", "CompiledKernel", "CompiledKernel"]


@pytest.mark.gpu
def test_a_launch_finds_what_was_compiled_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x = torch.arange(64.0, device="cuda")
    outs = {width: torch.full_like(x, -1) for width in (16, 32, 64)}

    def work() -> None:
        for width, out in outs.items():
            for amount in (2.5, 3.5):
                _add_kernel[(1,)](x, out, amount, WIDTH=width)

    assert ahead.compile_ahead([work], "test") == 3
    assert all(bool((out == -1).all()) for out in outs.values())
    with watch() as met:
        work()
    assert met.compiled == 0
    for width, out in outs.items():
        assert torch.equal(out[:width], x[:width] + 3.5)
        assert bool((out[width:] == -1).all())
    assert ahead.compile_ahead([lambda: pytest.fail("was run")], "test") == 0
