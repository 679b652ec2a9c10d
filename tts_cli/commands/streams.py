"""Standard streams that are closed or full: a message instead of an internal error."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import sys
from typing import TextIO

import click

from tts_cli.errors import SetupError, StoppedEarly, TtsCliError

log = logging.getLogger(__name__)

_ERRNOS = frozenset(
    [errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, getattr(errno, "EDQUOT", 0)]
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def open_closed_streams() -> None:
    """Put something in the place of streams the process was started without (`>&-`).

    Their numbers must be taken: the next file opened would get one, and with it what libraries
    print. Writing to such a stdout fails, as a result that nobody gets must be told of.
    """
    with contextlib.suppress(OSError):
        while (handle := os.open(os.devnull, os.O_RDONLY)) <= 2:
            pass
        os.close(handle)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def is_stdout_error(error: BaseException) -> bool:
    """Whether an error is of stdout: errors of files name theirs, or are no OSError any more."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _ERRNOS


def stdout_error(error: OSError) -> TtsCliError:
    """The error to report for one that `is_stdout_error`; nothing is written there any more."""
    silence(sys.stdout)
    remedy = "send it somewhere else"
    if error.errno == errno.EBADF:
        return SetupError("cannot write to stdout: it is closed", remedy)
    return StoppedEarly(f"cannot write to stdout: {error.strerror or error}", remedy)


def show_or_warn(text: str, exit_code: int = 0, *, is_json: bool = False) -> int:
    """Print what came of a command that the folder has as well, so that a lost stdout fails
    nothing; but a program that is to read JSON must learn that there is none. Returns the exit
    code.
    """
    try:
        click.echo(text)
    except OSError as error:
        if not is_stdout_error(error):
            raise
        log.log(logging.ERROR if is_json else logging.WARNING, "%s", stdout_error(error))
        return StoppedEarly.exit_code if is_json else exit_code
    return exit_code


def shown(text: str) -> str:
    """A text as a terminal may have it, which would obey control characters of whoever wrote it;
    half a pair of surrogates cannot be encoded.
    """
    return _CONTROL.sub("?", text)


def silence(stream: TextIO) -> None:
    """Nobody reads a stream any more; Python must not complain when it flushes it at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # it may be no real file
        os.dup2(devnull, stream.fileno())
    os.close(devnull)


def flush() -> None:
    """Write what is left. Raises OSError for stdout; a full stderr has nobody to tell."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)
    sys.stdout.flush()
