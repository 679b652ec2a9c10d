"""Find when each word of a folder's rows is said, and write it beside their audio.

The files of a row are written as soon as it is aligned, so that a killed command goes on where it
was. What score is low for a voice is known only at the end: files that it changes are then written
once more.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.app.check import Rows, checkpoint_of
from tts_cli.app.look import Screen
from tts_cli.app.subtitles import warn_of_kept
from tts_cli.checks.asr.aligner import (
    AlignedWord,
    Aligner,
    AlignRequest,
    AlignResult,
    Known,
    Passage,
)
from tts_cli.checks.asr.qwen3_asr import Qwen3Aligner
from tts_cli.checks.asr.recognizer import POCKETSPHINX, Identity
from tts_cli.checks.asr.sphinx import SphinxAligner
from tts_cli.checks.asr.transcriber import Transcriber
from tts_cli.checks.baselines import RobustStats, usual_values
from tts_cli.checks.folder_rows import FolderAudio, FolderRow, read_folder
from tts_cli.checks.verdicts import TakeVerdict, verdicts_by_take
from tts_cli.checks.word_times import FORMS, TimedWord, WordTimes, read_words
from tts_cli.config import RunConfig
from tts_cli.core import Step
from tts_cli.errors import Cancelled, RowError, SetupError
from tts_cli.events import Count
from tts_cli.plan.checks import Only
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import WORDS_SUFFIX, SharedNames
from tts_cli.store.store import Store
from tts_cli.text.lexicon import Lexicon, read_lexicon
from tts_cli.text.normalized_text import Edit, NormalizedText
from tts_cli.text.word_alignment import (
    WrittenWord,
    has_figures,
    one_edit,
    read_alone,
    written_words,
)

log = logging.getLogger(__name__)

REMEDY = "pocketsphinx, or the folder or Hugging Face repository of a Qwen3-ForcedAligner"
GUESSED = (Known.LETTERS.value, Known.NEIGHBOURS.value)
MAX_OFF = 5.0  # deviations below its voice, from which on a row is unsure


@dataclass(eq=False)
class _Row:
    """A row that is to be aligned, or was."""

    row: FolderRow
    path: Path
    score: float | None = None  # None: not aligned
    unsure: list[str] = field(default_factory=list)  # as its file has it

    @property
    def take(self) -> JournalEntry:
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
    edited: Count = field(default_factory=Count)  # files that somebody edited, so they are kept
    unsure: list[tuple[str, list[str]]] = field(default_factory=list)  # id, reasons


class TakeWords:
    """What an aligner is asked of takes, and what its answers say of their words.

    Args:
        aligner: its identity.
        text: how texts were read, see `Transcriber`.
        lexicon: respellings for the aligner alone.
    """

    def __init__(self, aligner: Identity, text: Any, lexicon: Lexicon | None = None) -> None:
        self.transcriber = Transcriber(aligner, text)
        self._lexicon = lexicon or Lexicon()

    def asked(self, place: int, path: Path, take: JournalEntry) -> AlignRequest:
        """What it is asked of a take."""
        words = [(word.start, sounds) for word, sounds in self._words(take)]
        language = self.transcriber.language_of(take)
        return AlignRequest(place, path, language, tuple(passages_of(take, words)))

    def times(
        self, take: JournalEntry, answer: AlignResult, check: Sequence[str] = ()
    ) -> WordTimes:
        """The times of a take's words. Raises RowError: they were not found.

        Args:
            check: why `check` suspects the take.
        """
        problem = answer.problem
        if problem is None and not answer.words:
            problem = "its text has no words"
        if problem is not None:
            raise RowError(problem)
        words = [
            timed
            for (word, sounds), said in zip(self._words(take), answer.words, strict=True)
            for timed in _timed(word, sounds, said)
        ]
        score, aligner = round(answer.score, 4), self.transcriber.identity
        return WordTimes(
            take.id,
            take.take,
            answer.sha256,
            aligner.name,
            take.text or take.said or "",
            round(answer.audio_s, 6),
            score,
            words,
            _reasons(score, aligner.least_score, check, None),
        )

    def _words(self, take: JournalEntry) -> Iterator[tuple[WrittenWord, tuple[str, ...]]]:
        """The words of a take's text, and what the aligner is told for each."""
        code, said = self.transcriber.language_of(take), take.said or ""
        is_english = said.isascii() if code is None else code == "en"
        language = "english" if is_english else take.language
        for word in written_words(_normalized(take)):
            found: list[str] = []
            for spoken in word.said:
                if entries := self._lexicon.edits(spoken, language):
                    spoken = " ".join(entry.spoken for entry in entries)
                for part in spoken.split():
                    found += read_alone(part) if is_english and has_figures(part) else [part]
            yield word, tuple(found)


def _normalized(take: JournalEntry) -> NormalizedText:
    """Return the text of a take with its edits; entries before 0.4 do not have them."""
    text, said = take.text or take.said or "", take.said or ""
    edits = [Edit(*edit) for edit in take.edits]
    places = [place for edit in edits for place in (edit.start, edit.end)]
    if not edits or places != sorted(places) or places[-1] > len(text):
        return one_edit(text, said)
    return NormalizedText(text, tuple(edits))


class FolderAlignment:
    """The rows of a folder and the times of their words.

    Args:
        config: `only`, `asr_batch` and `lexicon` of it.
        forms: suffixes of the further files that are wanted.
        names: whether a row is asked for, instead of `only`.
    Raises:
        UsageError, SetupError: the folder cannot be read, or has none of the rows asked for.
    """

    def __init__(
        self,
        out: Path,
        config: RunConfig,
        forms: Sequence[str] = (),
        names: Callable[[str], bool] | None = None,
    ) -> None:
        self.found: FolderAudio = read_folder(out)
        self.done = Alignment()
        self._config, self._forms = config, forms
        only = Only(() if names else config.only, out)
        names = names or only.names
        self._named = [row for row in self.found.rows if names(row.id)]
        only.require_rows(str(out), (row.id for row in self.found.rows))
        self._lexicon = None if config.lexicon is None else read_lexicon(config.lexicon)
        self._checks = verdicts_by_take(out)
        self._rows: list[_Row] = []
        self._shared = SharedNames(row.id for row in self.found.rows)

    def run(self, aligner: Aligner, progress: Rows) -> Alignment:
        """Align what is not aligned yet.

        Raises:
            Interrupted, StoppedEarly, DiskFull, FolderLocked: what was aligned is kept.
        """
        text = self.found.last_run.get("text")
        takes = TakeWords(aligner.identity, text, self._lexicon)
        with Store(self.found.path, self._config) as folder:
            waiting = list(self._waiting(folder, takes.transcriber))
            asked = (takes.asked(place, one.path, one.take) for place, one in enumerate(waiting))
            with progress(len(waiting)) as shown:
                for answer in aligner.run(asked):
                    signals.check()
                    self._take(folder, waiting[answer.place], takes, answer)
                    ended = self.done.aligned + len(self.done.problems)
                    shown.update(ended, 0, self.done.audio_s)
            self._compare(folder, aligner.identity)
        warn_of_kept(self.done.edited)
        return self.done

    def _waiting(self, folder: Store, transcriber: Transcriber) -> Iterator[_Row]:
        for row in self._named:
            take = row.take
            if not take.is_ok or row.file.path is None or take.sha256 is None:
                self.done.without_audio += 1
                continue
            if not transcriber.has_words(take):
                self.done.without_words += 1
                continue
            if not transcriber.is_supported(take):
                self.done.other_language += 1
                continue
            self._report_shared(row.id)
            kept = self._kept(folder, row, transcriber.identity.name)
            one = _Row(row, self.found.path / row.file.path)
            self._rows.append(one)
            if kept is not None:
                self.done.kept += 1
                one.score, one.unsure = kept.score, kept.unsure
                continue
            yield one

    def _kept(self, folder: Store, row: FolderRow, aligner: str) -> WordTimes | None:
        """What an earlier command has found; the further files are made of it."""
        kept = read_words(folder.out, row.id)
        if kept is None or kept.sha256 != row.take.sha256 or kept.text != row.take.text:
            return None
        if kept.aligner != aligner or kept.id != row.id:
            return None
        for form in self._forms_of(row.id):
            if not folder.derived.is_for(f"{row.id}{form}", kept.sha256):
                self._put(folder, kept, form)
        return kept

    def _take(self, folder: Store, one: _Row, takes: TakeWords, answer: AlignResult) -> None:
        """Take in what was found of a row."""
        try:
            times = takes.times(one.take, answer, self._checked(one))
            self._write(folder, times)
        except RowError as error:
            self.done.problems.append((one.row.id, str(error)))
            return
        one.score, one.unsure = times.score, times.unsure
        self.done.aligned += 1
        self.done.audio_s += answer.audio_s
        self.done.words += len(times.words)
        self.done.guessed += [word.word for word in times.words if word.known in GUESSED]

    def _write(self, folder: Store, times: WordTimes) -> None:
        for form in (*self._forms_of(times.id), WORDS_SUFFIX):
            self._put(folder, times, form)

    def _put(self, folder: Store, times: WordTimes, form: str) -> None:
        data = FORMS[form](times).encode()
        if folder.write_derived(times.id, form, data, times.sha256) is False:
            self.done.edited.add(f"{times.id}{form}")

    def _forms_of(self, row_id: str) -> list[str]:
        """Return the further files that are wanted, without those whose names are other rows'."""
        return [form for form in self._forms if self._shared.owner(row_id, form) is None]

    def _report_shared(self, row_id: str) -> None:
        for form in self._forms:
            if (owner := self._shared.owner(row_id, form)) is not None:
                problem = f"{row_id}{form} is the name of the subtitles of row '{owner}'"
                self.done.problems.append((row_id, f"{problem}; change one of the two ids"))

    def _compare(self, folder: Store, aligner: Identity) -> None:
        """Judge every row by what is usual of its voice; write again what that changes."""
        scores: dict[Hashable, list[float]] = defaultdict(list)
        aligned = [one for one in self._rows if one.score is not None]
        for one in aligned:
            scores[one.take.voice_name].append(one.score or 0.0)
        voices = usual_values(scores)
        for one in aligned:
            voice = voices.get(one.take.voice_name)
            reasons = _reasons(one.score or 0.0, aligner.least_score, self._checked(one), voice)
            if reasons:
                self.done.unsure.append((one.row.id, reasons))
            if reasons == one.unsure:
                continue
            times = read_words(folder.out, one.row.id)
            if times is not None:
                self._write(folder, replace(times, unsure=reasons))

    def _checked(self, one: _Row) -> list[str]:
        """Why `check` suspects a row's file."""
        check: TakeVerdict | None = self._checks.get((one.row.id, one.take.take))
        if check is None or not check.is_suspect or not check.fits(one.take.sha256):
            return []
        return [reason.text for reason in check.reasons] or [""]


class SpokenWords:
    """The words of takes that no folder keeps, one after the other, for `say` and the library. Any
    thread may call it.

    Args:
        opened: see `aligner_of`.
        text: see `TakeWords`.
        step: shows that the aligner is loaded.
    Raises:
        SetupError: it cannot be.
    """

    def __init__(self, opened: Callable[[], Aligner], text: Any, step: Step) -> None:
        with step("loading the aligner"):
            self._aligner = opened()
        self._takes = TakeWords(self._aligner.identity, text)
        self._next: AlignRequest | None = None
        self._answers = self._aligner.run(self._asked())
        self._mutex = threading.Lock()
        self._is_closed = False

    def of(
        self, take: JournalEntry, write: Callable[[Path], object], check: Sequence[str] = ()
    ) -> WordTimes:
        """The times of a take's words.

        Args:
            write: writes its audio.
            check: see `TakeWords.times`.
        Raises:
            RowError: it has none that the aligner knows, or they were not found.
            StoppedEarly: a process died.
            Cancelled: it is closed.
        """
        if not self._takes.transcriber.has_words(take):
            raise RowError("its text has no words")
        if not self._takes.transcriber.is_supported(take):
            raise RowError("the aligner does not know its language")
        with tempfile.TemporaryDirectory(prefix="tts-cli-") as folder, self._mutex:
            if self._is_closed:
                raise Cancelled("the aligner was stopped")
            path = Path(folder) / "speech.wav"
            write(path)
            self._next = self._takes.asked(0, path, take)
            try:
                answer = next(self._answers)
            except BaseException:  # who was interrupted may ask again
                self._answers = self._aligner.run(self._asked())
                raise
        return self._takes.times(take, answer, check)

    def close(self) -> None:
        """Give back processes and memory."""
        with self._mutex:
            self._is_closed = True
            self._answers = iter(())
            self._aligner.close()

    def _asked(self) -> Iterator[AlignRequest | None]:
        while True:
            one, self._next = self._next, None
            yield one


def _reasons(
    score: float, least: float, check: Sequence[str], voice: RobustStats | None
) -> list[str]:
    """Why the times of a row may be wrong.

    Args:
        least: see `Identity`.
        check: why `check` suspects it.
        voice: scores of its voice; None: too few to tell.
    """
    reasons = [f"check: {text}" if text else "check flagged it" for text in check]
    if score < least:
        reasons.append(f"score {score:.3f}, below {least:g}: the words may differ")
    elif voice is not None and voice.off(score) < -MAX_OFF:
        reasons.append(f"score {score:.2f}, usual for its voice: {voice.median:.2f}")
    return reasons


def _timed(word: WrittenWord, sounds: tuple[str, ...], said: AlignedWord) -> Iterator[TimedWord]:
    """A word and its times; where its script puts no spaces between words, those inside."""
    if said.inside and sounds == (word.text,):
        for part in said.inside:
            text, place = word.text[part.start : part.end], word.start + part.start
            inside = AlignedWord(part.start_s, part.end_s, part.score, said.known)
            yield _timed_word(text, place, inside)
    else:
        yield _timed_word(word.text, word.start, said)


def _timed_word(text: str, place: int, said: AlignedWord) -> TimedWord:
    start_s, end_s = round(said.start_s, 3), round(said.end_s, 3)
    score = None if said.score is None else round(said.score, 4)
    return TimedWord(text, start_s, end_s, score, place, place + len(text), said.known.value)


def passages_of(
    take: JournalEntry, words: Sequence[tuple[int, tuple[str, ...]]]
) -> Iterator[Passage]:
    """The passages of a row's file, and what is said in each: its parts, cut in the middle of the
    pauses between them; the whole where it has none.

    Args:
        words: first character of each, and what is spoken for it.
    """
    parts = take.parts
    cuts_s = [(part["end_s"] + behind["start_s"]) / 2 for part, behind in pairwise(parts)]
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


def align(
    out: Path,
    config: RunConfig,
    opened: Callable[[], Aligner],
    screen: Screen,
    forms: Sequence[str] = (),
    names: Callable[[str], bool] | None = None,
) -> Alignment:
    """Align a folder. Arguments as `FolderAlignment` has them.

    Args:
        opened: see `aligner_of`.
    Raises:
        UsageError, SetupError, Interrupted, StoppedEarly, DiskFull, FolderLocked
    """
    rows = FolderAlignment(out, config, forms, names)
    with screen.step("loading the aligner"):
        aligner = opened()
    with closing(aligner):
        return rows.run(aligner, screen.progress)


def aligner_of(name: str, config: RunConfig, flag: str = "--with") -> Callable[[], Aligner]:
    """What opens the aligner of a name, which is there. Raises SetupError.

    Args:
        flag: that names it.
    """
    if name.casefold() == POCKETSPHINX:
        aligner = SphinxAligner(config.asr_batch, flag)
        return lambda: aligner  # whose processes begin with the first take
    if config.has_workers:  # the device is theirs
        config = replaced(config, device="auto")
    folder, kind, device = checkpoint_of(name, config, flag, f"give {flag} {REMEDY}")
    if kind != Qwen3Aligner.kind:
        raise SetupError(
            f"{flag} {folder}: is a {kind!r} model, not a Qwen3-ForcedAligner",
            remedy=f"give {flag} {REMEDY}",
        )
    return partial(Qwen3Aligner, folder, device, config.asr_batch, flag)
