"""Recipe: what speech is judged by, as far as no judge is needed."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import soundfile

pytest.importorskip("pocketsphinx", reason="pocketsphinx comes with the dev extra")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is 215 miles.", "it is two hundred fifteen miles"),
        ("It is two hundred and fifteen miles.", "it is two hundred fifteen miles"),
        ("Salt and pepper.", "salt and pepper"),
        ("Twenty-one!", "twenty one"),
    ],
)
def test_numbers_are_compared_as_numbers(recipe, text, said):
    assert recipe("evaluate").spoken_words(text) == said.split()


def test_speech_is_trimmed_and_levelled_alike(recipe, tmp_path):
    evaluate = recipe("evaluate")
    tone = np.sin(np.arange(24000) * 0.05)
    waves = []
    for name, silence, gain in (("a", 12000, 0.5), ("b", 30000, 0.05)):
        sound = gain * np.concatenate([np.zeros(silence), tone, np.zeros(silence)])
        soundfile.write(tmp_path / f"{name}.wav", sound, 24000, "FLOAT")
        waves.append(evaluate.load(tmp_path / f"{name}.wav"))
    assert len(waves[0]) == pytest.approx(24000 + 1920 + 3840, abs=200)
    assert np.allclose(*waves, atol=1e-3)
    assert 20 * math.log10(np.sqrt(np.mean(waves[0] ** 2))) == pytest.approx(-26, abs=0.01)


def test_pitch_and_its_spread_are_measured(recipe):
    evaluate = recipe("evaluate")
    time = np.arange(48000) / 24000
    slide = np.cumsum(100 * 2 ** (time / 2 / 12)) / 24000  # 100 Hz, a semitone in two seconds
    wave = sum(np.sin(2 * math.pi * k * slide) / k for k in range(1, 9)) * 0.1
    found = evaluate.pitch([wave.astype(np.float32)], ["Is it?"])
    assert found["pitch_hz"] == pytest.approx(100 * 2 ** (0.5 / 12), rel=0.01)
    assert found["pitch_spread_semitones"] == pytest.approx(1 / math.sqrt(12), abs=0.05)
    assert found["questions_rise"] == 1


def test_a_table_is_made_of_the_json(recipe, tmp_path, monkeypatch, capsys):
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"old/clara": {"dnsmos_p808": 2.9, "wrong_whisper": 6.2}}))
    monkeypatch.setattr(sys, "argv", ["evaluate.py", str(path), "--table"])
    recipe("evaluate").main()
    assert "| old/clara |  | 2.9 | 6.2 |" in capsys.readouterr().out
