"""Write files so that a file under its final name is always complete.

Every file is written as `.<name>.<token>.tts-cli.part` in the same folder, fsynced and renamed, and
its folder is fsynced. A crash can leave only `.part` files, which the next run completes or
removes. The token of a row's file is the start of its SHA-256, so that the journal entry identifies
it: one process can `stage` a file that another one puts in place. Other tokens are process ids.

Files of ours that grow must be regular files: reading a pipe would block forever, and a link could
lead anywhere.
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tts_cli.errors import SetupError, disk_full, is_disk_error, writing
from tts_cli.plain import NOT_PLAIN, open_plain

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 1 << 20  # in files that grow line by line

_PART_NAME = re.compile(r"\.(.+)\.([0-9a-f]+)\.tts-cli\.part")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_SHARE_DATA = 0x40049409  # FICLONE of Linux
# Without O_TMPFILE, opening the folder fails and a temporary name is used.
_NAMELESS = os.O_WRONLY | getattr(os, "O_TMPFILE", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` completely or not at all, even if the power fails.

    Raises DiskFull, or OSError for another error of this file. No temporary file is left.
    """
    put_in_place(stage(path, data), path)
    sync_folder(path.parent)


def write_standalone(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically in a folder that no run cleans up after a crash.

    On Linux the file has no name until it is complete, so a killed process leaves nothing. A file
    that replaces another one has a temporary name between two system calls. Temporary files that
    dead processes left for this path are removed.
    """
    for part in path.parent.glob(glob.escape(f".{path.name}.") + "*.tts-cli.part"):
        pid = part.name.removeprefix(f".{path.name}.").split(".")[0]
        if pid.isdecimal() and is_dead(int(pid)):
            remove_part(part)
    try:
        _write_nameless(path, data)
    except OSError as error:  # not every file system supports O_TMPFILE
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
                os.link(name, path, src_dir_fd=handle)  # src_dir_fd: follow the /proc link
            except FileExistsError:
                os.link(name, part, src_dir_fd=handle)
                os.replace(part, path)
        finally:
            os.close(handle)


def stage(path: Path | str, data: bytes, token: str | None = None) -> str:
    """Write `data` durably under a temporary name next to `path`. Return that name.

    Paths may be strings, because creating a `Path` takes longer than the system call. Without
    `token` the name has the process id. Raises as `write_atomic`.
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
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.fsync(handle)


def put_in_place(part: Path | str, path: Path | str) -> None:
    """Rename a staged file. The caller syncs the folder. Raises as `write_atomic`."""
    with _removed_on_error(part, path):
        os.replace(part, path)


def link_atomic(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`: a hard link, or a copy if there are no links.

    `target` is a complete file at any moment. Raises as `write_atomic`; `target` is then unchanged.
    """
    with suppress(FileNotFoundError):
        if os.path.samefile(source, target):
            return  # renaming a file onto another name of itself would do nothing
    with atomic_path(target) as part:
        link_or_copy(source, part)


def link_or_copy(source: Path, target: Path, *, has_links: bool = True) -> bool:
    """Hard-link a file to a new path, or copy it. Return whether it is a link. Raises OSError.

    A copy shares its data with the source if the file system can do that. It is not synced.
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


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path, renamed to `path` if the block succeeds. Raises as `write_atomic`."""
    part = Path(part_of(path))
    with _removed_on_error(part, path):
        part.unlink(missing_ok=True)  # left by a crashed run
        yield part
        sync_file(part)
        os.replace(part, path)
    sync_folder(path.parent)


def part_of(path: Path | str, token: str | None = None) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{token or os.getpid()}.tts-cli.part")


def token_of(sha256: str) -> str:
    """Return the part of a temporary name that identifies the content of a row's file."""
    return sha256[:16]


@contextmanager
def _removed_on_error(part: Path | str, path: Path | str) -> Iterator[None]:
    try:
        with writing(path):
            yield
    except BaseException:
        remove_part(part)
        raise


def remove_part(part: Path | str) -> None:
    """Remove a temporary file if it exists. An error is only logged."""
    try:
        os.unlink(part)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.debug("could not remove %s: %s", part, error)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)  # Windows syncs no file that is open for reading
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path | str) -> None:
    """Make renames in `folder` durable, if the operating system can."""
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
    return _PART_NAME.fullmatch(name) is not None


def find_parts(out: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the temporary files below a folder, with their final paths and their tokens."""
    for folder, _, names in os.walk(out):
        for name in names:
            if found := _PART_NAME.fullmatch(name):
                yield Path(folder, name), os.path.join(folder, found[1]), found[2]


def remove_stale_parts(out: Path) -> None:
    """Delete temporary files that a crashed run left. Only the lock's owner may call it."""
    for part, _, _ in list(find_parts(out)):
        try:
            part.unlink()
        except OSError as error:
            log.warning("could not remove %s: %s", part, error.strerror)


def require_plain_file(path: Path) -> bool:
    """Whether a file exists. Raises SetupError if it is not a regular file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise SetupError(f"{path}: is not a regular file", remedy="move it out of the folder")
    return True


def open_own(path: Path) -> BinaryIO | None:
    """Open a file of ours in an untrusted folder, if it exists. Raises OSError, SetupError."""
    return open_plain(path, is_link_followed=False) if require_plain_file(path) else None


def read_own(path: Path, max_bytes: int) -> bytes | None:
    """Return up to `max_bytes` of such a file, if it exists. Raises OSError, SetupError."""
    file = open_own(path)
    if file is None:
        return None
    with file:
        return file.read(max_bytes)


def open_to_append(path: Path) -> int:
    """Open a regular file for reading, and for writing at its end, without following links. Return
    its handle. Raises OSError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, NOT_PLAIN, str(path))
    return handle


def iter_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file. The last one may lack its line end. A line of more than
    `MAX_LINE_BYTES` is replaced by a piece of it that is not valid JSON.
    """
    while raw := file.readline(MAX_LINE_BYTES):
        while len(raw) >= MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raw = b"-" + file.readline(MAX_LINE_BYTES - 1)
        yield raw


def iter_file_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file of ours, if it exists, as `iter_lines`. Raises SetupError if it is
    not a regular file, and OSError.
    """
    file = open_own(path)
    if file is not None:
        with file:
            while raw := file.readline(MAX_LINE_BYTES):
                yield raw


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """Parse a line as a JSON object; None: it is not one. Infinities and NaN become None."""
    try:
        values = json.loads(raw, parse_float=_finite, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def is_dead(pid: int) -> bool:
    """Whether a process id belongs to no other process on this host."""
    if sys.platform == "win32":  # there, signal 0 would end the process
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return pid == os.getpid()
