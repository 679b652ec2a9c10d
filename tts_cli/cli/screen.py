"""Show output: progress on stderr, notes before a run, tables on stdout, and broken streams."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, TextIO

import click

from tts_cli.cli import messages as msg
from tts_cli.errors import SetupError, StoppedEarly, TtsCliError
from tts_cli.events import Event
from tts_cli.named import counted, printable, shown_value

if TYPE_CHECKING:
    from tts_cli.app.look import Differences
    from tts_cli.config import RunConfig
    from tts_cli.plan.plan import Plan

log = logging.getLogger(__name__)

LINE_S = 30.0  # seconds between two lines
BAR_S = 1.0  # seconds between two updates of a bar's clock


class Ticker:
    """Context manager that calls `tick` every `every_s` seconds in a thread."""

    def __init__(self, tick: Callable[[], None], every_s: float) -> None:
        self._tick = tick
        self._every_s = every_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_s):
            self._tick()


@contextlib.contextmanager
def long_step(what: str, progress: str) -> Iterator[None]:
    """Log every 30 s that a step of unknown length is still running.

    Args:
        progress: as in `RunConfig`.
    """
    if progress == "none":
        yield
        return
    started_s = time.perf_counter()

    def tick() -> None:
        elapsed = shown_duration(time.perf_counter() - started_s)
        log.info("still %s, %s so far", what, elapsed)

    with Ticker(tick, LINE_S):
        yield


def has_screen() -> bool:
    """Whether stderr is a terminal with columns. Containers and CI may have one with none, on which
    a bar would be invisible.
    """
    if not sys.stderr.isatty():
        return False
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):  # unknown
        return True


def can_ask() -> bool:
    """Whether a user can read a question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class Progress:
    """Context manager that shows the progress of a run: a bar on a terminal, otherwise lines in the
    log.

    Args:
        num_rows: rows that will end.
        progress: as in `RunConfig`.
        is_quiet: show nothing.
    """

    def __init__(self, num_rows: int, progress: str, is_quiet: bool = False) -> None:
        self.num_rows = num_rows
        self.has_bar = progress == "auto" and not is_quiet and has_screen()
        self.has_lines = progress != "none" and not is_quiet and not self.has_bar
        self._bar: Any = None
        self._stack = ExitStack()
        self._started_s = time.perf_counter()
        self._state = (0, 0, 0.0)  # rows that ended, those that failed, seconds of audio

    def __enter__(self) -> Progress:
        self._started_s = time.perf_counter()
        if self.has_bar:
            from tqdm import tqdm
            from tqdm.contrib.logging import logging_redirect_tqdm

            self._stack.enter_context(logging_redirect_tqdm())  # messages go above the bar
            self._bar = tqdm(total=self.num_rows, unit="row", file=sys.stderr, dynamic_ncols=True)
            self._stack.callback(self._bar.close)
            self._stack.enter_context(Ticker(self._bar.refresh, BAR_S))
        elif self.has_lines:
            self._stack.enter_context(Ticker(lambda: log.info("%s", self.line()), LINE_S))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def update(self, ended: int, failed: int, audio_s: float) -> None:
        """Show the state after one more row.

        Args:
            ended: rows that have ended.
            failed: of those, rows that failed.
            audio_s: seconds of audio so far.
        """
        self._state = (ended, failed, audio_s)
        if self._bar is None:
            return
        self._bar.set_postfix_str(
            f"{audio_s:,.0f} s audio, {audio_s / self._wall_s:,.1f} xRT"
            + (f", {failed} failed" if failed else ""),
            refresh=False,
        )
        self._bar.update(1)

    def line(self) -> str:
        """Return the state in one line."""
        ended, failed, audio_s = self._state
        wall_s = self._wall_s
        line = f"{ended:,} of {counted(self.num_rows, 'row')} after {shown_duration(wall_s)}"
        if failed:
            line += f", {failed:,} failed"
        if audio_s:
            line += f", {shown_duration(audio_s)} of audio at {audio_s / wall_s:,.1f} xRT"
        if 0 < ended < self.num_rows:
            left_s = wall_s / ended * (self.num_rows - ended)
            line += f", about {shown_duration(left_s)} left"
        return line

    @property
    def _wall_s(self) -> float:
        return max(1e-6, time.perf_counter() - self._started_s)


class RunScreen:
    """Shows a run on stderr; implements `app.run.Screen`."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def step(self, what: str) -> AbstractContextManager[None]:
        return long_step(what, self._config.progress)

    def progress(self, num_rows: int) -> Progress:
        return Progress(num_rows, self._config.progress, self._config.verbosity < 0)

    def problems(self, plan: Plan) -> None:
        level = logging.WARNING if self._config.skip_invalid else logging.ERROR
        for line in msg.invalid_lines(plan.events, plan.source.name, plan.strangers):
            log.log(level, "%s", line)
        for line in msg.note_lines(plan.events, plan.source.name):
            log.warning("%s", line)
        again = plan.events.of(Event.NOT_CONVERTIBLE)
        if again.count:
            first = f"{again.facts['id']}: {again.facts['text']}"
            log.warning(msg.CANNOT_CONVERT, msg.rows_are(again.count), first)

    def choices(self, plan: Plan, unlike: Differences) -> None:
        num, unpinned = plan.events.num, plan.events.of(Event.UNPINNED)
        if unpinned.count:
            fate = msg.WOULD_REDO if self._config.dry_run else msg.REDO
            named = msg.first_of(unpinned)
            log.warning(msg.PIN_DROPPED, msg.PIN_CAUSES, fate, named)
        if unlike and plan.num_again + plan.num_takes:
            affected = counted(plan.num_takes, "take")
            if plan.num_again:
                affected = counted(plan.num_again, "row that was done", "rows that were done")
            log.warning(
                msg.OTHER_SETTINGS,
                plan.folder.out,
                "; ".join(
                    f"{name}: {shown_value(then)}, now {shown_value(now)}"
                    for name, (then, now) in unlike.items()
                ),
                affected,
                "would be" if self._config.dry_run else "will be",
            )
        if older := num(Event.OLDER):
            log.info(msg.OLDER_STAY, counted(older, "done row was", "done rows were"))
        served = int(plan.events.total(Event.SERVED, "takes"))
        if served and plan.num_takes:
            log.info(msg.TAKES_COUNT, counted(served, "take counts", "takes count"))
        if unfixed := num(Event.UNFIXED):
            rows = counted(unfixed, "done row has", "done rows have")
            log.warning(
                msg.VOICE_NOT_FIXED,
                *(rows, "would be" if self._config.dry_run else "will be"),
                "a run without --clone-model" if plan.voices.is_two else "--free-voice each",
            )
        if one_take := num(Event.ONE_TAKE):
            log.warning(msg.GREEDY_TAKES, msg.rows_are(one_take))

    def due(self, plan: Plan) -> None:
        if plan.needs.rows > 1 and (hint := plan.voices.hint()):
            log.info("%s", hint)
        damaged = plan.events.of(Event.PENDING, "damaged")
        if damaged.count:
            log.warning(msg.DAMAGED, msg.first_of(damaged))


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
    """Print a table with lines to a terminal. No columns: no header."""
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
    """Print a value as JSON to stdout."""
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
