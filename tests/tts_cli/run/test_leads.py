"""What one checkpoint spoke for another, on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.base import ModelInfo, SpeechRequest
from tts_cli.errors import RowError
from tts_cli.run.leads import Leads
from tts_cli.voices.speech_row import SpeechRow, Work

RATE_HZ = 24_000
DIGEST = "ab" * 32


@pytest.fixture
def leads(tmp_path: Path, make_info: Callable[..., ModelInfo]) -> Leads:
    """An open folder."""
    found = Leads(tmp_path, make_info())
    found.open()
    return found


def spoken(dtype: str, info: ModelInfo) -> SpeechRow:
    row = SpeechRow("a", SpeechRequest(text="So it was.", seed=7), DIGEST)
    noise = np.random.default_rng(1).integers(-32_767, 32_768, RATE_HZ)
    row.samples = noise.astype(np.int16)
    if dtype == "float32":
        row.samples = (noise / 40_000).astype(np.float32)
    row.codes = np.arange(12 * info.num_codebooks).reshape(12, -1) % 8
    row.frames, row.attempts, row.seed, row.finish_reason = 12, 2, 99, "eos"
    row.work = Work(prompt_tokens=5, decode_ms=1.5)
    return row


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_what_is_kept_comes_back(
    leads: Leads, tmp_path: Path, dtype: str, make_info: Callable[..., ModelInfo]
) -> None:
    row = spoken(dtype, make_info())
    assert not leads.has(DIGEST)
    assert leads.problem(DIGEST) == "it was not spoken"
    leads.take(row)
    leads.close()
    again = Leads(tmp_path, make_info())
    assert again.has(DIGEST)
    assert not again.has("cd" * 32)
    found = again.part(DIGEST, 1, row.request, dtype == "int16")
    part = found.read()
    assert found.place == 1
    assert part.samples is not None
    assert row.samples is not None
    assert part.samples.dtype == row.samples.dtype
    if dtype == "int16":
        assert np.array_equal(part.samples, row.samples)
    else:
        assert np.abs(part.samples - row.samples).max() < 2**-23
    assert part.codes is not None
    assert np.array_equal(part.codes, row.codes)
    told = (part.frames, part.attempts, part.seed, part.finish_reason, part.work)
    assert told == (12, 2, 99, "eos", row.work)
    assert part.identity == make_info().identity


def test_what_is_gone_or_changed_is_not_there(
    leads: Leads, make_info: Callable[..., ModelInfo]
) -> None:
    row = spoken("int16", make_info())
    leads.take(row)
    path = leads.path_of(DIGEST)
    data = path.read_bytes()
    part = leads.part(DIGEST, 0, row.request, True)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(RowError, match="is not what was written"):
        part.read()
    path.unlink()
    assert not leads.has(DIGEST)
    assert leads.problem(DIGEST) == "its speech is gone"
    with pytest.raises(RowError, match="cannot be read"):
        part.read()


def test_a_failure_is_noted(leads: Leads, make_info: Callable[..., ModelInfo]) -> None:
    row = spoken("int16", make_info())
    row.error = "no end of speech"
    leads.take(row)
    assert not leads.has(DIGEST)
    assert leads.problem(DIGEST) == "no end of speech"
    assert not leads.path_of(DIGEST).exists()
