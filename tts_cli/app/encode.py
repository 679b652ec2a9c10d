"""Make new files for rows that were spoken, from the folder alone: no manifest, and no model unless
codes are all that is left of a row.

A folder may come from anybody. Its report only tells which checkpoint to look at; that codes are of
that one is told by its identity, run by run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import soundfile

from tts_cli.app.subtitles import audio_digest, warn_of_kept
from tts_cli.atomic import read_own
from tts_cli.audio.subtitles import later
from tts_cli.audio.tags import synthetic_of
from tts_cli.audio.treatment import Treatment
from tts_cli.checks.word_times import FORMS, read_words
from tts_cli.config import SUBTITLES, RunConfig
from tts_cli.core import Status, Step
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.events import Count
from tts_cli.named import some_of
from tts_cli.plan.checkpoint import approved_info, read_info
from tts_cli.sources.ids import id_problem
from tts_cli.store.derived import DerivedFiles
from tts_cli.store.files import WORDS_SUFFIX, PlainFiles, SharedNames
from tts_cli.store.mend import audio_files
from tts_cli.store.reencode import Reencoded, ReencodeJob
from tts_cli.store.run_file import RunLog, read_report
from tts_cli.store.sources import find_source, why_failed
from tts_cli.store.store import Store
from tts_cli.store.take import Take
from tts_cli.voices.voice_store import VoiceMerge

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

MAX_RUNS = 100_000
MAX_BESIDE_BYTES = 64 << 20  # of a row's subtitles, or of its words

TITLES = tuple(f".{form}" for form in SUBTITLES)

Timed = tuple[Take, list[str]]  # a row's file, and the suffixes of what has times of it


def encode(folder: Path, out: Path, config: RunConfig, step: Step) -> tuple[Reencoded, Findings]:
    """Find what can be made of a folder, and make it in another one, or the same.

    Returns:
        What was made; what was done already, what is left, with the reasons, and what else is in
        the target.
    Raises:
        UsageError: nothing was spoken there, or files of somebody else's are in the way.
        SetupError: a file cannot be read, or the checkpoint that codes need is not to be had.
        Interrupted, DiskFull, StoppedEarly: what was made is kept; run again, it goes on.
    """
    Treatment.of(config).require_packages()
    Store.look(folder)
    with Store.at(out, config) as held:
        held.begin()
        spoken = KeptSpeech(folder)
        config = config if config.model is not None else replace(config, model=spoken.model)
        rate_hz = spoken.native_rate_hz()
        held.speech_is(rate_hz or read_info(config).sample_rate_hz, spoken.comment)
        require_own_files(spoken, held)
        if out != folder:  # `synth` asks for the voices that rows there were spoken with
            voices = VoiceMerge([out, folder], lambda index: True, Count())
            voices.require_agreement()
            voices.run()
        with step("reading the folder"):
            kinds = {order.source.kind for order in spoken.find(held, None, Findings())}
        decode, identity = None, ""
        if "codes" in kinds:
            from tts_cli.engine.vocoder import decoder_of

            model = load(config, step)
            decode, identity = decoder_of(model), model.info.identity
        found = Findings()
        with step("converting files"):
            noted: list[Timed] = []
            orders = _noting(spoken.find(held, identity, found), folder, noted)
            made = held.reencode(orders, decode, folder)
            derived = DerivedFiles(folder)
            all_timed = ((one, timed_beside(derived, one)) for one in spoken.records())
            carry(noted if out == folder else all_timed, folder, held)
        if out != folder:
            remove_gone(spoken, held, found)
            found.older = older_files(held)
    found.left += made.failed
    return made, found


def _noting(
    orders: Iterator[ReencodeJob], folder: Path, noted: list[Timed]
) -> Iterator[ReencodeJob]:
    """Orders, of which those are noted that have times beside them, while these are its own."""
    derived = DerivedFiles(folder)
    for order in orders:
        if suffixes := timed_beside(derived, order.record):
            noted.append((order.record, suffixes))
        yield order


def timed_beside(derived: DerivedFiles, take: Take) -> list[str]:
    """Suffixes of the files next to a row's audio that contain times of it."""
    folder = derived.out
    words = read_words(folder, take.id)
    is_of_words = words is not None and words.sha256 == take.sha256
    found = [one for one in FORMS if is_of_words and (folder / f"{take.id}{one}").is_file()]
    with suppress(OSError):
        sha256 = audio_digest(take, folder / str(take.path))
        found += [one for one in TITLES if derived.has_audio(f"{take.id}{one}", sha256)]
    return found


def carry(found: Iterable[Timed], folder: Path, held: Store) -> None:
    """Write subtitles and the times of words beside the new files of rows, later by what was put on
    or cut off. What another folder has of its own stays.
    """
    shared = SharedNames(one.id for one in held.journal.takes())
    source, kept = DerivedFiles(folder), Count()
    for old, suffixes in found:
        new = held.journal.ok_take(old.id) if suffixes else None
        if new is None or (new.take, new.request_hash) != (old.take, old.request_hash):
            continue
        words = read_words(folder, old.id)
        there = [] if held.out == folder else timed_beside(held.derived, new)
        by_s = new.shift_s - old.shift_s
        for suffix in (one for one in suffixes if one not in there):
            if shared.owner(old.id, suffix) is not None:
                continue
            name = f"{old.id}{suffix}"
            try:
                data = read_own(folder / name, MAX_BESIDE_BYTES) or b""
                is_edited = not source.is_ours(name, data)
                is_kept = is_edited and (suffix in (*TITLES, WORDS_SUFFIX) or by_s == 0)
                is_written: bool | None
                if suffix in TITLES:
                    text = later(data.decode(), by_s)
                elif words is None:  # gone meanwhile
                    continue
                elif is_kept and suffix != WORDS_SUFFIX:
                    text = data.decode()
                else:
                    text = FORMS[suffix](words.moved(by_s, new.audio_s, str(new.sha256)))
                place = (old.id, suffix, text.encode(), str(new.sha256))
                if is_kept:
                    is_written = held.copy_beside(*place, is_replaced=held.out == folder)
                else:
                    is_written = held.put_beside(*place)
                if is_written is False:
                    kept.add(name)
            except (RowError, SetupError, OSError, UnicodeError) as error:
                log.warning("row %s: its %s was not copied: %s", old.id, suffix, error)
    warn_of_kept(kept)


def remove_gone(spoken: KeptSpeech, held: Store, findings: Findings) -> None:
    """Move the files of rows that were removed from the source folder to the takes of the
    target. Rows that the source folder never had are only counted.
    """
    gone = []
    for take in held.journal.takes():
        if id_problem(take.id) or spoken.journal.file(take.id) is not None:
            continue
        if spoken.journal.row(take.id).is_removed and spoken.run_of(take) is not None:
            gone.append(take.id)
        else:
            findings.strays.add(take.id)
    stayed = held.remove(gone)
    findings.left += stayed
    for row_id in sorted(set(gone) - {row_id for row_id, _ in stayed}):
        findings.gone.add(row_id)
    held.renew_totals()


def older_files(held: Store) -> Count:
    """Return the audio files of rows in a format that their lines do not name."""
    found = Count(is_sorted=True)
    for row_id, path in audio_files(held.out):
        name = path.relative_to(held.out).as_posix()
        if path.suffix == f".{held.writer.format}" or held.journal.row(row_id).current is None:
            continue
        file = held.journal.file(row_id)
        take = None if file is None else held.journal.take(row_id, file.take)
        if take is None or take.path != name:
            found.add(name)
    return found


def require_own_files(spoken: KeptSpeech, held: Store) -> None:
    """Raise UsageError if files would be replaced that no run is known to have written."""
    names = (record.id for record in spoken.records() if held.journal.row(record.id).status is None)
    foreign = [path.name for path in map(held.writer.path_of, names) if path.exists()]
    if foreign:
        raise UsageError(
            f"{some_of(foreign)}: in {held.out}, but not in timings.jsonl, so not from an "
            "earlier run",
            remedy="move them, or choose another --out",
        )


def load(config: RunConfig, step: Step) -> SpeechModel:
    """The checkpoint that spoke. Raises SetupError, UsageError."""
    from tts_cli.engine.load import open_checkpoint

    approved_info(config)
    try:
        with step("loading the model to decode codes"):
            return open_checkpoint(config).model
    except SetupError as error:
        raise SetupError(
            error.message, "give --model the checkpoint that made the codes"
        ) from error


class Run(NamedTuple):
    """What a row must know of the run that spoke it."""

    is_native: bool  # its files have the checkpoint's rate
    identity: str | None  # of the checkpoint, as the next two
    family: str | None = None
    size: str | None = None


@dataclass
class Findings:
    """The rows whose files are not to be made, and what else the target folder has."""

    done: int = 0
    gone: Count = field(default_factory=Count)  # ids of rows removed from the target
    strays: Count = field(default_factory=Count)  # ids of rows that the source never had
    older: Count = field(default_factory=Count)  # names of files in another format
    left: list[tuple[str, str]] = field(default_factory=list)  # ids and reasons


class KeptSpeech:
    """What a folder keeps that files can be made of, and which runs spoke it.

    Raises:
        UsageError: there is no journal.
        SetupError: a file of ours cannot be read.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        try:
            folder = Store.look(out)
            self.journal, self.report = folder.journal, read_report(out)
            self._runs = dict(_runs(folder.runs))
        except OSError as error:
            raise SetupError(f"{out}: {error.strerror or error}") from error
        self._last = _run_of(self.report)

    @property
    def model(self) -> str | None:
        """What spoke the rows of the last run; None: the sample voice."""
        settings = _object(self.report.get("settings"))
        value = settings.get("model")
        if self.report.get("clone_model") is None:  # else of a version in which both spoke rows
            value = settings.get("clone_model") or value
        return value if isinstance(value, str) else None

    @property
    def comment(self) -> str:
        """What the files say of themselves, by what the report says of the model."""
        return synthetic_of(_object(self.report.get("model")))

    def records(self) -> Iterator[Take]:
        """The last line of every row's file. Lines without an id that a file can have are passed
        over.
        """
        for record in self.journal.takes():
            if id_problem(record.id) is None:
                yield record

    def run_of(self, record: Take) -> Run | None:
        """The run that spoke a row; None: nobody knows."""
        return self._last if record.run_id is None else self._runs.get(record.run_id)

    def native_rate_hz(self) -> int | None:
        """The rate of the checkpoint, as a file of a run shows it that asked for no other."""
        for record in self.records():
            run = self.run_of(record)
            if not record.is_ok or run is None or not run.is_native:
                continue
            source = record.source or {}
            name = source.get("path") if source.get("kind") == "audio" else record.path
            rate_hz = None
            if PlainFiles(self.out).size(self.out / str(name)) is None:
                continue
            try:
                rate_hz = int(soundfile.info(self.out / str(name)).samplerate)
                find_source(self.out, record, rate_hz, has_model=False)
            except (RowError, soundfile.LibsndfileError, OSError, ValueError):
                continue
            return rate_hz
        return None

    def find(
        self, target: Store, identity: str | None, findings: Findings
    ) -> Iterator[ReencodeJob]:
        """The files to make; the others are counted.

        Args:
            target: where they go.
            identity: of the checkpoint that codes can be decoded with; None: of whichever spoke.
        """
        for record in self.records():
            if self.journal.row(record.id).status is not Status.OK:
                findings.left.append((record.id, why_failed(record)))
                continue
            if self._is_done(record, target):
                findings.done += 1
                continue
            try:
                yield self._order(record, target.writer.native_rate_hz, identity)
            except RowError as error:
                findings.left.append((record.id, str(error)))

    def _order(self, record: Take, rate_hz: int, identity: str | None) -> ReencodeJob:
        run = self.run_of(record)
        is_same = run is not None and (identity is None or run.identity == identity)
        source = find_source(self.out, record, rate_hz, is_same)
        return ReencodeJob(record, source)

    @staticmethod
    def _is_done(record: Take, target: Store) -> bool:
        journal, writer = target.journal, target.writer
        file, take = journal.file(record.id), record.take
        if file is None or file.take != take or file.has_failed:
            return False
        found = file.current
        if found is None or not found.is_of(record.request_hash, writer.delivery_hash):
            return False
        return writer.is_whole(record.id, found.size or None, found.sha256)


def _runs(runs: RunLog) -> Iterator[tuple[str, Run]]:
    for values in islice(runs.lines(), MAX_RUNS):
        run, run_id = _run_of(values), values.get("run_id")
        if run is not None and isinstance(run_id, str):
            yield run_id, run


def _run_of(report: dict[str, Any]) -> Run | None:
    settings, model = _object(report.get("settings")), _object(report.get("model"))
    if not settings:
        return None
    facts = [model.get(name) for name in ("identity", "family", "size")]
    is_native = settings.get("sample_rate") is None
    return Run(is_native, *(fact if isinstance(fact, str) else None for fact in facts))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
