"""Files are whole or absent, stay inside their folder, and a full disk stops the run."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load_file

from tts_cli.config import RunConfig
from tts_cli.errors import DiskFull, RowError, SetupError, UsageError
from tts_cli.store import files as inside
from tts_cli.store import files as output
from tts_cli.store.files import AudioWriter, WrittenFile, check_space, prepare_folder

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
) -> WrittenFile:
    made = writer.make(row_id, samples, codes, is_truncated)
    return writer.put(row_id, made, is_truncated)


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def test_write(out: Path, writer: AudioWriter) -> None:
    written = write(writer, "a/b", SAMPLES, CODES)
    data = (out / "a/b.wav").read_bytes()
    assert written == WrittenFile("a/b.wav", len(data), sha256(data).hexdigest())
    assert files(out) == ["a/b.codes.safetensors", "a/b.wav"]
    assert soundfile.info(out / "a/b.wav").samplerate == RATE
    assert (load_file(out / "a/b.codes.safetensors")["codes"] == CODES).all()
    assert writer.is_whole("a/b", None)
    assert not writer.is_whole("a/c", None)


def test_codes_are_part_of_a_finished_row(out: Path, writer: AudioWriter) -> None:
    write(writer, "a", SAMPLES, CODES)
    (out / "a.codes.safetensors").unlink()
    assert not writer.is_whole("a", None)


def test_an_empty_file_is_not_a_finished_row(out: Path, writer: AudioWriter) -> None:
    write(writer, "a", SAMPLES, CODES)
    (out / "a.wav").write_bytes(b"")
    assert not writer.is_whole("a", None)


@pytest.mark.parametrize("row_id", ["a", "x/a"])
def test_what_belongs_to_an_older_take_does_not_stay(
    out: Path, writer: AudioWriter, row_id: str
) -> None:
    write(writer, row_id, SAMPLES, CODES)
    (out / f"{row_id}.flac.original").write_bytes(b"what it was made of")
    write(AudioWriter(out, RunConfig(), RATE), row_id, SAMPLES)
    assert files(out) == [f"{row_id}.wav"]


def test_where_nothing_lay_beside_audio_no_row_asks_for_it(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three questions a row, each of which keeps a folder from everybody else."""
    (out / ".voices").mkdir()
    (out / "old.wav").write_bytes(b"older audio")
    plain, asked, real = AudioWriter(out, RunConfig(), RATE), [], os.unlink
    monkeypatch.setattr(os, "unlink", lambda path: asked.append(path) or real(path))
    for row_id in ("a", "x/b", "old"):
        write(plain, row_id, SAMPLES)
    assert (files(out), asked) == (["a.wav", "old.wav", "x/b.wav"], [])


def test_runaways_are_kept_apart_until_the_row_comes_out_well(
    out: Path, writer: AudioWriter
) -> None:
    assert write(writer, "x/a", SAMPLES, CODES, is_truncated=True).path == "truncated/x/a.wav"
    assert files(out) == ["truncated/x/a.codes.safetensors", "truncated/x/a.wav"]
    assert not writer.is_whole("x/a", None)
    write(writer, "x/a", SAMPLES, CODES)
    assert files(out) == ["x/a.codes.safetensors", "x/a.wav"]


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


def test_a_linked_truncated_folder_cannot_lead_out(out: Path, writer: AudioWriter) -> None:
    outside = out.parent / "outside"
    outside.mkdir()
    (out / "truncated").symlink_to(outside)
    with pytest.raises(RowError, match="is a link that leads out of the output folder"):
        write(writer, "b", SAMPLES, is_truncated=True)


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


def test_a_linked_folder_inside_is_fine(out: Path, writer: AudioWriter) -> None:
    (out / "real").mkdir()
    (out / "a").symlink_to(out / "real")
    write(writer, "a/b", SAMPLES)
    assert "real/b.wav" in files(out)


@pytest.mark.parametrize("name", ["b.wav", "b.codes.safetensors"])
def test_a_linked_target_is_refused(out: Path, writer: AudioWriter, name: str) -> None:
    victim = out.parent / "victim"
    victim.write_text("precious")
    (out / name).symlink_to(victim)
    with pytest.raises(RowError, match="is a link; remove it"):
        write(writer, "b", SAMPLES, CODES)
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


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_stops_the_run_and_leaves_the_old_file(
    out: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    plain = AudioWriter(out, RunConfig(), RATE)
    write(plain, "a", SAMPLES)
    before = (out / "a.wav").read_bytes()
    monkeypatch.setattr(os, step, failing(number))
    with pytest.raises(DiskFull, match="finished rows are safe") as caught:
        write(plain, "a", SAMPLES / 2)
    monkeypatch.undo()
    assert caught.value.exit_code == 4
    assert files(out) == ["a.wav"]
    assert (out / "a.wav").read_bytes() == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("has_new_codes", [True, False])
def test_codes_never_lie_next_to_audio_that_is_not_theirs(
    out: Path, monkeypatch: pytest.MonkeyPatch, number: int, has_new_codes: bool
) -> None:
    """The new codes had their name before the audio: where that failed, `encode` made other speech
    of the row, or there were no codes any more. The n-th rename fails, until none does.
    """
    real, ends = os.replace, []
    for fails_at in range(9):
        write(AudioWriter(out, RunConfig(save_codes=True), RATE), "a", SAMPLES, CODES)
        (out / "a.flac.original").write_bytes(b"what it was made of")
        before = {name: (out / name).read_bytes() for name in files(out)}
        writer, count = AudioWriter(out, RunConfig(save_codes=has_new_codes), RATE), iter(range(9))

        def replace(source: str, target: str, now: Any = count, at: int = fails_at) -> None:
            if next(now) == at:
                raise OSError(number, os.strerror(number))
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)
        try:
            write(writer, "a", SAMPLES / 2, CODES + 1)
            break
        except (DiskFull, RowError):
            ends.append({name: (out / name).read_bytes() for name in files(out)})
        finally:
            monkeypatch.undo()
    without_audio = {name: data for name, data in before.items() if name != "a.wav"}
    assert ends == [before, before, without_audio][: 3 if has_new_codes else 2]
    assert (out / "a.wav").read_bytes() != before["a.wav"]
    assert files(out) == [*["a.codes.safetensors"][: int(has_new_codes)], "a.wav"]
    if has_new_codes:
        assert (load_file(out / "a.codes.safetensors")["codes"] == CODES + 1).all()


def test_a_kill_between_audio_and_codes_leaves_no_wrong_codes(
    out: Path, writer: AudioWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there before each rename and each removal, and would stay after a kill."""
    write(writer, "a", SAMPLES, CODES)
    old, seen = (out / "a.wav").read_bytes(), []

    def look(real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            has_old_audio = (out / "a.wav").read_bytes() == old
            codes = out / "a.codes.safetensors"
            if codes.exists():
                seen.append(has_old_audio == bool((load_file(codes)["codes"] == CODES).all()))
            return real(*args)

        return noted

    other = AudioWriter(out, RunConfig(save_codes=True), RATE)
    monkeypatch.setattr(os, "replace", look(os.replace))
    monkeypatch.setattr(os, "unlink", look(os.unlink))
    write(other, "a", SAMPLES / 2, CODES + 1)
    assert seen
    assert all(seen)


def test_a_full_disk_on_a_new_folder(
    out: Path, writer: AudioWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", failing(errno.ENOSPC))
    with pytest.raises(DiskFull):
        write(writer, "new/a", SAMPLES)


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
def test_other_errors_fail_one_row(
    out: Path, writer: AudioWriter, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(os, step, failing(errno.EACCES))
    with pytest.raises(RowError, match="Permission denied"):
        write(writer, "a", SAMPLES)
    monkeypatch.undo()
    assert files(out) == []


def test_threads(out: Path, writer: AudioWriter) -> None:
    def work(part: int) -> None:
        for n in range(10):
            write(writer, f"{n}/{part}", SAMPLES, CODES)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files(out)) == 80


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


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),  # this was 1000.0 kB
        (22_927_200_000, "22.9 GB"),  # this was 22,927.2 MB
        (40_000, "40.0 kB"),  # and this 0.0 MB
        (2e15, "2,000.0 TB"),
    ],
)
def test_sizes_show_their_first_digits(num_bytes: float, words: str) -> None:
    assert output.shown_size(num_bytes) == words


def test_a_place_that_tells_no_size_is_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--out /proc/x: the disk is full."""
    usage = type("Usage", (), {"total": 0, "free": 0})
    monkeypatch.setattr(output.shutil, "disk_usage", lambda _: usage)
    assert check_space(tmp_path, 1000) is None


def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"total": 10**6, "free": 1000})
    monkeypatch.setattr(output.shutil, "disk_usage", lambda _: usage)
    place = tmp_path / "not" / "yet"
    assert check_space(place, 1000) is None
    assert "may stop early" in (check_space(place, 1500) or "")
    with pytest.raises(
        SetupError, match="free some space, use --format flac, or split the manifest with --shard"
    ):
        check_space(place, 2001)


def test_unknown_space_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.shutil, "disk_usage", failing(errno.ENOSYS))
    assert "is unknown" in (check_space(tmp_path, 1) or "")
