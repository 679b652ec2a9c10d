"""Print to stdout: lines, JSON and tables, even if a stream is closed or full."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import click

from tts_cli.errors import SetupError, StoppedEarly, TtsCliError
from tts_cli.named import printable

log = logging.getLogger(__name__)


def has_screen() -> bool:
    """Whether stderr is a terminal with columns. Containers and CI may have one without."""
    if not sys.stderr.isatty():
        return False
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):  # unknown
        return True


def can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def shown_duration(seconds: float) -> str:
    """Return a duration: "4.3 s", "2 min 05 s" or "1 h 02 min"."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours:,} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under column names; numbers (from the second column on) are right-aligned."""
    if sys.stdout.isatty():
        show_grid(title, columns, rows)
        return
    rows = [[_cell(cell) for cell in row] for row in rows]
    echo(title)
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [
            cell.rjust(width) if index and _is_numeric(rows, index) else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        echo("  " + "  ".join(cells).rstrip())


def show_grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with lines to a terminal, without a header if it has no columns."""
    from rich import console, table, text

    grid = table.Table(
        title=text.Text(printable(title)), title_justify="left", show_header=bool(columns)
    )
    for index, name in enumerate(columns):
        grid.add_column(name, justify="right" if index and _is_numeric(rows, index) else "left")
    for row in rows:
        grid.add_row(*(text.Text(_cell(cell)) for cell in row))
    console.Console().print(grid)


def _cell(text: str) -> str:
    """Return a cell's text in one line, because a second one would look like another row."""
    return printable(text).replace("\n", " ")


def _is_numeric(rows: Sequence[Sequence[str]], index: int) -> bool:
    return all(row[index][:1].isdigit() or row[index] in ("", "-") for row in rows)


_ERRNOS = frozenset(
    [errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, getattr(errno, "EDQUOT", 0)]
)


def open_closed_streams() -> None:
    """Replace standard streams that were closed when the process started (`>&-`).

    Their descriptors must be in use, or the next opened file would get one, and with it the output
    of libraries. Writing to such a stdout fails, so that a lost result is reported.
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
    """Whether an error is from stdout: errors of files have a file name, or are not OSError."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _ERRNOS


def stdout_error(error: OSError) -> TtsCliError:
    """Return the exception to raise for one that `is_stdout_error`, and silence stdout."""
    silence(sys.stdout)
    remedy = "send it somewhere else"
    if error.errno == errno.EBADF:
        return SetupError("cannot write to stdout: it is closed", remedy)
    return StoppedEarly(f"cannot write to stdout: {error.strerror or error}", remedy)


def show_or_warn(text: str, exit_code: int = 0, *, is_json: bool = False) -> int:
    """Print a result that is also in the folder. Return the exit code.

    A failing stdout is only a warning, but with JSON it is an error, because a program reads that.
    """
    try:
        echo(text)
    except OSError as error:
        if not is_stdout_error(error):
            raise
        log.log(logging.ERROR if is_json else logging.WARNING, "%s", stdout_error(error))
        return StoppedEarly.exit_code if is_json else exit_code
    return exit_code


def echo(text: str) -> None:
    """Print a line to stdout without terminal controls. Every command prints with this function,
    because values may come from untrusted folders, manifests and checkpoints.
    """
    click.echo(printable(text))


def echo_json(value: object) -> None:
    echo(json.dumps(value, indent=2))


def silence(stream: TextIO) -> None:
    """Redirect a closed stream to /dev/null, so that Python can flush it at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # the stream may not be a file
        os.dup2(devnull, stream.fileno())
    os.close(devnull)


def flush() -> None:
    """Flush both streams. Raises OSError for stdout; errors of stderr cannot be reported."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)
    sys.stdout.flush()
