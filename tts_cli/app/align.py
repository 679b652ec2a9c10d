"""Find when each word of a folder's rows is said, and write it beside their audio.

The files of a row are written as soon as it is aligned, so that a killed command goes on where it
was. What score is low for a voice is known only at the end: files that it changes are then written
once more.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.app.check import Rows
from tts_cli.config import RunConfig
from tts_cli.core import Finish
from tts_cli.errors import RowError, UsageError
from tts_cli.folder.files import WORDS_SUFFIX
from tts_cli.folder.folder import Folder
from tts_cli.folder.rows import FolderRow, SpokenFolder, read_folder
from tts_cli.folder.run_file import Totals
from tts_cli.folder.take import Take
from tts_cli.listen.hearing.aligner import Aligned, Passage, SphinxAligner, ToAlign
from tts_cli.listen.hearing.listener import Listener
from tts_cli.listen.hearing.recogniser import POCKETSPHINX
from tts_cli.listen.usual import Usual, usual
from tts_cli.listen.verdicts import Check, checks_by_take
from tts_cli.listen.words import FORMS, TimedWord, WordTimes, read_words
from tts_cli.plan.checks import Only
from tts_cli.text.lexicon import Lexicon, read_lexicon
from tts_cli.text.wording import WrittenWord, has_figures, read_alone, written_words

log = logging.getLogger(__name__)

# A row below this is unsure whatever its voice: of 240 sentences of the sample voice 1 % had less
# than 0.18, and 95 % of those that were given another row's text less than 0.05.
LEAST_SCORE = 0.12
MAX_OFF = 5.0  # deviations below its voice


@dataclass(eq=False)
class _Row:
    """A row that is to be aligned, or was."""

    row: FolderRow
    path: Path
    words: list[WrittenWord]
    score: float | None = None  # None: not aligned
    unsure: list[str] = field(default_factory=list)  # as its file has it

    @property
    def take(self) -> Take:
        return self.row.take


@dataclass
class Alignment:
    """What became of the rows."""

    aligned: int = 0  # now
    kept: int = 0  # by an earlier command
    audio_s: float = 0.0
    other_language: int = 0
    without_words: int = 0
    without_audio: int = 0
    words: int = 0  # of the rows aligned now
    guessed: list[str] = field(default_factory=list)  # words that no dictionary has, some of them
    problems: list[tuple[str, str]] = field(default_factory=list)  # id, why it is left out
    unsure: list[tuple[str, list[str]]] = field(default_factory=list)  # id, reasons


class FolderAlignment:
    """The rows of a folder and the times of their words.

    Args:
        config: `only`, `asr_batch` and `lexicon` of it.
        forms: suffixes of the further files that are wanted.
    Raises:
        UsageError, SetupError: the folder cannot be read, or has none of the rows asked for.
    """

    def __init__(self, out: Path, config: RunConfig, forms: Sequence[str] = ()) -> None:
        self.found: SpokenFolder = read_folder(out)
        self.done = Alignment()
        self._config, self._forms = config, forms
        only = Only(config.only, out)
        self._named = [row for row in self.found.rows if only.names(row.id)]
        only.require_rows(str(out), (row.id for row in self.found.rows))
        self._lexicon = Lexicon() if config.lexicon is None else read_lexicon(config.lexicon)
        self._checks = checks_by_take(out)
        self._rows: list[_Row] = []

    def run(self, aligner: SphinxAligner, progress: Rows) -> Alignment:
        """Align what is not aligned yet.

        Raises:
            Interrupted, StoppedEarly, DiskFull, FolderLocked: what was aligned is kept.
        """
        with Folder.at(self.found.path, self._config) as folder:
            waiting = list(self._waiting(folder, aligner))
            with progress(len(waiting)) as shown:
                for answer in aligner.align(self._asked(waiting)):
                    signals.check()
                    self._take(folder, waiting[answer.place], answer, aligner.identity.name)
                    ended = self.done.aligned + len(self.done.problems)
                    shown.update(Totals(ok=ended, audio_s=self.done.audio_s))
            self._compare(folder)
        return self.done

    def _waiting(self, folder: Folder, aligner: SphinxAligner) -> Iterator[_Row]:
        listener = Listener(aligner.identity, self.found.last_run.get("text"))
        for row in self._named:
            take = row.take
            if not take.is_ok or row.file.path is None or take.sha256 is None:
                self.done.without_audio += 1
                continue
            if not take.said or not take.letters or take.finish_reason is Finish.WORDLESS:
                self.done.without_words += 1
                continue
            if not listener.is_fluent(take):
                self.done.other_language += 1
                continue
            kept = self._kept(folder, row, aligner)
            one = _Row(row, self.found.path / row.file.path, [])
            self._rows.append(one)
            if kept is not None:
                self.done.kept += 1
                one.score, one.unsure = kept.score, kept.unsure
                continue
            one.words = written_words(take.text or take.said, take.said)
            yield one

    def _kept(self, folder: Folder, row: FolderRow, aligner: SphinxAligner) -> WordTimes | None:
        """What an earlier command has found; the further files are made of it."""
        kept = read_words(folder.out, row.id)
        if kept is None or kept.sha256 != row.take.sha256 or kept.text != row.take.text:
            return None
        if kept.aligner != aligner.identity.name or kept.id != row.id:
            return None
        if not all((folder.out / f"{row.id}{form}").is_file() for form in self._forms):
            self._write(folder, kept)
        return kept

    def _asked(self, waiting: Sequence[_Row]) -> Iterator[ToAlign]:
        for place, one in enumerate(waiting):
            words = [(word.start, self._sounds(word)) for word in one.words]
            passages = tuple(passages_of(one.take, words))
            yield ToAlign(place, one.path, passages)

    def _sounds(self, word: WrittenWord) -> tuple[str, ...]:
        """The words that the dictionary is asked for."""
        found: list[str] = []
        for spoken in word.spoken:
            if entries := self._lexicon.changes(spoken, "english"):
                spoken = " ".join(entry.spoken for entry in entries)
            for part in spoken.casefold().split():
                parts = read_alone(part) if has_figures(part) else [part]
                found += [bit for one in parts for bit in _bits(one)]
        return tuple(found)

    def _take(self, folder: Folder, one: _Row, answer: Aligned, aligner: str) -> None:
        """Take in what was found of a row."""
        problem = answer.problem
        if problem is None and not answer.words:
            problem = "it has no words to look for"
        if problem is not None:
            self.done.problems.append((one.row.id, problem))
            return
        take = one.take
        words = [
            TimedWord(
                word.text,
                round(said.start_s, 3),
                round(said.end_s, 3),
                None if said.score is None else round(said.score, 4),
                word.start,
                word.end,
                said.known.value,
            )
            for word, said in zip(one.words, answer.words, strict=True)
        ]
        one.score = round(answer.score, 4)
        one.unsure = self._reasons(one, None)
        times = WordTimes(
            one.row.id,
            take.take,
            answer.sha256,
            aligner,
            take.text or take.said or "",
            round(answer.audio_s, 6),
            one.score,
            words,
            one.unsure,
        )
        try:
            self._write(folder, times)
        except RowError as error:
            self.done.problems.append((one.row.id, str(error)))
            return
        self.done.aligned += 1
        self.done.audio_s += answer.audio_s
        self.done.words += len(words)
        self.done.guessed += [word.word for word in words if word.known != "dictionary"]

    def _write(self, folder: Folder, times: WordTimes) -> None:
        for form in self._forms:
            folder.put_beside(times.id, form, FORMS[form](times).encode())
        folder.put_beside(times.id, WORDS_SUFFIX, times.encode())

    def _compare(self, folder: Folder) -> None:
        """Judge every row by what is usual of its voice; write again what that changes."""
        scores: dict[Hashable, list[float]] = defaultdict(list)
        aligned = [one for one in self._rows if one.score is not None]
        for one in aligned:
            scores[one.take.voice_name].append(one.score or 0.0)
        voices = usual(scores)
        for one in aligned:
            reasons = self._reasons(one, voices.get(one.take.voice_name))
            if reasons:
                self.done.unsure.append((one.row.id, reasons))
            if reasons == one.unsure:
                continue
            times = read_words(folder.out, one.row.id)
            if times is not None:
                self._write(folder, replace(times, unsure=reasons))

    def _reasons(self, one: _Row, voice: Usual | None) -> list[str]:
        """Why the times of a row may be wrong."""
        reasons = []
        check: Check | None = self._checks.get((one.row.id, one.take.take))
        if check is not None and check.is_suspect and check.fits(one.take.sha256):
            told = [f"check: {reason.text}" for reason in check.reasons]
            reasons += told or ["check calls it suspect"]
        score = one.score or 0.0
        if score < LEAST_SCORE:
            reasons.append(f"score {score:.3f}, less than {LEAST_SCORE}: perhaps other words")
        elif voice is not None and voice.off(score) < -MAX_OFF:
            reasons.append(f"score {score:.2f}, where {voice.median:.2f} is usual for its voice")
        return reasons


def _bits(word: str) -> Iterable[str]:
    """A word as dictionaries have it: without marks, in its halves if it has a hyphen."""
    letters = "".join(char if char.isalnum() or char == "'" else " " for char in word)
    return (bit.strip("'") or bit for bit in letters.split() if bit.strip("'"))


def passages_of(take: Take, words: Sequence[tuple[int, tuple[str, ...]]]) -> Iterator[Passage]:
    """The passages of a row's file, and what is said in each: its parts, cut in the middle of the
    pauses between them; the whole where it has none.

    Args:
        words: first character of each, and what is spoken for it.
    """
    parts = take.parts
    cuts_s = [
        take.shift_s + (part["end_s"] + behind["start_s"]) / 2 for part, behind in pairwise(parts)
    ]
    starts = [part["text_start"] for part in parts[1:]]
    if not cuts_s or [0.0, *cuts_s] != sorted([0.0, *cuts_s]) or starts != sorted(starts):
        yield Passage(0.0, None, tuple(said for _, said in words))
        return
    edges_s: list[float | None] = [0.0, *cuts_s, None]
    bounds = [0, *starts, 1 << 62]
    for start, end, start_s, end_s in zip(bounds, bounds[1:], edges_s, edges_s[1:], strict=False):
        inside = tuple(said for place, said in words if start <= place < end)
        if inside:
            yield Passage(start_s or 0.0, end_s, inside)


def open_aligner(name: str, config: RunConfig) -> SphinxAligner:
    """The aligner of a name. Raises UsageError, SetupError."""
    if name.casefold() != POCKETSPHINX:
        raise UsageError(
            f"--with {name}: no such aligner", remedy=f"{POCKETSPHINX} is the one there is"
        )
    return SphinxAligner(config.asr_batch)
