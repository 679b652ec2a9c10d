"""Qwen3-ASR is told the language by its name in front of its answer, where that is known.

Its sibling Qwen3-ForcedAligner is told the words, with two marks behind each, and puts every mark
at a moment of the sound: one of as many as it has labels, 80 ms apart. Its score is the share that
it gives to the moment taken and to both beside it, as a border lies between two of them.

Source: `Qwen3ASRForTokenClassification` and `Qwen3ASRProcessor` of transformers, and Shi et al.
2026 (arXiv 2601.21337).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from models.checkpoint.files import read_json
from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.aligner import (
    NOT_FOUND,
    Aligned,
    Known,
    Passage,
    SaidWord,
    ToAlign,
    WithinWord,
    all_words,
    mean_score,
    samples_of,
)
from tts_cli.checks.asr.checkpoint import Checkpoint, CheckpointRecognizer
from tts_cli.errors import SetupError
from tts_cli.extras import require

MAX_TOKENS = 400  # of a window; people say up to 130 words in 30 s
# What it can be told to hear; Cantonese and Filipino have no code of two letters.
CODES = frozenset(
    (
        *("ar", "zh", "cs", "da", "nl", "en", "fi", "fr", "de", "el", "hi", "hu", "id", "it"),
        *("ja", "ko", "mk", "ms", "fa", "pl", "pt", "ro", "ru", "es", "sv", "th", "tr", "vi"),
    )
)
ALIGNED_CODES = ("de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "zh")
# Packages that find the words of a language, all of the extra.
EXTRA, SPLITTERS = "align", {"ja": "nagisa", "ko": "soynlp"}
BATCH_S = 30.0  # of audio a passage: so many of them are aligned at once
_ONLY_THESE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Qwen3Asr(CheckpointRecognizer):
    """See `CheckpointRecognizer`."""

    kind, needs, codes = "qwen3_asr", "5.17", CODES

    def _load(self, library: Any, folder: Path) -> Any:
        family = library.Qwen3ASRForConditionalGeneration
        self._processor, model = _loaded(library, folder, family, self.dtype)
        return model

    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        """See `CheckpointRecognizer`."""
        asked = self._processor.apply_transcription_request(
            audio=samples, language=None if language is None else [language] * len(samples)
        ).to(self.device, self.dtype)
        with self._inference():
            tokens = self._model.generate(**asked, do_sample=False, max_new_tokens=MAX_TOKENS)
        said = tokens[:, asked["input_ids"].shape[1] :]
        return list(self._processor.decode(said, return_format="transcription_only"))


class _Told(NamedTuple):
    """A passage as the model is told it."""

    place: int  # of its take
    number: int  # in it
    passage: Passage
    language: str | None
    samples: sound.Array


class _Piece(NamedTuple):
    """What the processor calls a word."""

    start: int  # its first character in the transcript
    end: int
    start_s: float  # in the passage
    end_s: float
    score: float


class Qwen3Aligner(Checkpoint):
    """See `Checkpoint`; it is an `Aligner`.

    A tenth is a bound that somebody chose: released weights were not at hand to measure one.
    """

    kind, needs = "qwen3_asr", "5.17"
    languages, least_score = ALIGNED_CODES, 0.1

    def _load(self, library: Any, folder: Path) -> Any:
        family = library.Qwen3ASRForTokenClassification
        self._processor, model = _loaded(library, folder, family, self.dtype)
        self._step_s = float(self._processor.timestamp_segment_time) / 1000
        self._most_s = self._step_s * int(model.config.num_labels)
        return model

    def run(self, asked: Iterable[ToAlign | None]) -> Iterator[Aligned]:
        """See `Aligner`."""
        waiting: list[_Told] = []
        takes: dict[int, tuple[ToAlign, sound.Sound]] = {}
        found: dict[int, dict[int, list[SaidWord]]] = defaultdict(dict)
        for read in self._read(asked):
            if read is None:
                if waiting:
                    yield from self._align(waiting, takes, found)
                waiting = []
                continue
            one, audio = read
            told = [] if isinstance(audio, Exception) else list(_told(one, audio))
            problem = str(audio) if isinstance(audio, Exception) else self._problem(told)
            if problem is not None or isinstance(audio, Exception):
                yield Aligned(one.place, problem=problem)
                continue
            takes[one.place] = one, audio
            for passage in told:
                longest = max(len(other.samples) for other in (*waiting, passage))
                if waiting and (len(waiting) + 1) * longest > self.batch * BATCH_S * sound.RATE_HZ:
                    yield from self._align(waiting, takes, found)
                    waiting = []
                waiting.append(passage)
                if len(waiting) >= self.batch:
                    yield from self._align(waiting, takes, found)
                    waiting = []
        if waiting:
            yield from self._align(waiting, takes, found)

    def _problem(self, told: Sequence[_Told]) -> str | None:
        """Why a take cannot be asked for."""
        for one in told:
            audio_s = len(one.samples) / sound.RATE_HZ
            if audio_s > self._most_s:
                return (
                    f"{audio_s:.0f} s without a piece boundary; at most {self._most_s:.0f} s can "
                    "be aligned at a time"
                )
            package = SPLITTERS.get(one.language or "")
            if package is not None:
                try:
                    require(EXTRA, package, f"aligning {one.language}").load()
                except (SetupError, ImportError) as error:
                    return str(error)
        return None if told and all(len(one.samples) for one in told) else NOT_FOUND

    def _align(
        self,
        batch: Sequence[_Told],
        takes: dict[int, tuple[ToAlign, sound.Sound]],
        found: dict[int, dict[int, list[SaidWord]]],
    ) -> Iterator[Aligned]:
        """Align some passages; the takes whose last ones are among them are answered."""
        for told, words in zip(batch, self.halved(self._words, list(batch)), strict=True):
            one, audio = takes[told.place]
            found[told.place][told.number] = words
            if len(found[told.place]) < len(one.passages):
                continue
            del takes[told.place]
            passages = found.pop(told.place)
            if not all(passages.values()):
                yield Aligned(told.place, problem=NOT_FOUND)
                continue
            said = [word for number in sorted(passages) for word in passages[number]]
            audio_s = len(audio.samples) / sound.RATE_HZ
            yield Aligned(told.place, tuple(said), mean_score(said), audio.sha256, audio_s)

    def _words(self, batch: Sequence[_Told]) -> list[list[SaidWord]]:
        """The words of each passage; none where nothing of its text can be looked for."""
        spoken = [_Transcript(told.passage) for told in batch]
        pieces: list[list[_Piece]] = [[] for _ in batch]
        languages = [told.language for told in batch]
        asked = [place for place, one in enumerate(spoken) if any(map(str.isalnum, one.text))]
        if asked:
            answers = self._pieces(
                [batch[place].samples for place in asked],
                [spoken[place].text for place in asked],
                [languages[place] for place in asked],
            )
            for place, answer in zip(asked, answers, strict=True):
                pieces[place] = answer
        return [
            one.words(found, told.passage.start_s, len(told.samples) / sound.RATE_HZ)
            for one, found, told in zip(spoken, pieces, batch, strict=True)
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
            logits=logits,
            input_ids=asked["input_ids"],
            word_lists=words,
            timestamp_token_id=mark,
        )
        for row, (text, said) in enumerate(zip(texts, times, strict=True)):
            shares = logits[row][asked["input_ids"][row] == mark].float().softmax(-1).cpu().numpy()
            yield list(self._scored(text, said, shares))

    def _scored(
        self, text: str, said: Sequence[dict[str, Any]], shares: sound.Array
    ) -> Iterator[_Piece]:
        """Args:
        shares: (two a word, labels), what the model gives to each moment.
        """
        for number, (one, (start, end)) in enumerate(
            zip(said, _places(text, [one["text"] for one in said]), strict=True)
        ):
            scores = []
            for mark, time_s in (
                (2 * number, one["start_time"]),
                (2 * number + 1, one["end_time"]),
            ):
                label = round(time_s / self._step_s)
                scores.append(float(shares[mark, max(0, label - 1) : label + 2].sum()))
            score = min(1.0, float(np.sqrt(scores[0] * scores[1])))
            yield _Piece(start, end, one["start_time"], one["end_time"], score)


class _Transcript:
    """What is spoken in a passage as one text, and where the words stand in it."""

    def __init__(self, passage: Passage) -> None:
        self.text = ""
        self._words: list[tuple[int, int, bool]] = []  # first character, behind its last, no spaces
        for word in passage.words:
            spoken = " ".join(word).replace("\u2019", "'")
            has_no_spaces = any(map(is_without_spaces, spoken))
            if not has_no_spaces:  # halves of `well-known` are two words
                spoken = "".join(one if one.isalnum() or one == "'" else " " for one in spoken)
            self.text += " " * bool(self.text)
            self._words.append((len(self.text), len(self.text) + len(spoken), has_no_spaces))
            self.text += spoken

    def words(self, pieces: Sequence[_Piece], start_s: float, length_s: float) -> list[SaidWord]:
        """The words of what was found, in seconds of the file; none if nothing was."""
        end_s = start_s + length_s
        found: dict[int, SaidWord] = {}
        for number, (start, end, has_no_spaces) in enumerate(self._words):
            mine = [
                WithinWord(
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
                found[number] = SaidWord(
                    mine[0].start_s, mine[-1].end_s, score, Known.MODEL, inside
                )
        return list(all_words(len(self._words), found, start_s, end_s)) if found else []


def _told(one: ToAlign, audio: sound.Sound) -> Iterator[_Told]:
    for number, passage in enumerate(one.passages):
        language = one.language or _by_letters(passage)
        yield _Told(one.place, number, passage, language, samples_of(passage, audio.samples))


def _by_letters(passage: Passage) -> str | None:
    """The language of a text that names none, where its letters tell."""
    letters = "".join(part for word in passage.words for part in word)
    if any("\u3040" <= char <= "\u30ff" for char in letters):
        return "ja"
    if any("\uac00" <= char <= "\ud7a3" for char in letters):
        return "ko"
    return None


def is_without_spaces(char: str) -> bool:
    """Whether words of its script are not parted by spaces: Chinese characters and kana."""
    return "\u3040" <= char <= "\u30ff" or "\u3400" <= char <= "\u9fff" or char >= "\U00020000"


def _places(text: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First character of each word in a text, and that behind its last: words lack its marks.

    Raises:
        ValueError: they are not of this text.
    """
    place = 0
    for word in words:
        start = None
        for char in word:
            found = text.index(char, place)
            start, place = found if start is None else start, found + 1
        yield place if start is None else start, place


def _loaded(library: Any, folder: Path, family: Any, dtype: Any) -> tuple[Any, Any]:
    """The processor and the model of a checkpoint, of a class of transformers.

    Raises:
        ValueError: it is of another form, or of another class.
    """
    if "thinker_config" in read_json(folder / "config.json"):
        raise ValueError("it has the layout of qwen-asr; use the repository that ends with -hf")
    processor = library.Qwen3ASRProcessor.from_pretrained(folder, **_ONLY_THESE)
    model, told = family.from_pretrained(
        folder, use_safetensors=True, dtype=dtype, output_loading_info=True, **_ONLY_THESE
    )
    if missing := sorted(told["missing_keys"]):
        raise ValueError(f"it is not a {family.__name__}: {missing[0]} is missing")
    if any(key.startswith("score.") for key in told["unexpected_keys"]):
        raise ValueError(f"it is not a {family.__name__}, but an aligner")
    return processor, model
