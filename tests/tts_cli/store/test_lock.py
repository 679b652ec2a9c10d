"""One run per folder: refused while held, free after a crash, unknown from another host."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tts_cli.errors import FolderLocked, SetupError
from tts_cli.store import lock as folder_lock
from tts_cli.store.lock import LOCK_NAME, FolderLock

HOLDER = """
import sys, time
from pathlib import Path
from tts_cli.store.lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds tmp_path."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot lock files."""
    monkeypatch.setattr(folder_lock, "_try_flock", lambda _: None)


def leave(folder: Path, pid: int, host: str | None = None) -> None:
    owner = {"pid": pid, "host": host or folder_lock.socket.gethostname(), "started": "2026-01-01"}
    (folder / LOCK_NAME).write_text(json.dumps(owner))


@pytest.mark.parametrize(("boot", "is_taken"), [("same", True), ("other", False), (None, False)])
def test_a_container_of_the_same_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str | None, is_taken: bool
) -> None:
    """A container gets a new host name at every start; its dead run was never taken over."""
    monkeypatch.setattr(folder_lock, "boot_id", lambda: "same")
    owner = {"pid": 1, "host": "0a1b2c3d", "started": "2026-01-01", "boot": boot}
    (tmp_path / LOCK_NAME).write_text(json.dumps(owner))
    if is_taken:
        with FolderLock(tmp_path) as lock:
            assert lock.crashed_ns is not None
        return
    with pytest.raises(FolderLocked, match="if that run has ended, add --take-over"):
        FolderLock(tmp_path).__enter__()
    with FolderLock(tmp_path, takes_over=True):
        pass


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_held_and_given_back(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        owner = json.loads((tmp_path / LOCK_NAME).read_text())
        assert owner["pid"] == os.getpid()
        assert set(owner) == {"pid", "host", "boot", "started"}
        with pytest.raises(FolderLocked), FolderLock(tmp_path):
            pass
        assert (tmp_path / LOCK_NAME).exists()
    assert not list(tmp_path.iterdir())
    with FolderLock(tmp_path):
        pass


def test_a_second_process_is_refused(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(FolderLocked) as caught, FolderLock(tmp_path):
        pass
    assert f"in use by process {holder.pid} on" in str(caught.value)
    assert "choose another --out" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_killed_process_frees_the_folder(
    tmp_path: Path, holder: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK_NAME).exists()
    with caplog.at_level(logging.WARNING), FolderLock(tmp_path):
        pass
    assert f"process {holder.pid} has ended" in caplog.text


def test_a_file_of_another_host_is_not_taken_over(tmp_path: Path) -> None:
    leave(tmp_path, dead_pid(), host="elsewhere")
    with pytest.raises(FolderLocked, match="if that run has ended, add --take-over") as caught:
        FolderLock(tmp_path).__enter__()
    assert "on elsewhere since 2026-01-01" in str(caught.value)
    assert (tmp_path / LOCK_NAME).exists()


@pytest.mark.parametrize("content", [b"", b"torn {", b"[]", b"\xff", b"[" * 4000])
def test_an_unreadable_file_nobody_holds_is_taken_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(content)
    with FolderLock(tmp_path):
        pass


class TestWithoutFlock:
    def test_dead(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        no_flock(monkeypatch)
        leave(tmp_path, dead_pid())
        with FolderLock(tmp_path):
            pass

    def test_alive(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        no_flock(monkeypatch)
        leave(tmp_path, os.getppid())
        with pytest.raises(FolderLocked):
            FolderLock(tmp_path).__enter__()

    def test_torn(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its maker may just be about to write its name."""
        no_flock(monkeypatch)
        (tmp_path / LOCK_NAME).write_bytes(b"")
        with pytest.raises(FolderLocked, match=r"another run; .*delete"):
            FolderLock(tmp_path).__enter__()

    def test_new(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        no_flock(monkeypatch)
        with FolderLock(tmp_path):
            monkeypatch.setattr(os, "getpid", lambda: 1)  # as another process would see it
            with pytest.raises(FolderLocked):
                FolderLock(tmp_path).__enter__()

    @pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
    def test_how_it_is_recognised(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        fcntl = pytest.importorskip("fcntl")

        def fail(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", fail)
        leave(tmp_path, dead_pid())
        with FolderLock(tmp_path):
            pass


def test_a_file_removed_by_its_last_holder_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened before the holder removed it, locked after: the next run makes a new file."""
    real = folder_lock._try_flock
    calls = []

    def remove_first(handle: int) -> bool | None:
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / LOCK_NAME).unlink()
        return real(handle)

    monkeypatch.setattr(folder_lock, "_try_flock", remove_first)
    monkeypatch.setattr(folder_lock, "PATIENCE_S", 0.0)
    with FolderLock(tmp_path):
        assert (tmp_path / LOCK_NAME).exists()
        with pytest.raises(FolderLocked):
            FolderLock(tmp_path).__enter__()
    assert len(calls) == 3


def test_a_linked_lock_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "victim")
    with pytest.raises(SetupError, match="cannot lock"):
        FolderLock(tmp_path).__enter__()
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told to make room."""

    def fail(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(SetupError, match="Read-only file system; choose a writable folder"):
        FolderLock(tmp_path).__enter__()


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """A run that starts while `review` records a decision is not refused."""
    with FolderLock(tmp_path) as held:
        ends = threading.Timer(0.1, held.__exit__, (None, None, None))
        ends.start()
        with FolderLock(tmp_path) as second:
            assert second.crashed_ns is None
        ends.join()
    assert not (tmp_path / LOCK_NAME).exists()
