"""Write files so that a file under its final name is always whole.

Every file is written as `.<name>.<token>.tts-cli.part` in the same folder, fsynced and renamed, and
its folder is fsynced. A crash can leave only `.part` files, which the next run finishes or removes.
The token of a row's file is the beginning of its SHA-256, so that the journal's entry names it; the
process that stages a file (`stage`) need not be the one that renames it (`put_in_place`). Other
files have the process id.

Files of our own that grow must be regular files, because a pipe would block for ever and a link
could lead anywhere.
"""

from __future__ import annotations

import errno
import glob
import json
import logging
import math
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tts_cli.errors import SetupError, disk_full, is_disk_error, writing
from tts_cli.plain import NOT_PLAIN, open_plain

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 1 << 20  # of a file that grows by lines

_PART_NAME = re.compile(r"\.(.+)\.([0-9a-f]+)\.tts-cli\.part")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# Where there are no such files, opening a folder to be written fails.
_SHARE_DATA = 0x40049409  # FICLONE of Linux
_NAMELESS = os.O_WRONLY | getattr(os, "O_TMPFILE", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def write_atomic(path: Path, data: bytes) -> None:
    """Put `data` at `path`: whole or not at all, also after a power cut.

    Raises:
        DiskFull: no room, or the disk stopped answering; nothing is left behind.
        OSError: anything else that concerns this file.
    """
    put_in_place(stage(path, data), path)
    sync_folder(path.parent)


def write_alone(path: Path, data: bytes) -> None:
    """As `write_atomic`, in a folder that no run puts in order after a crash: a killed process
    leaves nothing there. The file has no name before it is whole, where the system has such files;
    only one that replaces another needs a temporary one, between two calls. What an earlier process
    left of this very file is removed.
    """
    for part in path.parent.glob(glob.escape(f".{path.name}.") + "*.tts-cli.part"):
        pid = part.name.removeprefix(f".{path.name}.").split(".")[0]
        if pid.isdecimal() and is_dead(int(pid)):
            remove_part(part)
    try:
        _write_nameless(path, data)
    except OSError as error:  # not every file system has such files
        log.debug("%s: written under a temporary name: %s", path, error)
        write_atomic(path, data)
        return
    sync_folder(path.parent)


def _write_nameless(path: Path, data: bytes) -> None:
    part = part_of(path)
    with _removed_on_error(part, path):
        handle = os.open(path.parent, _NAMELESS, 0o666)
        try:
            write_all(handle, data)
            name = f"/proc/self/fd/{handle}"
            try:
                os.link(name, path, src_dir_fd=handle)  # given, it makes it follow the link
            except FileExistsError:
                os.link(name, part, src_dir_fd=handle)
                os.replace(part, path)
        finally:
            os.close(handle)


def stage(path: Path | str, data: bytes, token: str | None = None) -> str:
    """Write `data` next to `path` under a temporary name, durably; returns that name. Rows pass
    strings: creating a `Path` takes longer than the system call.

    Args:
        token: part of the temporary name; None: the process id.
    Raises:
        DiskFull, OSError: as `write_atomic`.
    """
    part = part_of(path, token)
    with _removed_on_error(part, path):
        try:
            handle = os.open(part, _CREATE, 0o666)
        except FileExistsError:  # left by a crashed run
            remove_part(part)
            handle = os.open(part, _CREATE, 0o666)
        try:
            write_all(handle, data)
        finally:
            os.close(handle)
    return part


def write_all(handle: int, data: bytes) -> None:
    """Write and make durable."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.fsync(handle)


def put_in_place(part: Path | str, path: Path | str) -> None:
    """Give a staged file its name; the caller syncs the folder.

    Raises:
        DiskFull, OSError: as `write_atomic`.
    """
    with _removed_on_error(part, path):
        os.replace(part, path)


def link_whole(source: Path, target: Path) -> None:
    """Let `target` be the file `source`, whatever it was before: by a hard link, or a copy where
    the file system has none. At any moment `target` is whole.

    Raises:
        DiskFull: no room, or the disk stopped answering; nothing has changed.
        OSError: anything else about these files.
    """
    if is_same_file(source, target):
        return  # renaming one name of a file to another name of it would do nothing
    with written_whole(target) as part:
        link_or_copy(source, part)


def link_or_copy(source: Path, target: Path, *, has_links: bool = True) -> bool:
    """Give a file a second name; where that is not possible, copy it, without data of its own
    where the file system can share it. The copy is not synced. Returns whether it is a link.

    Args:
        target: does not exist.
        has_links: hard links are wanted.
    Raises:
        OSError: neither is possible.
    """
    if has_links:
        try:
            os.link(source, target, follow_symlinks=False)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            log.debug("cannot hard-link %s (%s); copying it", source, error.strerror)
        else:
            return True
    with open(source, "rb") as read, open(target, "xb") as written:
        try:
            import fcntl

            fcntl.ioctl(written.fileno(), _SHARE_DATA, read.fileno())
        except (ImportError, OSError):
            shutil.copyfileobj(read, written, 1 << 20)
    return False


def is_same_file(first: Path, second: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return os.path.samefile(first, second)
    except FileNotFoundError:
        return False


@contextmanager
def written_whole(path: Path, token: str | None = None) -> Iterator[Path]:
    """The temporary name to write a file under; it gets its own once the block has ended well.

    Args:
        token: part of the temporary name; None: the process id.
    Raises:
        DiskFull: no room, or the disk stopped answering; nothing is left behind.
        OSError: anything else that concerns this file.
    """
    part = Path(part_of(path, token))
    with _removed_on_error(part, path):
        part.unlink(missing_ok=True)  # left by a crashed run
        yield part
        sync_file(part)
        os.replace(part, path)
    sync_folder(path.parent)


def part_of(path: Path | str, token: str | None = None) -> str:
    """The temporary name of a file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{token or os.getpid()}.tts-cli.part")


def token_of(sha256: str) -> str:
    """The part of a temporary name that stands for the content of a row's file."""
    return sha256[:16]


@contextmanager
def _removed_on_error(part: Path | str, path: Path | str) -> Iterator[None]:
    """Leave no temporary file behind where it does not become `path`."""
    try:
        with writing(path):
            yield
    except BaseException:
        remove_part(part)
        raise


def remove_part(part: Path | str) -> None:
    """Remove a temporary file, if it is there and can be."""
    try:
        os.unlink(part)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.debug("could not remove %s: %s", part, error)


def sync_file(path: Path) -> None:
    """Make a file's content durable."""
    handle = os.open(path, os.O_RDWR)  # Windows syncs no file that is open for reading
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path | str) -> None:
    """Make renames in `folder` durable, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if is_disk_error(error):
            raise disk_full(error, folder) from error
        log.debug("%s cannot be synced to disk: %s", folder, error)
    finally:
        os.close(handle)


def is_part(name: str) -> bool:
    """Whether a file is one of those that become another under its final name."""
    return _PART_NAME.fullmatch(name) is not None


def find_parts(out: Path) -> Iterator[tuple[Path, str, str]]:
    """Temporary files below a folder, with the names that they are for and their tokens."""
    for folder, _, names in os.walk(out):
        for name in names:
            if found := _PART_NAME.fullmatch(name):
                yield Path(folder, name), os.path.join(folder, found[1]), found[2]


def remove_stale_parts(out: Path) -> None:
    """Delete temporary files that a crashed run left; only the lock's holder may call it."""
    for part, _, _ in list(find_parts(out)):
        try:
            part.unlink()
        except OSError as error:
            log.warning("could not remove %s: %s", part, error.strerror)


def require_plain_file(path: Path) -> bool:
    """Whether the file is there. Raises SetupError if it is something else than a plain file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise SetupError(f"{path}: is not a regular file", remedy="move it out of the folder")
    return True


def open_own(path: Path) -> BinaryIO | None:
    """Open a file of ours in a folder that anybody may have made; None where it is not there.

    Raises:
        SetupError: it is not a plain file.
        OSError: it cannot be opened.
    """
    return open_plain(path, is_link_followed=False) if require_plain_file(path) else None


def read_own(path: Path, most_bytes: int) -> bytes | None:
    """The first bytes of such a file; None where it is not there. Raises SetupError, OSError."""
    file = open_own(path)
    if file is None:
        return None
    with file:
        return file.read(most_bytes)


def open_to_append(path: Path) -> int:
    """A handle that reads, and writes at the end only. Links are not followed. Raises OSError, also
    where it is not a plain file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, NOT_PLAIN, str(path))
    return handle


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long only a piece that makes no sense. The last one
    may lack its end.
    """
    while raw := file.readline(MAX_LINE_BYTES):
        while len(raw) >= MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raw = b"-" + file.readline(MAX_LINE_BYTES - 1)
        yield raw


def lines_in(path: Path) -> Iterator[bytes]:
    """The lines of such a file, of which the last may be torn, and over-long ones come in pieces;
    none where there is no file.

    Raises:
        SetupError: it is no plain file.
        OSError: it cannot be read.
    """
    file = open_own(path)
    if file is not None:
        with file:
            while raw := file.readline(MAX_LINE_BYTES):
                yield raw


def values_of(raw: bytes) -> dict[str, Any] | None:
    """All that a line says, as JSON; None where that is no object. What is infinite, or no number,
    is unknown.
    """
    try:
        values = json.loads(raw, parse_float=_finite, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def is_dead(pid: int) -> bool:
    """Whether no other process of this host has a number."""
    if sys.platform == "win32":  # there, signal 0 would end the process
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return pid == os.getpid()
