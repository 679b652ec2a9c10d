"""The files of spoken rows in the output folder: audio, codes, and room for them.

Encoding happens in memory first (`file.py`), so a full disk shows up as a plain error of one
write (`atomic.py`).

Paths that stay inside of the output folder, whatever links lie in it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tts_cli.audio.file import (
    NO_TAGS,
    check_format,
    encode,
    encode_codes,
    is_whole_wav,
    resample,
    to_float,
)
from tts_cli.audio.tags import Tags
from tts_cli.config import SUBTITLES, SUBTYPES
from tts_cli.core import Encoded
from tts_cli.errors import RowError, SetupError, StoppedEarly, UsageError, disk_full, is_disk_error
from tts_cli.store.atomic import moved_aside, put_in_place, remove_part, stage, sync_folder
from tts_cli.store.hashes import Delivery, delivery_hash
from tts_cli.manifest.ids import TAKES, TRUNCATED, VOICES, fold_id, id_problem

if TYPE_CHECKING:
    import numpy as np

    from tts_cli.audio.treatment import Applied, Treatment
    from tts_cli.config import RunConfig


JOURNAL_NAME = "timings.jsonl"
CHECKS_NAME = "checks.jsonl"


CODES_SUFFIX = ".codes.safetensors"
# Behind the names of files that had to make room for others made of them, see `folder.recode`.
ORIGINAL_SUFFIX = ".original"
ORIGINALS = tuple(f".{format}{ORIGINAL_SUFFIX}" for format in ("wav", "flac"))
# When each word of a row is said, see `listen.words`.
WORDS_SUFFIX, WORDS_VTT_SUFFIX, TEXTGRID_SUFFIX = ".words.json", ".words.vtt", ".TextGrid"
WORD_SUFFIXES = (WORDS_SUFFIX, WORDS_VTT_SUFFIX, TEXTGRID_SUFFIX)
# All that can stand behind an id in the name of a row's file; of two that fit the first does.
ROW_SUFFIXES = (
    *(CODES_SUFFIX, *ORIGINALS, *WORD_SUFFIXES),
    *(f".{name}" for name in (*SUBTYPES, *SUBTITLES)),
)
# Suffixes that end with another one -> what is in front of it: `a.words.vtt` could be a file of row
# `a`, and of row `a.words`.
NESTED_SUFFIXES = {
    long: long.removesuffix(short)
    for long in ROW_SUFFIXES
    for short in ROW_SUFFIXES
    if long != short and long.endswith(short)
}


class SharedNames:
    """The file names that two rows of a folder share. They belong to the row with the longer id.

    Args:
        ids: of the folder's rows.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        tails = tuple(NESTED_SUFFIXES.values())
        self._owners = {fold_id(one): one for one in ids if fold_id(one).endswith(tails)}

    def owner(self, row_id: str, suffix: str) -> str | None:
        """Return the id of the other row that a file name of this row belongs to, or None."""
        tail = NESTED_SUFFIXES.get(suffix)
        return None if tail is None else self._owners.get(fold_id(row_id + tail))


def prepare_folder(out: Path) -> None:
    """Create the output folder and make sure it can be written to.

    Raises:
        UsageError: the path is not a folder.
        SetupError: it cannot be created or written to.
    """
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


def check_space(out: Path, needed_bytes: int) -> str | None:
    """Compare an estimate with the free space.

    Returns:
        A warning if the estimate does not fit, or None.
    Raises:
        SetupError: not even half of it fits.
    """
    place = out.absolute()
    while not place.exists():
        place = place.parent
    try:
        usage = shutil.disk_usage(place)
    except OSError as error:
        return f"the free space of {place} is unknown: {error.strerror or error}"
    free_bytes = usage.free
    if needed_bytes <= free_bytes or usage.total == 0:  # /proc and others tell no size
        return None
    message = (
        f"about {shown_size(needed_bytes)} are needed, but only {shown_size(free_bytes)} are free"
    )
    if free_bytes == 0:
        message = f"the disk is full; about {shown_size(needed_bytes)} are needed"
    if needed_bytes > 2 * free_bytes:
        raise SetupError(
            f"--out {out}: {message}",
            remedy="free some space, use --format flac, or split the manifest with --shard",
        )
    return f"--out {out}: {message}; the run may stop early"


def shown_size(num_bytes: float) -> str:
    """Bytes in the unit that shows their first digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        digits = 0 if unit == "bytes" else 1
        if round(num_bytes, digits) < 1000:
            name = "byte" if unit == "bytes" and round(num_bytes) == 1 else unit
            return f"{num_bytes:.{digits}f} {name}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"


def is_int16_enough(subtype: str, rate_hz: int, native_rate_hz: int) -> bool:
    """Whether a file holds 16-bit samples at the native rate, so that it needs no others."""
    return subtype == "PCM_16" and rate_hz == native_rate_hz


@dataclass(frozen=True)
class WrittenFile:
    """Audio of a row on disk."""

    path: str  # relative to the output folder, with '/'
    bytes: int
    sha256: str


def delivery_of(treatment: Treatment, format: str, subtype: str, rate_hz: int) -> Delivery:
    """What a run makes of samples, as it is hashed."""
    from tts_cli.audio.treatment import TRIM_MARGIN_S

    target = treatment.target
    return Delivery(
        format,
        subtype,
        rate_hz,
        treatment.highpass_hz,
        f"{TRIM_MARGIN_S:g} s" if treatment.is_trimmed else None,
        treatment.pad_s if any(treatment.pad_s) else None,
        None if target is None else (target.by, target.level_db, target.ceiling_dbtp),
    )


def treat(
    samples: np.ndarray[Any, Any], native_rate_hz: int, rate_hz: int, treatment: Treatment
) -> tuple[np.ndarray[Any, Any], Applied | None]:
    """Samples as a file of `rate_hz` gets them, and what was done to them; None: nothing. Raises
    RowError.
    """
    if treatment.is_none or not len(samples):
        return resample(samples, native_rate_hz, rate_hz), None
    shaped, applied = treatment.shape(to_float(samples), native_rate_hz)
    at_rate = resample(shaped, native_rate_hz, rate_hz, is_clipped=False)
    return treatment.level(at_rate, rate_hz, applied)


def hash_of(file: BinaryIO) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def is_same(source: Path, target: Path) -> bool:
    """Whether two names are of one file, or of two with the same content."""
    try:
        first, second = os.lstat(source), os.lstat(target)
    except FileNotFoundError:
        return False
    if os.path.samestat(first, second):
        return True
    if not stat.S_ISREG(second.st_mode) or first.st_size != second.st_size:
        return False
    with open(source, "rb") as one, open(target, "rb") as other:
        return hash_of(one) == hash_of(other)


def _size(path: str) -> int:
    """Bytes of a plain file; 0 if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _unlink(path: str) -> None:
    """Remove a file that may not be there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _has_beside_audio(out: Path) -> bool:
    """Whether codes or originals of older files may lie in a folder: where there are none, no row
    need ask for its own. What lies in subfolders is not looked at.
    """
    try:
        with os.scandir(out) as found:
            return any(
                entry.name.endswith((CODES_SUFFIX, ORIGINAL_SUFFIX))
                or (entry.name != VOICES and entry.is_dir())
                for entry in found
            )
    except OSError:
        return True


def _identity(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from another one of its name; None if it is not there."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class AudioWriter:
    """Writes `DIR/<id>.<format>`; may be called from several threads for different ids.

    Args:
        out: existing output folder.
        native_rate_hz: sample rate of the samples handed in.
    Raises:
        UsageError, SetupError: the format, subtype and rate cannot be had; see `check_format`.
    """

    def __init__(self, out: Path, config: RunConfig, native_rate_hz: int) -> None:
        self.out = out
        self.format = config.format
        self.native_rate_hz = native_rate_hz
        self.rate_hz = config.sample_rate or native_rate_hz
        self.subtype = check_format(config.format, config.subtype, self.rate_hz)
        from tts_cli.audio.treatment import Treatment  # and numpy with it

        self.treatment = Treatment.of(config)
        self.treatment.require_packages()
        self.delivery = delivery_of(self.treatment, self.format, self.subtype, self.rate_hz)
        self.delivery_hash = delivery_hash(self.delivery)
        self.has_codes = config.save_codes
        self.is_staging = True  # what is made goes to the folder at once
        self.has_folder_alone = True  # no other process stages files in it
        self._prefix = os.path.join(out, "")
        self._folder = _identity(out)
        self._has_truncated = os.path.isdir(self._prefix + TRUNCATED)
        self._has_older = _has_beside_audio(out)
        self.inside = Inside(out)

    @property
    def takes_int16(self) -> bool:
        """Whether files hold 16-bit samples at the native rate, so that int16 is all they need."""
        is_enough = is_int16_enough(self.subtype, self.rate_hz, self.native_rate_hz)
        return is_enough and self.treatment.is_none

    def path_of(self, row_id: str, is_truncated: bool = False, take: int | None = None) -> Path:
        """Where the audio of a row goes, or of a take of one that has several; truncated rows have
        a folder of their own.
        """
        return Path(self._target(row_id, f".{self.format}", is_truncated, take))

    def name_of(self, row_id: str, is_truncated: bool = False, take: int | None = None) -> str:
        """The same as lines have it: relative to the folder, with '/'."""
        return self._name(row_id, f".{self.format}", is_truncated, take)

    def sibling(self, row_id: str, suffix: str) -> Path:
        """Where a file of another kind goes, beside the audio of a row."""
        return Path(self._target(row_id, f".{suffix}", False, None))

    def codes_path_of(
        self, row_id: str, is_truncated: bool = False, take: int | None = None
    ) -> Path:
        """Where the codes of a row go, or of a take."""
        return Path(self._target(row_id, CODES_SUFFIX, is_truncated, take))

    def is_whole(self, row_id: str, size: int | None, digest: str | None = None) -> bool:
        """Whether every file of a finished row is there, and its audio still is what was written.

        A WAV of another size that agrees with its own header was edited by somebody, and stays.

        Args:
            size: bytes it was recorded with; None: unknown.
            digest: the first digits of its SHA-256; None: is not read.
        """
        name = f"{self._prefix}{row_id}"
        path = f"{name}.{self.format}"
        found = _size(path)
        if not found or (self.has_codes and not _size(name + CODES_SUFFIX)):
            return False
        try:
            if digest is not None:
                with open(path, "rb") as file:
                    return hash_of(file).startswith(digest)
            if size is None or found == size:
                return True
            return is_whole_wav(Path(path)) if self.format == "wav" else found > size
        except OSError:
            return False

    def remove(self, row_id: str, is_truncated: bool = False, take: int | None = None) -> None:
        """Take back a row that could not be recorded: no line would say whose file it is."""
        place = (row_id, is_truncated, take)
        for path in (self.path_of(*place), self.codes_path_of(*place)):
            with contextlib.suppress(OSError):
                path.unlink()

    def make(
        self,
        row_id: str,
        samples: np.ndarray[Any, Any],
        codes: np.ndarray[Any, Any] | None = None,
        is_truncated: bool = False,
        take: int | None = None,
        tags: Tags = NO_TAGS,
    ) -> Encoded:
        """Encode a row's files, and stage them in the folder where that is this writer's: they have
        their content then, but not their names. To be handed to `put`, of this writer or of another
        process's.

        Args:
            samples: (n,) float32 in [-1, 1] or int16, at the native rate; n >= 1.
            codes: (F, K) integers, kept only if the run saves codes.
            take: which one of a row that has several; None: the row's own file.
            tags: what the file says of itself.
        Raises:
            RowError: this row cannot be written (no samples, NaN, bad id, path in the way).
            DiskFull: no row can be written any more.
            StoppedEarly: the output folder is gone.
        """
        if problem := id_problem(row_id):
            raise RowError(f"id {row_id!r} {problem}")
        treated, applied = treat(samples, self.native_rate_hz, self.rate_hz, self.treatment)
        data = encode(treated, self.rate_hz, self.format, self.subtype, tags)
        digest = hashlib.sha256(data).hexdigest()
        coded = encode_codes(codes) if codes is not None and self.has_codes else None
        misses = () if applied is None else tuple(self.treatment.misses(applied))
        made = Encoded(data, coded, len(data), digest, len(samples), applied, misses)
        return self._stage(row_id, made, is_truncated, take) if self.is_staging else made

    def put(
        self,
        row_id: str,
        made: Encoded,
        is_truncated: bool = False,
        take: int | None = None,
        is_remade: bool = False,
    ) -> WrittenFile:
        """Give files that were made their names; once this returns they survive a power cut.

        Args:
            is_remade: of what is there: codes and originals are of this speech.
        Raises:
            RowError, DiskFull, StoppedEarly: as `make`; nothing of them is left.
        """
        if isinstance(made.audio, bytes):  # of a process that does not see the folder
            made = self._stage(row_id, made, is_truncated, take)
        path = self._target(row_id, f".{self.format}", is_truncated, take)
        try:
            with self._telling(path):
                codes_path = self._target(row_id, CODES_SUFFIX, is_truncated, take)
                self._has_truncated |= is_truncated
                is_over_older = self._has_older and not is_remade
                # Codes of an older take would not fit, and new ones not to the older audio.
                with moved_aside(codes_path) if is_over_older else contextlib.nullcontext():
                    self._place(made, path, codes_path)
                if is_over_older and not is_truncated:
                    self._remove_originals(row_id, take)
                sync_folder(os.path.dirname(path))
                if not is_truncated:
                    self._remove_truncated(row_id, take)
        except BaseException:
            self.drop(made)
            raise
        name = self.name_of(row_id, is_truncated, take)
        return WrittenFile(name, made.num_bytes, made.sha256)

    def _place(self, made: Encoded, path: str, codes_path: str) -> None:
        """Give audio its name, then its codes: never codes next to audio that is not theirs."""
        put_in_place(self._part(made.audio), path)
        if made.codes is None:
            return
        try:
            put_in_place(self._part(made.codes), codes_path)
        except BaseException:
            _unlink(path)
            raise

    def replaced_by(self, row_id: str, take: int | None = None) -> list[Path]:
        """The names that a row's, or a take's, new audio takes from what is there: those that `put`
        gives it, or removes, and the row's own.
        """
        name = self._name(row_id, "", False, take)
        paths = [self.path_of(row_id), self.path_of(row_id, take=take)]
        return paths + [Path(f"{self._prefix}{name}{suffix}") for suffix in ORIGINALS]

    def drop(self, made: Encoded) -> None:
        """Remove staged files that are not to be put in their places."""
        for part in (made.audio, made.codes):
            if isinstance(part, str):
                remove_part(self._part(part))

    def _stage(self, row_id: str, made: Encoded, is_truncated: bool, take: int | None) -> Encoded:
        """Write what is in memory under temporary names."""
        path = self._target(row_id, f".{self.format}", is_truncated, take)
        self._require_folder()
        with self._telling(path):
            self.inside.make_room(path)
            if isinstance(made.codes, bytes):
                codes_path = self._target(row_id, CODES_SUFFIX, is_truncated, take)
                self.inside.make_room(codes_path)
                made = replace(made, codes=self._staged(codes_path, made.codes))
            try:
                assert isinstance(made.audio, bytes)
                return replace(made, audio=self._staged(path, made.audio))
            except BaseException:
                self.drop(made)
                raise

    def _staged(self, path: str, data: bytes) -> str:
        number = None if self.has_folder_alone else secrets.randbits(63)
        return stage(path, data, number).removeprefix(self._prefix)

    def _part(self, name: bytes | str) -> str:
        assert isinstance(name, str), "not staged"
        return self._prefix + name

    @contextlib.contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        """Turn what is wrong with a file or the folder into an error of ours."""
        try:
            yield
        except OSError as error:
            self._require_folder()
            if is_disk_error(error):
                raise disk_full(error, path) from error
            raise RowError(f"cannot write {path}: {error.strerror or error}") from error

    def _require_folder(self) -> None:
        """Raise StoppedEarly if the folder was moved, removed or unmounted, or is another one."""
        if _identity(self.out) != self._folder:
            raise StoppedEarly(
                f"the output folder no longer exists: {self.out}",
                remedy="restore it and run the same command again: finished rows are safe",
            )

    def _target(self, row_id: str, suffix: str, is_truncated: bool, take: int | None) -> str:
        return self._prefix + self._name(row_id, suffix, is_truncated, take)

    @staticmethod
    def _name(row_id: str, suffix: str, is_truncated: bool, take: int | None) -> str:
        """Where a file goes, relative to the folder."""
        name = row_id if take is None else f"{TAKES}/{row_id}/{take}"
        return f"{TRUNCATED}/{name}{suffix}" if is_truncated else name + suffix

    def _remove_originals(self, row_id: str, take: int | None) -> None:
        """What an older take's files were made of."""
        for suffix in ORIGINALS:
            _unlink(self._prefix + self._name(row_id, suffix, False, take))

    def _remove_truncated(self, row_id: str, take: int | None) -> None:
        """A row that came out well no longer has a runaway to listen to. On a disk behind a network
        each question takes a while, so where no row has one nothing is asked.
        """
        if not self._has_truncated:
            return
        for suffix in (f".{self.format}", CODES_SUFFIX):
            _unlink(self._prefix + self._name(row_id, suffix, True, take))


class Inside:
    """Makes folders for files of one output folder, and refuses every way out of it.

    Args:
        out: existing folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._root = out.resolve()
        self._folders: set[str] = set()  # checked and created

    def make_room(self, path: Path | str) -> None:
        """Create a file's folder. Raises RowError, OSError: the file cannot stand there."""
        folder = os.path.dirname(path)
        if folder not in self._folders:
            # Step by step: nothing may be created behind a link before the link is seen.
            step = self.out
            for part in Path(folder).relative_to(self.out).parts:
                parent, step = step, step / part
                is_new = not step.is_dir()
                step.mkdir(exist_ok=True)
                if is_new:
                    sync_folder(parent)
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

    def forget(self, folder: Path) -> None:
        """A folder that was removed has to be made anew."""
        self._folders.discard(str(folder))


class PlainFiles:
    """Looks for plain files inside of a folder that may come from anybody. Links are not followed;
    which subfolders are inside is remembered.
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
