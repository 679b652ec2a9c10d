from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernels.bench import step as bench_step
from kernels.bench.step import SHAPES, Shape, layers_of, make_step, persistent, separate, variants
from kernels.linear.choose import linear
from kernels.linear.layers import is_all_ours
from kernels.persistent import step as persistent_decoder
from kernels.persistent.step import DecoderWeights, default_settings, fits
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder

pytestmark = pytest.mark.slow


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_cuda_it_says_what_it_needs(capsys) -> None:
    assert bench_step.main([]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "needs a CUDA device" in captured.err


def test_variants_are_distinct_and_fit(monkeypatch) -> None:
    monkeypatch.setattr(persistent_decoder, "num_processors", lambda device: 132)
    chosen = list(variants(tuple(SHAPES), [1, 2, 16, 64, 256]))
    assert len({(one.part, one.rows, one.name) for one in chosen}) == len(chosen)
    assert chosen[0].name == "chain"
    for one in chosen:
        assert one.settings is None or one.rows == 1
        if one.settings is None:
            continue
        width, inner, mixed = 1024, one.shape.inner, one.shape.heads * 128
        sizes = {
            "qkv": (mixed + 2 * one.shape.kv_heads * 128, width),
            "o": (width, mixed),
            "gate_up": (2 * inner, width),
            "down": (width, inner),
        }
        empty = {
            name: torch.empty(1, *size, device="meta", dtype=torch.bfloat16)
            for name, size in sizes.items()
        }
        norms = torch.empty(2, width, device="meta")
        weights = DecoderWeights(**empty, norms=norms, post_norms=norms, q_norms=None, k_norms=None)
        assert fits(weights, one.shape.heads, 128, one.settings), one


@pytest.mark.parametrize("position", [0, 14])
def test_paths_agree(position, device, with_kernel, with_reference, assert_close) -> None:
    """One layer, one row."""
    shape = Shape(1, 16, 64, inner=512, heads=4, kv_heads=2)
    step = make_step(shape, 1, device)
    expected = with_reference(separate, step, position, shape)
    assert_close(with_kernel(separate, step, position, shape), expected, 2e-2)
    out = with_kernel(persistent, step, position, shape, default_settings(shape.cache))
    assert_close(out, expected, 2e-2)
    assert not step.counters.any()


@pytest.mark.copy_engine
@pytest.mark.parametrize("rows", [2, pytest.param(64, marks=pytest.mark.gpu)])
def test_chain_is_the_step_of_the_models(rows, device, with_kernel) -> None:
    """Bit for bit, and by the kernels for few rows: what is timed is what the engine runs."""
    shape = Shape(1, 16, 64, inner=512, heads=4, kv_heads=2)
    step = make_step(shape, rows, device)
    weights = step.weights
    decoder = Decoder(
        TransformerConfig(
            width=1024,
            mlp_width=shape.inner,
            num_layers=1,
            num_heads=shape.heads,
            num_kv_heads=shape.kv_heads,
            head_dim=128,
            rope_theta=1e6,
            norm_eps=1e-6,
            max_positions=1,
        )
    )
    decoder.to(device, torch.bfloat16).requires_grad_(False)
    layer = decoder.layers[0]
    for module, weight in (
        (layer.qkv, weights.qkv[0]),
        (layer.o, weights.o[0]),
        (layer.gate_up, weights.gate_up[0]),
        (layer.down, weights.down[0]),
        (layer.input_norm, weights.norms[0]),
        (layer.post_norm, weights.post_norms[0]),
        (layer.q_norm, weights.q_norms[0]),
        (layer.k_norm, weights.k_norms[0]),
        (decoder.norm, weights.norms[1]),
    ):
        module.weight.copy_(weight)
    decoder.allocate(rows, shape.cache)
    decoder.cache.data.copy_(step.cache)
    x = step.tables[3][step.codes[:, 3]]
    assert with_kernel(is_all_ours, x, layers_of(weights)[0])
    hidden = with_kernel(decoder.step, x, step.positions[3])
    expected = with_kernel(linear, hidden, step.heads[3])
    assert torch.equal(with_kernel(separate, step, 3, shape), expected)


def test_a_failing_variant_does_not_end_the_run(monkeypatch, tmp_path, capsys) -> None:
    chosen = list(variants(["predictor"], [1]))[:3]

    def measure(variant, expected, is_listed) -> str:
        if variant == chosen[1]:
            raise ValueError("does not compile")
        return f"measured {variant.name}"

    monkeypatch.setattr(bench_step, "measure", measure)
    assert bench_step._run_child(chosen, 0, tmp_path / "mark", False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("measured") for line in lines] == [True, False, True]
    assert "ValueError: does not compile" in lines[1]
    assert (tmp_path / "mark").read_text() == "2"


def test_a_variant_that_ends_its_process_is_skipped(monkeypatch, capsys) -> None:
    """The second of three hangs; a fresh process goes on behind it."""
    started = []

    class Warmer:
        def __init__(self, command) -> None:
            assert "--warm" in command

        def wait(self) -> int:
            return 0

    class Done:
        def __init__(self, returncode: int) -> None:
            self.returncode = returncode

    def run(command, timeout) -> Done:
        first, mark = command[-2:]
        started.append(int(first))
        Path(mark).write_text("1" if len(started) == 1 else "2")
        return Done(1 if len(started) == 1 else 0)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    for name, value in (
        ("HAS_TRITON", True),
        ("IS_INTERPRETED", False),
        ("barrier_us", lambda is_atomic, warps: 1.0),
        ("describe", lambda: "Triton"),
    ):
        monkeypatch.setattr(bench_step, name, value)
    monkeypatch.setattr(bench_step.subprocess, "Popen", Warmer)
    monkeypatch.setattr(bench_step.subprocess, "run", run)
    assert bench_step.main(["--part", "predictor", "--rows", "1"]) == 1
    assert started == [0, 2]
    assert "variant 1 ended its process (1)" in capsys.readouterr().out


@pytest.mark.gpu
def test_a_line_is_measured() -> None:
    chosen = list(variants(["predictor"], [1]))[:2]
    expected: dict = {}
    with torch.inference_mode():
        for one in chosen:
            line = bench_step.measure(one, expected, False)
            assert "disagrees" not in line
            assert "NOT THE SAME" not in line
