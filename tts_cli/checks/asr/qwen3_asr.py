"""Transcribe with Qwen3-ASR, and align with its sibling Qwen3-ForcedAligner.

Qwen3-ASR gets the name of the language before its answer, if it is known. The aligner gets the
words with two marks after each, and classifies the time of every mark in labels of 80 ms. The score
of a mark is the probability of its time and of both next to it, because a boundary is between two
labels.

Source: `Qwen3ASRForTokenClassification` and `Qwen3ASRProcessor` of transformers, and Shi et al.
2026 (arXiv 2601.21337).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from models.checkpoint.files import read_json
from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.aligner import (
    NOT_FOUND,
    AlignedWord,
    AlignRequest,
    AlignResult,
    Known,
    Passage,
    WordPart,
    all_words,
    mean_score,
    samples_of,
)
from tts_cli.checks.asr.checkpoint import AudioWindow, Checkpoint, CheckpointRecognizer
from tts_cli.errors import SetupError
from tts_cli.extras import require
from tts_cli.text.tables import script

MAX_TOKENS = 400  # of a window; people say up to 130 words in 30 s
# Languages that a request may state; Cantonese and Filipino have no code of two letters.
CODES = frozenset(
    (
        *("ar", "zh", "cs", "da", "nl", "en", "fi", "fr", "de", "el", "hi", "hu", "id", "it"),
        *("ja", "ko", "mk", "ms", "fa", "pl", "pt", "ro", "ru", "es", "sv", "th", "tr", "vi"),
    )
)
ALIGNED_CODES = ("de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "zh")
# Packages that find the words of a language, all in the extra.
EXTRA, SPLITTERS = "align", {"ja": "nagisa", "ko": "soynlp"}
_ONLY_THESE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Qwen3Asr(CheckpointRecognizer):
    kind, needs, codes = "qwen3_asr", "5.17", CODES

    def _load(self, library: Any, folder: Path) -> Any:
        family = library.Qwen3ASRForConditionalGeneration
        self._processor, model = _loaded(library, folder, family, self.dtype)
        return model

    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        asked = self._processor.apply_transcription_request(
            audio=samples, language=None if language is None else [language] * len(samples)
        ).to(self.device, self.dtype)
        with self._inference():
            tokens = self._model.generate(**asked, do_sample=False, max_new_tokens=MAX_TOKENS)
        said = tokens[:, asked["input_ids"].shape[1] :]
        return list(self._processor.decode(said, return_format="transcription_only"))


class _Piece(NamedTuple):
    start: int  # its first character in the transcript
    end: int
    start_s: float  # in the passage
    end_s: float
    score: float


class Qwen3Aligner(Checkpoint[AlignRequest, list[AlignedWord], AlignResult]):
    """An `Aligner`; see `Checkpoint`. `least_score` was chosen without released weights."""

    kind, needs = "qwen3_asr", "5.17"
    languages, least_score, has_mixed_batches = ALIGNED_CODES, 0.1, True

    def _load(self, library: Any, folder: Path) -> Any:
        family = library.Qwen3ASRForTokenClassification
        self._processor, model = _loaded(library, folder, family, self.dtype)
        self._step_s = float(self._processor.timestamp_segment_time) / 1000
        self._max_s = self._step_s * int(model.config.num_labels)
        return model

    def cut(self, request: AlignRequest, audio: sound.Sound) -> list[AudioWindow]:
        found = []
        for passage in request.passages:
            samples = samples_of(passage, audio.samples)
            language, audio_s = (
                request.language or _by_letters(passage),
                len(samples) / sound.RATE_HZ,
            )
            if audio_s > self._max_s:
                raise ValueError(
                    f"{audio_s:.0f} s without a piece boundary; at most {self._max_s:.0f} s can "
                    "be aligned at a time"
                )
            if package := SPLITTERS.get(language or ""):
                try:
                    require(EXTRA, package, f"aligning {language}").load()
                except (SetupError, ImportError) as error:
                    raise ValueError(str(error)) from error
            found.append(AudioWindow(samples, language, passage))
        if not found or not all(len(one.samples) for one in found):
            raise ValueError(NOT_FOUND)
        return found

    def answer(
        self, request: AlignRequest, audio: sound.Sound, results: list[list[AlignedWord]]
    ) -> AlignResult:
        if not all(results):
            return self.failure(request, NOT_FOUND)
        said = tuple(word for words in results for word in words)
        audio_s = len(audio.samples) / sound.RATE_HZ
        return AlignResult(request.place, said, mean_score(said), audio.sha256, audio_s)

    def failure(self, request: AlignRequest, problem: str) -> AlignResult:
        return AlignResult(request.place, problem=problem)

    def process(self, windows: list[AudioWindow]) -> list[list[AlignedWord]]:
        """Return the words of each passage; none if nothing in its text can be searched for."""
        texts = [_Transcript(one.passage) for one in windows if one.passage is not None]
        asked = [place for place, one in enumerate(texts) if any(map(str.isalnum, one.text))]
        pieces: dict[int, list[_Piece]] = {}
        if asked:
            found = self._pieces(
                [windows[place].samples for place in asked],
                [texts[place].text for place in asked],
                [windows[place].language for place in asked],
            )
            pieces = dict(zip(asked, found, strict=True))
        return [
            text.words(pieces.get(place, []), one.passage, len(one.samples) / sound.RATE_HZ)
            for place, (text, one) in enumerate(zip(texts, windows, strict=True))
            if one.passage is not None
        ]

    def _pieces(
        self, samples: list[sound.Array], texts: list[str], languages: list[str | None]
    ) -> Iterator[list[_Piece]]:
        asked, words = self._processor.prepare_forced_aligner_inputs(
            audio=samples, transcript=texts, language=languages
        )
        asked = asked.to(self.device, self.dtype)
        with self._inference():
            logits = self._model(**asked).logits
        mark = self._model.config.timestamp_token_id
        times = self._processor.decode_forced_alignment(
            logits=logits, input_ids=asked["input_ids"], word_lists=words, timestamp_token_id=mark
        )
        for row, (text, said) in enumerate(zip(texts, times, strict=True)):
            shares = logits[row][asked["input_ids"][row] == mark].float().softmax(-1).cpu().numpy()
            yield list(self._scored(text, said, shares))

    def _scored(
        self, text: str, said: Sequence[dict[str, Any]], shares: sound.Array
    ) -> Iterator[_Piece]:
        """Yield the words with scores. `shares`: (two per word, labels) probability of times."""
        places = _places(text, [one["text"] for one in said])
        for number, (one, (start, end)) in enumerate(zip(said, places, strict=True)):
            start_s, end_s = one["start_time"], one["end_time"]
            labels = (round(time_s / self._step_s) for time_s in (start_s, end_s))
            scores = [
                float(shares[2 * number + mark, max(0, label - 1) : label + 2].sum())
                for mark, label in enumerate(labels)
            ]
            score = min(1.0, float(np.sqrt(scores[0] * scores[1])))
            yield _Piece(start, end, start_s, end_s, score)


class _Transcript:
    def __init__(self, passage: Passage) -> None:
        self.text = ""
        self._words: list[tuple[int, int, bool]] = []  # start, end, has no spaces
        for word in passage.words:
            spoken = " ".join(word).replace("\u2019", "'")
            has_no_spaces = any(map(is_without_spaces, spoken))
            if not has_no_spaces:  # `well-known` is two words
                spoken = "".join(one if one.isalnum() or one == "'" else " " for one in spoken)
            self.text += " " * bool(self.text)
            self._words.append((len(self.text), len(self.text) + len(spoken), has_no_spaces))
            self.text += spoken

    def words(
        self, pieces: Sequence[_Piece], passage: Passage, length_s: float
    ) -> list[AlignedWord]:
        """Return the words in seconds of the file; none if nothing was found."""
        start_s, end_s = passage.start_s, passage.start_s + length_s
        found: dict[int, AlignedWord] = {}
        for number, (start, end, has_no_spaces) in enumerate(self._words):
            mine = [
                WordPart(
                    piece.start - start,
                    min(piece.end, end) - start,
                    min(start_s + piece.start_s, end_s),
                    min(start_s + piece.end_s, end_s),
                    piece.score,
                )
                for piece in pieces
                if start <= piece.start < end
            ]
            if mine:
                score = float(np.exp(np.mean([np.log(max(one.score, 1e-12)) for one in mine])))
                inside = tuple(mine) if has_no_spaces and len(mine) > 1 else ()
                found[number] = AlignedWord(
                    mine[0].start_s, mine[-1].end_s, score, Known.MODEL, inside
                )
        return list(all_words(len(self._words), found, start_s, end_s)) if found else []


_KANA, _HANGUL = re.compile(f"[{script('kana')}]"), re.compile(f"[{script('hangul')}]")
_NO_SPACES = re.compile(f"[{script('kana', 'ideographs', 'more_ideographs')}]")


def _by_letters(passage: Passage) -> str | None:
    """Return the language of a text by its letters, if they are unambiguous."""
    letters = "".join(part for word in passage.words for part in word)
    if _KANA.search(letters):
        return "ja"
    if _HANGUL.search(letters):
        return "ko"
    return None


def is_without_spaces(char: str) -> bool:
    """Whether a character's script puts no spaces between words: Chinese characters and kana."""
    return _NO_SPACES.match(char) is not None


def _places(text: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word in a text; the words have no punctuation. Raises
    ValueError: a word is not in the text.
    """
    place = 0
    for word in words:
        start = None
        for char in word:
            found = text.index(char, place)
            start, place = found if start is None else start, found + 1
        yield place if start is None else start, place


def _loaded(library: Any, folder: Path, family: Any, dtype: Any) -> tuple[Any, Any]:
    """Return processor and model (of `family`, a class of transformers) of a checkpoint. Raises
    ValueError: it has another layout, or is of another class.
    """
    if "thinker_config" in read_json(folder / "config.json"):
        raise ValueError("it has the layout of qwen-asr; use the repository that ends with -hf")
    processor = library.Qwen3ASRProcessor.from_pretrained(folder, **_ONLY_THESE)
    model, info = family.from_pretrained(
        folder, use_safetensors=True, dtype=dtype, output_loading_info=True, **_ONLY_THESE
    )
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"it is not a {family.__name__}: {missing[0]} is missing")
    if any(key.startswith("score.") for key in info["unexpected_keys"]):
        raise ValueError(f"it is not a {family.__name__}, but an aligner")
    return processor, model
