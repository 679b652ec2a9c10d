"""Find the times of the words of a folder's rows, and write them next to their audio.

The files of a row are written as soon as it is aligned, so a killed command can be run again. Which
scores are low for a voice is known only at the end. Files that this changes are then written again.
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
from tts_cli.plan.checks import RowFilter
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
MAX_OFF = 5.0  # robust deviations below its voice's median that make a row unsure


@dataclass(eq=False)
class _Row:
    row: FolderRow
    path: Path
    score: float | None = None  # None: not aligned
    unsure: list[str] = field(default_factory=list)  # reasons in its file

    @property
    def take(self) -> JournalEntry:
        return self.row.take


@dataclass
class Alignment:
    """The result of aligning a folder."""

    aligned: int = 0  # rows aligned in this run
    kept: int = 0  # rows aligned earlier
    audio_s: float = 0.0
    other_language: int = 0
    without_words: int = 0
    without_audio: int = 0
    words: int = 0  # words of the rows aligned in this run
    guessed: list[str] = field(default_factory=list)  # some words that no dictionary has
    problems: list[tuple[str, str]] = field(default_factory=list)  # id, reason
    edited: Count = field(default_factory=Count)  # files edited by a user, not written
    unsure: list[tuple[str, list[str]]] = field(default_factory=list)  # id, reasons


class TakeWords:
    """Builds the requests for an aligner, and converts its results to word times.

    Args:
        aligner: its identity.
        text: how texts were read, see `Transcriber`.
        lexicon: pronunciations for the aligner only.
    """

    def __init__(self, aligner: Identity, text: Any, lexicon: Lexicon | None = None) -> None:
        self.transcriber = Transcriber(aligner, text)
        self._lexicon = lexicon or Lexicon()

    def request(self, place: int, path: Path, take: JournalEntry) -> AlignRequest:
        words = [(word.start, sounds) for word, sounds in self._words(take)]
        language = self.transcriber.language_of(take)
        return AlignRequest(place, path, language, tuple(passages_of(take, words)))

    def times(
        self, take: JournalEntry, answer: AlignResult, check: Sequence[str] = ()
    ) -> WordTimes:
        """Return the times of a take's words.

        Args:
            check: why `check` flagged the take.
        Raises:
            RowError: the words were not found.
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
        """Yield the words of a take's text, each with what the aligner gets for it."""
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
    """Aligns the rows of a folder.

    Args:
        config: its `only`, `asr_batch` and `lexicon` are used.
        forms: suffixes of further files to write.
        names: whether a row is selected; replaces `only`.
    Raises:
        UsageError, SetupError: the folder cannot be read, or has none of the selected rows.
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
        only = RowFilter(() if names else config.only, out)
        names = names or only.selects
        self._named = [row for row in self.found.rows if names(row.id)]
        only.require_rows(str(out), (row.id for row in self.found.rows))
        self._lexicon = None if config.lexicon is None else read_lexicon(config.lexicon)
        self._checks = verdicts_by_take(out)
        self._rows: list[_Row] = []
        self._shared = SharedNames(row.id for row in self.found.rows)

    def run(self, aligner: Aligner, progress: Rows) -> Alignment:
        """Align the rows that are not aligned yet.

        Raises:
            Interrupted, StoppedEarly, DiskFull, FolderLocked: the files of aligned rows are
                complete.
        """
        text = self.found.last_run.get("text")
        takes = TakeWords(aligner.identity, text, self._lexicon)
        with Store(self.found.path, self._config) as folder:
            waiting = list(self._waiting(folder, takes.transcriber))
            requests = (
                takes.request(place, one.path, one.take) for place, one in enumerate(waiting)
            )
            with progress(len(waiting)) as shown:
                for answer in aligner.run(requests):
                    signals.check()
                    self._add(folder, waiting[answer.place], takes, answer)
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
            stored = self._stored(folder, row, transcriber.identity.name)
            one = _Row(row, self.found.path / row.file.path)
            self._rows.append(one)
            if stored is not None:
                self.done.kept += 1
                one.score, one.unsure = stored.score, stored.unsure
                continue
            yield one

    def _stored(self, folder: Store, row: FolderRow, aligner: str) -> WordTimes | None:
        """Return the word times of an earlier run if they are still valid, and write missing
        further files.
        """
        stored = read_words(folder.out, row.id)
        if stored is None or stored.sha256 != row.take.sha256 or stored.text != row.take.text:
            return None
        if stored.aligner != aligner or stored.id != row.id:
            return None
        for form in self._forms_of(row.id):
            if not folder.derived.is_for(f"{row.id}{form}", stored.sha256):
                self._put(folder, stored, form)
        return stored

    def _add(self, folder: Store, one: _Row, takes: TakeWords, answer: AlignResult) -> None:
        """Write the result of a row, and count it."""
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
        """Return the suffixes of further files, without names that belong to other rows."""
        return [form for form in self._forms if self._shared.owner(row_id, form) is None]

    def _report_shared(self, row_id: str) -> None:
        for form in self._forms:
            if (owner := self._shared.owner(row_id, form)) is not None:
                problem = f"{row_id}{form} is the name of the subtitles of row '{owner}'"
                self.done.problems.append((row_id, f"{problem}; change one of the two ids"))

    def _compare(self, folder: Store, aligner: Identity) -> None:
        """Compare each row's score with its voice's, and write files again if their `unsure`
        changes.
        """
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
        """Return why `check` flagged a row's file."""
        check: TakeVerdict | None = self._checks.get((one.row.id, one.take.take))
        if check is None or not check.is_suspect or not check.fits(one.take.sha256):
            return []
        return [reason.text for reason in check.reasons] or [""]


class TakeAligner:
    """Aligns takes that are not in a folder, one at a time, for `say` and the library. Thread-safe.

    Args:
        opened: see `aligner_of`.
        text: see `TakeWords`.
        step: shows that the aligner is loading.
    Raises:
        SetupError: the aligner cannot be loaded.
    """

    def __init__(self, opened: Callable[[], Aligner], text: Any, step: Step) -> None:
        with step("loading the aligner"):
            self._aligner = opened()
        self._takes = TakeWords(self._aligner.identity, text)
        self._next: AlignRequest | None = None
        self._answers = self._aligner.run(self._requests())
        self._mutex = threading.Lock()  # guards the three above, and `_is_closed`
        self._is_closed = False

    def of(
        self, take: JournalEntry, write: Callable[[Path], object], check: Sequence[str] = ()
    ) -> WordTimes:
        """Return the times of a take's words.

        Args:
            write: writes its audio to a path.
            check: see `TakeWords.times`.
        Raises:
            RowError: the words were not found, or there are none that the aligner supports.
            StoppedEarly: a process died.
            Cancelled: this object is closed.
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
            self._next = self._takes.request(0, path, take)
            try:
                answer = next(self._answers)
            except BaseException:  # an interrupted caller may call again
                self._answers = self._aligner.run(self._requests())
                raise
        return self._takes.times(take, answer, check)

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            self._answers = iter(())
            self._aligner.close()

    def _requests(self) -> Iterator[AlignRequest | None]:
        while True:
            one, self._next = self._next, None
            yield one


def _reasons(
    score: float, least: float, check: Sequence[str], voice: RobustStats | None
) -> list[str]:
    """Return why the times of a row may be wrong.

    Args:
        least: see `Identity`.
        check: why `check` flagged it.
        voice: scores of its voice; None: too few to compare with.
    """
    reasons = [f"check: {text}" if text else "check flagged it" for text in check]
    if score < least:
        reasons.append(f"score {score:.3f}, below {least:g}: the words may differ")
    elif voice is not None and voice.off(score) < -MAX_OFF:
        reasons.append(f"score {score:.2f}, usual for its voice: {voice.median:.2f}")
    return reasons


def _timed(word: WrittenWord, sounds: tuple[str, ...], said: AlignedWord) -> Iterator[TimedWord]:
    """Yield a word with its times, or its parts in scripts without spaces between words."""
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
    """Yield the passages of a row's file with their words: one per piece, cut in the middle of the
    pauses between them, or the whole file.

    Args:
        words: first character of each word, and what the aligner gets for it.
    """
    parts = take.parts
    cuts_s = [(part["end_s"] + after["start_s"]) / 2 for part, after in pairwise(parts)]
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
    """Align a folder; see `FolderAlignment` for the arguments.

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
    """Check that an aligner is available. Return a function that opens it.

    Args:
        flag: the flag that names it, for messages.
    Raises:
        SetupError: it is not available, or not an aligner.
    """
    if name.casefold() == POCKETSPHINX:
        aligner = SphinxAligner(config.asr_batch, flag)
        return lambda: aligner  # its processes start with the first take
    if config.has_workers:  # the workers have the device of --device
        config = replaced(config, device="auto")
    folder, kind, device = checkpoint_of(name, config, flag, f"give {flag} {REMEDY}")
    if kind != Qwen3Aligner.kind:
        raise SetupError(
            f"{flag} {folder}: is a {kind!r} model, not a Qwen3-ForcedAligner",
            remedy=f"give {flag} {REMEDY}",
        )
    return partial(Qwen3Aligner, folder, device, config.asr_batch, flag)
