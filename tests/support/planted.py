"""Faults in what a run speaks, planted where a folder keeps it: before the file is written, so that
journal and hearing have them as if they had been spoken. And a recognizer that hears by heart.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tts_cli.app.verify import StreamVerifier
from tts_cli.checks.asr import sphinx
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult, Identity
from tts_cli.core import Result, Task
from tts_cli.engine.pieces import measure
from tts_cli.sources.ids import TAKES
from tts_cli.store.entry import JournalEntry
from tts_cli.store.results import ResultCommits
from tts_cli.store.store import Store

KINDS = ("cut", "again", "other", "clipped", "silence")
SILENCE_S, LETTER_S = 2.5, 0.025
LATE_S = 0.1  # that a thread comes too late
_KEEP, _SPOKEN, _HEAR_ONE = ResultCommits.commit, StreamVerifier.on_results, sphinx.transcribe_one
Results = Sequence[tuple[Task, Result]]
Array = np.ndarray[Any, Any]


class Planter:
    """Plants faults in rows.

    Args:
        kinds: id -> which.
        notes: where it is written what a recognizer hears of each file, whose speech is then a tone
            as long as its text takes; None: a real one hears what was spoken.
        on_every_take: not on the first alone.
        is_toned: False: speech stays as it is, and only what is heard has the faults.
        other: (n,) int16, the speech of another text; None: the row's own, backwards.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        notes: Path | None = None,
        on_every_take: bool = False,
        is_toned: bool = True,
        other: Array | None = None,
    ) -> None:
        self.kinds, self.notes, self.on_every_take = kinds, notes, on_every_take
        self.is_toned, self.other = is_toned, other

    def install(self, put: Callable[[Any, str, Any], Any] = setattr) -> None:
        """From now on folders keep faults, as do those that have none, and pocketsphinx hears by
        heart.
        """

        def spoken(session: StreamVerifier, results: Results) -> None:
            rate_hz = session._planner.info.sample_rate_hz
            names = [f"{task.row.number}.{task.place.take}/1" for task, _ in results]
            _SPOKEN(session, self.all_planted(results, rate_hz, names))

        put(ResultCommits, "commit", lambda *given: self.keep(*given))
        put(StreamVerifier, "on_results", spoken)
        if self.notes is not None:
            notes = self.notes
            put(sphinx, "Sphinx", lambda processes: ByHeart(notes))

    def keep(
        self, commits: ResultCommits, results: Results, run_id: str | None = None
    ) -> list[JournalEntry]:
        """As `ResultCommits.commit`, with the faults of the rows."""
        names = [f"{task.id}/{task.place.take}" for task, _ in results]
        planted = self.all_planted(results, commits._writer.native_rate_hz, names)
        return _KEEP(commits, planted, run_id)

    def all_planted(self, results: Results, rate_hz: int, names: Sequence[str]) -> Results:
        """Return the result with the faults of its row."""
        named = zip(results, names, strict=True)
        return [(task, self.planted(task, one, rate_hz, name)) for (task, one), name in named]

    def planted(self, task: Task, spoken: Result, rate_hz: int, name: str) -> Result:
        """What was spoken, with the row's fault; what is heard of it is noted under a name."""
        kind = self.kinds.get(task.id, "")
        if task.place.take > 1 and not self.on_every_take:
            kind = ""
        is_edited = self.is_toned and (kind or self.notes is not None)
        if spoken.error is None and is_edited:
            spoken = self._made(rate_hz, task, spoken, kind)
        if self.notes is not None:  # before the file, so that every file has a note
            note(self.notes, {"name": name, "said": said(task.row.text, kind)})
        return spoken

    def _made(self, rate_hz: int, task: Task, spoken: Result, kind: str) -> Result:
        samples, codes = spoken.samples, spoken.codes
        assert samples is not None, "it came out well"
        assert codes is not None
        frame = len(samples) // len(codes)
        if self.notes is not None:
            samples, codes = tone(task.row.text, spoken.seed, codes, frame, rate_hz)
        if kind:
            samples, codes = edited(kind, samples, codes, frame, rate_hz, self.other)
        found = measure(samples, codes, frame / rate_hz, spoken.usual_s)
        return replace(
            spoken,
            samples=samples,
            codes=codes,
            frames=len(codes),
            levels=found.levels,
            remarks=tuple(found.remarks),
        )


def tone(text: str, seed: int, codes: Array, frame: int, rate_hz: int) -> tuple[Array, Array]:
    """What sounds at the usual rate and level, another one for each seed."""
    draw = np.random.default_rng(seed)
    frames = round(len(text) * LETTER_S * draw.uniform(0.97, 1.03) * rate_hz / frame)
    times = np.arange(frames * frame) / rate_hz
    sound = 0.3 * np.sin(2 * np.pi * draw.uniform(150, 250) * times)
    places = [place % len(codes) for place in range(frames)]
    return (sound * 32767).astype(np.int16), codes[places]


def edited(
    kind: str, samples: Array, codes: Array, frame: int, rate_hz: int, other: Array | None
) -> tuple[Array, Array]:
    """Samples and codes with a fault."""
    count = len(codes)
    first, last = 3 * count // 10, max(1, 6 * count // 10)
    if kind == "cut":
        return samples[: last * frame], codes[:last]
    if kind == "again":
        twice = samples[first * frame : last * frame]
        places = [*range(last), *range(first, count)]
        return np.concatenate([samples[: last * frame], twice, samples[last * frame :]]), codes[
            places
        ]
    if kind == "clipped":
        top = 32767 if samples.dtype == np.int16 else 1.0
        loud = samples * (top / max(float(np.quantile(np.abs(samples), 0.95)), 1e-6))
        return np.clip(loud, -top, top).astype(samples.dtype), codes
    if kind == "silence":
        frames = round(SILENCE_S * rate_hz / frame)
        gap = np.zeros(frames * frame, samples.dtype)
        cut = [samples[: last * frame], gap, samples[last * frame :]]
        return np.concatenate(cut), codes[[*range(last), *[last - 1] * frames, *range(last, count)]]
    found = samples[::-1] if other is None else other
    if found.dtype != samples.dtype:
        found = (found / 32768).astype(samples.dtype)
    frames = len(found) // frame
    return found[: frames * frame].copy(), codes[[place % count for place in range(frames)]]


def said(text: str, kind: str) -> str:
    """Return the transcript of a row."""
    words = text.split()
    if kind == "cut":
        return " ".join(words[: len(words) // 2])
    if kind == "again":
        return " ".join([*words[:4], *words[1:]])
    return "nobody has ever said a thing like that" if kind == "other" else text


def shuffle(seed: int, put: Callable[[Any, str, Any], Any]) -> None:
    """From now on files are kept and heard in another order: threads are late by chance."""
    draw = random.Random(seed)

    def late(keep: Callable[..., Any]) -> Callable[..., Any]:
        def keep_late(*given: Any) -> Any:
            time.sleep(draw.uniform(0, LATE_S))
            return keep(*given)

        return keep_late

    put(ResultCommits, "commit", late(ResultCommits.commit))
    put(StreamVerifier, "on_results", late(StreamVerifier.on_results))
    put(ByHeart, "order", draw.shuffle)


def die_at(event: int) -> None:
    """Have this process killed before so many files were kept, heard or chosen."""
    left = [event]
    kept_note, pin = globals()["note"], Store.pin

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def noted(path: Path, values: Mapping[str, Any]) -> None:
        count()
        kept_note(path, values)

    def pinned(store: Store, row_id: str, take: int) -> bool:
        count()
        return pin(store, row_id, take)

    globals()["note"], Store.pin = noted, pinned  # type: ignore[method-assign]


def hear_once(folder: Path, asked: AsrRequest) -> AsrResult:
    """Return the result of `sphinx.transcribe_one`, from a folder if it is known for this audio."""
    digest = hashlib.sha256(asked.path.read_bytes()).hexdigest()
    kept = folder / hashlib.sha256(f"{digest} {asked.gaps_s}".encode()).hexdigest()
    if kept.exists():
        return AsrResult(asked.place, kept.read_text(), digest)
    answer = _HEAR_ONE(asked)
    if answer.problem is None:
        written = kept.with_suffix(f".{os.getpid()}")
        written.write_text(answer.text)
        written.replace(kept)
    return answer


def note(path: Path, values: Mapping[str, Any]) -> None:
    """Add a line; any process may."""
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(values) + "\n")


class ByHeart:
    """Hears of a file what was noted of it, and notes that it was heard."""

    order: ClassVar[Callable[[list[AsrRequest]], object]] = list[AsrRequest].reverse

    def __init__(self, notes: Path) -> None:
        self.identity = Identity("by heart", ("en",))
        self._notes = notes

    def run(self, asked: Iterable[AsrRequest | None]) -> Iterator[AsrResult]:
        waiting: list[AsrRequest] = []
        for one in asked:
            if one is not None:
                waiting.append(one)
            else:
                yield from self._answers(waiting)
                waiting = []
        yield from self._answers(waiting)

    def close(self) -> None:
        """Nothing to give back."""

    def _answers(self, waiting: list[AsrRequest]) -> Iterator[AsrResult]:
        type(self).order(waiting)
        yield from map(self._answer, waiting)

    def _answer(self, one: AsrRequest) -> AsrResult:
        digest = hashlib.sha256(one.path.read_bytes()).hexdigest()
        _, takes, name = one.path.with_suffix("").as_posix().rpartition(f"/{TAKES}/")
        name = f"/{name}" if takes else f"{name}/1"  # of a file that is a row's only its end is
        lines = [json.loads(line) for line in self._notes.read_text().splitlines()]
        known = [line for line in lines if name.endswith(f"/{line.get('name')}")]
        (text, *_) = [line["said"] for line in known][-1:] or [""]
        note(self._notes, {"heard": digest})
        return AsrResult(one.place, text, digest)
