from __future__ import annotations

import pytest
import torch

from kernels import bench


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_cuda_it_says_what_it_needs(capsys) -> None:
    assert bench.main([]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "needs a CUDA device" in captured.err


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_case_agrees_with_its_reference(dtype) -> None:
    """Batch 3 on the GPU: the gate itself, without the timing."""
    cases = [case for build in bench.REGISTRY for case in build(3, dtype)]
    assert {case.op for case in cases} >= {"sample", "decode_attention", "qk_norm_rope_store"}
    for case in cases:
        worst, allowed = bench.error(case, dtype)
        assert worst <= allowed, (case.op, case.shape)


@pytest.mark.gpu
def test_disagreement_prints_no_number(monkeypatch, capsys) -> None:
    monkeypatch.setattr(bench, "error", lambda case, dtype: (1.0, 0.1))
    monkeypatch.setattr(bench, "copy_rate", lambda: 1.0)
    monkeypatch.setattr(bench, "time_us", lambda *arguments: pytest.fail("timed all the same"))
    assert bench.main(["--op", "swiglu", "--batch", "1"]) == 1
    assert "disagrees with its reference" in capsys.readouterr().out
