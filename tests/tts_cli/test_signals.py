"""Signals: remembered before anything is raised, whatever becomes of what is raised."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tts_cli import signals
from tts_cli.errors import Interrupted

CODES = [("SIGHUP", 129), ("SIGINT", 130), ("SIGTERM", 143)]


@pytest.fixture(autouse=True)
def _as_a_terminal_starts_us() -> Iterator[None]:
    """A suite may itself run in the background or under nohup."""
    before = {name: signal.signal(getattr(signal, name), signal.SIG_DFL) for name, _ in CODES}
    yield
    for name, handler in before.items():
        signal.signal(getattr(signal, name), handler)


def send(name: str) -> None:
    """Handlers run before this returns."""
    os.kill(os.getpid(), getattr(signal, name))


@pytest.mark.parametrize(("name", "code"), CODES)
def test_raised_where_nothing_is_to_be_finished(name: str, code: int) -> None:
    with pytest.raises(Interrupted) as caught, signals.watching():
        send(name)
    assert caught.value.exit_code == code
    assert signal.getsignal(getattr(signal, name)) == signal.SIG_DFL


def test_libraries_do_not_catch_it() -> None:
    """It was an Exception, and a failed import or tokenizer made an error of its own of it."""
    assert not issubclass(Interrupted, Exception)


def test_what_is_swallowed_comes_back() -> None:
    """One in the first half second was lost in a callback of the import system."""
    with pytest.raises(Interrupted) as caught, signals.watching():  # noqa: PT012
        with contextlib.suppress(BaseException):
            send("SIGTERM")
        assert signals.received() == signal.SIGTERM
        signals.check()
    assert caught.value.exit_code == 143


def test_nothing_is_raised_amid_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGTERM while torch was imported made its C++ code abort: exit code 134."""
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nis_whole = True\n"
    (tmp_path / "slow_to_import.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    with signals.watching():
        assert importlib.import_module("slow_to_import").is_whole
        with pytest.raises(Interrupted):
            signals.check()


def test_nothing_is_printed_when_python_drops_it(capsys: pytest.CaptureFixture[str]) -> None:
    class Dropping:
        def __del__(self) -> None:
            send("SIGTERM")

    with signals.watching():
        del [Dropping()][0]
        with pytest.raises(Interrupted):
            signals.check()
    assert capsys.readouterr().err == ""


class TestStopping:
    """While rows are spoken."""

    def test_asks_for_an_orderly_end(self) -> None:
        calls: list[str] = []
        stopping = signals.stopping(lambda: calls.append("stop"))
        with signals.watching(), pytest.raises(Interrupted), stopping:  # noqa: PT012
            send("SIGHUP")
            calls.append("went on")
        assert calls == ["stop", "went on"]

    def test_does_not_begin_after_a_lost_signal(self) -> None:
        with signals.watching():
            with pytest.raises(Interrupted):
                send("SIGINT")
            with pytest.raises(Interrupted), signals.stopping(lambda: None):
                pytest.fail("rows were spoken")

    def test_a_second_signal_ends_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        codes: list[int] = []
        monkeypatch.setattr(os, "_exit", codes.append)
        with pytest.raises(Interrupted), signals.watching(), signals.stopping(lambda: None):  # noqa: PT012
            send("SIGTERM")
            assert codes == []
            send("SIGINT")
        assert codes == [130]

    @pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX threads")
    @pytest.mark.parametrize("count", [1, 2])
    def test_a_signal_that_another_thread_receives(
        self, count: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a busy machine the system delivered the second signal to a writer thread. The main
        thread waited for a lock, and the command went on for as long as the writer did.
        """
        ended, codes = threading.Event(), []

        def receive() -> None:
            for name in ("SIGTERM", "SIGINT")[:count]:
                signal.pthread_kill(threading.get_ident(), getattr(signal, name))
            ended.wait(60)

        def leave(code: int) -> None:
            codes.append(code)
            ended.set()

        monkeypatch.setattr(os, "_exit", leave)
        other = threading.Thread(target=receive)
        stop = ended.set if count == 1 else lambda: None
        with signals.watching(), pytest.raises(Interrupted), signals.stopping(stop):  # noqa: PT012
            other.start()
            started_s = time.monotonic()
            other.join()
            assert time.monotonic() - started_s < 30
        assert codes == [130][: count - 1]

    def test_a_signal_amid_a_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The handler logged inside of the write that it had interrupted, which ended in a
        traceback: reentrant call inside of a BufferedWriter.
        """
        stream = _Interrupted()
        handler = logging.StreamHandler(io.TextIOWrapper(io.BufferedWriter(stream)))
        log = logging.getLogger("tts_cli")
        log.addHandler(handler)
        try:
            stopping = signals.stopping(lambda: None)
            with signals.watching(), pytest.raises(Interrupted), stopping:
                log.warning("1 row failed")
        finally:
            log.removeHandler(handler)
        assert stream.data.decode().splitlines() == [
            "1 row failed",
            "stopping: finishing what is decoded (again to stop at once)",
        ]
        assert capsys.readouterr().err == ""
        assert not {"signals", "stopping"} & {thread.name for thread in threading.enumerate()}


class _Interrupted(io.RawIOBase):
    """A file into whose first write a signal comes."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.data:
            send("SIGTERM")
        self.data += bytes(data)
        return len(data)


def test_nohup_is_respected() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.watching():
        send("SIGHUP")
        signals.check()
    assert signals.received() is None
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_second_run_in_one_process_starts_anew() -> None:
    with pytest.raises(Interrupted), signals.watching():
        send("SIGTERM")
    with signals.watching():
        signals.check()
