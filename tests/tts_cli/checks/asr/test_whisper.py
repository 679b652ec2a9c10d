"""Whisper checkpoints through the real loading code: a tiny one of random weights, on a CPU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from tiny_whisper import write_tiny_whisper

from tts_cli.app.check import open_recognizer
from tts_cli.checks.asr.recognizer import RATE_HZ, AsrRequest, AsrResult, Recognizer
from tts_cli.checks.asr.whisper import Whisper
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("whisper") / "tiny")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Rows of 1 to 4 s, and a long one of 31 s."""
    folder = tmp_path_factory.mktemp("wavs")
    draw = np.random.default_rng(0)
    paths = []
    for place, seconds in enumerate([1.0, 2.5, 31.0, 4.0, 0.4]):
        paths.append(folder / f"{place}.wav")
        tone = np.sin(np.arange(round(seconds * RATE_HZ)) * (0.05 + 0.03 * place))
        noise = draw.normal(0, 0.1, len(tone))
        soundfile.write(paths[-1], 0.3 * tone + noise, RATE_HZ)
    return paths


def listener(source: Path | str) -> Recognizer:
    """As `check --asr` opens it."""
    return open_recognizer(RunConfig(asr=str(source), device="cpu"))


def heard(checkpoint: Path, batch: int, asked: list[AsrRequest]) -> dict[int, AsrResult]:
    recognizer = Whisper(checkpoint, CPU, batch)
    return {answer.place: answer for answer in recognizer.run(iter(asked))}


def test_a_batch_hears_what_each_alone_does(
    checkpoint: Path, files: list[Path], tmp_path: Path
) -> None:
    """A long row is cut, a file that is no audio stops nobody."""
    languages = ["en", "de", "en", None, "xx"]
    asked = [AsrRequest(place, path, languages[place]) for place, path in enumerate(files)]
    asked.append(AsrRequest(5, tmp_path / "none.wav", "en"))
    single = heard(checkpoint, 1, asked)
    assert sorted(single) == list(range(6))
    assert single[5].problem is not None
    assert all(single[place].problem is None and single[place].text for place in range(5))
    assert heard(checkpoint, 3, asked) == single
    assert heard(checkpoint, 3, asked[::-1]) == single


def test_it_hears_fewer_at_once_where_memory_is_short(
    checkpoint: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [AsrRequest(place, path, "en") for place, path in enumerate(files)]
    single, words, sizes = heard(checkpoint, 1, asked), Whisper.words, []

    def short(self: Whisper, samples: list[Any], language: str | None) -> list[str]:
        sizes.append(len(samples))
        if len(samples) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried")
        return words(self, samples, language)

    monkeypatch.setattr(Whisper, "words", short)
    assert heard(checkpoint, 6, asked) == single
    assert sizes == [6, 3, 1, 2, 3, 1, 2]


def test_nobody_waits_for_takes_that_do_not_come(checkpoint: Path, files: list[Path]) -> None:
    """None among them: what was asked before is answered, though the batch is not full."""
    recognizer = Whisper(str(checkpoint), CPU, 4)
    answered: list[int] = []

    def asked() -> Iterator[AsrRequest | None]:
        for place in (0, 1):
            yield AsrRequest(place, files[place], "en")
            assert len(answered) == place
            yield None
            assert len(answered) == place + 1

    for answer in recognizer.run(asked()):
        answered.append(answer.place)
    assert answered == [0, 1]


def test_the_language_is_told(checkpoint: Path) -> None:
    recognizer = Whisper(checkpoint, CPU)
    samples = [np.random.default_rng(1).normal(0, 0.1, RATE_HZ).astype(np.float32)]
    assert recognizer.words(samples, "en") != recognizer.words(samples, "zh")
    assert recognizer.words(samples, None)[0]


def test_its_name_is_that_of_its_weights(checkpoint: Path, tmp_path: Path) -> None:
    """Answers of other weights, or of another dtype, are not taken for its own."""
    first = listener(checkpoint).identity
    again = listener(checkpoint).identity
    assert first == again
    assert first.name.endswith("float32")
    assert ("waggon", "wagon") in first.spellings
    other = write_tiny_whisper(tmp_path / "tiny", seed=1)
    assert listener(other).identity.name != first.name


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("./nothing", "the folder does not exist; give --asr pocketsphinx, or the folder"),
        ("whisper", "the folder does not exist"),
        ("nobody/whisper-none", "not complete in the hub cache, and HF_HUB_OFFLINE"),
    ],
)
def test_what_is_not_there(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SetupError, match=said):
        listener(source)


def broken(checkpoint: Path, folder: Path, **changes: Any) -> Path:
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def test_checkpoints_that_are_none(checkpoint: Path, tmp_path: Path) -> None:
    other = broken(checkpoint, tmp_path / "other", model_type="qwen3_tts")
    with pytest.raises(
        SetupError, match="is a 'qwen3_tts' model, not a Whisper or Qwen3-ASR checkpoint"
    ):
        listener(other)
    sizes = broken(checkpoint, tmp_path / "sizes", d_model=36)
    with pytest.raises(SetupError, match="cannot be loaded: "):
        listener(sizes)
    pickled = broken(checkpoint, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(SetupError, match="there are pickled weights, which are never loaded"):
        listener(pickled)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SetupError, match=r"config.json: not found"):
        listener(tmp_path / "empty")
