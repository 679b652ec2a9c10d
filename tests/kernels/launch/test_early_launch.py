from __future__ import annotations

import ast
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from synthetic import load_synthetic

import models.decoder.decoder
from kernels.launch import dispatch, early_launch
from kernels.launch.early_launch import MIN_ROWS, dependent_launches, launch_options
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder
from models.qwen3_tts.model import Qwen3TTS

OFF = {"IS_DEPENDENT": False}


def test_off_where_it_cannot_be() -> None:
    assert launch_options() == OFF
    with dependent_launches(torch.zeros(64, 8), True):
        assert launch_options() == OFF


def test_a_block_inside_another_of_another_kind_is_a_bug() -> None:
    token = early_launch._is_on.set(True)
    inside = pytest.raises(AssertionError, match="False inside a step with True")
    with inside, dependent_launches(torch.zeros(64, 8), False):
        pass
    assert launch_options()["IS_DEPENDENT"]
    early_launch._is_on.reset(token)


@pytest.mark.gpu
@pytest.mark.copy_engine
def test_on_inside_for_enough_rows() -> None:
    x = torch.zeros(64, 8, device="cuda")
    for rows, is_wanted in ((64, False), (MIN_ROWS - 1, True)):
        with dependent_launches(x[:rows], is_wanted):
            assert launch_options() == OFF
    with dependent_launches(x, True):
        assert launch_options() == {"IS_DEPENDENT": True, "launch_pdl": True}
    assert launch_options() == OFF


@pytest.mark.gpu
@pytest.mark.copy_engine
@pytest.mark.parametrize("rows", [32, 64, 128, 256])
@pytest.mark.parametrize("positions", [16, 400])
def test_steps_are_the_same_bit_for_bit(rows: int, positions: int, monkeypatch) -> None:
    """Of a captured chain of layers, at every replay: a kernel that did not wait would read what
    the one in front is still to write.
    """
    generator = torch.Generator("cuda").manual_seed(0)
    decoder = Decoder(
        TransformerConfig(
            width=1024,
            mlp_width=3072,
            num_layers=8,
            num_heads=16,
            num_kv_heads=8,
            head_dim=128,
            rope_theta=1e6,
            norm_eps=1e-6,
            max_positions=1,
        )
    )
    decoder.to("cuda", torch.bfloat16).requires_grad_(False)
    for weight in decoder.parameters():
        weight.normal_(0, weight.shape[-1] ** -0.5, generator=generator)
    decoder.allocate(rows, positions)
    decoder.cache.data.normal_(generator=generator)
    given = torch.randn(rows, 1024, device="cuda", generator=generator).bfloat16()
    place = torch.randint(positions // 2, positions, (rows,), device="cuda", generator=generator)
    x = given.clone()

    def capture() -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        decoder.step(x.clone(), place)  # compiles
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = decoder.step(x.copy_(given), place)
        return graph, out

    with monkeypatch.context() as patch:
        patch.setattr(models.decoder.decoder, "dependent_launches", lambda *_: nullcontext())
        graph, out = capture()
    graph.replay()
    expected = out.clone()
    assert expected.isfinite().all()
    graph, out = capture()
    for _ in range(50):
        out.zero_()
        graph.replay()
        assert torch.equal(out, expected)


@pytest.mark.gpu
@pytest.mark.copy_engine
@pytest.mark.parametrize("rows", [32, 64, 128, 256])
@torch.inference_mode()
def test_codes_are_the_same_bit_for_bit(
    rows: int, synthetic: Qwen3TTS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All steps of a frame, at every replay: what a step reads before it waits was written by the
    step before.
    """
    model, generator = synthetic, torch.Generator("cuda").manual_seed(0)
    model.allocate(rows, 64, 32)
    model.slots.hidden.normal_(generator=generator)
    model.slots.code.random_(0, 2048, generator=generator)
    model.sampling.seeds.random_(0, 2**40, generator=generator)
    model.sampling.columns["subtalker_top_k"].fill_(50)
    greedy = model.sampling.columns["subtalker_greedy"]
    greedy.copy_(torch.arange(rows, device="cuda") % 2)

    def capture() -> torch.cuda.CUDAGraph:
        model.predict(rows)  # compiles
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model.predict(rows)
        return graph

    with monkeypatch.context() as patch:
        patch.setattr(models.decoder.decoder, "dependent_launches", lambda *_: nullcontext())
        graph = capture()
    graph.replay()
    expected = model.slots.work.clone()
    assert expected.unique().numel() > rows
    graph = capture()
    for _ in range(30):
        model.slots.work.zero_()
        graph.replay()
        assert torch.equal(model.slots.work, expected)


@pytest.fixture(scope="module")
def synthetic() -> Qwen3TTS:
    """0.6B at its full size, of random weights."""
    device = torch.device("cuda")
    return load_synthetic("qwen3-tts-0.6b", device, torch.bfloat16, use_graphs=False)


def kernels_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Its functions for the GPU by name."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        function.name: function
        for function in functions
        if any(
            ast.unparse(mark).startswith(("jit", "gluon_jit")) for mark in function.decorator_list
        )
    }


WAITS = ("wait_for_previous", "wait_for_all")
# What is read, written or asked for, and by which name.
TOUCHING = re.compile(r"(?:load|store|atomic\w*|fetch|wide_halves|_norm_of|cache_tile)\((\w+)")
# Weights, tables and positions, which nobody writes, and what steps before have cached.
EARLY = {
    "_rms_norm_kernel": {"weight_ptr"},
    "_code_embedding_kernel": {"weight_ptr"},
    "_sample_kernel": {"norm_ptr"},
    "_step_attention_kernel": {
        *("positions_ptr", "cos_ptr", "sin_ptr", "k_norm_ptr", "q_norm_ptr"),
        *("keys_ptr", "values_ptr"),
    },
    "_early_linear_kernel": set(),  # asks for its weight by `_ask_for_weight`
}


def test_every_kernel_that_may_start_early_waits_before_it_touches_memory() -> None:
    """One that did not would read what the kernel in front is still to write, now and then."""
    launches = 0
    for path in sorted(Path(dispatch.__file__).parents[1].rglob("*.py")):
        tree = ast.parse(path.read_text())
        kernels = kernels_of(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            options = [word.value for word in call.keywords if word.arg is None]
            if not any(ast.unparse(option).startswith("launch_options(") for option in options):
                continue
            launches += 1
            assert isinstance(call.func, ast.Subscript)
            kernel = kernels[ast.unparse(call.func.value)]
            before: list[str] = []
            for statement in kernel.body[ast.get_docstring(kernel) is not None :]:
                before.append(ast.unparse(statement))
                if any(f"{wait}(IS_DEPENDENT)" in before[-1] for wait in WAITS):
                    break
                if "row_of(" in before[-1] and "IS_DEPENDENT" in before[-1]:  # which waits
                    break
            else:
                pytest.fail(f"{path.name}: {kernel.name} does not wait")
            read = {word for line in before[:-1] for word in TOUCHING.findall(line)}
            assert read == EARLY.get(kernel.name, set()), kernel.name
    assert launches >= 10
