"""How far a run is, on stderr: a bar on a terminal, elsewhere a line now and then through the log.

A thread of its own tells the time, so that something is seen also while no row ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from tts_cli.commands.duration import shown_duration
from tts_cli.output.run_file import Totals

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def update(self, totals: Totals) -> None:
        """Take in the state after one more row."""
        self._state = (totals.ok + totals.takes + totals.failed, totals.failed, totals.audio_s)
        if self._bar is None:
            return
        self._bar.set_postfix_str(
            f"{totals.audio_s:,.0f} s audio, {totals.audio_s / self._wall_s:,.1f} xRT"
            + (f", {totals.failed} failed" if totals.failed else ""),
            refresh=False,
        )
        self._bar.update(1)

    def line(self) -> str:
        """The state in one line."""
        ended, failed, audio_s = self._state
        wall_s = self._wall_s
        said = f"{ended:,} of {self.num_rows:,} rows after {shown_duration(wall_s)}"
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


def _since(started_s: float) -> str:
    return shown_duration(time.perf_counter() - started_s)
