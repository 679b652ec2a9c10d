"""What a book's run does with files of an earlier one that somebody has edited."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tts_cli.audio.file import wav_header
from tts_cli.book.book_file import MadeFile, OwnFiles
from tts_cli.errors import RowError

OLD, NEW, MINE, TWICE = (
    wav_header(count, 24_000, "PCM_16") + b"\1\0" * count for count in (10, 20, 30, 40)
)


def made(out: Path, data: bytes = OLD, key: str = "k", name: str = "01-a.wav") -> MadeFile:
    (out / name).write_bytes(data)
    return OwnFiles(out, ()).made(name, key)


def names(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def replace(files: OwnFiles, out: Path, data: bytes = NEW) -> None:
    with files.replacing("01-a.wav"):
        (out / "new").write_bytes(data)
        (out / "new").replace(out / "01-a.wav")


def test_what_was_edited_is_kept_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = OwnFiles(tmp_path, [made(tmp_path)])
    for mine in (MINE, TWICE, OLD[:-1] + b"\2"):  # the last one has its old size
        (tmp_path / "01-a.wav").write_bytes(mine)
        replace(files, tmp_path)
    kept = {name: data for name, data in names(tmp_path).items() if "edited" in name}
    assert kept == {
        "01-a.edited.wav": MINE,
        "01-a.edited-2.wav": TWICE,
        "01-a.edited-3.wav": OLD[:-1] + b"\2",
    }
    assert "01-a.wav was edited since it was written; your version is now" in caplog.text


def test_a_file_that_cannot_be_made_leaves_no_second_name(tmp_path: Path) -> None:
    files = OwnFiles(tmp_path, [made(tmp_path)])
    (tmp_path / "01-a.wav").write_bytes(MINE)
    with pytest.raises(RowError), files.replacing("01-a.wav"):
        raise RowError("a row's audio is gone")
    assert names(tmp_path) == {"01-a.wav": MINE}


def test_removed(tmp_path: Path) -> None:
    before = [made(tmp_path), made(tmp_path, name="02-b.wav")]
    (tmp_path / "02-b.wav").write_bytes(MINE)
    OwnFiles(tmp_path, before).remove({"03-c.wav"})
    assert names(tmp_path) == {"02-b.edited.wav": MINE}


def test_made_of_the_same_it_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = made(tmp_path)
    files = OwnFiles(tmp_path, [file])
    assert files.kept("01-a.wav", "k") == file
    assert not caplog.text
    (tmp_path / "01-a.wav").write_bytes(MINE)
    assert files.kept("01-a.wav", "k") == file
    assert "stays" in caplog.text
    assert files.kept("01-a.wav", "other") is None
    (tmp_path / "01-a.wav").write_bytes(MINE[:-2])  # cut
    assert files.kept("01-a.wav", "k") is None
    (tmp_path / "01-a.wav").unlink()
    assert files.kept("01-a.wav", "k") is None


def test_runs_that_died(tmp_path: Path) -> None:
    """What they had made is no edit, whether it was made before or not."""
    old = made(tmp_path)
    claim = MadeFile("01-a.wav", "", 0)
    (tmp_path / "01-a.wav").write_bytes(NEW)
    replace(OwnFiles(tmp_path, [old, claim]), tmp_path)
    assert names(tmp_path) == {"01-a.wav": NEW}
    (tmp_path / "01-a.wav").write_bytes(MINE)
    replace(OwnFiles(tmp_path, [claim]), tmp_path)
    assert names(tmp_path) == {"01-a.wav": NEW}


def test_of_a_book_file_without_sums(tmp_path: Path) -> None:
    old = made(tmp_path)
    files = OwnFiles(tmp_path, [MadeFile(old.path, old.key, old.bytes)])
    replace(files, tmp_path)
    assert names(tmp_path) == {"01-a.wav": NEW}
    (tmp_path / "01-a.wav").write_bytes(MINE)
    replace(files, tmp_path)
    assert names(tmp_path) == {"01-a.wav": NEW, "01-a.edited.wav": MINE}
