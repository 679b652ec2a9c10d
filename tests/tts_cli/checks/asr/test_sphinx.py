"""pocketsphinx hears the sample voice, the same whatever else it hears."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tts_cli import extras
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult
from tts_cli.checks.asr.sphinx import Sphinx, transcribe_one
from tts_cli.errors import SetupError

TEXT = "The weather will be cold and windy on Saturday afternoon."


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    told = r"pocketsphinx is not installed; pip install .*pocketsphinx>="
    with pytest.raises(SetupError, match=told):
        Sphinx()


@pytest.mark.slow
def test_what_it_hears(tmp_path: Path, sample_speech: Path) -> None:
    pytest.importorskip("pocketsphinx", reason="pocketsphinx comes with the asr extra")
    samples, rate_hz = soundfile.read(sample_speech, dtype="float32")
    silent, broken = tmp_path / "silent.wav", tmp_path / "broken.wav"
    soundfile.write(silent, np.zeros(rate_hz), rate_hz)
    broken.write_bytes(b"no audio")
    quiet = tmp_path / "quiet.wav"
    soundfile.write(quiet, samples * 0.1, rate_hz)
    paths = [sample_speech, silent, broken, tmp_path / "none.wav"]
    asked = [AsrRequest(place, path, "en") for place, path in enumerate(paths)]
    alone = [transcribe_one(one) for one in reversed(asked)][::-1]
    heard = alone[0].text.split()
    assert len(set(heard) & set(TEXT.lower().strip(".").split())) >= 7, heard
    assert alone[1].text == ""
    assert alone[2].problem is not None
    assert transcribe_one(AsrRequest(4, quiet, "en")).text == alone[0].text, (
        "the level makes no difference"
    )
    assert alone[3].problem is not None
    recognizer = Sphinx(processes=2)
    try:
        found: dict[int, AsrResult] = {
            answer.place: answer for answer in recognizer.run(iter(asked))
        }
    finally:
        recognizer.close()
    assert [found[place] for place in range(len(asked))] == alone
