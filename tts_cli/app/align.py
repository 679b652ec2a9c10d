"""Find the times of the words of a folder's rows, and write them next to their audio.

The files of a row are written when it is aligned, so a killed command can be run again. Low scores
are known only at the end; files whose `unsure` then changes are written again.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace as replaced
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.app.check import Rows, checkpoint_of
from tts_cli.app.look import Screen
from tts_cli.app.subtitles import warn_of_edited
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
from tts_cli.errors import Cancelled, RowError, SetupError
from tts_cli.events import Event, Events
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
SKIPPED = {
    Event.WITHOUT_WORDS: "its text has no words",
    Event.OTHER_LANGUAGE: "the aligner does not know its language",
}
GUESSED = (Known.LETTERS.value, Known.NEIGHBOURS.value)
MAX_OFF = 5.0  # robust deviations below its voice's median that make a row unsure


class TakeWords:
    """Builds the requests for an aligner, and converts its results to word times.

    `text` is how texts were read (see `Transcriber`); `lexicon` has pronunciations for the aligner
    only.
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
        """Return the times of the words of a take, which `check` flagged for these reasons, if any.
        Raises RowError if they were not found.
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
    """Return the text of a take with its edits, which entries before 0.4 do not have."""
    text, said = take.text or take.said or "", take.said or ""
    edits = [Edit(*edit) for edit in take.edits]
    places = [place for edit in edits for place in (edit.start, edit.end)]
    if not edits or places != sorted(places) or places[-1] > len(text):
        return one_edit(text, said)
    return NormalizedText(text, tuple(edits))


class FolderAlignment:
    """Aligns the rows of a folder. Raises UsageError, SetupError.

    Attributes:
        problems: rows that could not be aligned: id and reason.
        unsure: rows whose times may be wrong: id and reasons.
    Args:
        config: its `only`, `asr_batch` and `lexicon` are used.
        forms: suffixes of further files to write.
        names: whether a row is selected; replaces `only`.
    """

    def __init__(
        self,
        out: Path,
        config: RunConfig,
        forms: Sequence[str] = (),
        names: Callable[[str], bool] | None = None,
    ) -> None:
        self.events = Events()
        self.problems: list[tuple[str, str]] = []
        self.unsure: list[tuple[str, list[str]]] = []
        self._folder: FolderAudio = read_folder(out)
        self._config, self._forms = config, forms
        only = RowFilter(() if names else config.only, out)
        names = names or only.selects
        self._rows = [row for row in self._folder.rows if names(row.id)]
        only.require_rows(str(out), (row.id for row in self._folder.rows))
        self._lexicon = None if config.lexicon is None else read_lexicon(config.lexicon)
        self._checks = verdicts_by_take(out)
        self._found: dict[str, tuple[FolderRow, float, list[str]]] = {}  # row, score, reasons
        self._shared = SharedNames(row.id for row in self._folder.rows)

    def run(self, aligner: Aligner, progress: Rows) -> None:
        """Align the rows that are not aligned yet. An error leaves aligned rows complete."""
        takes = TakeWords(aligner.identity, self._folder.last_run.get("text"), self._lexicon)
        with Store(self._folder.path, self._config) as store:
            waiting = list(self._waiting(store, takes.transcriber))
            requests = (
                takes.request(place, store.out / str(row.file.path), row.take)
                for place, row in enumerate(waiting)
            )
            with progress(len(waiting)) as shown:
                for answer in aligner.run(requests):
                    signals.check()
                    self._add(store, waiting[answer.place], takes, answer)
                    ended = self.events.num(Event.MEASURED) + len(self.problems)
                    shown.update(ended, 0, self.events.total(Event.MEASURED, "audio_s"))
            self._compare(store, aligner.identity)
        warn_of_edited(self.events.of(Event.EDITED_FILE))

    def _waiting(self, store: Store, transcriber: Transcriber) -> Iterator[FolderRow]:
        for row in self._rows:
            take = row.take
            if not take.is_ok or row.file.path is None or take.sha256 is None:
                if take.is_ok and row.file.path is None:
                    self.problems.append((row.id, "its audio file is missing"))
                self.events.add(Event.WITHOUT_AUDIO, row.id)
            elif (reason := transcriber.skipped(take)) is not None:
                self.events.add(reason, row.id)
            else:
                self._report_shared(row.id)
                stored = self._stored(store, row, transcriber.identity.name)
                if stored is None:
                    yield row
                else:
                    self.events.add(Event.MEASURED_BEFORE, row.id)
                    self._found[row.id] = row, stored.score, stored.unsure

    def _stored(self, store: Store, row: FolderRow, aligner: str) -> WordTimes | None:
        """Return valid word times of an earlier run, and write missing further files."""
        stored = read_words(store.out, row.id)
        if stored is None or stored.sha256 != row.take.sha256 or stored.text != row.take.text:
            return None
        if stored.aligner != aligner or stored.id != row.id:
            return None
        for form in self._forms_of(row.id):
            if not store.derived.is_for(f"{row.id}{form}", stored.sha256):
                self._put(store, stored, form)
        return stored

    def _add(self, store: Store, row: FolderRow, takes: TakeWords, answer: AlignResult) -> None:
        try:
            times = takes.times(row.take, answer, self._checked(row))
            self._write(store, times)
        except RowError as error:
            self.problems.append((row.id, str(error)))
            return
        self._found[row.id] = row, times.score, times.unsure
        words = len(times.words)
        self.events.add(Event.MEASURED, row.id, audio_s=answer.audio_s, words=words)
        for word in times.words:
            if word.known in GUESSED:
                self.events.add(Event.GUESSED, word.word)

    def _write(self, store: Store, times: WordTimes) -> None:
        for form in (*self._forms_of(times.id), WORDS_SUFFIX):
            self._put(store, times, form)

    def _put(self, store: Store, times: WordTimes, form: str) -> None:
        data = FORMS[form](times).encode()
        if store.write_derived(times.id, form, data, times.sha256) is False:
            self.events.add(Event.EDITED_FILE, f"{times.id}{form}")

    def _forms_of(self, row_id: str) -> list[str]:
        """Return the suffixes of further files, without names that belong to other rows."""
        return [form for form in self._forms if self._shared.owner(row_id, form) is None]

    def _report_shared(self, row_id: str) -> None:
        for form in self._forms:
            if (owner := self._shared.owner(row_id, form)) is not None:
                problem = f"{row_id}{form} is the name of the subtitles of row '{owner}'"
                self.problems.append((row_id, f"{problem}; change one of the two ids"))

    def _compare(self, store: Store, aligner: Identity) -> None:
        """Compare each row's score with its voice's, and write files again if `unsure` changes."""
        scores: dict[Hashable, list[float]] = defaultdict(list)
        for row, score, _ in self._found.values():
            scores[row.take.voice_name].append(score)
        voices = usual_values(scores)
        for row in self._rows:
            if row.id not in self._found:
                continue
            _, score, before = self._found[row.id]
            voice = voices.get(row.take.voice_name)
            reasons = _reasons(score, aligner.least_score, self._checked(row), voice)
            if reasons:
                self.unsure.append((row.id, reasons))
            times = None if reasons == before else read_words(store.out, row.id)
            if times is not None:
                self._write(store, replace(times, unsure=reasons))

    def _checked(self, row: FolderRow) -> list[str]:
        check: TakeVerdict | None = self._checks.get((row.id, row.take.take))
        if check is None or not check.is_suspect or not check.fits(row.take.sha256):
            return []
        return [reason.text for reason in check.reasons] or [""]


class TakeAligner:
    """Aligns takes that are not in a folder, one at a time, for the library. Raises SetupError."""

    def __init__(self, opened: Callable[[], Aligner], text: Any) -> None:
        self._aligner = opened()
        self._takes = TakeWords(self._aligner.identity, text)
        self._mutex = threading.Lock()  # guards the aligner against `close`
        self._is_closed = False

    def of(
        self, take: JournalEntry, write: Callable[[Path], object], check: Sequence[str] = ()
    ) -> WordTimes:
        """Return the times of a take's words; `write` writes its audio to a path.

        Raises RowError if the words were not found or the aligner supports none, StoppedEarly if a
        process died, and Cancelled if this object is closed.
        """
        if (reason := self._takes.transcriber.skipped(take)) is not None:
            raise RowError(SKIPPED[reason])
        with tempfile.TemporaryDirectory(prefix="tts-cli-") as folder, self._mutex:
            if self._is_closed:
                raise Cancelled("the aligner was stopped")
            path = Path(folder) / "speech.wav"
            write(path)
            (answer,) = self._aligner.run([self._takes.request(0, path, take)])
        return self._takes.times(take, answer, check)

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            self._aligner.close()


def _reasons(
    score: float, least: float, check: Sequence[str], voice: RobustStats | None
) -> list[str]:
    """Return why the times of a row may be wrong. Without `voice` it is not compared."""
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
    pauses between them, or the whole file. `words`: first character, and input for the aligner.
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
) -> FolderAlignment:
    """Align a folder, and return the result. Raises as `FolderAlignment` and its `run`."""
    rows = FolderAlignment(out, config, forms, names)
    with screen.step("loading the aligner"):
        aligner = opened()
    with closing(aligner):
        rows.run(aligner, screen.progress)
    return rows


def aligner_of(name: str, config: RunConfig, flag: str = "--with") -> Callable[[], Aligner]:
    """Check that an aligner is available. Return a function that opens it. Raises SetupError."""
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
