"""Compiled kernels serve whoever has the same sources and the same Triton, wherever they lie: a new
virtual environment, another checkout, a container.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
from warm_process import run_warm

from kernels.launch.ahead import MARKS, SOURCES

pytestmark = pytest.mark.slow

# What a GPU of Hopper's kind would run, compiled without one.
PROGRAM = """
import sys
sys.path.remove("")
import torch
torch.cuda.is_available = lambda: True
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kernels.launch import ahead
from kernels.linear.swiglu import _swiglu_kernel

def listen(**event):
    print("found" if event["cache_hit"] else "compiled")

triton.knobs.compilation.listener = listen
types = {"gate_up_ptr": "*bf16", "out_ptr": "*bf16", "row_stride": "i32", "width": "i32"}
values = {"IS_DEPENDENT": False, "BLOCK": 1024}
signature = {name: types.get(name, "constexpr") for name in _swiglu_kernel.arg_names}
source = ASTSource(_swiglu_kernel, signature, values)
triton.compile(source, target=GPUTarget("cuda", 90, 32))
print(triton.__file__, _swiglu_kernel.fn.__code__.co_filename, ahead._sources())
"""


def compile_at(site: Path, cache: Path) -> list[str]:
    """Compile with what lies in a folder: how it went, where Triton and the kernel are, and what
    marks go by.
    """
    place = {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(site), "TRITON_INTERPRET": "0"}
    return run_warm(PROGRAM, **place).split()


def test_another_place_finds_what_was_compiled(tmp_path: Path) -> None:
    found = importlib.util.find_spec("triton")
    if found is None or not found.submodule_search_locations:
        pytest.skip("triton is not installed")
    sites = [tmp_path / name for name in ("one", "two")]
    for site in sites:
        site.mkdir()
        shutil.copytree(SOURCES, site / "kernels")
        (site / "triton").symlink_to(found.submodule_search_locations[0])
    first, second = (compile_at(site, tmp_path / "cache") for site in sites)
    assert (first[0], second[0]) == ("compiled", "found")
    for place in (1, 2):
        assert first[place].startswith(str(sites[0]))
        assert second[place].startswith(str(sites[1]))
    assert first[3] == second[3]
    assert not (tmp_path / "cache" / MARKS).exists()
    with open(sites[1] / "kernels" / "linear" / "swiglu.py", "r+") as file:
        text = file.read().replace("tl.exp(-gate)", "tl.exp(-1.0 * gate)")
        file.seek(0)
        file.write(text)
    changed = compile_at(sites[1], tmp_path / "cache")
    assert changed[0] == "compiled"
    assert changed[3] != first[3]
