"""Names and contents of the files in an output folder.

A row's current take has the row's names: `<id>.wav` and `<id>.codes.safetensors`. Other takes are
in `takes/<id>/`: `<n>.wav` is the delivered file of take n, `<n>.source.wav` the file that it was
made from. `truncated/` has the audio of rows that failed because it was cut off.

Files are encoded in memory first, so that a full disk is an error of one write (`atomic.py`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tts_cli.atomic import link_atomic, remove_part, stage, sync_folder, token_of
from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import NO_TAGS, is_whole_wav
from tts_cli.audio.tags import Tags
from tts_cli.config import SUBTITLES, SUBTYPES
from tts_cli.core import AS_SYNTHESIZED, Encoded, FilePace
from tts_cli.errors import RowError, SetupError, StoppedEarly, UsageError, disk_full, is_disk_error
from tts_cli.sources.ids import TAKES, TRUNCATED, fold_id, id_problem

if TYPE_CHECKING:
    import numpy as np

    from tts_cli.config import RunConfig


JOURNAL_NAME = "timings.jsonl"
_TAKE = re.compile(r"([0-9]{1,9})(?:\.source|\.[0-9a-f]{8})?")
CHECKS_NAME = "checks.jsonl"
REVIEWS_NAME = "reviews.jsonl"


CODES_SUFFIX = ".codes.safetensors"
AUDIO_SUFFIXES = tuple(f".{format}" for format in SUBTYPES)
SOURCE_MARK = ".source"  # in the name of the file that a take's delivered file was made from
# Files of the times of a row's words, see `checks.word_times`.
WORDS_SUFFIX, WORDS_VTT_SUFFIX, TEXTGRID_SUFFIX = ".words.json", ".words.vtt", ".TextGrid"
WORD_SUFFIXES = (WORDS_SUFFIX, WORDS_VTT_SUFFIX, TEXTGRID_SUFFIX)
# All suffixes of a row's files; if two of them match a name, the first one applies.
ROW_SUFFIXES = (
    *(CODES_SUFFIX, *WORD_SUFFIXES),
    *(*AUDIO_SUFFIXES, *(f".{name}" for name in SUBTITLES)),
)
DERIVED_SUFFIXES = tuple(
    suffix for suffix in ROW_SUFFIXES if suffix not in (*AUDIO_SUFFIXES, CODES_SUFFIX)
)
# Suffixes that end with another suffix, and what precedes it: `a.words.vtt` could be a file of row
# `a` or of row `a.words`.
NESTED_SUFFIXES = {
    long: long.removesuffix(short)
    for long in ROW_SUFFIXES
    for short in ROW_SUFFIXES
    if long != short and long.endswith(short)
}


def take_name(row_id: str, take: int, suffix: str) -> str:
    """Return the file of a take that is not current, relative to the folder."""
    return f"{TAKES}/{row_id}/{take}{suffix}"


def audio_suffix(path: object) -> str:
    """Return the suffix of an audio file by its path in a journal; `.wav` if it is not ours."""
    suffix = Path(str(path)).suffix
    return suffix if suffix in AUDIO_SUFFIXES else AUDIO_SUFFIXES[0]


def owner_of(name: str) -> tuple[str, int | None] | None:
    """Return the row of a file name, relative to the folder, and the number of the take if the name
    has one; None: it is not the file of a row.
    """
    suffix = next((suffix for suffix in ROW_SUFFIXES if name.endswith(suffix)), None)
    if suffix is None:
        return None
    stem = name.removesuffix(suffix).removeprefix(f"{TRUNCATED}/")
    if not stem.startswith(f"{TAKES}/"):
        return stem, None
    row_id, _, take = stem.removeprefix(f"{TAKES}/").rpartition("/")
    found = _TAKE.fullmatch(take)
    return (row_id, int(found[1])) if found else None


def own_names(row_id: str) -> list[str]:
    """Return all names that files of a row may have outside `takes/`, relative to the folder."""
    return [f"{front}{row_id}{one}" for front in ("", f"{TRUNCATED}/") for one in ROW_SUFFIXES]


def is_file_of(row_id: str, name: str) -> bool:
    take = name.removeprefix(f"{TAKES}/{row_id}/")
    is_of_take = take != name and "/" not in take and take.endswith(ROW_SUFFIXES)
    return is_of_take or name in own_names(row_id)


class SharedNames:
    """The file names that two rows of a folder share. They belong to the row with the longer id."""

    def __init__(self, ids: Iterable[str]) -> None:
        tails = tuple(NESTED_SUFFIXES.values())
        self._owners = {fold_id(one): one for one in ids if fold_id(one).endswith(tails)}

    def owner(self, row_id: str, suffix: str) -> str | None:
        """Return the id of the other row that a file name of this row belongs to, or None."""
        tail = NESTED_SUFFIXES.get(suffix)
        return None if tail is None else self._owners.get(fold_id(row_id + tail))


def prepare_folder(out: Path) -> None:
    """Create the output folder and check that it is writable. Raises UsageError, SetupError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"--out {out}: is not a folder", remedy="choose another path") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = f"{str(out)[:40]}...: has a name or path too long for this file system"
            raise UsageError(f"--out {name}", remedy="choose a shorter one") from error
        reason = error.strerror or error
        raise SetupError(f"--out {out}: {reason}", remedy="choose another path") from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise SetupError(f"--out {out}: is not writable", remedy="check the folder's permissions")


def file_sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def size_and_sha256(path: Path) -> tuple[int, str] | None:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with open(path, "rb") as file:
            digest = file_sha256(file)
            return file.tell(), digest
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_same(source: Path, target: Path) -> bool:
    try:
        first, second = os.lstat(source), os.lstat(target)
    except FileNotFoundError:
        return False
    if os.path.samestat(first, second):
        return True
    if not stat.S_ISREG(second.st_mode) or first.st_size != second.st_size:
        return False
    with open(source, "rb") as one, open(target, "rb") as other:
        return file_sha256(one) == file_sha256(other)


def _size(path: str) -> int:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return the identity of a folder; None: it does not exist."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class AudioWriter(Encoder):
    """Encodes the files of rows, and stages them in the folder; several threads may use it for
    different ids.

    Args:
        native_rate_hz: sample rate of the given samples.
    Raises:
        UsageError, SetupError: the format, subtype and rate are not possible; see `check_format`.
    """

    def __init__(self, out: Path, config: RunConfig, native_rate_hz: int) -> None:
        super().__init__(config, native_rate_hz)
        self.out = out
        self.is_staging = True  # False: this process does not see the folder
        self._prefix = os.path.join(out, "")
        self._folder = _identity(out)
        self.inside = PathGuard(out)

    def path_of(self, row_id: str) -> Path:
        return self.out / f"{row_id}{self.suffix}"

    @staticmethod
    def name_of(row_id: str, suffix: str, is_truncated: bool, take: int | None) -> str:
        """Return the name of a file, relative to the folder.

        Args:
            is_truncated: the row failed because its audio was cut off.
            take: None: the row's own name.
        """
        name = f"{row_id}{suffix}" if take is None else take_name(row_id, take, suffix)
        return f"{TRUNCATED}/{name}" if is_truncated else name

    def is_whole(self, row_id: str, size: int | None, digest: str | None = None) -> bool:
        """Return whether all files of a finished row exist, and its audio is unchanged.

        A WAV of another size that agrees with its own header was edited by a user, and counts.

        Args:
            size: recorded bytes; None: unknown.
            digest: the first digits of its SHA-256; None: the file is not read.
        """
        name = f"{self._prefix}{row_id}"
        path = f"{name}{self.suffix}"
        found = _size(path)
        if not found or (self.has_codes and not _size(name + CODES_SUFFIX)):
            return False
        try:
            if digest is not None:
                with open(path, "rb") as file:
                    return file_sha256(file).startswith(digest)
            if size is None or found == size:
                return True
            return is_whole_wav(Path(path)) if self.format == "wav" else found > size
        except OSError:
            return False

    def make(
        self,
        row_id: str,
        samples: np.ndarray[Any, Any],
        codes: np.ndarray[Any, Any] | None = None,
        is_truncated: bool = False,
        take: int | None = None,
        tags: Tags = NO_TAGS,
        pace: FilePace = AS_SYNTHESIZED,
    ) -> Encoded:
        """Encode the files of a row, and stage them in the folder under temporary names if this
        process can see it.

        Args:
            samples: (n,) float32 in [-1, 1] or int16, at the native rate; n >= 1.
            codes: (F, K) integers, used only if the run saves codes.
            is_truncated, take: see `name_of`.
        Raises:
            RowError: this row cannot be written (no samples, NaN, bad id, path in the way).
            DiskFull: no row can be written any more.
            StoppedEarly: the output folder no longer exists.
        """
        if problem := id_problem(row_id):
            raise RowError(f"id {row_id!r} {problem}")
        made = self.encode(samples, codes, tags, pace)
        return self.staged(row_id, made, is_truncated, take) if self.is_staging else made

    def staged(
        self, row_id: str, made: Encoded, is_truncated: bool = False, take: int | None = None
    ) -> Encoded:
        """Stage files that are in memory, unless they are staged already. Raises as `make`."""
        audio, codes = made.audio, made.codes
        if not isinstance(audio, bytes):
            return made
        self._require_folder()
        name = self.name_of(row_id, self.suffix, is_truncated, take)
        try:
            if isinstance(codes, bytes):
                codes_name = self.name_of(row_id, CODES_SUFFIX, is_truncated, take)
                part = self._stage(codes_name, codes, str(made.codes_sha256))
                made = replace(made, codes=part)
            return replace(made, audio=self._stage(name, audio, made.sha256))
        except BaseException as error:
            self.drop(made)
            if not isinstance(error, OSError):
                raise
            self._require_folder()
            path = self._prefix + name
            if is_disk_error(error):
                raise disk_full(error, path) from error
            raise RowError(f"cannot write {path}: {error.strerror or error}") from error

    def drop(self, made: Encoded) -> None:
        """Remove staged files that will not be committed."""
        for part in (made.audio, made.codes):
            if isinstance(part, str):
                remove_part(self._prefix + part)

    def _stage(self, name: str, data: bytes, sha256: str) -> str:
        path = self._prefix + name
        self.inside.make_room(path)
        return stage(path, data, token_of(sha256)).removeprefix(self._prefix)

    def _require_folder(self) -> None:
        """Raise StoppedEarly if the folder was moved, removed, unmounted or replaced."""
        if _identity(self.out) != self._folder:
            raise StoppedEarly(
                f"the output folder no longer exists: {self.out}",
                remedy="restore it and run the same command again: finished rows are safe",
            )


class PathGuard:
    """Creates folders in one existing output folder, and refuses paths that lead out of it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._root = out.resolve()
        self.unsynced: set[str] = set()  # folders with new folders that are not synced
        self._folders: set[str] = set()  # checked and created

    def make_room(self, path: Path | str, *, is_synced: bool = True) -> None:
        """Create a file's folder. Raises RowError, OSError: the file cannot be created.

        Args:
            is_synced: sync new folders; else their parents are added to `unsynced`.
        """
        folder = os.path.dirname(path)
        if folder not in self._folders:
            # Step by step, so that nothing is created below a link that leads out.
            step = self.out
            for part in Path(folder).relative_to(self.out).parts:
                parent, step = step, step / part
                is_new = not step.is_dir()
                step.mkdir(exist_ok=True)
                if is_new and is_synced:
                    sync_folder(parent)
                elif is_new:
                    self.unsynced.add(str(parent))
                # Its parent is inside, so only a link can lead out.
                if step.is_symlink() and not step.resolve().is_relative_to(self._root):
                    raise RowError(f"{step} is a link that leads out of the output folder")
            self._folders.add(folder)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISLNK(mode):
            raise RowError(f"{path} is a link; remove it")
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))


class Mover:
    def __init__(self, out: Path) -> None:
        self.out = out
        self._inside = PathGuard(out)
        self._touched: set[str] = set()  # folders whose renames and removals are not synced
        self._synced: set[str] = set()  # folders that were touched

    def make_room(self, name: str) -> None:
        """Create the folder of a file. Raises RowError, OSError."""
        self._inside.make_room(self.out / name, is_synced=False)

    def put(self, part: str, name: str, *, is_staged: bool = False) -> None:
        """Give a staged file, or a file of a take, a name that another file may have. Raises
        OSError.

        Args:
            is_staged: the file has no other name.
        """
        source, path = os.path.join(self.out, part), os.path.join(self.out, name)
        os.replace(source, path)
        if not is_staged:
            remove_part(source)  # a second name of the same file is not renamed
        self._touched |= {os.path.dirname(source), os.path.dirname(path)}

    def retain(self, name: str, target: str) -> None:
        """Give the content of a file a second name, by a hard link or as a synced copy, before
        another file gets the first one. Raises RowError, DiskFull, OSError.
        """
        source, path = self.out / name, self.out / target
        if os.path.lexists(path) or not os.path.lexists(source):
            return
        self.make_room(target)
        try:
            os.link(source, path, follow_symlinks=False)
        except OSError:
            link_atomic(source, path)
        self._touched.add(str(path.parent))

    def move(self, name: str, target: str | None) -> bool:
        """Give a file another name, or remove it. Return False if the file is missing, or another
        file has the name. Raises RowError, OSError.
        """
        source = self.out / name
        if target is None:
            return self.remove(source)
        path = self.out / target
        if os.path.lexists(path):
            return is_same(source, path) and self.remove(source)
        if not os.path.lexists(source):
            return False
        self.make_room(target)
        os.rename(source, path)
        self._touched |= {str(path.parent), str(source.parent)}
        return True

    def remove(self, path: Path) -> bool:
        """Remove a file. Return whether it existed. Raises OSError."""
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._touched.add(str(path.parent))
        return True

    def due(self, *, has_renames: bool = True) -> set[str]:
        """Return the folders that the caller must sync, and forget them.

        Args:
            has_renames: include folders with renamed and removed files, not only those with new
                folders.
        """
        found: set[str] = set()
        for folders in (self._inside.unsynced, *([self._touched] if has_renames else [])):
            with contextlib.suppress(KeyError):  # other threads may add to them meanwhile
                while True:
                    found.add(folders.pop())
        self._synced |= found
        return found

    def owe(self, folders: set[str]) -> None:
        """Remember folders that could not be synced."""
        self._touched |= folders

    def sync(self) -> None:
        """Make all changes durable. Raises DiskFull, OSError."""
        for folder in self.due():
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)

    def end(self) -> None:
        """Make all changes durable, and then remove empty folders in `takes/`. No other thread may
        move files any more. Raises DiskFull, OSError.
        """
        self.sync()
        for folder in map(Path, self._synced):
            if folder.is_relative_to(self.out / TAKES):
                with contextlib.suppress(OSError):  # it contains something
                    while folder != self.out:
                        folder.rmdir()
                        folder = folder.parent


class PlainFiles:
    """Finds plain files inside of an untrusted folder. Links are not followed; the answers for
    subfolders are cached.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._is_inside: dict[Path, bool] = {}

    def size(self, path: Path) -> int | None:
        """Bytes of a plain file inside of the folder; None if there is none."""
        try:
            found = os.lstat(path)
            folder = path.parent
            if folder not in self._is_inside:
                inside = folder.resolve().is_relative_to(self.out.resolve())
                self._is_inside[folder] = inside
        except (OSError, ValueError, RuntimeError):
            return None
        is_plain = stat.S_ISREG(found.st_mode) and self._is_inside[folder]
        return found.st_size if is_plain else None
