"""The errors that users can meet, each with its exit code.

    TtsCliError
    |-- UsageError              2  wrong flags, or flags that exclude each other
    |   |-- FolderLocked        2  another run works in the same folder
    |   `-- SpeakerBusy         2  a `Speaker` is in the middle of another call
    |-- ManifestError           2  the manifest cannot be read, is empty or has invalid rows
    |-- SetupError              3  something is missing: model, device, package, write access
    |-- StoppedEarly            4  the run ended before its rows did; finished rows are safe
    |   |-- DiskFull            4  no space left, or the disk stopped responding
    |   `-- Cancelled           4  a `Speaker` was cancelled or closed
    `-- RowError                -  one row failed; the engine records it and continues
    Interrupted   129, 130, 143  SIGHUP, SIGINT or SIGTERM; finished rows are safe. Not an
                              Exception, so that libraries cannot catch and ignore it

Exit codes 0 (every row is done) and 1 (some rows failed) are not errors here.
"""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_USER_INFO = re.compile(r"""(:/{1,2})[^\s/"']+@""")


def without_user_info(text: str) -> str:
    """Return a text with names and passwords in URLs replaced by `***`."""
    return _USER_INFO.sub(r"\1***@", text) if "@" in text else text


class TtsCliError(Exception):
    """An error with a message for the user and, if possible, a remedy."""

    exit_code = 4

    def __init__(self, message: str, remedy: str | None = None) -> None:
        self.message = without_user_info(message)
        super().__init__(self.message)
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class UsageError(TtsCliError):
    """A flag is wrong, or two flags exclude each other."""

    exit_code = 2


class SettingsChanged(UsageError):  # noqa: N818
    """Settings given now would change the speech of done rows."""


class FolderLocked(UsageError):  # noqa: N818
    """Another run holds the output folder."""


class SpeakerBusy(UsageError):  # noqa: N818
    """A `Speaker` is called while another of its calls is running."""


class ManifestError(TtsCliError):
    """The manifest as a whole cannot be used."""

    exit_code = 2


class SetupError(TtsCliError):
    """The machine lacks something: a model, a device, a package, write access."""

    exit_code = 3


class StoppedEarly(TtsCliError):  # noqa: N818
    """The run had to end before its rows did; finished rows are safe."""

    exit_code = 4


class DiskFull(StoppedEarly):
    """Nothing more can be written to the output folder."""


class Cancelled(StoppedEarly):
    """A call of a `Speaker` was cancelled, or the `Speaker` was closed during it."""


class Interrupted(BaseException):
    """The process was asked to stop by a signal."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__("Interrupted" if name == "SIGINT" else f"Stopped by {name}")
        self.exit_code = 128 + number


class RowError(TtsCliError):
    """One row cannot be synthesized or written; the other rows continue."""

    exit_code = 1


_DISK_ERRNOS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE", "ENODEV")
    if hasattr(errno, name)
)


def is_disk_error(error: OSError) -> bool:
    """Whether an error will affect every further write, not only this file."""
    return error.errno in _DISK_ERRNOS


def disk_full(error: OSError, where: object) -> DiskFull:
    """Return the exception to raise for an OSError that `is_disk_error`."""
    remedy = "check the disk, and run the same command again: finished rows are safe"
    if error.errno == errno.EROFS:
        remedy = "choose a writable folder, or make this one writable; finished rows are safe"
    elif error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
        remedy = "free some space and run the same command again: finished rows are safe"
    return DiskFull(f"cannot write {where}: {error.strerror or error}", remedy)


@contextmanager
def writing(
    where: object,
    other: type[TtsCliError] | None = None,
    message: str = "",
    remedy: str | None = None,
) -> Iterator[None]:
    """Raise an OSError of the block as DiskFull if it `is_disk_error`.

    Args:
        where: the file or folder, for the message.
        other: exception type for any other OSError; None: it is raised unchanged.
        message: message of that exception, before the reason; empty: `where` cannot be written.
    """
    try:
        yield
    except OSError as error:
        if is_disk_error(error):
            raise disk_full(error, where) from error
        if other is None:
            raise
        problem = message or f"cannot write {where}"
        raise other(f"{problem}: {error.strerror or error}", remedy) from error


def is_device_lost(error: BaseException) -> bool:
    """Whether the device is lost, and the run with it."""
    return not isinstance(error, TtsCliError) and "CUDA error" in str(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: of Python, numpy, the system, or torch (a RuntimeError)."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_torchs = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or is_torchs


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust has panicked, which is not an Exception."""
    return type(error).__name__ == "PanicException"


def out_of_memory(error: BaseException) -> StoppedEarly:
    """Return the exception to raise for one that `is_out_of_memory`."""
    return StoppedEarly(
        f"there is not enough memory: {first_line(error)}",
        "close other programs, or synthesize fewer rows at a time (--max-batch), and run the "
        "same command again: finished rows are safe",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, or its type."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def library_errors(name: str, remedy: str) -> Iterator[None]:
    """Raise ManifestError for any error that a library raises about the file `name`: libraries
    document few of the errors that a damaged file causes.
    """
    try:
        yield
    except (TtsCliError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        reason = first_line(error)[:200]
        raise ManifestError(f"{name}: cannot be read: {reason}", remedy) from None
