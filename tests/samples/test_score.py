"""Recipe: the arithmetic of the word error rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import soundfile

REASON = "pocketsphinx and scipy come with the dev extra"


@pytest.fixture
def score(recipe):
    """recipe/score.py, where the recogniser is installed."""
    pytest.importorskip("pocketsphinx", reason=REASON)
    pytest.importorskip("scipy", reason=REASON)
    return recipe("score")


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors"),
    [
        ("", "", 0),
        ("a b c", "a b c", 0),
        ("a b c", "", 3),
        ("", "a b", 2),
        ("a b c", "a x c", 1),
        ("a b c", "b c", 1),
        ("a b c", "a b b c c", 2),
        ("one two three four", "two one four three", 3),
    ],
)
def test_edit_distance(score, reference, hypothesis, errors):
    assert score.edit_distance(reference.split(), hypothesis.split()) == errors


def test_bigram_model_is_a_distribution(score, tmp_path):
    sentences = [["a", "b", "a"], ["b"], ["a", "c"]]
    path = tmp_path / "m.arpa"
    score.write_bigram_model(sentences, path)
    unigrams, backoff, bigrams = {}, {}, {}
    for line in path.read_text().splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[0] != "ngram":
            unigrams[fields[1]] = 10 ** float(fields[0])
        elif len(fields) == 3 and fields[2].lstrip("-").replace(".", "").isdigit():
            unigrams[fields[1]], backoff[fields[1]] = 10 ** float(fields[0]), 10 ** float(fields[2])
        elif len(fields) == 3:
            bigrams[fields[1], fields[2]] = 10 ** float(fields[0])
    assert f"ngram 1={len(unigrams)}" in path.read_text()
    assert f"ngram 2={len(bigrams)}" in path.read_text()
    unigrams["<s>"] = 0
    assert sum(unigrams.values()) == pytest.approx(1, abs=1e-3)
    for context in ("<s>", "a", "b", "c"):
        total = sum(
            bigrams.get((context, word), backoff[context] * chance)
            for word, chance in unigrams.items()
        )
        assert total == pytest.approx(1, abs=1e-3), context


def test_audio_is_resampled_scaled_and_padded(score, tmp_path):
    time = np.arange(24000) / 24000
    wave = np.sin(2 * math.pi * 500 * time) * 0.1
    soundfile.write(tmp_path / "a.wav", np.stack([wave, wave], 1), 24000)
    samples = score.load_audio(tmp_path / "a.wav")
    assert samples.dtype == np.dtype("<i2")
    assert len(samples) == 16000 + 2 * 4800
    assert np.abs(samples).max() == pytest.approx(0.7 * 32767, rel=0.02)
    assert 0 < np.abs(samples[:4800]).max() < 60  # noise, not digital silence
    assert np.array_equal(samples, score.load_audio(tmp_path / "a.wav"))


def test_dictionary_holds_the_words_of_the_model_and_no_others(score, tmp_path):
    """Reading all 134,000 took most of a recognition."""
    lines = ["the DH AH\n", "the(2) DH IY\n", "them DH EH M\n", "a AH\n", "it's IH T S\n"]
    (tmp_path / "all.dict").write_text("".join(lines))
    score.write_bigram_model([["the", "it's"]], tmp_path / "m.arpa")
    path = score.write_dictionary(tmp_path / "m.arpa", tmp_path / "all.dict")
    assert path.read_text().splitlines(keepends=True) == [lines[0], lines[1], lines[4]]
