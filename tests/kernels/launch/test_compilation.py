from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernels.launch import hooks
from kernels.launch.compilation import Compilation, cache_folder, watch
from kernels.vocoder.snake import snake_beta


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Triton's settings, with a listener of somebody else."""
    heard: list[dict[str, object]] = []
    found = SimpleNamespace(listener=lambda **event: heard.append(event), heard=heard)
    fake = SimpleNamespace(knobs=SimpleNamespace(compilation=found))
    monkeypatch.setattr(hooks, "triton", fake)
    return found


def test_compiled_and_cached_kernels_are_counted(knobs: SimpleNamespace) -> None:
    said: list[int] = []
    before = knobs.listener
    with watch(lambda found: said.append(found.compiled)) as found:
        knobs.listener(cache_hit=False, times=SimpleNamespace(total=1_500_000))
        knobs.listener(cache_hit=True, times=SimpleNamespace(total=7))
        knobs.listener(cache_hit=False, times=SimpleNamespace(total=500_000))
    assert found == Compilation(compiled=2, compile_s=2.0, cached=1)
    assert said == [1, 2]
    assert knobs.listener is before
    assert len(knobs.heard) == 3


def test_the_listener_is_restored_after_an_error(knobs: SimpleNamespace) -> None:
    before = knobs.listener
    with pytest.raises(ValueError, match="x"), watch():
        raise ValueError("x")
    assert knobs.listener is before


def test_without_triton_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "triton", None)
    with watch() as found:
        pass
    assert found == Compilation()


def test_the_folder_is_tritons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert cache_folder() == Path.home() / ".triton" / "cache"


@pytest.mark.gpu
def test_triton_tells_of_a_kernel_it_has_not_met() -> None:
    x = torch.randn(1, 17, 33, device="cuda", dtype=torch.float16)
    ones = torch.ones(17, device="cuda")
    with watch() as found:
        snake_beta(x, (ones, ones, ones), 3)
    assert found.compiled + found.cached > 0
