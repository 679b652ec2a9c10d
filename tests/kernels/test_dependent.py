from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import models.blocks
from kernels.dependent import LEAST_ROWS, dependent_launches, launch_options
from kernels.dispatch import has_copy_engine
from models.blocks import Decoder

OFF = {"IS_DEPENDENT": False}


def test_off_where_it_cannot_be() -> None:
    assert launch_options() == OFF
    with dependent_launches(torch.zeros(64, 8), True):
        assert launch_options() == OFF


@pytest.mark.gpu
def test_on_inside_for_enough_rows() -> None:
    x = torch.zeros(64, 8, device="cuda")
    if not has_copy_engine(x.device):
        pytest.skip("needs Hopper")
    for rows, is_wanted in ((64, False), (LEAST_ROWS - 1, True)):
        with dependent_launches(x[:rows], is_wanted):
            assert launch_options() == OFF
    with dependent_launches(x, True):
        assert launch_options() == {"IS_DEPENDENT": True, "launch_pdl": True}
    assert launch_options() == OFF


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [32, 64, 128, 256])
@pytest.mark.parametrize("positions", [16, 400])
def test_steps_are_the_same_bit_for_bit(rows: int, positions: int, monkeypatch) -> None:
    """Of a captured chain of layers, at every replay: a kernel that did not wait would read what
    the one in front is still to write.
    """
    generator = torch.Generator("cuda").manual_seed(0)
    decoder = Decoder(
        width=1024,
        mlp_width=3072,
        num_layers=8,
        num_heads=16,
        num_kv_heads=8,
        head_dim=128,
        rope_theta=1e6,
        norm_eps=1e-6,
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
        patch.setattr(models.blocks, "dependent_launches", lambda *_: nullcontext())
        graph, out = capture()
    graph.replay()
    expected = out.clone()
    assert expected.isfinite().all()
    graph, out = capture()
    for _ in range(50):
        out.zero_()
        graph.replay()
        assert torch.equal(out, expected)
