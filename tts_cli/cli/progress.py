"""Show the progress of a run on stderr, and the notes before it."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from tts_cli.cli import messages as msg
from tts_cli.cli.screen import has_screen, shown_duration
from tts_cli.events import Event
from tts_cli.named import counted, shown_value

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
    """Log every 30 s that a step of unknown length is still running."""
    if progress == "none":
        yield
        return
    started_s = time.perf_counter()

    def tick() -> None:
        elapsed = shown_duration(time.perf_counter() - started_s)
        log.info("still %s, %s so far", what, elapsed)

    with Ticker(tick, LINE_S):
        yield


class Progress:
    """Context manager that shows the progress of a run: a bar on a terminal, or log lines."""

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
        """Show the state after one more row: rows that ended, failed ones, and seconds of audio."""
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
    """Shows a run on stderr; implements `app.look.Screen`."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def step(self, what: str) -> AbstractContextManager[None]:
        return long_step(what, self._config.progress)

    def progress(self, num_rows: int) -> Progress:
        return Progress(num_rows, self._config.progress, self._config.verbosity < 0)

    def problems(self, plan: Plan) -> None:
        level = logging.WARNING if self._config.skip_invalid else logging.ERROR
        for line in msg.invalid_lines(plan.events, plan.source.name, plan.voiceless):
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
        if (other := plan.events.of(Event.FROM_OTHER)).count:
            rows = counted(other.count, "row replaces a row", "rows replace rows")
            log.warning(msg.FROM_OTHER, rows, other.facts["text"], msg.first_of(other))
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
