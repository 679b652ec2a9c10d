"""New files of takes that were synthesized before: another format, rate or level, same speech.

The file that a new one is made from is kept: where the new one has its name, it becomes the take's
source, `takes/<id>/<n>.source.<ext>`, so that the next format or level is made from it too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.audio.tags import Tags
from tts_cli.core import Role, Status
from tts_cli.errors import RowError, disk_full, is_disk_error
from tts_cli.store.commit import Commits, RowChange, StagedFile, source_name
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import AudioWriter, size_and_sha256
from tts_cli.store.records import moved
from tts_cli.store.sources import Array, AudioSource, read_audio

if TYPE_CHECKING:
    from tts_cli.audio.treatment import PostProcessReport

log = logging.getLogger(__name__)

THREADS = 8  # most of their time is libsndfile's and the disk's
# Codes of a row to its samples, in int16 if so asked.
Decode = Callable[[AudioSource, JournalEntry, bool], Array]


@dataclass(frozen=True)
class ReencodeJob:
    """A file to be made."""

    record: JournalEntry  # the entry of the row, with the request hash that it has now
    source: AudioSource


@dataclass
class Reencoded:
    """What was made."""

    count: int = 0
    audio_s: float = 0.0
    failed: list[tuple[str, str]] = field(default_factory=list)  # ids and reasons


class Reencoder:
    """Makes files from the audio or codes in a folder.

    Args:
        out: that folder; the writer's may be another.
        commits: of the writer's folder.
        comment: in every file.
        decode: None where no job is of codes.
    """

    def __init__(
        self,
        out: Path,
        writer: AudioWriter,
        commits: Commits,
        comment: str,
        decode: Decode | None,
    ) -> None:
        self._out = out
        self._writer = writer
        self._commits = commits
        self._comment = comment
        self._decode = decode

    def run(self, jobs: Iterable[ReencodeJob]) -> Reencoded:
        """Make files, several concurrently; codes are decoded one row after the other.

        Raises:
            StoppedEarly: nothing more can be written.
            Interrupted: a signal came; what was made is kept.
        """
        found = Reencoded()
        pending: dict[Future[JournalEntry], ReencodeJob] = {}
        with ThreadPoolExecutor(THREADS, "reencode") as pool:
            try:
                for job, samples in self._opened(jobs, found):
                    signals.check()
                    pending[pool.submit(self._make, job, samples)] = job
                    while len(pending) >= 2 * THREADS:
                        self._collect(pending, found)
                while pending:
                    signals.check()
                    self._collect(pending, found)
            except BaseException:
                for future in pending:
                    future.cancel()
                raise
        return found

    def _opened(
        self, jobs: Iterable[ReencodeJob], found: Reencoded
    ) -> Iterator[tuple[ReencodeJob, Array | None]]:
        """Jobs, with the samples of those that only the model can decode."""
        for job in jobs:
            samples = None
            if job.source.kind == "codes":
                try:
                    if self._decode is None:
                        raise RowError("decoding its codes needs the model that made them")
                    samples = self._decode(job.source, job.record, self._writer.accepts_int16)
                except RowError as error:
                    found.failed.append((job.record.id, str(error)))
                    continue
            yield job, samples

    @staticmethod
    def _collect(pending: dict[Future[JournalEntry], ReencodeJob], found: Reencoded) -> None:
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            job = pending.pop(future)
            try:
                record = future.result()
            except RowError as error:
                found.failed.append((job.record.id, str(error)))
                continue
            found.count += 1
            found.audio_s += record.audio_s

    def _make(self, job: ReencodeJob, samples: Array | None) -> JournalEntry:
        """Make one file and commit it. Raises RowError, StoppedEarly."""
        started_s = time.perf_counter()
        old, source, writer = job.record, job.source, self._writer
        is_here = writer.out == self._out
        if samples is None:
            samples = read_audio(source)
            if source.sha256 is None and (
                found := size_and_sha256(source.path)
            ):  # a user edited it
                source = replaced(source, bytes=found[0], sha256=found[1])
        if is_here and (adopted := self._commits.adopt(old.id)):
            edited = self._out / str(adopted.path)
            if source.path == edited:  # a user edited what the file is made from
                old = replace(adopted, request_hash=old.request_hash)
        tags = Tags.of_row(old.id, old.voice, self._comment)
        made = writer.make(old.id, samples, tags=tags)
        try:
            entry = self._entry(old, source, samples, made.applied)
            entry = replace(
                entry,
                bytes=made.num_bytes,
                sha256=made.sha256,
                write_ms=1000 * (time.perf_counter() - started_s),
            )
        except BaseException:
            writer.drop(made)
            raise
        try:
            staged = StagedFile(str(made.audio), str(entry.path), made.sha256)
            self._commits.commit(RowChange(entry, (staged,), is_rendition=True))
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, writer.path_of(old.id)) from error
            raise RowError(f"cannot write {writer.path_of(old.id)}: {error.strerror}") from error
        log.debug("row %s: %s converted from %s", old.id, entry.path, source.path.name)
        return entry

    def _entry(
        self,
        old: JournalEntry,
        source: AudioSource,
        samples: Array,
        applied: PostProcessReport | None,
    ) -> JournalEntry:
        """The entry of a new file, but for what describes its bytes."""
        writer, is_here = self._writer, self._writer.out == self._out
        audio_s = len(samples) / writer.native_rate_hz
        shift_s = -old.shift_s
        remarks = [one for one in old.remarks if one.kind.about != "file"]
        if applied is not None:
            audio_s += applied.added_s
            shift_s += applied.start_shift_s
            remarks += writer.treatment.misses(applied)
        own = self._out / f"{old.id}{source.path.suffix}"
        if is_here and source.kind == "audio" and source.path == own:
            home = self._out / source_name(old.id, old.take, source.path.suffix)
            source = replaced(source, path=home)
        return replace(
            old,
            status=Status.OK,
            error=None,
            role=Role.OWN if old.role is Role.EXTRA else old.role,
            delivery_hash=writer.delivery_hash,
            path=f"{old.id}{writer.suffix}",
            codes_sha256=old.codes_sha256 if is_here else None,
            sample_rate_hz=writer.rate_hz,
            audio_s=audio_s,
            applied=None if applied is None else applied.as_dict(),
            source=source.as_source(self._out, writer.out),
            parts=moved(old.parts, shift_s, audio_s),
            remarks=remarks,
        )
