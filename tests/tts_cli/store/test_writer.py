"""Files are staged whole or not at all, inside their folder, and a full disk stops the run."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load

from tts_cli.config import RunConfig
from tts_cli.core import Encoded
from tts_cli.errors import DiskFull, RowError, SetupError, UsageError
from tts_cli.store import files as inside
from tts_cli.store.files import AudioWriter, prepare_folder

RATE = 24_000
SAMPLES = np.linspace(-0.5, 0.5, 1920, dtype=np.float32)
CODES = np.arange(16).reshape(1, 16)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    prepare_folder(folder)
    return folder


@pytest.fixture
def writer(out: Path) -> AudioWriter:
    return AudioWriter(out, RunConfig(save_codes=True), RATE)


def write(
    writer: AudioWriter, row_id: str, samples: Any, codes: Any = None, is_truncated: bool = False
) -> Encoded:
    """Stage the files of a row, and give them their names."""
    made = writer.make(row_id, samples, codes, is_truncated)
    for part in (made.audio, made.codes):
        if part is not None:
            path = writer.out / str(part)
            path.rename(path.with_name(path.name[1:].rsplit(".", 3)[0]))
    return made


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def test_staged_files(out: Path, writer: AudioWriter) -> None:
    """Their temporary names have the beginning of their digests."""
    made = writer.make("a/b", SAMPLES, CODES)
    audio, codes = (out / str(part) for part in (made.audio, made.codes))
    assert sorted(files(out)) == sorted([str(made.audio), str(made.codes)])
    assert audio.name == f".b.wav.{made.sha256[:16]}.tts-cli.part"
    assert made.codes_sha256 is not None
    assert codes.name == f".b.codes.safetensors.{made.codes_sha256[:16]}.tts-cli.part"
    data = audio.read_bytes()
    assert (made.num_bytes, made.sha256) == (len(data), sha256(data).hexdigest())
    assert made.codes_sha256 == sha256(codes.read_bytes()).hexdigest()
    assert soundfile.info(io.BytesIO(data)).samplerate == RATE
    assert (load(codes.read_bytes())["codes"] == CODES).all()
    writer.drop(made)
    assert files(out) == []


def test_names(writer: AudioWriter) -> None:
    """A truncated row's are apart, and so are those of an alternative take."""
    names = [
        writer.make("x/a", SAMPLES, None, is_truncated, take).audio
        for is_truncated, take in ((False, None), (False, 7), (True, None), (True, 7))
    ]
    folders = [str(name).rpartition("/")[0] for name in names]
    assert folders == ["x", "takes/x/a", "truncated/x", "truncated/takes/x/a"]


def test_whole_rows(out: Path, writer: AudioWriter) -> None:
    made = write(writer, "a/b", SAMPLES, CODES)
    assert files(out) == ["a/b.codes.safetensors", "a/b.wav"]
    assert writer.is_whole("a/b", None)
    assert writer.is_whole("a/b", made.num_bytes, made.sha256[:16])
    assert not writer.is_whole("a/b", made.num_bytes, "0" * 16)
    assert not writer.is_whole("a/c", None)
    (out / "a/b.wav").write_bytes((out / "a/b.wav").read_bytes()[:-2])
    assert not writer.is_whole("a/b", made.num_bytes)
    soundfile.write(out / "a/b.wav", SAMPLES[:99], RATE, "PCM_16")
    assert writer.is_whole("a/b", made.num_bytes), "a user edited it"


def test_files_in_memory(out: Path, writer: AudioWriter) -> None:
    """Of a process that does not see the folder; another one stages them."""
    writer.is_staging = False
    made = writer.make("a", SAMPLES, CODES)
    assert files(out) == []
    assert isinstance(made.audio, bytes)
    staged = writer.staged("a", made)
    assert len(files(out)) == 2
    assert writer.staged("a", staged) == staged
    assert (out / str(staged.audio)).read_bytes() == made.audio


@pytest.mark.parametrize("row_id", ["../x", "/x", "a/../../x", "truncated/x", "", "a\0b"])
def test_ids_are_checked_again_before_writing(out: Path, writer: AudioWriter, row_id: str) -> None:
    with pytest.raises(RowError, match="id "):
        write(writer, row_id, SAMPLES)
    assert files(out.parent) == []


def test_a_linked_folder_cannot_lead_out(out: Path, writer: AudioWriter) -> None:
    outside = out.parent / "outside"
    outside.mkdir()
    (out / "a").symlink_to(outside)
    with pytest.raises(RowError, match="is a link that leads out of the output folder"):
        write(writer, "a/deep/b", SAMPLES)
    assert not list(outside.iterdir())


def test_a_deep_folder_is_not_looked_at_again_for_each_level(
    out: Path, writer: AudioWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 levels took 80,000 looks at the disk, two seconds of a row's time."""
    looks: list[object] = []
    real = os.lstat
    monkeypatch.setattr(
        os, "lstat", lambda *args, **named: looks.append(args) or real(*args, **named)
    )
    monkeypatch.setattr(inside, "sync_folder", lambda folder: None)
    write(writer, "a/" * 400 + "b", SAMPLES)
    assert files(out) == ["a/" * 400 + "b.wav"]
    assert len(looks) < 2000


@pytest.mark.parametrize("name", ["b.wav", "b.codes.safetensors"])
def test_a_linked_target_is_refused(out: Path, writer: AudioWriter, name: str) -> None:
    victim = out.parent / "victim"
    victim.write_text("precious")
    (out / name).symlink_to(victim)
    with pytest.raises(RowError, match="is a link; remove it"):
        write(writer, "b", SAMPLES, CODES)
    assert not list(out.glob(".*.part"))
    assert victim.read_text() == "precious"


def test_things_in_the_way(out: Path, writer: AudioWriter) -> None:
    (out / "a.wav").mkdir()
    with pytest.raises(RowError, match="is a folder"):
        write(writer, "a", SAMPLES)
    (out / "b").write_text("a file")
    with pytest.raises(RowError, match="cannot write"):
        write(writer, "b/c", SAMPLES)
    write(writer, "d", SAMPLES)


def test_bad_audio_writes_nothing(out: Path, writer: AudioWriter) -> None:
    with pytest.raises(RowError):
        write(writer, "a", SAMPLES * np.float32("nan"), CODES)
    with pytest.raises(RowError):
        write(writer, "a", SAMPLES[:0], CODES)
    assert files(out) == []


@pytest.mark.parametrize("step", ["open", "write", "fsync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("nth", [0, 1])
def test_a_full_disk_stops_the_run_and_leaves_nothing(
    out: Path,
    writer: AudioWriter,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    number: int,
    nth: int,
) -> None:
    """Neither of the codes, which are staged first, nor of the audio."""
    write(writer, "a", SAMPLES, CODES)
    before, count, real = (out / "a.wav").read_bytes(), iter(range(9)), getattr(os, step)

    def fails(*args: Any) -> Any:
        if next(count) == nth:
            raise OSError(number, os.strerror(number))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fails)
        with pytest.raises(DiskFull, match="finished rows are safe") as caught:
            writer.make("a", SAMPLES / 2, CODES)
    assert caught.value.exit_code == 4
    assert files(out) == ["a.codes.safetensors", "a.wav"]
    assert (out / "a.wav").read_bytes() == before


def test_a_full_disk_on_a_new_folder(
    out: Path, writer: AudioWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", failing(errno.ENOSPC))
    with pytest.raises(DiskFull):
        write(writer, "new/a", SAMPLES)


@pytest.mark.parametrize("step", ["open", "write", "fsync"])
def test_other_errors_fail_one_row(
    out: Path, writer: AudioWriter, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(os, step, failing(errno.EACCES))
    with pytest.raises(RowError, match="Permission denied"):
        write(writer, "a", SAMPLES)
    monkeypatch.undo()
    assert files(out) == []


def test_output_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for path in (tmp_path / "f", tmp_path / "f" / "g"):
        with pytest.raises(UsageError, match="is not a folder"):
            prepare_folder(path)


def test_output_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SetupError, match="not writable"):
        prepare_folder(tmp_path)


def test_codes_are_part_of_a_finished_row(out: Path, writer: AudioWriter) -> None:
    write(writer, "a", SAMPLES, CODES)
    (out / "a.codes.safetensors").unlink()
    assert not writer.is_whole("a", None)
