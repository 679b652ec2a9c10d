"""On a GPU: what the vocoder's activations take is what it says, with our kernels and without."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from kernels.launch import dispatch
from models.registry import load_model
from models.slots.model import SlotModel
from models.vocoder.lanes import LANE_FRAMES, Lanes
from models.vocoder.network import WORK_SPARE

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

SPARE_BYTES = 256 * 2**20  # workspaces of libraries, the attention of latents


@pytest.fixture(params=["qwen3-tts-0.6b", "fish-s2-pro"])
def lanes(request: pytest.FixtureRequest) -> Iterator[Lanes]:
    model = load_model(f"synthetic:{request.param}", "cuda", torch.bfloat16, use_graphs=True)
    assert isinstance(model, SlotModel)
    layout = model.vocoder.layout
    assert isinstance(layout, Lanes)
    del model
    gc.collect()
    torch.cuda.empty_cache()
    yield layout
    del layout
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("is_portable", [False, True])
@torch.inference_mode()
def test_activations_take_what_was_said(
    lanes: Lanes, is_portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_is_portable", is_portable)
    network, frames = lanes.network, 2 * LANE_FRAMES
    codes = torch.zeros(2, network.num_codebooks, LANE_FRAMES, dtype=torch.int64, device="cuda")
    network(codes)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    network(codes)
    taken = torch.cuda.max_memory_allocated() - before
    said = network.work_bytes(frames) / WORK_SPARE
    assert 0.75 * said < taken < said + SPARE_BYTES


@torch.inference_mode()
def test_a_graph_keeps_no_more_than_was_said(lanes: Lanes) -> None:
    """Of both kinds of passes, which share a pool, whole ones and those of latents in front."""
    reserved = torch.cuda.memory_reserved()
    lanes.announce(256, 300, 300)
    for runner in lanes.runners:
        runner.capture()
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved() - reserved
    assert kept < lanes.network.work_bytes(4 * LANE_FRAMES) + SPARE_BYTES
