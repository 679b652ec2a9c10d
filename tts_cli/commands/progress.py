"""The progress bar of `synth`: rows, audio seconds, real-time factor and time left, on stderr,
only on a terminal.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from tts_cli.output.run_file import Totals


class Progress:
    """Context manager; does nothing when stderr is no terminal or the run is quiet."""

    def __init__(self, num_rows: int, is_quiet: bool) -> None:
        self.num_rows = num_rows
        self.is_shown = sys.stderr.isatty() and not is_quiet
        self._bar: Any = None
        self._stack = ExitStack()
        self._started_s = time.perf_counter()

    def __enter__(self) -> Progress:
        if self.is_shown:
            from tqdm import tqdm
            from tqdm.contrib.logging import logging_redirect_tqdm

            self._stack.enter_context(logging_redirect_tqdm())  # messages go above the bar
            self._bar = tqdm(total=self.num_rows, unit="row", file=sys.stderr, dynamic_ncols=True)
        self._started_s = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        self._stack.close()

    def update(self, totals: Totals) -> None:
        """Show the state after one more row."""
        if self._bar is None:
            return
        wall_s = max(1e-6, time.perf_counter() - self._started_s)
        self._bar.set_postfix_str(
            f"{totals.audio_s:,.0f} s audio, {totals.audio_s / wall_s:,.1f} xRT"
            + (f", {totals.failed} failed" if totals.failed else ""),
            refresh=False,
        )
        self._bar.update(1)
