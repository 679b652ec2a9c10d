"""On a GPU: what the vocoder's activations take is what it says, with our kernels and without."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest
import torch
from torch import Tensor

from kernels.launch import dispatch
from models.registry import load_model
from models.slots.model import SpeechModel
from models.vocoder.lanes import LANE_FRAMES, MAX_LANES, Lanes
from models.vocoder.network import WORK_SPARE

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

SPARE = 128 * 2**20  # elements: workspaces of libraries, the attention of latents
NAMES = ["qwen3-tts-0.6b", "fish-s2-pro"]


@pytest.fixture(
    params=[(name, dtype) for name in NAMES for dtype in ("bfloat16", "float32")], ids="-".join
)
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lanes]:
    name, dtype = request.param
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as in runs
    model = load_model(f"synthetic:{name}", "cuda", getattr(torch, dtype), use_graphs=True)
    assert isinstance(model, SpeechModel)
    layout = model.vocoder.layout
    assert isinstance(layout, Lanes)
    del model
    gc.collect()
    torch.cuda.empty_cache()
    yield layout
    del layout
    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture(params=["auto", "portable"])
def _kernels_of_a_name(request: pytest.FixtureRequest) -> Iterator[None]:
    with dispatch.using(dispatch.Kernels.named(request.param)):
        yield


@pytest.mark.usefixtures("_kernels_of_a_name")
@torch.inference_mode()
def test_activations_take_what_was_said(lanes: Lanes) -> None:
    network, frames = lanes.network, 2 * LANE_FRAMES
    codes = torch.zeros(2, network.num_codebooks, LANE_FRAMES, dtype=torch.int64, device="cuda")
    network(codes)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    network(codes)
    taken = torch.cuda.max_memory_allocated() - before
    said = network.work_bytes(frames) / WORK_SPARE
    assert 0.75 * said < taken < said + SPARE * network.dtype.itemsize


@torch.inference_mode()
def test_a_graph_keeps_no_more_than_was_said(lanes: Lanes) -> None:
    """Of both kinds of passes, which share a pool, whole ones and those of latents in front."""
    reserved = torch.cuda.memory_reserved()
    lanes.announce(256, 300, 300)
    for runner in lanes.runners:
        runner.capture()
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved() - reserved
    network = lanes.network
    assert kept < network.work_bytes(4 * LANE_FRAMES) + SPARE * network.dtype.itemsize


@pytest.mark.parametrize("lanes", [("qwen3-tts-0.6b", "float32")], indirect=True, ids="-".join)
@torch.inference_mode()
def test_short_of_memory_a_pass_fails_or_is_the_same(lanes: Lanes) -> None:
    """What cuDNN finds no workspace for it does with another kernel, which rounds otherwise."""
    generator = torch.Generator().manual_seed(0)
    size = LANE_FRAMES - lanes.network.gap_frames
    shape = size, lanes.network.num_codebooks
    rows = [torch.randint(1024, shape, generator=generator) for _ in range(MAX_LANES)]
    need = lanes.network.work_bytes(MAX_LANES * LANE_FRAMES)
    total = torch.cuda.get_device_properties(lanes.device).total_memory

    def decode(share: float) -> Tensor | None:
        """In a thread of its own, which has chosen no kernels yet; None: there was no memory."""
        found: list[Tensor] = []
        eager = Lanes(lanes.network, None)

        @torch.inference_mode()
        def run() -> None:
            with suppress(torch.OutOfMemoryError):
                found.append(torch.cat(eager.decode(rows, [size] * len(rows))))

        torch.cuda.empty_cache()
        limit = torch.cuda.memory_reserved() + share * need
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
        thread = Thread(target=run)
        thread.start()
        thread.join()
        torch.cuda.set_per_process_memory_fraction(1.0)
        return found[0].cpu() if found else None

    expected = decode(2.0)
    assert expected is not None
    outcomes = [decode(0.3 + 0.1 * tenth) for tenth in range(10)]
    assert outcomes[0] is None
    assert outcomes[-1] is not None
    assert all(found is None or torch.equal(found, expected) for found in outcomes)
