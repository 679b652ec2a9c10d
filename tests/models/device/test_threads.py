"""Thread counts are lowered for small work only, and always given back."""

from __future__ import annotations

import pytest
import torch

from models.device.threads import decode_threads, limited_threads, vocoder_threads


def test_small_work_gets_one_thread_and_large_work_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    assert decode_threads(850_000, batch=16) == 1
    assert decode_threads(850_000, batch=32) == 6
    assert decode_threads(15_730_944, batch=1) == 6
    assert vocoder_threads(4_700_000) == 1
    assert vocoder_threads(114_000_000) == 6


def test_threads_are_given_back_after_an_error() -> None:
    before = torch.get_num_threads()

    def fail() -> None:
        with limited_threads(before + 1):
            assert torch.get_num_threads() == before + 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == before
