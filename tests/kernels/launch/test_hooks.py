"""What is used of Triton beyond its promises, with this one and without."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch

from kernels.launch import hooks


def test_it_is_what_triton_asks_for() -> None:
    cache = pytest.importorskip("triton.runtime.cache")
    if not hasattr(cache, "triton_key"):
        pytest.skip("a Triton that does it otherwise")
    cache.triton_key.cache_clear()
    hooks.make_hash()
    assert cache.triton_key.cache_info().currsize == 1


def test_without_triton_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "triton.runtime.cache", None)
    hooks.make_hash()


def test_without_a_hook_nothing_is_hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (None, SimpleNamespace(), SimpleNamespace(knobs=SimpleNamespace(runtime=1))):
        monkeypatch.setattr(hooks, "triton", other)
        assert not hooks.has_preload()
        with hooks.hooked("runtime", "jit_cache_hook", pytest.fail):
            pass


def test_a_triton_that_stops_at_errors_compiles_nothing_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3.5: one kernel that does not compile would end the start."""

    def mode(executor: object) -> None:
        pytest.fail("is asked for")

    knobs = SimpleNamespace(runtime=SimpleNamespace(jit_cache_hook=None))
    fake = SimpleNamespace(knobs=knobs, AsyncCompileMode=mode)
    monkeypatch.setattr(hooks, "triton", fake)
    assert not hooks.has_preload()


def test_this_triton_has_all_that_is_used() -> None:
    """One that has lost a hook would compile at each first launch, and nobody would know why."""
    triton = pytest.importorskip("triton")
    assert hooks.has_preload()
    assert hasattr(triton.knobs.compilation, "listener")
    assert hasattr(triton.runtime.jit.JITFunction, "preload")
    assert hasattr(triton.compiler.CompiledKernel, "run")
    assert "specialization_data" in inspect.getsource(triton.runtime.jit)
    assert hooks.find_ptxas(torch.device("cuda", 0))
