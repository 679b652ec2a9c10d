"""DNSMOS without the code that its package brings: the same scores, without what that refuses."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tts_cli import extras
from tts_cli.checks.asr.recognizer import RATE_HZ, Array, AsrRequest
from tts_cli.checks.mos import HOP, MELS, WINDOW, Dnsmos, rate_one, scores, spectrogram, windows
from tts_cli.errors import SetupError


def speech(seconds: float) -> Array:
    """Hiss that swells like syllables, over a hum."""
    times = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    hiss = np.random.default_rng(0).normal(0, 0.05, len(times)) * np.abs(np.sin(4 * times))
    return (hiss + 0.1 * np.sin(900 * times)).astype(np.float32)


def test_windows() -> None:
    """One every second; what is short is said again, and only whole windows are heard."""
    counts = {1.0: 7, 4.0: 7, 9.0: 9, 9.01: 1, 10.5: 1, 12.0: 3}
    for seconds, count in counts.items():
        found = list(windows(speech(seconds)))
        assert [len(window) for window in found] == [WINDOW] * count, seconds
    assert len(list(windows(np.ones(1, np.float32)))) >= 1


def test_the_spectrogram_of_known_sounds() -> None:
    """A tone is loudest where it is heard; silence is as loud everywhere."""
    tone = np.sin(2 * np.pi * 1000 * np.arange(RATE_HZ) / RATE_HZ).astype(np.float32)
    image = spectrogram(tone)
    assert image.shape == (RATE_HZ // HOP, MELS)
    assert image.max() == 1
    assert set(image[20:80].argmax(axis=1)) == {39}
    assert (spectrogram(np.zeros(RATE_HZ, np.float32)) == 1).all()


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "version", missing)
    with pytest.raises(SetupError, match=r'--mos needs speechmos: .*; pip install "speechmos>='):
        Dnsmos()


def test_it_equals_the_spectrogram_of_librosa() -> None:
    librosa = pytest.importorskip("librosa", reason="librosa is no dependency")
    samples = speech(9.01)[:-HOP]
    theirs = librosa.feature.melspectrogram(
        y=samples, sr=RATE_HZ, n_fft=321, hop_length=HOP, n_mels=MELS
    )
    theirs = (librosa.power_to_db(theirs, ref=np.max) + 40) / 40
    assert np.abs(spectrogram(samples) - theirs.T).max() < 1e-4


@pytest.mark.long
def test_scores_are_those_of_the_package() -> None:
    """Of `speechmos.dnsmos.run` 0.0.1.1 with librosa 0.11: speech, beside it, both, P.808. The mean
    of seven windows.
    """
    models()
    theirs = (1.25716, 1.33288, 1.19008, 2.09792)
    np.testing.assert_allclose(scores(speech(4.0)), theirs, atol=1e-3)


@pytest.mark.slow
def test_a_file_is_rated(tmp_path: Path) -> None:
    """Beyond full scale too; one that is no audio says so, and processes say the same."""
    models()
    loud, broken = tmp_path / "loud.wav", tmp_path / "broken.wav"
    soundfile.write(loud, 20 * speech(9.01), RATE_HZ, "FLOAT")
    broken.write_bytes(b"no audio")
    asked = [AsrRequest(0, loud, None), AsrRequest(1, broken, None)]
    rater = Dnsmos()
    try:
        found = {answer.place: answer for answer in rater.run(asked)}
    finally:
        rater.close()
    assert found == {one.place: rate_one(one) for one in asked}
    assert found[1].problem is not None
    assert found[0].mos is not None
    assert 1 <= found[0].mos.mos < 2
    assert found[0].mos.rated_by == rater.identity.name


def models() -> None:
    for name in ("speechmos", "onnxruntime"):
        pytest.importorskip(name, reason="DNSMOS comes with the mos extra")
