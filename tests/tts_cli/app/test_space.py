"""The estimate of a run's files is compared with the free space."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from tts_cli.app import look
from tts_cli.errors import SetupError


def test_a_place_that_tells_no_size_is_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--out /proc/x: the disk is full."""
    usage = type("Usage", (), {"total": 0, "free": 0})
    monkeypatch.setattr(look.shutil, "disk_usage", lambda _: usage)
    assert look.check_space(tmp_path, 1000) is None


def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"total": 10**6, "free": 1000})
    monkeypatch.setattr(look.shutil, "disk_usage", lambda _: usage)
    place = tmp_path / "not" / "yet"
    assert look.check_space(place, 1000) is None
    assert "may stop early" in (look.check_space(place, 1500) or "")
    with pytest.raises(
        SetupError, match="free some space, use --format flac, or split the manifest with --shard"
    ):
        look.check_space(place, 2001)


def test_unknown_space_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(look.shutil, "disk_usage", fail)
    assert "is unknown" in (look.check_space(tmp_path, 1) or "")
