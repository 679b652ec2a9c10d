"""Convert files of takes to another format, rate or level of the same speech.

The file that a new one is made from stays: if the new one gets its name, it becomes the take's
source, `takes/<id>/<n>.source.<ext>`, so that the next format or level is made from it too.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.audio.tags import Tags
from tts_cli.core import AS_SYNTHESIZED, FilePace, Role, Status
from tts_cli.errors import RowError, disk_full, is_disk_error
from tts_cli.store.commit import Commits, RowChange, source_name
from tts_cli.store.entry import JournalEntry, Moved
from tts_cli.store.files import AudioWriter, size_and_sha256
from tts_cli.store.results import moved
from tts_cli.store.sources import Array, AudioSource, read_audio

log = logging.getLogger(__name__)

THREADS = 8  # most of their time is libsndfile's and the disk's
# Decodes the codes of a row to samples, in int16 if the last argument is true.
Decode = Callable[[AudioSource, JournalEntry, bool], Array]


@dataclass(frozen=True)
class ReencodeJob:
    record: JournalEntry  # the entry of the row, with the request hash that it has now
    source: AudioSource
    pace: FilePace = AS_SYNTHESIZED  # of the file


@dataclass
class Reencoded:
    count: int = 0
    audio_s: float = 0.0
    failed: list[tuple[str, str]] = field(default_factory=list)  # ids and reasons


def reencode(
    jobs: Iterable[ReencodeJob],
    out: Path,
    writer: AudioWriter,
    commits: Commits,
    comment: str,
    decode: Decode | None,
) -> Reencoded:
    """Make files from the audio or codes in a folder, several concurrently; codes are decoded one
    row after another.

    Args:
        out: the folder with the audio or codes; the writer's may be another.
        commits: of the writer's folder.
        comment: written into every file.
        decode: None: no job needs codes.
    Raises:
        StoppedEarly: nothing more can be written.
        Interrupted: a signal came; finished files stay.
    """
    found = Reencoded()
    pending: deque[tuple[str, Future[JournalEntry]]] = deque()

    def collect(most: int) -> None:
        while len(pending) > most:
            signals.check()
            row_id, future = pending.popleft()
            try:
                entry = future.result()
            except RowError as error:
                found.failed.append((row_id, str(error)))
            else:
                found.count += 1
                found.audio_s += entry.audio_s

    def make(job: ReencodeJob, samples: Array | None) -> JournalEntry:
        return _make(job, samples, out, writer, commits, comment)

    with ThreadPoolExecutor(THREADS, "reencode") as pool:
        try:
            for job in jobs:
                signals.check()
                samples = None
                try:
                    if job.source.kind == "codes":
                        if decode is None:
                            raise RowError("decoding its codes needs the model that made them")
                        samples = decode(job.source, job.record, writer.accepts_int16)
                except RowError as error:
                    found.failed.append((job.record.id, str(error)))
                    continue
                pending.append((job.record.id, pool.submit(make, job, samples)))
                collect(2 * THREADS - 1)
            collect(0)
        except BaseException:
            for _, future in pending:
                future.cancel()
            raise
    return found


def _make(
    job: ReencodeJob,
    samples: Array | None,
    out: Path,
    writer: AudioWriter,
    commits: Commits,
    comment: str,
) -> JournalEntry:
    """Make one file and commit it. Raises RowError, StoppedEarly."""
    started_s = time.perf_counter()
    old, source = job.record, job.source
    is_here = writer.out == out
    if samples is None:
        samples = read_audio(source)
        if source.sha256 is None and (found := size_and_sha256(source.path)):  # a user edited it
            source = replaced(source, bytes=found[0], sha256=found[1])
    adopted = commits.adopt(old.id) if is_here else None
    if adopted and source.path == out / str(adopted.path):  # a user edited the source of the file
        old = replace(adopted, request_hash=old.request_hash)
    tags = Tags.of_row(old.id, old.voice, comment)
    made = writer.make(old.id, samples, tags=tags, pace=job.pace)
    applied = made.applied
    audio_s = len(samples) / writer.native_rate_hz
    scale = old.speed / (1.0 if applied is None else applied.speed)
    shift_s = -old.shift_s * scale
    remarks = [one for one in old.remarks if one.kind.about != "file"]
    if applied is not None:
        audio_s = applied.length_s(audio_s)
        shift_s += applied.start_shift_s
        remarks += made.remarks
    if is_here and source.kind == "audio" and source.path == out / f"{old.id}{source.path.suffix}":
        home = out / source_name(old.id, old.take, source.path.suffix)
        source = replaced(source, path=home)
    entry = replace(
        old,
        status=Status.OK,
        error=None,
        role=Role.OWN if old.role is Role.EXTRA else old.role,
        delivery_hash=writer.delivery_hash_of(job.pace),
        path=f"{old.id}{writer.suffix}",
        bytes=made.num_bytes,
        sha256=made.sha256,
        codes_sha256=old.codes_sha256 if is_here else None,
        sample_rate_hz=writer.rate_hz,
        audio_s=audio_s,
        applied=None if applied is None else applied.as_dict(),
        source=source.as_source(out, writer.out),
        parts=moved(old.parts, shift_s, audio_s, scale),
        remarks=remarks,
        write_ms=1000 * (time.perf_counter() - started_s),
    )
    try:
        staged = Moved(str(made.audio), made.sha256, str(entry.path))
        commits.commit(RowChange(entry, (staged,), is_rendition=True))
    except OSError as error:
        if is_disk_error(error):
            raise disk_full(error, writer.path_of(old.id)) from error
        raise RowError(f"cannot write {writer.path_of(old.id)}: {error.strerror}") from error
    log.debug("row %s: %s converted from %s", old.id, entry.path, source.path.name)
    return entry
