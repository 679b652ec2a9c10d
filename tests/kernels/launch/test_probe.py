"""What tells whether Triton works, before anything is built on it."""

from __future__ import annotations

import pytest
import torch

from kernels.launch import probe as module
from kernels.launch.probe import begin_probe, probe, remedy_for, tools


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def test_where_triton_works_it_says_nothing(device) -> None:
    assert probe(device) is None
    assert begin_probe(device).result(60) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="compiled kernels are another class")
def test_what_fails_is_told(device, monkeypatch) -> None:
    kind = type(module._probe_kernel)

    def run(*args, **options):
        raise RuntimeError("Command '['gcc', 'x.c']' returned non-zero exit status 1.")

    monkeypatch.setattr(kind, "run", run)
    told = "probe: Command '['gcc', 'x.c']' returned non-zero exit status 1."
    assert probe(device) == told
    assert begin_probe(device).result(60) == told
    monkeypatch.setattr(kind, "run", lambda *args, **options: None)
    assert probe(device) == f"probe: it wrote {[0] * module.SIZE}"


def test_what_is_no_failure_of_triton_comes_to_whoever_waits(device, monkeypatch) -> None:
    def run(device: torch.device) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "probe", run)
    with pytest.raises(torch.OutOfMemoryError):
        begin_probe(device).result(60)


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        ("probe: Failed to find C compiler. Please specify", module.COMPILER_REMEDY),
        ("probe: Command '['/usr/bin/cc', '/tmp/a/main.c', '-O3']' returned", "install gcc"),
        ("probe: main.c:4:10: fatal error: Python.h: No such file", "headers"),
        ("swiglu: PTXAS error: `ptxas` failed with error code 255 ...", "TRITON_PTXAS_PATH"),
        ("swiglu: out of resource: shared memory, Required: 4, limit: 2", "tts-cli doctor"),
    ],
)
def test_each_failure_has_its_remedy(failure: str, remedy: str) -> None:
    assert remedy in remedy_for(failure)


def test_the_compiler_is_looked_for_where_triton_does(monkeypatch, tmp_path, device) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert tools(device)["C compiler"] == "not found"
    clang = tmp_path / "clang"
    clang.write_text("")
    clang.chmod(0o755)
    assert tools(device)["C compiler"] == str(clang)
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert tools(device)["C compiler"] == "not found"
    assert "ptxas" in tools(device)
