"""Takes: several speeches of one row, of which one is the row's file.

As soon as a row has more than one, all lie as `takes/<id>/<n>.<ext>`, codes beside them, and
`<id>.<ext>` is a hard link to the chosen one, or a copy where the file system has no links. Nothing
is lost by speaking again: what a row's file was gets a name among the takes before it is replaced.

The journal is what counts: a take is first whole on disk, then has its line, then becomes the row's
file. What a crash has left between the last two steps is done by `repair`. `takes.json` is made of
the journal, for people and programs that want to know what was chosen.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tts_cli.config import SUBTYPES
from tts_cli.errors import RowError, StoppedEarly, disk_full, is_disk_error
from tts_cli.manifest.ids import TAKES, id_problem
from tts_cli.output.atomic import link_whole, write_atomic
from tts_cli.output.audio_file import is_whole_wav
from tts_cli.output.inside import Inside
from tts_cli.output.journal import Journal
from tts_cli.output.record import EXTRA, HELD, OWN, CopiedLine
from tts_cli.output.writer import (
    CODES_SUFFIX,
    ORIGINAL_SUFFIX,
    AudioWriter,
    MadeFiles,
    WrittenFile,
    hash_of,
)

log = logging.getLogger(__name__)

LIST_NAME = "takes.json"
LIST_SCHEMA = 1
_SUFFIXES = tuple(f".{format}" for format in SUBTYPES)


@dataclass(frozen=True)
class Place:
    """Which take of a row a speech is to be."""

    take: int = 1
    role: str = OWN  # see `record`
    has_folder: bool = False  # the row has several takes, or will have

    def file_take(self, is_truncated: bool) -> int | None:
        """The take that names the speech's file; None: the row alone does."""
        is_named = self.role == EXTRA if is_truncated else self.has_folder
        return self.take if is_named else None


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

    def put(self, writer: AudioWriter, row_id: str, made: MadeFiles, place: Place) -> Placed:
        """Give a speech that was made its names. It is to be recorded then, and settled. Raises as
        `AudioWriter.put`.
        """
        if not place.has_folder:
            return Placed(writer.put(row_id, made), place)
        suffix = f".{writer.format}"
        try:
            try:
                self._require_free(row_id, place.take)
                self._inside.make_room(self.out / f"{row_id}{suffix}")
            except BaseException:
                writer.drop(made)
                raise
            file = writer.put(row_id, made, take=place.take)
            with self._mutex:
                return self._beside(row_id, file, place, suffix)
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, self.out / TAKES) from error
            raise RowError(f"cannot write a take: {error.strerror or error}") from error

    def settle(self, row_id: str, placed: Placed) -> None:
        """Make a recorded take the row's file, unless it is an extra one. Raises StoppedEarly."""
        if placed.place.role == EXTRA or not placed.place.has_folder or placed.is_same:
            return
        suffix = Path(placed.file.path).suffix
        try:
            self._switch(row_id, placed.place.take, suffix)
        except OSError as error:
            if is_disk_error(error):
                raise disk_full(error, self.out / row_id) from error
            raise StoppedEarly(
                f"{row_id}{suffix} cannot be replaced by its take {placed.place.take}: "
                f"{error.strerror or error}",
                remedy="see what is in its way, and run the same command again",
            ) from error

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
        assert line is not None
        is_file = file is not None and file.take == take
        suffix = suffix_of(line)
        path = self.path_of(row_id, take, suffix)
        if is_file and not path.exists():
            path = self.out / f"{row_id}{suffix}"
        found = _facts(path)
        if found is None or found[0] != line.get("bytes", found[0]):
            raise RowError(
                f"{row_id}: the file of take {take} is gone or damaged: {path}",
                remedy="choose another take",
            )
        if is_file and file is not None and file.is_held and not file.has_failed:
            return False
        with self._mutex:
            first = () if is_file else self._keep(row_id, take)
        self.journal.append(*first, CopiedLine({**line, "take": take, "role": HELD}))
        if not is_file:
            self._switch(row_id, take, suffix)
        return True

    def repair(self) -> int:
        """Make files of rows what the journal says they are, where they are other takes, or gone or
        cut; what somebody has edited stays. Returns how many were mended.

        Raises:
            StoppedEarly, OSError: they cannot be.
        """
        mended = 0
        for row_id, paths in self._folders():
            file = self.journal.file(row_id)
            if file is None or self.journal.status(row_id, file.take) != "ok":
                continue
            chosen = [path for path in paths if path.stem == str(file.take)]
            if len(chosen) > 1:  # in several formats
                line = self.journal.line(row_id, file.take)
                chosen = [path for path in chosen if line and path.suffix == suffix_of(line)]
            if chosen and self._is_wrong(self.out / f"{row_id}{chosen[0].suffix}", chosen, paths):
                self._switch(row_id, file.take, chosen[0].suffix)
                mended += 1
        return mended

    def write_list(self) -> None:
        """Make `takes.json` of the journal, if there is anything to tell. Raises DiskFull,
        OSError.
        """
        path = self.out / LIST_NAME
        rows = [_choice(line) for line in self.journal.chosen() if line["status"] == "ok"]
        if not rows and not path.exists():
            return
        inside = ",\n".join(f"  {row}" for row in rows)
        data = f'{{"schema": {LIST_SCHEMA}, "choices": {{\n{inside}\n}}}}\n'.encode()
        with contextlib.suppress(OSError):
            if path.read_bytes() == data:
                return
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
                f"{name}: is the file of a row '{name}' of an earlier version, and takes of "
                f"'{row_id}' go there; move the folder {TAKES}/ away"
            )

    def _beside(self, row_id: str, file: WrittenFile, place: Place, suffix: str) -> Placed:
        """A take that was written, and what is to be done about the row's file before it."""
        current = self.journal.file(row_id)
        if current is None or current.take == place.take:
            return Placed(file, place)
        if place.role != EXTRA and self._is_same(row_id, current.take, file, suffix):
            role = HELD if current.is_held else place.role
            return self._merged(row_id, replace(place, take=current.take, role=role), file, place)
        return Placed(file, place, self._keep(row_id, place.take))

    def _is_same(self, row_id: str, take: int, file: WrittenFile, suffix: str) -> bool:
        """Whether a take that is to replace the row's file says nothing new."""
        if self.journal.status(row_id, take) != "ok":
            return False
        return _facts(self.out / f"{row_id}{suffix}") == (file.bytes, file.sha256)

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

    def _keep(self, row_id: str, take: int) -> tuple[CopiedLine, ...]:
        """Give the row's file a name among the takes, before another one takes its place or stands
        beside it. The lines that tell of it.

        Args:
            take: the other one.
        """
        current = self.journal.file(row_id)
        if current is None:
            return ()
        line = self.journal.line(row_id, current.take)
        if line is None or line["status"] != "ok":
            return ()
        suffix, number = suffix_of(line), current.take
        own = self.out / f"{row_id}{suffix}"
        found = _facts(own)
        kept = self.path_of(row_id, number, suffix)
        name = kept.relative_to(self.out).as_posix()
        if found is None or (_facts(kept) == found and line.get("path") == name):
            return ()
        role = line.get("role", OWN)
        if _facts(kept) not in (
            None,
            found,
        ):  # somebody has edited the row's file, which is a take of its own then
            number, role = max(self.journal.top(row_id), take) + self.extras + 1, EXTRA
            kept = self.path_of(row_id, number, suffix)
        self._inside.make_room(kept)
        own_codes = self.out / f"{row_id}{CODES_SUFFIX}"
        if own_codes.is_file():
            link_whole(own_codes, self.path_of(row_id, number, CODES_SUFFIX))
        link_whole(own, kept)
        values = {**line, "take": number, "role": role, "bytes": found[0], "sha256": found[1]}
        values["path"] = kept.relative_to(self.out).as_posix()
        return (CopiedLine(values),)

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

    def _folders(self) -> Iterator[tuple[str, list[Path]]]:
        """The ids that have takes, and the audio files of these."""
        top = self.out / TAKES
        for folder, _, names in os.walk(top):
            audio = [name for name in names if _is_take(name)]
            row_id = Path(folder).relative_to(top).as_posix()
            if audio and id_problem(row_id) is None:
                yield row_id, [Path(folder, name) for name in audio]

    def _is_wrong(self, own: Path, chosen: list[Path], takes: list[Path]) -> bool:
        """Whether a row's file is not the chosen take, nor what somebody made of it."""
        if own.is_symlink() or own.is_dir():
            return False
        found = _facts(own) if own.exists() and not os.path.samefile(own, chosen[0]) else None
        if not own.exists():
            return True
        if found is None or found == _facts(chosen[0]):
            return False
        originals = (path.with_name(path.name + ORIGINAL_SUFFIX) for path in takes)
        if any(_facts(path) == found for path in (*takes, *originals)):
            return True
        if own.suffix == ".wav":
            return not is_whole_wav(own)
        return found[0] < chosen[0].stat().st_size


def _choice(line: dict[str, Any]) -> str:
    """An entry of `takes.json`: the take that is a row's file, and whether somebody chose it."""
    values = {name: line.get(name) for name in ("seed", "sha256")}
    take = {"take": line.get("take", 1), **values, "held": line.get("role") == HELD}
    return f"{json.dumps(line['id'])}: {json.dumps(take)}"


def room_of_takes(out: Path) -> int:
    """Bytes that takes hold beside the rows' own files: what has one name only."""
    total = 0
    for folder, _, names in os.walk(out / TAKES):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(folder, name))
                total += found.st_size if found.st_nlink == 1 else 0
    return total


def suffix_of(line: dict[str, Any]) -> str:
    """The suffix of a line's audio file, `.wav` where it makes no sense."""
    suffix = Path(str(line.get("path"))).suffix
    return suffix if suffix in _SUFFIXES else _SUFFIXES[0]


def _is_take(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix in _SUFFIXES and stem.isdecimal()


def _facts(path: Path) -> tuple[int, str] | None:
    """Size and SHA-256 of a plain file; None if there is none."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with open(path, "rb") as file:
            digest = hash_of(file)
            return file.tell(), digest
    except FileNotFoundError:
        return None
