"""Show how far a run is, on stderr: a bar on a terminal, elsewhere a line now and then in the log.

A thread of its own tells the time, so that something is seen also while no row ends.

What a run has to say before it speaks.

How long something is, as messages show it.

Tables on stdout: rich on a terminal, plain columns elsewhere.

Standard streams that are closed or full: a message instead of an internal error.
"""

from __future__ import annotations

import contextlib
import errno
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

LINE_S = 30.0  # between two lines
BAR_S = 1.0  # between two looks at the clock of a bar that does not move


class Ticker:
    """Context manager: calls `tick` every so many seconds, in a thread, until it is left."""

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
    """Say now and then that a step with nothing to count still goes on.

    Args:
        progress: as in `RunConfig`.
    """
    if progress == "none":
        yield
        return
    started_s = time.perf_counter()
    with Ticker(
        lambda: log.info("still %s, %s so far", what, _since(started_s)),
        LINE_S,
    ):
        yield


def has_screen() -> bool:
    """Whether stderr is a terminal that shows something: one of 0 columns, as containers and CI
    make them, would show nothing of a bar.
    """
    if not sys.stderr.isatty():
        return False
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):  # it does not say
        return True


def can_ask() -> bool:
    """Whether a user can read a question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class Progress:
    """Context manager around the speaking of rows.

    Args:
        num_rows: that will end, one way or another.
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
        self._state = (0, 0, 0.0)  # rows ended, of those failed, seconds of audio

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
        """The state in one line."""
        ended, failed, audio_s = self._state
        wall_s = self._wall_s
        said = f"{ended:,} of {counted(self.num_rows, 'row')} after {shown_duration(wall_s)}"
        if failed:
            said += f", {failed:,} failed"
        if audio_s:
            said += f", {shown_duration(audio_s)} of audio at {audio_s / wall_s:,.1f} xRT"
        if 0 < ended < self.num_rows:
            left_s = wall_s / ended * (self.num_rows - ended)
            said += f", about {shown_duration(left_s)} left"
        return said

    @property
    def _wall_s(self) -> float:
        return max(1e-6, time.perf_counter() - self._started_s)


class RunScreen:
    """Shows a run on stderr while it goes on; see `app.run.Screen`."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def step(self, what: str) -> AbstractContextManager[None]:
        """See `Screen`."""
        return long_step(what, self._config.progress)

    def progress(self, num_rows: int) -> Progress:
        """See `Screen`."""
        return Progress(num_rows, self._config.progress, self._config.verbosity < 0)

    def problems(self, plan: Plan) -> None:
        """See `Screen`."""
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
        """See `Screen`."""
        num, unpinned = plan.events.num, plan.events.of(Event.UNPINNED)
        if unpinned.count:
            fate = msg.WOULD_REDO if self._config.dry_run else msg.REDO
            named = msg.first_of(unpinned)
            log.warning(msg.PIN_DROPPED, msg.PIN_CAUSES, fate, named)
        if unlike and plan.num_again + plan.num_takes:
            told = counted(plan.num_takes, "take")
            if plan.num_again:
                told = counted(plan.num_again, "row that was done", "rows that were done")
            log.warning(
                msg.OTHER_SETTINGS,
                plan.folder.out,
                "; ".join(
                    f"{name}: {shown_value(then)}, now {shown_value(now)}"
                    for name, (then, now) in unlike.items()
                ),
                told,
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
        """See `Screen`."""
        if plan.needs.rows > 1 and (hint := plan.voices.hint()):
            log.info("%s", hint)
        damaged = plan.events.of(Event.PENDING, "damaged")
        if damaged.count:
            log.warning(msg.DAMAGED, msg.first_of(damaged))


def _since(started_s: float) -> str:
    return shown_duration(time.perf_counter() - started_s)


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
    """The same on a terminal, with lines; without columns they have no names."""
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
    """A cell's text in one line: a second line would look like another row."""
    return printable(text).replace("\n", " ")


def _is_numeric(rows: Sequence[Sequence[str]], index: int) -> bool:
    return all(row[index][:1].isdigit() or row[index] in ("", "-") for row in rows)


_ERRNOS = frozenset(
    [errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, getattr(errno, "EDQUOT", 0)]
)


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
