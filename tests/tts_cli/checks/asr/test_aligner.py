"""pocketsphinx finds a known text in its sound; words that its dictionary lacks are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tts_cli.checks.asr.aligner import AlignRequest, Known, Passage
from tts_cli.checks.asr.sphinx import SphinxAligner, align_one, sounded_out

WORDS = "the weather will be cold and windy on saturday afternoon".split()  # noqa: SIM905


def asked(path: Path, *words: str, start_s: float = 0.0) -> AlignRequest:
    return AlignRequest(0, path, "en", (Passage(start_s, None, tuple((word,) for word in words)),))


@pytest.mark.parametrize(
    ("word", "phones"),
    [("mckenzie", "M K EH N Z IY"), ("ship", "SH IH P"), ("\u6771", ""), ("1984", "")],
)
def test_sounds_by_letters(word: str, phones: str) -> None:
    assert sounded_out(word) == phones


@pytest.mark.slow
def test_words_of_speech(tmp_path: Path, sample_speech: Path) -> None:
    pytest.importorskip("pocketsphinx", reason="pocketsphinx comes with the asr extra")
    found = align_one(asked(sample_speech, *WORDS))
    assert found.problem is None
    assert len(found.words) == len(WORDS)
    edges = [edge for word in found.words for edge in (word.start_s, word.end_s)]
    assert edges == sorted(edges)
    assert 0 <= edges[0] < 0.4
    assert found.audio_s - 0.6 < edges[-1] <= found.audio_s
    assert found.score > 0.2
    assert {word.known for word in found.words} == {Known.DICTIONARY}

    # Silence in front moves all; what is in front of a passage is not looked at.
    samples, rate_hz = soundfile.read(sample_speech, dtype="float32")
    later = tmp_path / "later.wav"
    soundfile.write(later, np.concatenate([np.zeros(rate_hz), samples]), rate_hz)
    for start_s in (0.0, 0.9):
        moved = align_one(asked(later, *WORDS, start_s=start_s))
        for word, before in zip(moved.words, found.words, strict=True):
            assert abs(word.start_s - before.start_s - 1.0) <= 0.05

    # Other words: no way through, or a bad one.
    wrong = align_one(asked(sample_speech, "my", "brother", "sold", "seven", "yellow", "houses"))
    assert wrong.problem is not None or wrong.score < 0.12

    # Words that the dictionary lacks.
    odd = align_one(asked(sample_speech, *WORDS[:4], "koldish", "\u6771\u4eac", *WORDS[6:]))
    assert [word.known for word in odd.words[3:7]] == [
        *(Known.DICTIONARY, Known.LETTERS, Known.NEIGHBOURS, Known.DICTIONARY)
    ]
    assert odd.words[5].score is None
    assert odd.words[4].end_s <= odd.words[5].start_s <= odd.words[5].end_s <= odd.words[6].start_s


@pytest.mark.slow
def test_files_without_speech(tmp_path: Path) -> None:
    pytest.importorskip("pocketsphinx", reason="pocketsphinx comes with the asr extra")
    silent, broken = tmp_path / "silent.wav", tmp_path / "broken.wav"
    soundfile.write(silent, np.zeros(16000), 16000)
    broken.write_bytes(b"no audio")
    aligner = SphinxAligner(1)
    try:
        paths = [silent, broken, tmp_path / "none.wav"]
        answers = list(aligner.run(asked(path, "hello") for path in paths))
    finally:
        aligner.close()
    assert len(answers) == 3
    assert all(answer.problem for answer in answers)
