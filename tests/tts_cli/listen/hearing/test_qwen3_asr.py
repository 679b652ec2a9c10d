"""Qwen3-ASR checkpoints through the real loading code: a tiny one of random weights, on a CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import transformers
from tiny_qwen3_asr import write_tiny_qwen3_asr
from tiny_whisper import write_tiny_whisper

from tts_cli.app.check import open_recogniser
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.listen.hearing import qwen3_asr
from tts_cli.listen.hearing.qwen3_asr import CODES, Qwen3Asr
from tts_cli.listen.hearing.recogniser import RATE_HZ, Answer, Asked

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
IS_THERE = hasattr(transformers, "Qwen3ASRForConditionalGeneration")
needs_it = pytest.mark.skipif(not IS_THERE, reason="this transformers has no Qwen3-ASR")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_qwen3_asr(tmp_path_factory.mktemp("qwen") / "tiny")


@needs_it
def test_a_batch_hears_what_each_alone_does(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long row is cut, a file that is no audio stops nobody."""
    monkeypatch.setattr(qwen3_asr, "MAX_TOKENS", 12)
    draw = np.random.default_rng(0)
    asked = []
    for place, (seconds, language) in enumerate([(1, "en"), (2.5, "de"), (31, "en"), (0.4, None)]):
        path = tmp_path / f"{place}.wav"
        soundfile.write(path, draw.normal(0, 0.1, round(seconds * RATE_HZ)), RATE_HZ)
        asked.append(Asked(place, path, language))
    asked.append(Asked(4, tmp_path / "none.wav", "en"))

    def heard(batch: int) -> dict[int, Answer]:
        recogniser = Qwen3Asr(checkpoint, CPU, batch)
        return {answer.place: answer for answer in recogniser.hear(asked)}

    single = heard(1)
    assert sorted(single) == list(range(5))
    assert single[4].problem is not None
    assert all(single[place].problem is None and single[place].text for place in range(4))
    assert heard(3) == single


@needs_it
def test_the_language_is_told(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.qwen3_asr.processing_qwen3_asr import LANGUAGE_CODE_TO_NAME

    assert {code for code in LANGUAGE_CODE_TO_NAME if len(code) == 2} == CODES
    monkeypatch.setattr(qwen3_asr, "MAX_TOKENS", 12)
    recogniser = open_recogniser(RunConfig(asr=str(checkpoint), device="cpu"))
    assert isinstance(recogniser, Qwen3Asr)
    assert recogniser.identity.name.startswith("qwen3_asr tiny-")
    samples = [np.random.default_rng(1).normal(0, 0.1, RATE_HZ).astype(np.float32)]
    assert recogniser.words(samples, "en") != recogniser.words(samples, "zh")
    assert recogniser.words(samples, None)[0]


def test_an_older_transformers_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older:
        """Without the family."""

        __version__ = "4.57.0"

    folder = write_tiny_whisper(tmp_path / "tiny")
    monkeypatch.setattr(Qwen3Asr, "_load", lambda self, library, folder: Older.Qwen3ASRProcessor)  # type: ignore[attr-defined]
    with pytest.raises(SetupError, match=r"has no qwen3_asr; pip install 'transformers>=5"):
        Qwen3Asr(folder, CPU)
