"""Intercept the calls of a process that change files below a folder: kill it, fail them, log them.

`begin` patches `os` and `open` in the process of a command (see `folder_cases.PROGRAM`) and hands
every such call to one of three handlers: `Killer`, `Failer` and `Recorder`. Files that C libraries
write by themselves are not seen.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import json
import os
import signal
import stat
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

# Function of `os` -> kind of call, and which argument is the file that it changes.
FUNCTIONS = {
    **{name: ("rename", 1) for name in ("rename", "replace")},
    **{name: ("link", 1) for name in ("link", "symlink")},
    **{name: ("unlink", 0) for name in ("unlink", "remove")},
    **{name: ("write", 0) for name in ("write", "writev", "pwrite", "sendfile")},
    **{name: ("fsync", 0) for name in ("fsync", "fdatasync")},
    **{name: ("truncate", 0) for name in ("truncate", "ftruncate", "posix_fallocate")},
    **{name: (name, 0) for name in ("mkdir", "rmdir", "utime")},
    "copy_file_range": ("write", 1),
}
NAMELESS = getattr(os, "O_TMPFILE", 0)
CHANGING = os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC


@dataclass(frozen=True)
class Call:
    """A call that is about to change a file or a folder."""

    kind: str
    path: str  # of the file that it changes; of a rename or link the new one
    args: tuple[Any, ...]
    tear: Callable[[], object] | None = None  # writes the first half of the data

    @property
    def handle(self) -> int | None:
        """The descriptor that the call got, if it got one."""
        return self.args[0] if self.args and isinstance(self.args[0], int) else None


class Killer:
    """Count the calls, and kill the process before one of them."""

    def __init__(self, at: int) -> None:
        self._at, self._count, self._mutex = at, 0, threading.Lock()

    def __call__(self, call: Call, do: Callable[[], Any]) -> Any:
        with self._mutex:
            self._count += 1
            if self._count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
        return do()

    def result(self) -> dict[str, Any]:
        return {"calls": self._count}


class Failer:
    """Fail the n-th call of a kind, and later ones as well if `is_sticky`. A write that fails has
    written half of its data, as on a disk that fills up. The result names the first file that
    failed; for a folder it is the file in it whose name changed last.
    """

    def __init__(self, kind: str, at: int, code: int, is_sticky: bool) -> None:
        self._kind, self._at, self._code, self._is_sticky = kind, at, code, is_sticky
        self._counts: Counter[str] = Counter()
        self._failed = ""
        self._changed: dict[str, str] = {}  # folder -> the last name that was set or removed in it
        self._unsynced: dict[tuple[int, int], int] = {}  # inodes whose fsync failed -> a copy
        self._retried: list[str] = []
        self._mutex = threading.Lock()

    def __call__(self, call: Call, do: Callable[[], Any]) -> Any:
        with self._mutex:
            self._counts[call.kind] += 1
            count = self._counts[call.kind] if call.kind == self._kind else 0
            fails = count > 0 and (count == self._at or (self._is_sticky and count > self._at > 0))
            if call.kind == "fsync":
                self._watch_fsync(call, fails)
            if fails:
                self._failed = self._failed or self._changed.get(call.path, call.path)
            if call.kind in ("rename", "link", "unlink", "mkdir"):
                self._changed[os.path.dirname(call.path)] = call.path
        if not fails:
            return do()
        if call.tear is not None:
            with suppress(OSError):
                call.tear()
        names = [arg for arg in call.args[:2] if isinstance(arg, (str, bytes, os.PathLike))]
        named = (names[0], None, *names[1:]) if names else ()
        raise OSError(self._code, os.strerror(self._code), *named)

    def _watch_fsync(self, call: Call, fails: bool) -> None:
        """Note a file that is synced again after it failed. The copy of its descriptor keeps the
        system from giving its inode to another file.
        """
        found = os.stat(call.args[0])
        inode = (found.st_dev, found.st_ino)
        if not stat.S_ISREG(found.st_mode):
            return
        if fails:
            self._unsynced.setdefault(inode, os.dup(call.args[0]))
        elif inode in self._unsynced:
            self._retried.append(call.path)

    def result(self) -> dict[str, Any]:
        return {"counts": self._counts, "failed": self._failed, "retried": self._retried}


class Recorder:
    """Log what the calls do to names and contents, by inode. Events are

    names   entries [folder, name, inode or null] that one call sets or removes
    folder  a new folder's inode
    data    inode, content and mtime of a file
    sync    inode of a file or folder
    """

    def __init__(self, root: str) -> None:
        self.events: list[list[Any]] = []
        self._mutex = threading.RLock()
        self._data: dict[int, str] = {}
        self._known: set[int] = set()
        self._root = self._keep(root)
        for folder, folders, files in os.walk(root):
            inode = os.stat(folder).st_ino
            for name in folders + files:
                path = os.path.join(folder, name)
                self.events.append(["names", [[inode, name, self._keep(path)]]])
                if name in files:
                    self._look(path)
        self._num_before = len(self.events)

    def __call__(self, call: Call, do: Callable[[], Any]) -> Any:
        with self._mutex:
            result = do()
            log = getattr(self, f"_{call.kind}", None)
            if log is not None:
                log(call, result)
            return result

    def _keep(self, path: str) -> int:
        """Return a file's inode, whose number no other file gets while it has a descriptor."""
        inode = os.lstat(path).st_ino
        if inode not in self._known:
            self._known.add(inode)
            os.open(path, os.O_PATH)
            if os.path.isdir(path):
                self.events.append(["folder", inode])
        return inode

    def _look(self, path: str) -> int:
        """Log the content of a file if it is new; returns its inode."""
        found = os.stat(path)
        handle = os.open(path, os.O_RDONLY)
        try:
            data = os.pread(handle, found.st_size, 0).decode("latin-1")
        finally:
            os.close(handle)
        if self._data.get(found.st_ino) != data:
            self._data[found.st_ino] = data
            self.events.append(["data", found.st_ino, data, found.st_mtime_ns])
        return found.st_ino

    def _entry(self, path: str, is_removed: bool = False) -> list[Any]:
        folder, name = os.path.split(path)
        inode = None if is_removed else self._keep(path)
        return [os.stat(folder).st_ino, name, inode]

    def _open(self, call: Call, handle: int) -> None:
        path = f"/proc/self/fd/{handle}"
        inode = os.stat(path).st_ino
        if inode not in self._known:
            if call.args[1] & NAMELESS == NAMELESS:
                self._known.add(inode)
                os.dup(handle)
            else:
                self.events.append(["names", [self._entry(call.path)]])
        self._look(path)

    def _write(self, call: Call, _: Any) -> None:
        self._look(call.path if call.handle is None else f"/proc/self/fd/{call.handle}")

    _truncate = _utime = _write

    def _fsync(self, call: Call, _: Any) -> None:
        found = os.stat(call.args[0])
        if stat.S_ISREG(found.st_mode):
            self._look(f"/proc/self/fd/{call.handle}")
        self.events.append(["sync", found.st_ino])

    def _rename(self, call: Call, _: Any) -> None:
        old = os.path.abspath(os.fsdecode(call.args[0]))
        if not os.path.lexists(old):  # two names of one file would both stay
            entries = [self._entry(call.path), self._entry(old, is_removed=True)]
            self.events.append(["names", entries])

    def _link(self, call: Call, _: Any) -> None:
        self.events.append(["names", [self._entry(call.path)]])
        self._look(call.path)

    def _mkdir(self, call: Call, _: Any) -> None:
        self.events.append(["names", [self._entry(call.path)]])

    def _unlink(self, call: Call, _: Any) -> None:
        self.events.append(["names", [self._entry(call.path, is_removed=True)]])

    _rmdir = _unlink

    def result(self) -> dict[str, Any]:
        return {"root": self._root, "before": self._num_before, "events": self.events}


def path_of(what: Any, folder: int | None = None) -> str:
    """Return the path of a descriptor, or of a name relative to an open folder."""
    if isinstance(what, int):
        return os.readlink(f"/proc/self/fd/{what}")
    path = os.fsdecode(what)
    if folder is not None:
        path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    return os.path.abspath(path)


def watch(
    root: str,
    handler: Callable[[Call, Callable[[], Any]], Any],
    setattr: Callable[..., None] = setattr,
) -> None:
    """Hand calls that change something below `root` to a handler.

    Args:
        setattr: sets an attribute of a module, such as pytest's `monkeypatch.setattr`.
    """

    def is_below(path: str) -> bool:
        return path.startswith(root + os.sep) or path == root

    def wrap(real: Callable[..., Any], kind: str, position: int) -> Callable[..., Any]:
        def half(*args: Any, **named: Any) -> object:
            return real(args[0], memoryview(args[1])[: len(args[1]) // 2], *args[2:], **named)

        @functools.wraps(real)
        def call(*args: Any, **named: Any) -> Any:
            folder = named.get("dst_dir_fd" if position else "dir_fd")
            path = path_of(args[position], folder)
            if not is_below(path) or (kind == "open" and not args[1] & (CHANGING | NAMELESS)):
                return real(*args, **named)
            tear = None
            if real.__name__ in ("write", "pwrite"):
                tear = functools.partial(half, *args, **named)
            return handler(Call(kind, path, args, tear), lambda: real(*args, **named))

        for found in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if real in found:
                found.add(call)
        return call

    for name, (kind, position) in FUNCTIONS.items():
        if hasattr(os, name):
            setattr(os, name, wrap(getattr(os, name), kind, position))
    setattr(os, "open", wrap(os.open, "open", 0))
    real_open = io.open

    class Raw(io.FileIO):
        """A file whose changes the handler sees."""

        def write(self, data: Any) -> int:
            first = memoryview(data)[: len(data) // 2]
            call = Call("write", path_of(self.fileno()), (self.fileno(),), lambda: put(first))
            put = super().write
            return int(handler(call, lambda: put(data)))

        def truncate(self, size: int | None = None) -> int:
            call, cut = Call("truncate", path_of(self.fileno()), (self.fileno(),)), super().truncate
            return int(handler(call, lambda: cut(size)))

    def open_file(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        if not set(mode) & set("wxa+") or not is_below(path_of(file)):
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        opener = opener or (lambda path, flags: os.open(path, flags, 0o666))
        binary = mode.replace("b", "").replace("t", "")
        raw = Raw(file, binary, closefd, None if isinstance(file, int) else opener)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)

    setattr(builtins, "open", open_file)
    setattr(io, "open", open_file)


def without_links() -> None:
    """Let no hard link be made, as on a file system that has none."""

    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    os.link = link


def begin() -> Callable[[], None]:
    """Patch this process as the environment asks for; returns what writes the handler's result."""
    plan = json.loads(os.environ["FOLDER_CALLS"])
    if plan["no_links"]:
        without_links()
    makers: dict[str, Callable[..., Any]] = {
        "kill": Killer,
        "fail": Failer,
        "log": lambda: Recorder(plan["below"]),
    }
    handler = makers[plan["do"]](**plan["how"])
    watch(plan["below"], handler)

    def end() -> None:
        with io.FileIO(plan["result"], "w") as file:
            file.write(json.dumps(handler.result()).encode())

    return end
