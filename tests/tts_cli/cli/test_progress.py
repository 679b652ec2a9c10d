"""What is seen of a run while it goes on: a bar, lines now and then, or nothing."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable

import pytest
from cases import cases

from tts_cli.cli import progress as module
from tts_cli.cli.progress import Progress, Ticker, long_step

CASES = cases(__file__)["progress"]


class Terminal(io.StringIO):
    """Claims to be one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged, with the 30 s made short."""
    monkeypatch.setattr(module, "LINE_S", 0.01)
    caplog.set_level(logging.INFO, "tts_cli")
    return caplog.messages


def wait_until(is_reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not is_reached():
        assert time.monotonic() < deadline_s, "it never came so far"
        time.sleep(0.005)


def tickers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ticker"]


def test_lines_come_while_no_row_ends(
    said: list[str], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off a terminal a long run said nothing from its first row to its last."""
    with Progress(1200, "auto") as progress:
        wait_until(lambda: len(caplog.messages) >= 2)
        assert caplog.messages[0].startswith("0 of 1,200 rows after ")
        progress.update(302, 2, 7800.0)
        wait_until(lambda: "302 of" in caplog.messages[-1])
        line = caplog.messages[-1]
    assert line.startswith("302 of 1,200 rows after ")
    assert ", 2 failed, 2 h 10 min of audio at " in line
    assert " xRT, about " in line
    assert line.endswith(" left")
    assert not tickers()
    count = len(caplog.messages)
    time.sleep(0.05)
    assert len(caplog.messages) == count
    assert capsys.readouterr().err == ""


def test_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress(400, "log")
    progress.update(100, 0, 900.0)
    monkeypatch.setattr(time, "perf_counter", lambda: progress._started_s + 60)
    assert progress.line() == (
        "100 of 400 rows after 60.0 s, 15 min 00 s of audio at 15.0 xRT, about 3 min 00 s left"
    )
    progress.update(400, 1, 900.0)
    assert progress.line() == (
        "400 of 400 rows after 60.0 s, 1 failed, 15 min 00 s of audio at 15.0 xRT"
    )


@pytest.mark.parametrize(("mode", "is_quiet", "is_terminal", "shown"), CASES["which"])
def test_which(
    mode: str, is_quiet: bool, is_terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if is_terminal else io.StringIO())
    with Progress(3, mode, is_quiet) as progress:
        assert (progress.has_bar, progress.has_lines) == (shown == "bar", shown == "lines")
        assert len(tickers()) == bool(shown)
        progress.update(1, 0, 2.0)
    assert not tickers()
    assert ("1/3" in sys.stderr.getvalue()) == (shown == "bar")


@pytest.mark.parametrize(("columns", "shown"), [(0, "lines"), (80, "bar")])
def test_a_terminal_without_columns_gets_lines(
    columns: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bar was drawn into nothing, so that a run said nothing from its start to its end."""
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with os.fdopen(os.dup(slave), "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            progress = Progress(3, "auto")
        assert (progress.has_bar, progress.has_lines) == (shown == "bar", shown == "lines")
    finally:
        os.close(master)
        os.close(slave)


def test_a_bar_moves_while_no_row_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BAR_S", 0.01)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(3, "auto"):
        drawn = sys.stderr.getvalue().count("0/3")
        wait_until(lambda: sys.stderr.getvalue().count("0/3") > drawn + 2)


def test_an_error_ends_the_thread() -> None:
    def fail() -> None:
        with Ticker(lambda: None, 60.0):
            assert tickers()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not tickers()


@pytest.mark.parametrize("mode", ["auto", "log", "none"])
def test_long_steps(mode: str, said: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with long_step("loading the model", mode):
        if mode == "none":
            time.sleep(0.05)
        else:
            wait_until(lambda: bool(caplog.messages))
    assert not tickers()
    found = [line.startswith("still loading the model, ") for line in caplog.messages]
    assert all(found)
    assert bool(found) == (mode != "none")
