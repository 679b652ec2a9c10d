"""New files for rows that were spoken before: other format, rate or level, same speech.

Files that others are made of stay: where the new one has the name of its source, that one gets
`.original` behind its name, so that the next format or level can be made of it too. The new line is
the old one but for what tells the file.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path

from msgspec.structs import replace

from tts_cli import signals
from tts_cli.audio.tags import Tags
from tts_cli.core import Place, Status, Unfinished
from tts_cli.errors import RowError, writing
from tts_cli.store.atomic import sync_folder, write_atomic
from tts_cli.store.files import ORIGINAL_SUFFIX, AudioWriter
from tts_cli.store.records import moved
from tts_cli.store.sources import Array, Kept, read_audio
from tts_cli.store.take import UNFINISHED, Take
from tts_cli.store.takes import Placed, TakeFolder, facts_of, recorded_facts
from tts_cli.manifest.ids import TAKES

log = logging.getLogger(__name__)

THREADS = 8  # most of their time is libsndfile's and the disk's
# Codes of a row to its samples, in int16 if so asked.
Decode = Callable[[Kept, Take, bool], Array]


@dataclass(frozen=True)
class Order:
    """A file to be made."""

    record: Take  # the row's line, under the hash that its speech is asked for now
    kept: Kept


@dataclass
class Recoded:
    """What was made."""

    count: int = 0
    audio_s: float = 0.0
    failed: list[tuple[str, str]] = field(default_factory=list)  # ids and reasons


class Recoder:
    """Makes files of what a folder keeps.

    Args:
        out: the folder it is kept in; the writer's may be another.
        takes: of the writer's folder.
        comment: in every file.
        decode: None where no order is of codes.
    """

    def __init__(
        self,
        out: Path,
        writer: AudioWriter,
        takes: TakeFolder,
        comment: str,
        decode: Decode | None,
    ) -> None:
        self._out = out
        self._writer = writer
        self._journal = takes.journal
        self._comment = comment
        self._decode = decode
        self._takes = takes

    def run(self, orders: Iterable[Order]) -> Recoded:
        """Make files, several at once; codes are decoded one row after the other.

        Raises:
            StoppedEarly: nothing more can be written.
            Interrupted: a signal came; what was made is kept.
        """
        found = Recoded()
        pending: dict[Future[Take], Order] = {}
        with ThreadPoolExecutor(THREADS, "recode") as pool:
            try:
                for order, samples in self._opened(orders, found):
                    signals.check()
                    pending[pool.submit(self._make, order, samples)] = order
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
        self, orders: Iterable[Order], found: Recoded
    ) -> Iterator[tuple[Order, Array | None]]:
        """Orders, with the samples of those that only the model can give."""
        for order in orders:
            samples = None
            if order.kept.kind == "codes":
                try:
                    if self._decode is None:
                        raise RowError("decoding its codes needs the model that made them")
                    samples = self._decode(order.kept, order.record, self._writer.takes_int16)
                except RowError as error:
                    found.failed.append((order.record.id, str(error)))
                    continue
            yield order, samples

    def _take(self, record: Take) -> int | None:
        """Which take the file is to be; None: the row's own file, of one that has no others.

        Raises:
            RowError: another folder has takes of the row, and this may be none of them.
        """
        out = self._writer.out
        if out != self._out:
            folder = out / TAKES / record.id
            if folder.is_dir() and any(path.is_file() for path in folder.iterdir()):
                raise RowError(f"{folder} has takes of it; choose another --out")
            return None
        is_take = str(record.path).startswith(f"{TAKES}/{record.id}/")
        return record.take if is_take else None

    @staticmethod
    def _collect(pending: dict[Future[Take], Order], found: Recoded) -> None:
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            order = pending.pop(future)
            try:
                record = future.result()
            except RowError as error:
                found.failed.append((order.record.id, str(error)))
                continue
            found.count += 1
            found.audio_s += record.audio_s

    def _make(self, order: Order, samples: Array | None) -> Take:
        """Write one file and its line. Raises RowError, StoppedEarly."""
        started_s = time.perf_counter()
        old, kept, writer = order.record, order.kept, self._writer
        if samples is None:
            samples = read_audio(kept)
            if kept.sha256 is None and (found := facts_of(kept.path)):  # it was edited
                kept = replaced(kept, sha256=found[1])
        take = self._take(old)
        tags = Tags.of_row(old.id, old.voice, self._comment)
        made = writer.make(old.id, samples, take=take, tags=tags)
        try:
            kept, take = self._spared(old, kept, take)
        except BaseException:
            writer.drop(made)
            raise
        applied = made.applied
        audio_s = len(samples) / writer.native_rate_hz
        shift_s = -old.shift_s
        remarks = [one for one in old.remarks if one.kind.about != "file"]
        if applied is not None:
            audio_s += applied.added_s
            shift_s += applied.start_shift_s
            remarks += writer.treatment.misses(applied)
        record = replace(
            old,
            status=Status.OK,
            error=None,
            delivery_hash=writer.delivery_hash,
            path=writer.name_of(old.id, take=take),
            bytes=made.num_bytes,
            sha256=made.sha256,
            sample_rate_hz=writer.rate_hz,
            audio_s=audio_s,
            applied=None if applied is None else applied.as_dict(),
            source=kept.as_source(self._out, writer.out),
            parts=moved(old.parts, shift_s, audio_s),
            remarks=remarks,
        )
        if writer.path_of(old.id, take=take).exists():
            # Should we die about the file, `TakeFolder.repair` tells by its sum what it is.
            why = Unfinished.REPLACING
            told = {"status": Status.FAILED, "error": UNFINISHED[why], "unfinished": why}
            intent = replace(record, **told)
            self._journal.append(intent)
        file = writer.put(old.id, made, take=take, is_remade=True)
        if take is not None:
            self._takes.settle(old.id, Placed(file, Place(take, has_folder=True)))
        record = replace(record, write_ms=1000 * (time.perf_counter() - started_s))
        self._journal.append(record)
        log.debug("row %s: %s converted from %s", old.id, file.path, kept.path.name)
        return record

    def _spared(self, old: Take, kept: Kept, take: int | None) -> tuple[Kept, int | None]:
        """Give what the new file replaces another name, but for what can be made again: a file that
        was made of another one. What it is made of then, and which take it is to be.

        Raises:
            RowError, StoppedEarly: nothing has lost its name.
        """
        writer = self._writer
        target = writer.path_of(old.id, take=take)
        # The row's own file is another take's once that is chosen.
        own = writer.out / f"{old.id}{kept.path.suffix}"
        is_in_place = kept.path == target or (take is not None and kept.path == own)
        place = target.with_suffix(kept.path.suffix) if is_in_place else target
        file = self._journal.file(old.id)
        line = None if file is None else self._journal.spoken_line(old.id, file.take)
        if file is not None and line is not None and (is_in_place or target.exists()):
            recorded = recorded_facts(line.take)
            is_recorded = facts_of(target) == recorded
            if writer.out != self._out:
                if not is_recorded:
                    raise RowError(f"{target} was edited since it was written; move it away")
                return kept, take
            known = {facts_of(kept.path), *(() if is_in_place else (recorded,))}
            paths = [target, writer.path_of(old.id), original_of(place)]
            if self._takes.spare(old.id, file.take, paths, known) and take is None:
                return self._spared(old, kept, old.take)
            if not is_in_place and is_recorded and line.take.source is None:  # it was spoken so
                set_aside(target, place)
        if is_in_place:
            kept = replaced(kept, path=set_aside(kept.path, place))
        return kept, take


def original_of(place: Path) -> Path:
    """The second name of a file whose first one is `place`."""
    return place.with_name(place.name + ORIGINAL_SUFFIX)


def set_aside(path: Path, place: Path) -> Path:
    """Give a file a second name, behind which it stays when another one takes its first.

    Args:
        place: that the second name is made of.
    """
    original = original_of(place)
    with writing(original, RowError):
        original.unlink(missing_ok=True)
        try:
            os.link(path, original)
        except OSError:  # a file system without links
            write_atomic(original, path.read_bytes())
        sync_folder(path.parent)
    return original
