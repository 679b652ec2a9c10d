"""An aligner that finds every word at a given time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from tts_cli.checks.asr.aligner import NOT_FOUND, AlignedWord, AlignRequest, AlignResult, Known
from tts_cli.checks.asr.recognizer import Identity
from tts_cli.checks.asr.sphinx import MIN_SCORE


class FakeAligner:
    """Find a word every tenth of a second; given rows have bad scores, or none."""

    def __init__(self, scores: dict[str, float] | None = None) -> None:
        self.identity = Identity("fake 1", ("en",), MIN_SCORE)
        self.scores = scores or {}
        self.asked: list[AlignRequest] = []

    def run(self, asked: Iterable[AlignRequest | None]) -> Iterator[AlignResult]:
        for one in filter(None, asked):
            self.asked.append(one)
            score = self.scores.get(one.path.stem, 0.3 + 0.001 * one.place)
            words = [word for passage in one.passages for word in passage.words]
            said = tuple(
                AlignedWord(0.1 * n, 0.1 * n + 0.1, score, Known.DICTIONARY)
                for n in range(len(words))
            )
            if score < 0:
                yield AlignResult(one.place, problem=NOT_FOUND)
            else:
                digest = hashlib.sha256(one.path.read_bytes()).hexdigest()
                yield AlignResult(one.place, said, score, digest, 2.0)

    def close(self) -> None: ...
