"""Write the files of an export, and replace an earlier export by a new one.

An export is written to `OUT.part/new-export`, which is renamed to OUT when it is complete. An
earlier export in OUT is moved to `OUT.part/old-export` just before that, and deleted after it. A
killed command therefore leaves the old OUT, the new one or none, and the next one starts over.

`export.sums` lists the SHA-256 of every file, as `sha256sum -c` reads them. An earlier export is
replaced only if all files in it are listed: files that a user added or edited are never deleted.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tts_cli.atomic import is_part, iter_file_lines, sync_folder
from tts_cli.errors import UsageError
from tts_cli.events import Count
from tts_cli.store.files import file_sha256, prepare_folder, size_and_sha256
from tts_cli.store.lock import LOCK_NAME, FolderLock

SUMS_NAME = "export.sums"
STATE_NAME = "export.json"
_NEW, _OLD = "new-export", "old-export"
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Artifacts:
    """The files of a new export in a folder that does not exist yet. Methods raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._files: dict[str, BinaryIO] = {}
        self._sums = open(folder / SUMS_NAME, "xb")  # noqa: SIM115

    def open(self, name: str) -> BinaryIO:
        """Return the open file of a name, which is created on the first call."""
        if name not in self._files:
            self._files[name] = open(self._path(name), "x+b")  # noqa: SIM115
        return self._files[name]

    def finish(self, name: str) -> None:
        with self._files.pop(name) as file:
            _sync(file)
            file.seek(0)
            self._list(name, file_sha256(file))

    def add(self, name: str, data: bytes, sha256: str) -> None:
        """Write a file. If that fails, nothing is left of it."""
        path = self._path(name)
        try:
            with open(path, "xb") as file:
                file.write(data)
                _sync(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._list(name, sha256)

    def link(self, name: str, source: Path, sha256: str) -> bool:
        """Make a hard link; return False if the file system does not support them."""
        try:
            os.link(source, self._path(name), follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        self._list(name, sha256)
        return True

    def complete(self, state: bytes) -> None:
        """Close all files, and write `export.json`. Everything is durable then."""
        for name in list(self._files):
            self.finish(name)
        _sync(self._sums)
        self._sums.close()
        with open(self.folder / STATE_NAME, "xb") as file:
            file.write(state)
            _sync(file)
        for folder, _, _ in os.walk(self.folder):
            sync_folder(folder)

    def close(self) -> None:
        for file in (*self._files.values(), self._sums):
            with suppress(OSError):
                file.close()

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _list(self, name: str, sha256: str) -> None:
        self._sums.write(f"{sha256}  {name}\n".encode())


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def replacing(
    out: Path, takes_over: bool, require_ours: Callable[[], object]
) -> Iterator[Artifacts]:
    """Yield the files of an export that becomes `out` when the block ends without an error.

    Args:
        takes_over: see `FolderLock`.
        require_ours: raises UsageError unless `out` contains an earlier export that may be
            replaced, or nothing.
    Raises:
        UsageError, SetupError: `out` cannot be replaced, or a user changed files in it.
        OSError: the disk failed. `out` is as before.
    """
    part = out.with_name(f"{out.name}.part")
    new, old = part / _NEW, part / _OLD
    if os.path.lexists(out) and not out.is_dir():
        raise UsageError(f"--out {out}: is not a folder", "choose another path")
    if out.exists() and (os.path.ismount(out) or Path.cwd().is_relative_to(out.resolve())):
        raise UsageError(
            f"--out {out}: is a mount point or the current folder, which cannot be replaced",
            "choose a folder in it",
        )
    prepare_folder(part)
    try:
        if others := sorted({*os.listdir(part)} - {LOCK_NAME, _NEW, _OLD}):
            raise UsageError(
                f"{part}: contains {others[0]}, and is needed to write the export",
                "move it away, or choose another --out",
            )
        with FolderLock(part, takes_over):
            since_ns = os.stat(part / LOCK_NAME).st_mtime_ns
            _clean(out, new, old)
            try:
                require_ours()
                _require_as_written(out)
                artifacts = Artifacts(new)
                try:
                    yield artifacts
                finally:
                    artifacts.close()
                _require_as_written(out, since_ns)
                if out.exists():
                    os.rename(out, old)
                os.rename(new, out)
                sync_folder(out.parent)
            finally:
                _clean(out, new, old)
    finally:
        with suppress(OSError):  # another export may have begun
            part.rmdir()


def _clean(out: Path, new: Path, old: Path) -> None:
    """Delete what a command left, but move an earlier export back if it has no successor yet."""
    if old.exists() and not out.exists():
        os.rename(old, out)
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _require_as_written(out: Path, since_ns: int = 0) -> None:
    """Check that a folder contains only files that are listed in its `export.sums`.

    Args:
        since_ns: files that have not changed since this time are not read again.
    Raises:
        UsageError: a file was added or edited.
        SetupError: the list is not a regular file.
    """
    listed, names, foreign = set(), set(), Count(is_sorted=True)
    for line in iter_file_lines(out / SUMS_NAME):
        listed.add(hash(line.rstrip(b"\n")))
        names.add(hash(line.rstrip(b"\n")[66:]))
    for folder, folders, files in os.walk(out, onerror=_raise) if out.exists() else ():
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for path in (Path(folder, name) for name in (*files, *links)):
            name = path.relative_to(out).as_posix()
            # Temporary files and locks are of earlier versions, which wrote into the folder itself.
            if name in (SUMS_NAME, STATE_NAME, LOCK_NAME) or is_part(path.name):
                continue
            raw = os.fsencode(name)
            if hash(raw) in names:
                found = os.lstat(path)
                if max(found.st_mtime_ns, found.st_ctime_ns) < since_ns:
                    continue
                facts = size_and_sha256(path)
                if facts is not None and hash(f"{facts[1]}  ".encode() + raw) in listed:
                    continue
            foreign.add(name)
    if foreign.count:
        raise UsageError(
            f"{out}: contains files that were added or edited after the export: "
            f"{foreign.and_more()}",
            "move them out of the folder, or choose another --out",
        )


def _raise(error: OSError) -> None:
    raise error
