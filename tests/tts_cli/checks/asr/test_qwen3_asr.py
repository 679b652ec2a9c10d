"""Qwen3-ASR and Qwen3-ForcedAligner through the real loading code: tiny checkpoints of random
weights, on a CPU.
"""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from spoken_folders import record, tone, with_file, write_folder
from tiny_qwen3_asr import write_tiny_qwen3_asr
from tiny_whisper import write_tiny_whisper

from tts_cli import extras
from tts_cli.app.align import aligner_of
from tts_cli.app.check import open_recognizer
from tts_cli.checks.asr import qwen3_asr
from tts_cli.checks.asr.aligner import NOT_FOUND, AlignRequest, AlignResult, Passage
from tts_cli.checks.asr.checkpoint import Checkpoint
from tts_cli.checks.asr.qwen3_asr import CODES, Qwen3Aligner, Qwen3Asr
from tts_cli.checks.asr.recognizer import RATE_HZ, AsrRequest, AsrResult
from tts_cli.checks.word_times import read_words
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.main import main

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
# Whether it is there; its import takes 3 s of every process that only looks for tests.
IS_THERE = find_spec("transformers.models.qwen3_asr") is not None
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
        asked.append(AsrRequest(place, path, language))
    asked.append(AsrRequest(4, tmp_path / "none.wav", "en"))

    def heard(batch: int) -> dict[int, AsrResult]:
        recognizer = Qwen3Asr(checkpoint, CPU, batch)
        return {answer.place: answer for answer in recognizer.run(asked)}

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
    recognizer = open_recognizer(RunConfig(asr=str(checkpoint), device="cpu"))
    assert isinstance(recognizer, Qwen3Asr)
    assert recognizer.identity.name.startswith("qwen3_asr tiny-")
    samples = [np.random.default_rng(1).normal(0, 0.1, RATE_HZ).astype(np.float32)]
    assert recognizer.words(samples, "en") != recognizer.words(samples, "zh")
    assert recognizer.words(samples, None)[0]


@pytest.mark.parametrize(("family", "flag"), [(Qwen3Asr, "--asr"), (Qwen3Aligner, "--words")])
def test_an_older_transformers_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: type[Checkpoint], flag: str
) -> None:
    class Older:
        """Without the family."""

        __version__ = "4.57.0"

    folder = write_tiny_whisper(tmp_path / "tiny")
    monkeypatch.setattr(family, "_load", lambda self, library, folder: Older.Qwen3ASRProcessor)  # type: ignore[attr-defined]
    told = rf"{flag} .* has no qwen3_asr; pip install 'transformers>=5"
    with pytest.raises(SetupError, match=told):
        family(folder, CPU, flag=flag)


@pytest.fixture(scope="module")
def aligning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It tells 100 moments apart: 8 s."""
    return write_tiny_qwen3_asr(tmp_path_factory.mktemp("qwen") / "aligner", labels=100)


def asked_to_align(
    tmp_path: Path, *rows: tuple[float, str | None, tuple[str, ...]]
) -> list[AlignRequest]:
    """Takes of noise: seconds, language, and the texts of passages of equal length."""
    asked = []
    for place, (seconds, language, texts) in enumerate(rows):
        path = tmp_path / f"{place}.wav"
        noise = np.random.default_rng(place).normal(0, 0.1, round(seconds * RATE_HZ))
        soundfile.write(path, noise, RATE_HZ)
        edges: list[float | None] = [seconds * n / len(texts) for n in range(len(texts))]
        passages = [
            Passage(start or 0.0, end, tuple((word,) for word in text.split()))
            for start, end, text in zip(edges, [*edges[1:], None], texts, strict=True)
        ]
        asked.append(AlignRequest(place, path, language, tuple(passages)))
    return asked


def answers(folder: Path, asked: list[AlignRequest], batch: int) -> list[AlignResult]:
    return sorted(Qwen3Aligner(folder, CPU, batch).run(asked), key=lambda one: one.place)


@needs_it
def test_words_are_aligned_in_batches_as_alone(aligning: Path, tmp_path: Path) -> None:
    """Rows of several passages; what is too long, wordless or no audio stops nobody."""
    asked = asked_to_align(
        tmp_path,
        (2.0, "en", ("Hello well-known % world",)),
        (9.0, "de", ("Guten Tag", "Es war Stra\u00dfe", "Ende")),
        (9.0, "fr", ("trop long",)),
        (1.0, None, ("...",)),
        (1.0, "en", ("one two",)),
    )
    asked[4] = asked[4]._replace(path=tmp_path / "none.wav")
    found = answers(aligning, asked, 4)
    assert [one.problem is None for one in found] == [True, True, False, False, False]
    assert found[2].problem == "9 s without a piece boundary; at most 8 s can be aligned at a time"
    assert found[3].problem == NOT_FOUND
    assert [word.known.value for word in found[0].words] == [
        "model",
        "model",
        "neighbours",
        "model",
    ]
    assert found[0].words[2].score is None
    assert len(found[1].words) == 6
    for one in found[:2]:
        edges = [edge for word in one.words for edge in (word.start_s, word.end_s)]
        assert edges == sorted(edges)
        assert edges[-1] <= one.audio_s
        assert 0 < one.score < 1
    assert found[1].words[2].start_s >= 3.0, "a passage's words are in it"
    for alone, together in zip(answers(aligning, asked, 1), found, strict=True):
        assert together.score == pytest.approx(alone.score, rel=0.01)
        assert together._replace(words=(), score=0) == alone._replace(words=(), score=0)
        assert [word[:2] for word in together.words] == [word[:2] for word in alone.words]


@needs_it
def test_the_score_is_the_share_of_the_moments_that_were_taken(aligning: Path) -> None:
    aligner = Qwen3Aligner(aligning, CPU)
    shares = np.zeros((4, 100), np.float32)
    shares[0, [9, 10, 11, 50]] = 0.25, 0.5, 0.0, 0.25  # a border between two moments
    shares[1, 20] = 1.0
    shares[2, 20], shares[3, 90] = 1.0, 1.0  # and a mark that was moved
    said = [
        {"text": "one", "start_time": 0.8, "end_time": 1.6},
        {"text": "two", "start_time": 1.6, "end_time": 2.4},
    ]
    scored = list(aligner._scored("one, two.", said, shares))
    assert [(one.start, one.end) for one in scored] == [(0, 3), (5, 8)]
    assert [one.score for one in scored] == pytest.approx([0.75**0.5, 0.0])


@needs_it
def test_words_in_scripts_without_spaces(aligning: Path, tmp_path: Path) -> None:
    text = "\u6211\u4eec\u8d70\u5427\uff0c\u597d\u3002"
    (found,) = answers(aligning, asked_to_align(tmp_path, (2.0, "zh", (text,))), 1)
    (word,) = found.words
    assert [text[one.start : one.end] for one in word.inside] == list(text[:4] + text[5])
    assert (word.start_s, word.end_s) == (word.inside[0].start_s, word.inside[-1].end_s)


@needs_it
@pytest.mark.parametrize(
    ("package", "text", "words"),
    [
        (
            "nagisa",
            "\u6771\u4eac\u306b\u884c\u304d\u307e\u3059\u3002",
            ["\u6771\u4eac", "\u306b", "\u884c\u304d", "\u307e\u3059"],
        ),
        ("soynlp", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", []),
    ],
)
def test_japanese_and_korean(
    aligning: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    text: str,
    words: list[str],
) -> None:
    """By packages of an extra, which a row names where they are missing; nobody told the language,
    so letters do.
    """
    asked = asked_to_align(tmp_path, (2.0, None, (text,)))
    with monkeypatch.context() as missing:
        missing.setattr(extras, "find_spec", lambda name: None)
        (without,) = answers(aligning, asked, 1)
    assert f"needs {package}: {package} is not installed" in (without.problem or "")
    assert 'pip install "nagisa>=' in (without.problem or "")
    pytest.importorskip(package, reason=f"{package} comes with the align extra")
    (found,) = answers(aligning, asked, 1)
    assert len(found.words) == len(text.split())
    assert [text[one.start : one.end] for one in found.words[0].inside] == words


@needs_it
def test_a_checkpoint_of_another_kind_is_refused(
    aligning: Path, checkpoint: Path, tmp_path: Path
) -> None:
    config = RunConfig(device="cpu")
    with pytest.raises(
        SetupError, match=r"--with .*it is not a Qwen3ASRForToken.*: score.weight is missing"
    ):
        aligner_of(str(checkpoint), config)()
    with pytest.raises(SetupError, match=r"--asr .* but an aligner"):
        Qwen3Asr(aligning, CPU)
    with pytest.raises(SetupError, match="is a 'whisper' model, not a Qwen3-ForcedAligner; give"):
        aligner_of(str(write_tiny_whisper(tmp_path / "whisper")), config)
    with pytest.raises(
        SetupError, match=r"--with \./none: the folder does not exist; give --with pocketsphinx"
    ):
        aligner_of("./none", config)
    official = tmp_path / "official"
    shutil.copytree(aligning, official)
    (official / "config.json").write_text('{"model_type": "qwen3_asr", "thinker_config": {}}')
    with pytest.raises(SetupError, match="the layout of qwen-asr; use the repository that ends"):
        aligner_of(str(official), config)()


@needs_it
def test_a_folder_is_aligned_with_a_checkpoint(
    aligning: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = tone(2.0)
    rows = [
        record("a", language="german", text="Guten Tag, Herr M\u00fcller!", **with_file(sound)),
        record("b", language="chinese", text="\u6211\u8d70\uff0c\u597d\u3002", **with_file(sound)),
        record("c", language="turkish", text="merhaba", **with_file(sound)),
    ]
    out = tmp_path / "out"
    write_folder(out, rows, audio={f"{row['id']}.wav": sound for row in rows})
    args = ["align", str(out), "--with", str(aligning), "--device", "cpu", "--json"]
    assert main(args) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["aligned"], told["other_language"], told["left"]) == (2, 1, [])
    german, chinese = read_words(out, "a"), read_words(out, "b")
    assert german is not None
    assert chinese is not None
    assert [word.word for word in german.words] == ["Guten", "Tag", "Herr", "M\u00fcller"]
    assert [word.word for word in chinese.words] == ["\u6211", "\u8d70", "\u597d"]
    assert [word.text_start for word in chinese.words] == [0, 1, 3]
    assert {word.known for word in german.words} == {"model"}
    assert german.aligner.startswith("qwen3_asr aligner-")
