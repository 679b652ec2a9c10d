"""Convert the files of a folder: no manifest, and no model unless a row has only codes.

The folder is untrusted. Its report only names the checkpoint to load; whether codes are from that
checkpoint is decided by the identity that each run recorded.
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
from msgspec.structs import replace as replace_entry

from tts_cli.app.subtitles import audio_digest, warn_of_edited
from tts_cli.atomic import read_own
from tts_cli.audio.subtitles import shifted
from tts_cli.audio.tags import comment_of_model
from tts_cli.audio.treatment import PostProcessing
from tts_cli.checks.reviews import Reviews
from tts_cli.checks.word_times import FORMS, read_words
from tts_cli.config import SUBTITLES, RunConfig
from tts_cli.core import FilePace, Status, Step
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.events import Count, Event, Events
from tts_cli.export.selection import manifest_order
from tts_cli.named import first_few
from tts_cli.plan.checkpoint import approved_info, read_info
from tts_cli.sources.ids import id_problem, voice_label
from tts_cli.sources.naming import delivered_names
from tts_cli.sources.subtitles import cue_length_s
from tts_cli.store.derived import DerivedFiles
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import WORDS_SUFFIX, PlainFiles, SharedNames
from tts_cli.store.orphans import audio_files
from tts_cli.store.reencode import Reencoded, ReencodeJob
from tts_cli.store.run_file import RunLog, read_report
from tts_cli.store.sources import find_source, why_failed
from tts_cli.store.store import Store
from tts_cli.voices.voice_store import VoiceMerge

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

MAX_RUNS = 100_000
MAX_TIMED_BYTES = 64 << 20  # size of a row's subtitles or word times

TITLES = tuple(f".{form}" for form in SUBTITLES)

Timed = tuple[JournalEntry, list[str]]  # a take, and the suffixes of its files with times


def encode(
    folder: Path,
    out: Path,
    config: RunConfig,
    step: Step,
    name_by: str | None = None,
    *,
    is_approved: bool = False,
) -> tuple[Reencoded, EncodeResult]:
    """Convert the files of a folder into another folder or the same one.

    Args:
        name_by: pattern of the rows' ids, and so of their files, in another folder.
        is_approved: only rows that were approved in a review; others are removed from `out`.
    Raises:
        UsageError: no row was synthesized there, or a user's files have names of the new ones.
        SetupError: a file cannot be read, or the checkpoint for codes cannot be loaded.
        Interrupted, DiskFull, StoppedEarly: converted files stay; a rerun converts the rest.
    """
    PostProcessing.of(config).require_packages()
    Store.read_only(folder)
    reviews = Reviews(folder) if is_approved else None
    named = None if name_by is None else SourceFolder(folder, config, name_by, reviews)
    with Store(out, config) as target:
        target.open()
        source = named or SourceFolder(folder, config, reviews=reviews)
        config = config if config.model is not None else replace(config, model=source.model)
        rate_hz = source.native_rate_hz()
        target.set_speech_format(rate_hz or read_info(config).sample_rate_hz, source.comment)
        require_own_files(source, target)
        if out != folder:  # `synth` needs the voices of the rows there
            voices = VoiceMerge([out, folder], lambda index: True, Count())
            voices.require_no_conflicts()
            voices.run()
        with step("reading the folder"):
            kinds = {job.source.kind for job in source.find(target, None, EncodeResult())}
        decode, identity = None, ""
        if "codes" in kinds:
            from tts_cli.engine.vocoder import decoder_of

            model = load_model(config, step)
            decode, identity = decoder_of(model), model.info.identity
        found = EncodeResult()
        with step("converting files"):
            noted: list[Timed] = []
            jobs = _collect_timed(source.find(target, identity, found), folder, noted)
            made = target.reencode(jobs, decode, folder)
            derived = DerivedFiles(folder)
            all_timed = ((one, timed_suffixes(derived, one)) for one in source.records())
            copy_timed_files(noted if out == folder else all_timed, source, target)
        if out != folder:
            remove_gone(source, target, found)
            count_older_files(target, found.events)
    found.left += made.failed
    return made, found


def _collect_timed(
    jobs: Iterator[ReencodeJob], folder: Path, noted: list[Timed]
) -> Iterator[ReencodeJob]:
    """Yield the jobs, and note the rows' files with times before these are out of date."""
    derived = DerivedFiles(folder)
    for job in jobs:
        if suffixes := timed_suffixes(derived, job.record):
            noted.append((job.record, suffixes))
        yield job


def timed_suffixes(derived: DerivedFiles, take: JournalEntry) -> list[str]:
    """Return the suffixes of files next to a row's audio that contain times of it."""
    folder = derived.out
    words = read_words(folder, take.id)
    is_of_words = words is not None and words.sha256 == take.sha256
    found = [one for one in FORMS if is_of_words and (folder / f"{take.id}{one}").is_file()]
    with suppress(OSError):
        sha256 = audio_digest(take, folder / str(take.path))
        found += [one for one in TITLES if derived.has_audio(f"{take.id}{one}", sha256)]
    return found


def copy_timed_files(found: Iterable[Timed], source_folder: SourceFolder, target: Store) -> None:
    """Write subtitles and word times for the new files of rows, shifted by what was added or cut
    off. Such files that the target already has stay.
    """
    shared = SharedNames(one.id for one in target.journal.takes())
    folder = source_folder.out
    source, kept = DerivedFiles(folder), Count()
    for old, suffixes in found:
        new_id = source_folder.target_id(old.id)
        new = target.journal.ok_take(new_id) if suffixes else None
        if new is None or (new.take, new.request_hash) != (old.take, old.request_hash):
            continue
        words = read_words(folder, old.id)
        there = [] if target.out == folder else timed_suffixes(target.derived, new)
        scale = old.speed / new.speed
        by_s = new.shift_s - old.shift_s * scale
        for suffix in (one for one in suffixes if one not in there):
            if shared.owner(new_id, suffix) is not None:
                continue
            name = f"{old.id}{suffix}"
            try:
                data = read_own(folder / name, MAX_TIMED_BYTES) or b""
                is_edited = not source.is_ours(name, data)
                is_same = (by_s, scale) == (0, 1)
                is_kept = is_edited and (suffix in (*TITLES, WORDS_SUFFIX) or is_same)
                is_written: bool | None
                if suffix in TITLES:
                    text = shifted(data.decode(), by_s, scale)
                elif words is None:  # removed meanwhile
                    continue
                elif is_kept and suffix != WORDS_SUFFIX:
                    text = data.decode()
                else:
                    moved = words.moved(by_s, new.audio_s, str(new.sha256), scale)
                    text = FORMS[suffix](replace_entry(moved, id=new_id))
                place = (new_id, suffix, text.encode(), str(new.sha256))
                if is_kept:
                    is_written = target.write_edited(*place, is_replaced=target.out == folder)
                else:
                    is_written = target.write_derived(*place)
                if is_written is False:
                    kept.add(name)
            except (RowError, SetupError, OSError, UnicodeError) as error:
                log.warning("row %s: its %s was not copied: %s", old.id, suffix, error)
    warn_of_edited(kept)


def remove_gone(source: SourceFolder, target: Store, result: EncodeResult) -> None:
    """Move the files of rows that were removed from the source folder, or are not approved there,
    to the takes of the target. Count rows that the source folder never had.
    """
    gone = [source.target_id(one.id) for one in source.records() if not source.is_wanted(one)]
    gone = [row_id for row_id in gone if target.journal.file(row_id) is not None]
    for take in target.journal.takes():
        row_id = source.source_id(take.id)
        if id_problem(take.id) or source.journal.file(row_id) is not None:
            continue
        if source.journal.row(row_id).is_removed and source.run_of(take) is not None:
            gone.append(take.id)
        else:
            result.events.add(Event.NOT_IN_SOURCE, take.id)
    stayed = target.remove(gone)
    result.left += stayed
    for row_id in sorted(set(gone) - {row_id for row_id, _ in stayed}):
        result.events.add(Event.REMOVED_FROM_SOURCE, row_id)
    target.update_totals()


def count_older_files(target: Store, events: Events) -> None:
    """Count the audio files of rows in a format other than the recorded one."""
    names = []
    for row_id, path in audio_files(target.out):
        name = path.relative_to(target.out).as_posix()
        has_format = path.suffix == f".{target.writer.format}"
        if has_format or target.journal.row(row_id).current is None:
            continue
        file = target.journal.file(row_id)
        take = None if file is None else target.journal.take(row_id, file.take)
        if take is None or take.path != name:
            names.append(name)
    for name in sorted(names):
        events.add(Event.OLDER_FORMAT, name)


def require_own_files(source: SourceFolder, target: Store) -> None:
    """Raise UsageError if files would be replaced that no run recorded."""
    ids = (source.target_id(one.id) for one in source.records())
    names = (row_id for row_id in ids if target.journal.row(row_id).status is None)
    foreign = [path.name for path in map(target.writer.path_of, names) if path.exists()]
    if foreign:
        raise UsageError(
            f"{first_few(foreign)}: in {target.out}, but not in timings.jsonl, so not from an "
            "earlier run",
            remedy="move them, or choose another --out",
        )


def load_model(config: RunConfig, step: Step) -> SpeechModel:
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
    is_native: bool  # whether its files have the checkpoint's sample rate
    identity: str | None  # identity of the checkpoint
    family: str | None = None
    size: str | None = None


@dataclass
class EncodeResult:
    events: Events = field(default_factory=Events)
    left: list[tuple[str, str]] = field(default_factory=list)  # rows that are not possible: reasons


class SourceFolder:
    """The audio and codes that a folder has stored, and the runs that synthesized them. Only rows
    approved in `reviews` are converted; None: all. Raises UsageError if the journal is missing, and
    SetupError.
    """

    def __init__(
        self,
        out: Path,
        config: RunConfig,
        name_by: str | None = None,
        reviews: Reviews | None = None,
    ) -> None:
        self.out, self._reviews = out, reviews
        self._config = config
        self._names: dict[str, str] = {}  # of rows that have another id in the target
        try:
            folder = Store.read_only(out)
            self.journal, self.report = folder.journal, read_report(out)
            self._runs = dict(_runs(folder.runs))
        except OSError as error:
            raise SetupError(f"{out}: {error.strerror or error}") from error
        self._last = _run_of(self.report)
        if name_by is not None:
            self._names = self._named(name_by)
        self._ids = {name: row_id for row_id, name in self._names.items()}

    def _named(self, name_by: str) -> dict[str, str]:
        takes = {(one.id, one.take): one for one in self.records() if one.is_ok}
        order = manifest_order(self.out, takes)
        facts = ((key, name_facts(takes[key])) for key in order)
        return {row_id: name for (row_id, _), name in delivered_names(name_by, facts).items()}

    def target_id(self, row_id: str) -> str:
        return self._names.get(row_id, row_id)

    def source_id(self, target_id: str) -> str:
        return self._ids.get(target_id, target_id)

    @property
    def model(self) -> str | None:
        """The model of the last run; None: the sample voice."""
        settings = self.report.get("settings", {})
        value = settings.get("model")
        if self.report.get("clone_model") is None:  # else of a version in which both models did
            value = settings.get("clone_model") or value
        return value if isinstance(value, str) else None

    @property
    def comment(self) -> str:
        """The comment in audio files, which names the model of the report."""
        return comment_of_model(self.report.get("model", {}))

    def records(self) -> Iterator[JournalEntry]:
        """Yield the current take of every row, without rows whose ids are not valid file names."""
        for record in self.journal.takes():
            if id_problem(record.id) is None:
                yield record

    def is_wanted(self, record: JournalEntry) -> bool:
        """Whether reviews allow a take to be converted."""
        return self._reviews is None or self._reviews.is_approved(record)

    def run_of(self, record: JournalEntry) -> Run | None:
        return self._last if record.run_id is None else self._runs.get(record.run_id)

    def native_rate_hz(self) -> int | None:
        """Return the checkpoint's rate, from a file of a run without --sample-rate, or None."""
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
        self, target: Store, identity: str | None, result: EncodeResult
    ) -> Iterator[ReencodeJob]:
        """Yield the files to convert, and count the other rows. Only codes of the checkpoint
        `identity` can be decoded; None: all.
        """
        for record in self.records():
            if not self.is_wanted(record):
                result.events.add(Event.NOT_APPROVED, record.id)
                continue
            if self.journal.row(record.id).status is not Status.OK:
                result.left.append((record.id, why_failed(record)))
                continue
            if record.pace.is_own and (self._config.speed or self._config.fit):
                result.events.add(Event.OWN_PACE, record.id)
            if self._is_done(record, target):
                result.events.add(Event.DONE)
                continue
            try:
                yield self._job(record, target.writer.native_rate_hz, identity)
            except RowError as error:
                result.left.append((record.id, str(error)))

    def _job(self, record: JournalEntry, rate_hz: int, identity: str | None) -> ReencodeJob:
        run = self.run_of(record)
        is_same = run is not None and (identity is None or run.identity == identity)
        source = find_source(self.out, record, rate_hz, is_same)
        record = replace_entry(record, id=self.target_id(record.id))
        return ReencodeJob(record, source, self._pace(record))

    def _pace(self, record: JournalEntry) -> FilePace:
        """Return the pace of a row's new file: its own, the requested one, or its present one."""
        config = self._config
        if record.pace.is_own:
            return record.pace
        if config.fit == "cues" and (fit_s := cue_length_s(record.extra)):
            return FilePace(fit_s=round(fit_s, 6))
        return record.pace if config.speed is None else FilePace(round(config.speed, 6))

    def _is_done(self, record: JournalEntry, target: Store) -> bool:
        journal, writer = target.journal, target.writer
        row_id, take = self.target_id(record.id), record.take
        file = journal.file(row_id)
        if file is None or file.take != take or file.has_failed:
            return False
        found = file.current
        delivery = writer.delivery_hash_of(self._pace(record))
        if found is None or not found.is_of(record.request_hash, delivery):
            return False
        return writer.is_whole(row_id, found.size or None, found.sha256)


def name_facts(take: JournalEntry) -> dict[str, Any]:
    language = None if take.language == "auto" else take.language
    known = {"id": take.id, "take": take.take, "character": take.character, "language": language}
    return {**take.extra, **known, "voice": voice_label(take.voice)}


def _runs(runs: RunLog) -> Iterator[tuple[str, Run]]:
    for values in islice(runs.lines(), MAX_RUNS):
        run = _run_of(values)
        if run is not None and "run_id" in values:
            yield values["run_id"], run


def _run_of(report: dict[str, Any]) -> Run | None:
    settings, model = report.get("settings", {}), report.get("model", {})
    if not settings:
        return None
    facts = [model.get(name) for name in ("identity", "family", "size")]
    is_native = settings.get("sample_rate") is None
    return Run(is_native, *(fact if isinstance(fact, str) else None for fact in facts))
