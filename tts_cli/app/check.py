"""Check the takes of a folder, and update `checks.jsonl` meanwhile.

What is usual for a voice and for a recognizer's errors is known only at the end. Whenever the file
is written, all takes are therefore judged again by what is known so far. That takes microseconds
per take, while transcripts, which take seconds, are in the file after a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tts_cli import signals
from tts_cli.app.device import require_driver
from tts_cli.app.pick import Choice, choose_takes
from tts_cli.checks import similarity
from tts_cli.checks.asr import sphinx
from tts_cli.checks.asr.checkpoint import folder_of, kind_of
from tts_cli.checks.asr.qwen3_asr import Qwen3Asr
from tts_cli.checks.asr.recognizer import POCKETSPHINX, AsrResult, Recognizer
from tts_cli.checks.asr.transcriber import Transcriber
from tts_cli.checks.asr.whisper import Whisper
from tts_cli.checks.baselines import Evidence, VoiceBaselines, voice_of
from tts_cli.checks.folder_rows import FolderAudio, FolderRow, TakeFile, read_folder
from tts_cli.checks.mos import Dnsmos
from tts_cli.checks.outliers import rank, verdict_of
from tts_cli.checks.page.build import MORE_TAKES
from tts_cli.checks.verdicts import (
    MosScores,
    TakeVerdict,
    Transcript,
    VoiceSimilarity,
    verdicts_by_take,
    write_verdicts,
)
from tts_cli.config import SAMPLE_VOICE, RunConfig
from tts_cli.core import Remark, Role, Step
from tts_cli.errors import SetupError, UsageError, writing
from tts_cli.events import Event, Events
from tts_cli.extras import require
from tts_cli.plan.checkpoint import approved_info
from tts_cli.plan.checks import RowFilter
from tts_cli.store.files import CHECKS_NAME
from tts_cli.store.lock import is_read_only
from tts_cli.store.store import Store

if TYPE_CHECKING:
    import torch

    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

Rows = Callable[[int], AbstractContextManager[Any]]  # shows the progress over a number of rows

FAMILIES = {family.kind: family for family in (Whisper, Qwen3Asr)}  # families of recognizers
REMEDY = (
    "give --asr pocketsphinx, or the folder or Hugging Face repository of a Whisper or Qwen3-ASR "
    "model"
)
WRITE_S = 60.0  # seconds between two writes of the file
WRITE_SHARE = 0.02  # maximum share of the time for writing it


@dataclass(eq=False)
class CheckedTake:
    row: FolderRow
    file: TakeFile
    path: Path  # path of its audio
    sha256: str  # hash of the audio that was measured
    is_named: bool = True  # whether --only selects it
    heard: Transcript | None = None
    similarity: VoiceSimilarity | None = None
    mos: MosScores | None = None
    check: TakeVerdict | None = None  # None: not judged yet

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.file.take, self.heard, self.similarity, self.mos)

    @property
    def is_chosen(self) -> bool:
        return self.file is self.row.file

    @property
    def is_suspect(self) -> bool:
        return self.check is not None and self.check.is_suspect

    @property
    def reasons(self) -> tuple[Remark, ...]:
        return () if self.check is None else self.check.reasons


class UnfixedRows(NamedTuple):
    """Failed and suspect rows without a good take, by what can be done about them."""

    unspoken: list[FolderRow]  # the model generated nothing: the error must be fixed first
    untried: list[FolderRow]  # more takes may pass
    tried: list[FolderRow]  # no take passed, with at least `MORE_TAKES` after the first


class FolderCheck:
    """The takes of a folder and their verdicts. Raises UsageError, SetupError.

    Args:
        only: selected rows; the lines of other rows stay.
        names: whether a row is selected; replaces `only`.
    """

    def __init__(
        self, out: Path, only: Sequence[str] = (), names: Callable[[str], bool] | None = None
    ) -> None:
        self._only = RowFilter(only, out)
        self._names = names or self._only.selects
        self.is_kept = not is_read_only(out)  # whether verdicts are stored
        self.transcribed, self.rated = Events(), Events()
        self._problems: list[tuple[str, str]] = []  # id of a row, and why it was not measured
        self._read(out)
        self._only.require_rows(str(out), (row.id for row in self.folder.rows))

    def _read(self, out: Path) -> None:
        self.folder: FolderAudio = read_folder(out)
        self.voices = VoiceBaselines(Evidence(row.take) for row in self.folder.rows)
        self.judged = list(self._takes())

    def _takes(self) -> Iterator[CheckedTake]:
        before = verdicts_by_take(self.folder.path)
        for row in self.folder.rows:
            is_named = self._names(row.id)
            for file in row.files:
                speech = file.take
                if not speech.is_ok or file.path is None or speech.sha256 is None:
                    continue
                old = before.get((row.id, speech.take))
                if old is not None and not old.fits(speech.sha256):
                    old = None
                if old is None and not is_named:
                    continue
                found = CheckedTake(
                    row, file, self.folder.path / file.path, speech.sha256, is_named
                )
                if old is not None:
                    found.heard, found.similarity, found.mos = old.asr, old.similarity, old.mos
                yield found

    @property
    def failed(self) -> list[FolderRow]:
        """Rows whose last synthesis failed, so they have no audio."""
        return [row for row in self.folder.rows if not row.take.is_ok]

    @property
    def missing(self) -> list[FolderRow]:
        """Selected rows whose file was deleted or renamed."""
        rows = (row for row in self.folder.rows if row.take.is_ok and row.file.path is None)
        return [row for row in rows if self._names(row.id)]

    @property
    def suspects(self) -> list[CheckedTake]:
        """Current takes of the selected rows that are suspect, worst first."""
        found = [one for one in self.judged if one.is_named and one.is_chosen and one.is_suspect]
        return sorted(found, key=lambda one: -one.check.severity if one.check else 0.0)

    def take_problems(self) -> list[tuple[str, str]]:
        """Return and forget the rows that could not be measured: id and reason."""
        found, self._problems = self._problems, []
        return found

    def transcribe(self, recognizer: Recognizer, progress: Rows) -> str:
        """Transcribe the takes that this recognizer has not transcribed yet. Return its name. After
        Interrupted or StoppedEarly, the transcripts until then are in the file.
        """
        transcriber = self._transcriber(recognizer)
        waiting = []
        for one in self.judged:
            if not one.is_named:
                continue
            if transcriber.has_made(one.heard):
                self.transcribed.add(Event.MEASURED_BEFORE)
            elif (reason := transcriber.skipped(one.file.take)) is not None:
                self.transcribed.add(reason)
            else:
                one.heard = None  # another recognizer's, which is not comparable
                waiting.append(one)

        def add(one: CheckedTake, answer: AsrResult) -> None:
            one.heard = transcriber.transcript(one.file.take, answer)

        return self._measure(recognizer, waiting, add, self.transcribed, progress)

    def rate(self, progress: Rows) -> str:
        """Predict opinion scores for takes that have none yet; see `transcribe`."""
        rater = Dnsmos()

        def add(one: CheckedTake, answer: AsrResult) -> None:
            one.mos = answer.mos

        waiting = []
        for one in self.judged:
            if one.is_named and one.mos and one.mos.rated_by == rater.identity.name:
                self.rated.add(Event.MEASURED_BEFORE)
            elif one.is_named:
                one.mos = None
                waiting.append(one)
        return self._measure(rater, waiting, add, self.rated, progress)

    def _transcriber(self, recognizer: Recognizer) -> Transcriber:
        return Transcriber(recognizer.identity, self.folder.last_run.get("text"))

    def _measure(
        self,
        recognizer: Recognizer,
        waiting: list[CheckedTake],
        add: Callable[[CheckedTake, AsrResult], None],
        events: Events,
        progress: Rows,
    ) -> str:
        """Run a recognizer over takes, and write its results from time to time. Return its name."""
        transcriber = self._transcriber(recognizer)
        every_s = WRITE_S
        written_s = before_s = time.perf_counter()
        asked = (
            transcriber.request(place, one.path, one.file.take) for place, one in enumerate(waiting)
        )
        with closing(recognizer), progress(sum(one.is_named for one in self.judged)) as shown:
            try:
                for answer in recognizer.run(asked):
                    signals.check()
                    one = waiting[answer.place]
                    if answer.problem is not None:
                        self._problems.append((one.row.id, answer.problem))
                        continue
                    if answer.sha256 != one.sha256:  # the measurements are of an earlier file
                        one.heard = one.similarity = one.mos = None
                        one.sha256 = answer.sha256
                        events.add(Event.CHANGED_FILE)
                    add(one, answer)
                    now_s = time.perf_counter()
                    audio_s, wall_s, before_s = one.file.take.audio_s, now_s - before_s, now_s
                    events.add(Event.MEASURED, audio_s=audio_s, wall_s=wall_s)
                    measured = events.of(Event.MEASURED)
                    shown.update(measured.count, 0, measured.sums["audio_s"])
                    if now_s - written_s > every_s:
                        self.write()
                        written_s = time.perf_counter()
                        every_s = max(WRITE_S, (written_s - now_s) / WRITE_SHARE)
            finally:
                if events.num(Event.MEASURED):
                    self.write()
        return recognizer.identity.name

    def compare_voices(self, config: RunConfig, step: Step, progress: Rows) -> None:
        """Measure how similar each take is to its voice. Raises UsageError, SetupError.

        All takes of a voice are measured every time, because they are compared with the voice's
        mean. Each segment needs 2 to 4 KB of memory.
        """
        if config.model is None:
            source = self.folder.last_run.get("model", {}).get("source")
            is_named = isinstance(source, str) and source != SAMPLE_VOICE
            config = replace(config, model=source if is_named else None)
        require_driver(config)
        info = approved_info(config)
        if not info.can_clone or "xvec" not in info.clone_modes:
            raise UsageError(
                f"--drift: {config.model or SAMPLE_VOICE} has no speaker encoder",
                remedy="give a Qwen3-TTS Base checkpoint with --model",
            )
        from tts_cli.engine.load import open_checkpoint

        with step("loading the speaker encoder"):
            model = open_checkpoint(config).model
        with progress(len(self.judged)) as shown:
            self._compare(model, shown.update)

    def _compare(self, model: SpeechModel, on_take: Callable[[int, int, float], None]) -> None:
        from tts_cli.engine.kernels import with_fallback

        rate_hz, found = model.info.sample_rate_hz, {}
        audio_s = 0.0
        for one in self.judged:
            signals.check()
            speech = one.file.take
            try:
                waves = similarity.speech_segments(one.path, speech, rate_hz)
            except (OSError, ValueError) as error:
                self._problems.append((one.row.id, str(error)))
                continue
            if waves:
                units = with_fallback(partial(similarity.directions, model, waves), model)
                found[one] = similarity.SpeechSegments(voice_of(speech), units)
                audio_s += speech.audio_s
                on_take(len(found), 0, audio_s)
        middles = similarity.middles(take for one, take in found.items() if one.is_chosen)
        for one, take in found.items():
            if take.voice in middles:
                encoder = model.info.identity
                one.similarity = similarity.similarities(take, middles[take.voice], encoder)

    def write(self) -> None:
        """Judge all takes, and write the file if that is possible. Raises DiskFull, SetupError."""
        self.judge()
        if not self.is_kept:
            return
        path = self.folder.path / CHECKS_NAME
        with writing(path, SetupError, remedy="check the folder's permissions"):
            write_verdicts(self.folder.path, [one.check for one in self.judged if one.check])

    def judge(self) -> None:
        current = {one.row.id: one.evidence for one in self.judged if one.is_chosen}
        rows = self.folder.rows
        self.voices = VoiceBaselines(current.get(row.id, Evidence(row.take)) for row in rows)
        for one in self.judged:
            one.check = verdict_of(one.evidence, one.sha256, self.voices)

    @property
    def bad_ids(self) -> set[str]:
        """Return the ids of rows that failed or whose current take is suspect."""
        return {one.row.id for one in self.suspects} | {row.id for row in self.failed}

    def best_takes(self) -> dict[str, CheckedTake]:
        """Return the best passed take of each failed or suspect row that has one, by row id."""
        others: dict[str, list[CheckedTake]] = {}
        bad = self.bad_ids
        for one in self.judged:
            is_same = one.file.take.is_same_speech(one.row.take)
            if one.row.id in bad and one.is_named and is_same and not one.is_suspect:
                others.setdefault(one.row.id, []).append(one)

        def order(one: CheckedTake) -> tuple[float, float]:
            return rank(one.evidence, self.voices)

        return {row_id: min(takes, key=order) for row_id, takes in others.items()}

    def unfixed(self) -> UnfixedRows:
        bad, left = self.bad_ids - set(self.best_takes()), UnfixedRows([], [], [])
        is_greedy = self.folder.last_run.get("settings", {}).get("greedy") is True
        for row in (row for row in self.folder.rows if row.id in bad):
            tries = sum(file.take.is_same_speech(row.take) for file in row.files)
            is_tried = is_greedy or tries > MORE_TAKES  # greedy: every take would be the same
            kind = left.tried if is_tried else left.untried
            (left.unspoken if row.take.is_unsampled else kind).append(row)
        return left

    def pick(self, folder: AbstractContextManager[Store]) -> list[dict[str, Any]]:
        """Make the best takes current, except in rows with a pinned one, and judge again."""
        wanted = [
            Choice(row_id, one.file.take.take)
            for row_id, one in self.best_takes().items()
            if one.row.take.role is not Role.HELD
        ]
        if not wanted:
            return []
        with folder as held:
            picked = choose_takes(held, wanted)
        self._read(self.folder.path)
        self.write()
        return picked


def pick_best(found: FolderCheck, config: RunConfig) -> list[dict[str, Any]]:
    return found.pick(Store(found.folder.path, config))


def transcribe_takes(found: FolderCheck, config: RunConfig, step: Step, progress: Rows) -> str:
    """Transcribe with --asr. Return its name. Raises SetupError, StoppedEarly, Interrupted."""
    require_packages()
    with step("loading the recognizer"):
        recognizer = open_recognizer(config)
    return found.transcribe(recognizer, progress)


def require_packages() -> None:
    """Raise SetupError if the package that counts wrong words is missing."""
    require("asr", "rapidfuzz", "--asr")


def open_recognizer(config: RunConfig) -> Recognizer:
    assert config.asr is not None
    if config.asr.casefold() == POCKETSPHINX:
        return sphinx.Sphinx(config.asr_batch)
    folder, kind, device = checkpoint_of(config.asr, config, "--asr", REMEDY)
    family = FAMILIES.get(kind)
    if family is None:
        raise SetupError(
            f"--asr {folder}: is a {kind!r} model, not a Whisper or Qwen3-ASR checkpoint"
        )
    return family(folder, device, config.asr_batch)


def checkpoint_of(
    source: str, config: RunConfig, flag: str, remedy: str
) -> tuple[Path, str, torch.device]:
    """Return folder, kind and device of a recognizer's or aligner's model. Raises SetupError."""
    require_driver(config)
    from tts_cli.engine.load import choose_device

    folder = folder_of(source, flag, remedy)
    return folder, kind_of(folder, flag), choose_device(config)
