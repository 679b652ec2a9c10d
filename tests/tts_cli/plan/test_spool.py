"""What waits in memory, and what does not fit there."""

from __future__ import annotations

import errno
import itertools
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tts_cli.errors import DiskFull
from tts_cli.plan import spool
from tts_cli.plan.spool import Spool

MANY = [{"number": number, "text": f"{number:099}"} for number in range(2000)]


def filled(out: Path | None) -> Spool[dict[str, Any]]:
    found: Spool[dict[str, Any]] = Spool("speeches", out)
    for thing in MANY:
        found.add(thing)
    found.end()
    return found


def test_in_memory() -> None:
    for count in (0, 1, 255, 256, 257):
        found: Spool[int] = Spool("speeches", None)
        for number in range(count):
            found.add(number)
        found.end()
        assert list(found) == list(range(count)) == list(found)
        assert found.num_things == count


def test_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no name, and its size is told."""
    monkeypatch.setattr(spool, "MEMORY_BYTES", 40_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    caplog.set_level(logging.DEBUG, logger=spool.log.name)
    found = filled(None)
    assert list(found) == MANY == list(found)
    assert list(tmp_path.iterdir()) == []
    assert "2000 speeches" in caplog.text
    assert "in a temporary file" in caplog.text


@pytest.mark.parametrize("has_folder", [True, False])
@pytest.mark.parametrize("writes", [0, 1, 3])
def test_a_folder_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, has_folder: bool
) -> None:
    """What did not fit goes beside the output folder; where that is full too, nothing is begun."""
    monkeypatch.setattr(spool, "MEMORY_BYTES", 0)
    real, calls = spool._write, itertools.count()

    def full(file: Any, sizes: list[int], chunk: bytes) -> None:
        if next(calls) == writes or not has_folder:
            file.write(chunk[:50])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, sizes, chunk)

    monkeypatch.setattr(spool, "_write", full)
    out = tmp_path / "not" / "there"
    if has_folder:
        assert list(filled(out)) == MANY
        assert list(tmp_path.iterdir()) == []
        return
    with pytest.raises(DiskFull, match=r"No space left.*TMPDIR"):
        filled(out)


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(spool, "MEMORY_BYTES", 0)
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert list(filled(tmp_path / "out")) == MANY
    with pytest.raises(DiskFull, match="No usable temporary directory"):
        filled(None)
