"""The lock of an output folder: one run at a time.

The lock is a file with process id, host, boot id and start time, and an `flock` if the file system
supports it. A file left by a dead process of this host is taken over, and so is one without an
`flock` from another host name with the same boot id, which was a container. A file from another
host may belong to a live run, so it is taken over only with `--take-over`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tts_cli.atomic import is_dead, read_own, sync_folder
from tts_cli.errors import FolderLocked, SetupError, disk_full, is_disk_error

log = logging.getLogger(__name__)

LOCK_NAME = ".tts-cli.lock"
PATIENCE_S = 0.3  # for commands that need the lock for a moment, such as a decision of `review`
_MAX_BYTES = 4096
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}


class FolderLock:
    """Context manager that locks an output folder.

    Args:
        takes_over: also from another host; never from a run that has the `flock`.
    Raises on entry:
        FolderLocked: another run has, or may have, locked it.
        SetupError: the lock file cannot be created.
    """

    def __init__(self, out: Path, takes_over: bool = False) -> None:
        self.path = out / LOCK_NAME
        self.takes_over = takes_over
        self.crashed_ns: int | None = None  # when the run began whose lock was taken over
        self._handle: int | None = None

    def __enter__(self) -> FolderLock:
        deadline_s = time.monotonic() + PATIENCE_S
        try:
            while not self._has_acquired(is_last=time.monotonic() > deadline_s):
                time.sleep(0.01)
        except OSError as error:
            if error.errno == errno.EROFS:
                remedy = "choose a writable folder"
            elif is_disk_error(error):
                raise disk_full(error, self.path) from error
            else:
                remedy = "check the folder's permissions"
            reason = error.strerror or error
            raise SetupError(f"cannot lock {self.path}: {reason}", remedy) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):  # the folder may have been deleted
                self.path.unlink()
            os.close(self._handle)
            self._handle = None

    def _has_acquired(self, *, is_last: bool) -> bool:
        """Try to acquire the lock. Raises FolderLocked only in the last attempt."""
        try:
            self._acquire()
        except FolderLocked:
            if is_last:
                raise
            return False
        return True

    def _acquire(self) -> None:
        while True:
            handle, is_new = self._open()
            has_flock = None
            try:
                has_flock = _try_flock(handle)
                os.lseek(handle, 0, os.SEEK_SET)
                owner = _owner_in(os.read(handle, _MAX_BYTES))
                if has_flock is False:
                    raise self._refusal(owner)
                if not self._is_current(handle):  # its last owner removed it meanwhile
                    os.close(handle)
                    continue
                if not is_new:
                    self._judge_leftover(owner, has_flock is True)
                    self.crashed_ns = os.fstat(handle).st_mtime_ns
                _write_owner(handle)
                if is_new:  # survives a power cut, so that the next command recovers the folder
                    sync_folder(self.path.parent)
            except BaseException:
                if is_new and has_flock:  # a signal arrived before the file was complete
                    with contextlib.suppress(OSError):
                        self.path.unlink()
                os.close(handle)
                raise
            self._handle = handle
            return

    def _open(self) -> tuple[int, bool]:
        while True:
            try:
                return os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666), True
            except FileExistsError:
                try:
                    return os.open(self.path, _FLAGS), False
                except FileNotFoundError:  # removed between the two
                    continue

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _judge_leftover(self, owner: dict[str, Any] | None, has_flock: bool) -> None:
        """Check whether an existing lock file may be taken over. Raises FolderLocked."""
        if owner is None:
            if not has_flock:  # its creator may be about to write it
                raise self._refusal(None)
            return
        pid, host = owner.get("pid"), owner.get("host")
        has_ended = isinstance(pid, int) and (has_flock or is_dead(pid))
        if host != socket.gethostname():  # process ids of other hosts say nothing
            has_ended = has_flock and owner.get("boot") is not None and owner["boot"] == boot_id()
        if has_ended:
            log.warning("took over %s: process %s has ended", self.path.parent, pid)
        elif self.takes_over and host != socket.gethostname():
            log.warning(
                "took over %s from process %s on %s, as requested", self.path.parent, pid, host
            )
        else:
            raise self._refusal(owner)

    def _refusal(self, owner: dict[str, Any] | None) -> FolderLocked:
        holder = "another run"
        remedy = "wait for it, or choose another --out"
        if owner is None:
            remedy += f"; if there is no other run, delete {self.path}"
        else:
            holder = "process {pid} on {host} since {started}".format(
                **{key: owner.get(key, "?") for key in ("pid", "host", "started")}
            )
            if owner.get("host") != socket.gethostname():
                remedy += "; if that run has ended, add --take-over"
        return FolderLocked(f"{self.path.parent} is in use by {holder}", remedy=remedy)


def running_owner(out: Path) -> str | None:
    """Return the process that has locked a folder, for messages, or None. A lock file of another
    host counts, because its process may run. Nothing is changed.
    """
    try:
        raw = read_own(out / LOCK_NAME, _MAX_BYTES)
    except (OSError, SetupError):
        return None
    owner = None if raw is None else _owner_in(raw)
    if owner is None or owner.get("pid") == os.getpid():
        return None
    pid, host = owner.get("pid"), owner.get("host")
    if host == socket.gethostname() and isinstance(pid, int) and is_dead(pid):
        return None
    return f"process {pid} on {host} since {owner.get('started')}"


def is_read_only(folder: Path) -> bool:
    """Return whether no file can be created in a folder, so that it needs no lock."""
    return not os.access(folder, os.W_OK | os.X_OK)


def _try_flock(handle: int) -> bool | None:
    """Lock a file. True: locked; False: another process has locked it; None: not supported."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno in _NO_FLOCK:
            return None
        raise
    return True


def boot_id() -> str | None:
    """Return the id of this boot of the kernel, shared by its containers; None: unknown."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _owner_in(raw: bytes) -> dict[str, Any] | None:
    """Return the content of the lock file; None if it is empty or torn."""
    try:
        owner = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return owner if isinstance(owner, dict) else None


def _write_owner(handle: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "boot": boot_id(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, json.dumps(owner).encode())
    os.fsync(handle)
