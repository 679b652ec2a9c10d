from __future__ import annotations

import pytest
import torch

from kernels.launch import descriptors, dispatch
from kernels.launch.descriptors import described, use_descriptors
from kernels.vocoder.conv_tile import has_kernel

INTERPRETED = pytest.mark.skipif(
    not dispatch.IS_INTERPRETED, reason="kernels take no CPU tensors beside a GPU"
)


class OnGpu:
    """As much of a tensor on a GPU as the choice looks at."""

    device = torch.device("cuda", 0)
    is_cuda = True
    dtype = torch.bfloat16


@pytest.mark.parametrize("has_engine", [True, False])
def test_a_gpu_without_a_copy_engine_takes_the_reference(has_engine: bool, monkeypatch) -> None:
    # The public functions launched there all the same, with more shared memory than it may have.
    monkeypatch.setattr(descriptors, "use_triton", lambda _: True)
    monkeypatch.setattr(descriptors, "has_copy_engine", lambda _: has_engine)
    assert use_descriptors(OnGpu()) is has_engine
    assert has_kernel(OnGpu()) is has_engine
    wide = OnGpu()
    wide.dtype = torch.float32
    assert not has_kernel(wide)
    monkeypatch.setattr(descriptors, "use_triton", lambda _: False)
    assert not use_descriptors(OnGpu())


@INTERPRETED
def test_a_cpu_takes_kernels_in_the_interpreter_only() -> None:
    x = torch.zeros(2, 8)
    assert not use_descriptors(x)
    with dispatch.override("triton"):
        assert use_descriptors(x)


@pytest.mark.parametrize(
    ("major", "minor", "shared_kib", "answer"),
    [
        (8, 0, 163, False),
        (8, 6, 99, False),
        (8, 9, 99, False),
        (9, 0, 227, True),
        (10, 0, 227, True),
        (12, 0, 99, False),
    ],
)
def test_which_gpus_have_a_copy_engine(major, minor, shared_kib, answer, monkeypatch) -> None:
    class Properties:
        shared_memory_per_block_optin = shared_kib * 2**10

    Properties.major, Properties.minor = major, minor
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    assert dispatch._has_copy_engine.__wrapped__(torch.device("cuda", 0)) is answer


def test_portable_kernels_need_no_copy_engine(monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "_has_copy_engine", lambda _: True)
    device = torch.device("cuda", 0)
    for name, has_engine in (("auto", True), ("portable", False)):
        with dispatch.using(dispatch.Kernels.named(name)):
            assert dispatch.has_copy_engine(device) == has_engine


def test_steps_that_do_not_start_where_they_must_are_named(device) -> None:
    room = torch.zeros(4, 24, device=device).bfloat16()
    assert described(room[:, :16], 2, 16).strides == [24, 1]
    assert described(room[1:2, :16], 2, 16).strides == [16, 1]  # of one row it is free
    for wrong in (room[:, 1:17], room.flatten()[:90].view(9, 10)):
        with pytest.raises(ValueError, match="multiples of 16 bytes"):
            described(wrong, 2, 16)
