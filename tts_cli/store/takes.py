"""Takes: several speeches of one row, one of which is the row's file.

As soon as a row has more than one, all lie as `takes/<id>/<n>.<ext>`, codes beside them, and
`<id>.<ext>` is a hard link to the chosen one, or a copy where the file system has no links. Nothing
is lost by speaking again: what a row's file was gets a name among the takes before it is replaced,
be it what was recorded or what somebody has made of it. The number of a take that came out well is
never another one's, not even once its file is gone.

The journal is what counts: a take is first whole on disk, then has its line, then becomes the row's
file. What a crash has left between the last two steps is done by `repair`. Where another format or
level of the same speech replaces a file, a line tells of it before too (`Unfinished.REPLACING`): by
the file's sum `repair` then finds out which of the two it is. `takes.json` is made of the journal,
for people and programs that want to know what was chosen.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tts_cli.audio.file import is_whole_audio, is_whole_wav
from tts_cli.config import SUBTYPES
from tts_cli.core import Encoded, Place, Role, Status
from tts_cli.errors import RowError, StoppedEarly, writing
from tts_cli.store.atomic import link_whole, read_own, require_plain_file, write_atomic
from tts_cli.store.files import (
    CODES_SUFFIX,
    ORIGINAL_SUFFIX,
    AudioWriter,
    Inside,
    WrittenFile,
    hash_of,
)
from tts_cli.store.journal import Journal
from tts_cli.store.take import CopiedLine, Take
from tts_cli.manifest.ids import TAKES, id_problem, natural_order

log = logging.getLogger(__name__)

LIST_NAME = "takes.json"
LIST_SCHEMA = 1
_SUFFIXES = tuple(f".{format}" for format in SUBTYPES)


@dataclass(frozen=True)
class Placed:
    """A speech on disk that is not recorded yet."""

    file: WrittenFile
    place: Place
    first: tuple[CopiedLine, ...] = ()  # lines to stand in front of its own
    is_same: bool = False  # byte for byte what the row's file was


class TakeFolder:
    """The takes of one output folder, whose lock is held. Any thread may call it, for different
    takes.

    Args:
        extras: takes that a run speaks of each row beside its own file.
    """

    def __init__(self, out: Path, journal: Journal, extras: int = 0) -> None:
        self.out = out
        self.journal = journal
        self.extras = extras
        self._inside = Inside(out)
        self._mutex = threading.Lock()  # of the files and lines that `_keep` makes

    def path_of(self, row_id: str, take: int, suffix: str) -> Path:
        """Where a take lies."""
        return self.out / TAKES / row_id / f"{take}{suffix}"

    def put(self, writer: AudioWriter, row_id: str, made: Encoded, place: Place) -> Placed:
        """Give a speech that was made its names. It is to be recorded then, and settled. Raises as
        `AudioWriter.put`.
        """
        is_again = self.journal.was_spoken(row_id, place.take)
        if not place.has_folder and not is_again:
            return Placed(writer.put(row_id, made), place)
        suffix = f".{writer.format}"
        with writing(self.out / TAKES, RowError, "cannot write a take"):
            try:
                paths = writer.replaced_by(row_id, place.take if place.has_folder else None)
                facts = (made.num_bytes, made.sha256)
                if is_again and self.spare(row_id, place.take, paths, {facts}):
                    place = replace(place, has_folder=True)
                if place.has_folder:
                    self._require_free(row_id, place.take)
                    self._inside.make_room(self.out / f"{row_id}{suffix}")
            except BaseException:
                writer.drop(made)
                raise
            if not place.has_folder:
                return Placed(writer.put(row_id, made), place)
            file = writer.put(row_id, made, take=place.take)
            with self._mutex:
                return self._beside(row_id, file, place, suffix)

    def settle(self, row_id: str, placed: Placed) -> None:
        """Make a recorded take the row's file, unless it is an extra one. Raises StoppedEarly."""
        if placed.place.role == Role.EXTRA or not placed.place.has_folder or placed.is_same:
            return
        suffix = Path(placed.file.path).suffix
        problem = f"{row_id}{suffix} cannot be replaced by its take {placed.place.take}"
        remedy = "remove what is in its way, and run the same command again"
        with writing(self.out / row_id, StoppedEarly, problem, remedy):
            self._switch(row_id, placed.place.take, suffix)

    def take_back(self, writer: AudioWriter, row_id: str, placed: Placed) -> None:
        """Remove what could not be recorded."""
        if not placed.is_same:
            take = placed.place.take if placed.place.has_folder else None
            writer.remove(row_id, take=take)

    def choose(self, row_id: str, take: int) -> bool:
        """Hold a take, and make it the row's file. Whether that is anything new.

        Raises:
            RowError: its file is gone, or not what was recorded; the row's can have no such name.
            DiskFull: nothing has changed.
        """
        if problem := id_problem(row_id):
            raise RowError(f"row '{row_id}' {problem}")
        line, file = self.journal.line(row_id, take), self.journal.file(row_id)
        if line is None:
            raise RowError(f"row '{row_id}' has no take {take}")
        is_file = file is not None and file.take == take
        suffix = suffix_of(line.take.path)
        path = self.path_of(row_id, take, suffix)
        if is_file and not path.exists():
            path = self.out / f"{row_id}{suffix}"
        found = facts_of(path)
        if found is None or line.take.bytes not in (0, found[0]):
            raise RowError(
                f"{row_id}: the file of take {take} is missing or damaged: {path}",
                remedy="choose another take",
            )
        if is_file and file is not None and file.is_held and not file.has_failed:
            return False
        with self._mutex:
            first = () if is_file else self._keep(row_id, take, suffix)
        self.journal.append(*first, line.changed(role=Role.HELD))
        if not is_file:
            self._switch(row_id, take, suffix)
        return True

    def spare(
        self, row_id: str, take: int, paths: Iterable[Path], known: Iterable[tuple[Any, Any]]
    ) -> bool:
        """Make audio that is about to be replaced a take of its own. Whether there was any.

        Args:
            take: that was spoken, and what is there is of.
            paths: that will hold something else, or nothing.
            known: sizes and SHA-256 of what need not be kept.
        """
        with self._mutex:
            line = self.journal.spoken_line(row_id, take)
            if line is None:
                return False
            passed, count = set(known), 0
            for path in paths:
                if (found := facts_of(path)) is not None and found not in passed:
                    passed.add(found)
                    count += self._keep_extra(row_id, path, found, line, take)
            return count > 0

    def repair(self) -> int:
        """Make lines and files of rows agree: files that are other takes than the journal says, or
        gone or cut, and lines of which a run died; what somebody has edited stays. Returns how many
        files were mended.

        Raises:
            StoppedEarly, OSError: they cannot be.
        """
        for line in self.journal.unfinished():
            self._finish(line)
        mended = 0
        if not (self.out / TAKES).is_dir():
            return mended
        for row_id, paths in self._folders():
            file = self.journal.file(row_id)
            if file is None or self.journal.status(row_id, file.take) != "ok":
                continue
            chosen = [path for path in paths if path.stem == str(file.take)]
            if len(chosen) > 1:  # in several formats
                told = self.journal.take(row_id, file.take)
                chosen = [path for path in chosen if told and path.suffix == suffix_of(told.path)]
            own = self.out / f"{row_id}{chosen[0].suffix}" if chosen else self.out
            known = [path for path in paths if self.journal.status(row_id, int(path.stem))]
            if chosen and self._is_wrong(own, chosen, known):
                self._switch(row_id, file.take, chosen[0].suffix)
                mended += 1
        return mended

    def write_list(self) -> None:
        """Make `takes.json` of the journal, if there is anything to tell. Raises DiskFull,
        OSError.
        """
        path = self.out / LIST_NAME
        chosen = ((take.id, _choice(take)) for take in self.journal.chosen() if take.is_ok)
        rows = [row for _, row in sorted(chosen, key=lambda one: natural_order(one[0]))]
        if not rows and not require_plain_file(path):
            return
        inside = ",\n".join(f"  {row}" for row in rows)
        data = f'{{"schema": {LIST_SCHEMA}, "choices": {{\n{inside}\n}}}}\n'.encode()
        if read_own(path, len(data) + 1) != data:
            write_atomic(path, data)

    def prune(self) -> None:
        """Remove folders that hold no take."""
        for folder, _, _ in os.walk(self.out / TAKES, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _require_free(self, row_id: str, take: int) -> None:
        """Raise RowError where a row of an older version has its files."""
        name = f"{TAKES}/{row_id}/{take}"
        if self.journal.status(name) is not None:
            raise RowError(
                f"{name}: is the file of a row '{name}' of an earlier version, in the place "
                f"of the takes of '{row_id}'; move the folder {TAKES}/ away"
            )

    def _beside(self, row_id: str, file: WrittenFile, place: Place, suffix: str) -> Placed:
        """A take that was written, and what is to be done about the row's file before it."""
        current = self.journal.file(row_id)
        if current is None or current.take == place.take:
            return Placed(file, place)
        if place.role != Role.EXTRA and self._is_same(row_id, current.take, file, suffix):
            role = Role.HELD if current.is_held else place.role
            return self._merged(row_id, replace(place, take=current.take, role=role), file, place)
        into = None if place.role == Role.EXTRA else suffix
        return Placed(file, place, self._keep(row_id, place.take, into))

    def _is_same(self, row_id: str, take: int, file: WrittenFile, suffix: str) -> bool:
        """Whether a take that is to replace the row's file says nothing new."""
        if self.journal.status(row_id, take) != "ok":
            return False
        return facts_of(self.out / f"{row_id}{suffix}") == (file.bytes, file.sha256)

    def _merged(self, row_id: str, old: Place, file: WrittenFile, new: Place) -> Placed:
        """Drop a new take for the old one that it equals, which gets codes that it lacks."""
        suffix = Path(file.path).suffix
        path = self.path_of(row_id, old.take, suffix)
        has_folder = path.exists()
        codes = self.path_of(row_id, new.take, CODES_SUFFIX)
        if codes.exists():
            link_whole(codes, self.out / f"{row_id}{CODES_SUFFIX}")
            if has_folder:
                link_whole(codes, self.path_of(row_id, old.take, CODES_SUFFIX))
            codes.unlink()
        self.path_of(row_id, new.take, suffix).unlink()
        name = f"{row_id}{suffix}"
        if has_folder:
            name = path.relative_to(self.out).as_posix()
        return Placed(replace(file, path=name), old, is_same=True)

    def _keep(self, row_id: str, take: int, into: str | None) -> tuple[CopiedLine, ...]:
        """Give the row's file a name among the takes, before another one takes its place or stands
        beside it. The lines that tell of it.

        Args:
            take: the other one.
            into: the suffix of the row's file then, if that one takes its place.
        """
        current = self.journal.file(row_id)
        line = None if current is None else self.journal.spoken_line(row_id, current.take)
        if current is None or line is None:
            return ()
        suffix, number, told = suffix_of(line.take.path), current.take, line
        if into is not None and into != suffix:
            told = self._keep_source(row_id, into, told, take)
        own = self.out / f"{row_id}{suffix}"
        found = facts_of(own)
        kept = self.path_of(row_id, number, suffix)
        told = told.changed(path=kept.relative_to(self.out).as_posix())
        is_ok = self.journal.status(row_id, number) == "ok"
        is_told = is_ok and told.take == line.take
        if found is None or (is_told and facts_of(kept) == found):
            return ()
        is_edited = not is_ok and found != recorded_facts(line.take)
        if is_edited or facts_of(kept) not in (None, found):
            self._keep_extra(row_id, own, found, told, take)
            return ()
        return (self._kept_as(row_id, own, found, told),)

    def _keep_source(self, row_id: str, suffix: str, line: CopiedLine, take: int) -> CopiedLine:
        """Keep what stands where a file of another format than the row's is to stand: what that was
        made of, or else a take of its own. The line of the row's file then.

        Args:
            take: the one that is to stand there.
        """
        path = self.out / f"{row_id}{suffix}"
        source, number = line.take.source or {}, line.take.take
        found = facts_of(path)
        if found is None or facts_of(self.path_of(row_id, number, suffix)) == found:
            return line
        kept = self.path_of(row_id, number, suffix + ORIGINAL_SUFFIX)
        is_source = (source.get("path"), *_source_facts(source)) == (f"{row_id}{suffix}", *found)
        if not is_source or facts_of(kept) not in (None, found):
            self._keep_extra(row_id, path, found, line, take)
            return line
        self._inside.make_room(kept)
        link_whole(path, kept)
        return line.changed(source={**source, "path": kept.relative_to(self.out).as_posix()})

    def _keep_extra(
        self, row_id: str, path: Path, found: tuple[int, str], line: CopiedLine, take: int
    ) -> bool:
        """Make audio that somebody has edited, or that another take's was made of, a take of its
        own, recorded at once: until then no name of it may go. Whether it is one now.

        Args:
            found: of the file.
            line: of the take it is of.
            take: a number that is in use, maybe without a line.
        """
        if not is_whole_audio(path):
            return False
        is_original = path.name.endswith(ORIGINAL_SUFFIX)
        suffix = Path(path.name.removesuffix(ORIGINAL_SUFFIX)).suffix
        others = (take for take in self.journal.numbers(row_id) if take != line.take.take)
        kept = (take for take in others if self.journal.status(row_id, take) == "ok")
        if any(facts_of(self.path_of(row_id, take, suffix)) == found for take in kept):
            return True
        number = self.journal.next_take(row_id, take, self.extras)
        line = line.changed(take=number, role=Role.EXTRA)
        if is_original:  # whatever was done to the file that was made of it, or its delivery
            line = line.changed(delivery_hash="", applied=None, source=None)
        self.journal.append(self._kept_as(row_id, path, found, line))
        return True

    def _kept_as(
        self, row_id: str, path: Path, found: tuple[int, str], line: CopiedLine
    ) -> CopiedLine:
        """Give a file, and the row's codes, the name of the take that a line tells; its line."""
        suffix = Path(path.name.removesuffix(ORIGINAL_SUFFIX)).suffix
        kept = self.path_of(row_id, line.take.take, suffix)
        self._inside.make_room(kept)
        own_codes = self.out / f"{row_id}{CODES_SUFFIX}"
        if own_codes.is_file():
            link_whole(own_codes, self.path_of(row_id, line.take.take, CODES_SUFFIX))
        link_whole(path, kept)
        name = kept.relative_to(self.out).as_posix()
        return line.changed(bytes=found[0], sha256=found[1], path=name)

    def _finish(self, line: CopiedLine) -> None:
        """Record what became of a take whose run died while its file was replaced: its new line is
        true if the file is there, else the one before it is.
        """
        record = line.take
        if id_problem(record.id) is not None:
            return
        suffix, recorded = suffix_of(record.path), recorded_facts(record)
        path = self.out / f"{record.id}{suffix}"
        if str(record.path).startswith(f"{TAKES}/{record.id}/"):
            path = self.path_of(record.id, record.take, suffix)
        original = path.with_name(path.name + ORIGINAL_SUFFIX)
        if facts_of(path) != recorded and facts_of(original) == recorded:
            link_whole(original, path)  # lines of before the field told the file that was replaced
        file = self.journal.file(record.id)
        takes = [record.take] if file is None else [record.take, file.take]
        lines = (self.journal.spoken_line(record.id, take) for take in takes)
        before = next((one for one in lines if one is not None), None)
        if facts_of(path) == recorded:
            own = self.out / f"{record.id}{suffix}"
            known = [_source_facts(record.source or {})]
            known += [] if before is None else [recorded_facts(before.take)]
            if own != path and facts_of(own) in known:
                self._switch(record.id, record.take, suffix)
            line = line.changed(status=Status.OK)
        else:
            line = before or line
        error = None if line.take.is_ok else "its file was replaced and no longer exists"
        self.journal.append(line.changed(error=error, unfinished=None))

    def _switch(self, row_id: str, take: int, suffix: str) -> None:
        """Make a take the row's file, at once: the one before it stays until then."""
        own = self.out / f"{row_id}{suffix}"
        codes, own_codes = (
            self.path_of(row_id, take, CODES_SUFFIX),
            self.out / f"{row_id}{CODES_SUFFIX}",
        )
        self._inside.make_room(own)
        if codes.exists():
            link_whole(codes, own_codes)
        else:
            own_codes.unlink(missing_ok=True)  # those of another take would not fit
        link_whole(self.path_of(row_id, take, suffix), own)
        os.utime(own)  # what is made of rows' files tells by their times that one has changed
        for other in _SUFFIXES:
            if other != suffix:
                self._remove_older(row_id, take, other)

    def _remove_older(self, row_id: str, take: int, suffix: str) -> None:
        """Remove the row's file of another format where it is a take that is not its file any more,
        and is kept as that.
        """
        path = self.out / f"{row_id}{suffix}"
        if (found := facts_of(path)) is None:
            return
        kept = (self.out / TAKES / row_id).glob(f"*{suffix}")
        if any(one.stem != str(take) and facts_of(one) == found for one in kept):
            path.unlink()

    def _folders(self) -> Iterator[tuple[str, list[Path]]]:
        """The ids that have takes, and the audio files of these."""
        top = self.out / TAKES
        for folder, _, names in os.walk(top):
            audio = [name for name in names if _is_take(name)]
            row_id = Path(folder).relative_to(top).as_posix()
            if audio and id_problem(row_id) is None:
                yield row_id, [Path(folder, name) for name in audio]

    def _is_wrong(self, own: Path, chosen: list[Path], takes: list[Path]) -> bool:
        """Whether a row's file is not the chosen take, nor what somebody made of it.

        Args:
            takes: that have lines; what has none is in one place alone.
        """
        if own.is_symlink() or own.is_dir():
            return False
        found = facts_of(own) if own.exists() and not os.path.samefile(own, chosen[0]) else None
        if not own.exists():
            return True
        if found is None or found == facts_of(chosen[0]):
            return False
        if any(facts_of(path) == found for path in takes):
            return True
        row_id = chosen[0].parent.relative_to(self.out / TAKES).as_posix()
        take = self.journal.take(row_id, int(chosen[0].stem))
        source = (take and take.source) or {}
        original = chosen[0].with_name(chosen[0].name + ORIGINAL_SUFFIX)
        name = original.relative_to(self.out).as_posix()
        if source.get("path") == name and facts_of(original) == found:  # what the take was made of
            return True
        if own.suffix == ".wav":
            return not is_whole_wav(own)
        return found[0] < chosen[0].stat().st_size


def _choice(take: Take) -> str:
    """An entry of `takes.json`: the take that is a row's file, and whether somebody chose it."""
    facts = {
        "take": take.take,  # [1, 2, ...] number of the take in the row's file
        "seed": take.seed,  # [number] seed of this take
        "sha256": take.sha256,  # SHA-256 of its audio file
        "held": take.role is Role.HELD,  # [true, false] whether a user pinned it
    }
    return f"{json.dumps(take.id)}: {json.dumps(facts)}"


def room_of_takes(out: Path) -> int:
    """Bytes that takes hold beside the rows' own files: what has one name only."""
    total = 0
    for folder, _, names in os.walk(out / TAKES):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(folder, name))
                total += found.st_size if found.st_nlink == 1 else 0
    return total


def suffix_of(path: object) -> str:
    """The suffix of the audio file whose path a line tells, `.wav` where it makes no sense."""
    suffix = Path(str(path)).suffix
    return suffix if suffix in _SUFFIXES else _SUFFIXES[0]


def recorded_facts(take: Take) -> tuple[int, str | None]:
    """Size and SHA-256 of a file by its line."""
    return take.bytes, take.sha256


def _source_facts(source: dict[str, Any]) -> tuple[Any, Any]:
    """The same of what it was made of."""
    return source.get("bytes"), source.get("sha256")


def _is_take(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix in _SUFFIXES and stem.isdecimal()


def facts_of(path: Path) -> tuple[int, str] | None:
    """Size and SHA-256 of a plain file; None if there is none."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with open(path, "rb") as file:
            digest = hash_of(file)
            return file.tell(), digest
    except FileNotFoundError:
        return None
