"""Reference recordings: what is taken, what is refused and why, and what memory that costs."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
from cases import cases
from hostile_audio import HOSTILE, RATE_HZ, Samples, encoded, pcm, raw_wav, tone

from tts_cli.errors import RowError
from tts_cli.voices import recording
from tts_cli.voices.needs import ReferenceFiles
from tts_cli.voices.recording import (
    Reference,
    load_reference,
    read_facts,
    reference_digest,
    resampled,
)

CASES = cases(__file__)["recording"]

MAX_MEMORY = 24 * 2**20  # of any hostile file; blocks of six channels and 30 s of mono


def load(
    path: Path,
    root: Path | None = None,
    mode: str = "icl",
    rate_hz: int = RATE_HZ,
    silence_s: float = 0.5,
) -> Reference:
    return load_reference(
        str(path), root, mode=mode, text="said", rate_hz=rate_hz, silence_s=silence_s
    )


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def reason(path: Path, root: Path | None = None) -> str:
    with pytest.raises(RowError) as caught:
        load(path, root)
    return str(caught.value)


@pytest.mark.slow
class TestHostile:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_every_one_is_refused_with_its_reason(self, tmp_path: Path, name: str) -> None:
        make, words = HOSTILE[name]
        path = make(tmp_path / name)
        num_open = len(os.listdir("/proc/self/fd"))
        tracemalloc.start()
        try:
            found = reason(path)
            assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
        finally:
            tracemalloc.stop()
        assert words in found
        assert found.startswith("ref_audio '")
        assert "\n" not in found
        assert len(found) < 300
        assert len(os.listdir("/proc/self/fd")) == num_open, "a descriptor is left open"

    @pytest.mark.parametrize("name", HOSTILE)
    def test_the_header_is_judged_the_same(self, tmp_path: Path, name: str) -> None:
        """A run looks at headers only at first: it may miss what is inside, says nothing else."""
        path = HOSTILE[name][0](tmp_path / name)
        found = reason(path)
        with contextlib.suppress(RowError):
            header = read_facts(str(path)).header
            assert header.most_seconds <= 30
            return
        with pytest.raises(RowError) as caught:
            read_facts(str(path))
        assert str(caught.value) == found

    def test_all_of_them_in_a_process_of_little_memory(self, tmp_path: Path) -> None:
        """Resident memory, that of the decoders included, grows by less than 64 MiB."""
        for name, (make, _) in HOSTILE.items():
            make(tmp_path / name)
        (tmp_path / "good").write_bytes(encoded(tone()))
        program = f"""
            import pathlib, resource
            from tts_cli.errors import RowError
            from tts_cli.voices.recording import load_reference

            def load(path):
                settings = dict(mode="icl", text="a", rate_hz=24000, silence_s=0.5)
                load_reference(str(path), None, **settings)

            def peak():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

            folder = pathlib.Path({str(tmp_path)!r})
            load(folder / "good")
            before, refused = peak(), 0
            for path in sorted(folder.iterdir()):
                try:
                    load(path)
                except RowError:
                    refused += 1
            print(refused, peak() - before)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        refused, grown_kib = map(int, done.stdout.split())
        made = sum(1 for path in tmp_path.iterdir()) - 1
        assert refused == made > 40
        assert grown_kib < 64 * 1024
        assert "Traceback" not in done.stderr

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_without_permission(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.wav", encoded(tone()))
        path.chmod(0)
        assert "cannot be read; check its permissions" in reason(path)

    def test_a_refused_open(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same, where the tests are run by root."""
        path = write(tmp_path / "a.wav", encoded(tone()))

        def refuse(*args: object, **kwargs: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
        assert "cannot be read; check its permissions" in reason(path)

    def test_a_file_that_changes_while_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "a.wav", encoded(tone()))
        decode = recording._decode

        def late(*args: object) -> Samples:
            with open(path, "ab") as file:
                file.write(b"more")
            return decode(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(recording, "_decode", late)
        assert "changed while it was read" in reason(path)

    def test_a_file_swapped_for_a_fifo_does_not_block(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was opened is asked, not what stood there before."""
        path = write(tmp_path / "a.wav", encoded(tone()))
        plain = os.stat(path)
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(os, "stat", lambda *args, **kwargs: plain)
        assert "is not a regular file" in reason(path)


class TestRoot:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "inside" / "deep").mkdir(parents=True)
        write(tmp_path / "inside" / "deep" / "in.wav", encoded(tone()))
        write(tmp_path / "out.wav", encoded(tone()))
        (tmp_path / "inside-not").mkdir()
        write(tmp_path / "inside-not" / "out.wav", encoded(tone()))
        return tmp_path / "inside"

    @pytest.mark.parametrize(
        "name",
        ["../out.wav", "deep/../../out.wav", "../inside-not/out.wav", "../inside/../out.wav"],
    )
    def test_paths_that_leave(self, root: Path, name: str) -> None:
        assert f"is outside of --ref-root {root}" in reason(root / name, root)

    def test_links_that_leave(self, root: Path) -> None:
        (root / "link.wav").symlink_to("../out.wav")
        (root / "folder").symlink_to("../inside-not")
        assert "is outside of" in reason(root / "link.wav", root)
        assert "is outside of" in reason(root / "folder" / "out.wav", root)
        assert len(load(root / "link.wav").samples), "without --ref-root a link is only a link"

    def test_paths_and_links_that_stay(self, root: Path) -> None:
        (root / "link.wav").symlink_to("deep/in.wav")
        (root.parent / "door").symlink_to("inside")
        for path in (
            root / "link.wav",
            root / "deep/../deep/in.wav",
            root.parent / "door/link.wav",
        ):
            assert len(load(path, root).samples) == 36_000
        assert len(load(root / "link.wav", root.parent / "door").samples) == 36_000

    def test_a_link_swapped_in_late(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A path that was inside when it was resolved is not followed out afterwards."""
        path = root / "deep" / "in.wav"
        found = os.path.realpath(path)
        path.unlink()
        path.symlink_to(root.parent / "out.wav")
        real = os.path.realpath
        monkeypatch.setattr(
            os.path, "realpath", lambda name: found if name == str(path) else real(name)
        )
        assert "cannot be opened" in reason(path, root)


class TestAudio:
    @pytest.mark.parametrize(("format", "subtype"), CASES["every_usual_format_is_taken"])
    def test_every_usual_format_is_taken(self, tmp_path: Path, format: str, subtype: str) -> None:
        if not soundfile.check_format(format, subtype):
            pytest.skip(f"this libsndfile has no {format} {subtype}")
        wave = tone(channels=2)
        path = write(tmp_path / "a", encoded(wave, format, subtype))
        found = load(path).samples
        assert (found.dtype, found.ndim) == (np.float32, 1)
        assert abs(len(found) - len(wave)) <= 1152
        if subtype.startswith(("PCM", "FLOAT", "DOUBLE", "ALAC")):
            assert np.allclose(found, wave[:, 0], atol=1e-4)

    def test_the_mean_of_the_channels(self, tmp_path: Path) -> None:
        parts = [tone(hz=110), tone(hz=170), tone(hz=230)]
        path = write(tmp_path / "a", encoded(np.stack(parts, axis=1), subtype="FLOAT"))
        expected = np.mean(np.stack(parts), axis=0, dtype=np.float32)
        assert np.allclose(load(path).samples, expected, atol=1e-7)

    def test_blocks_join_without_a_seam(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "a", encoded(tone(2.0), "FLAC"))
        whole = load(path).samples
        monkeypatch.setattr(recording, "_BLOCK_FRAMES", 999)
        assert np.array_equal(load(path).samples, whole)

    def test_the_ends_of_the_range(self, tmp_path: Path) -> None:
        assert len(load(write(tmp_path / "a", encoded(tone(1.0)))).samples) == RATE_HZ
        assert len(load(write(tmp_path / "b", encoded(tone(30.0)))).samples) == 30 * RATE_HZ

    def test_a_quiet_recording_is_no_silence(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a", encoded(1e-2 * tone() + 0.1, subtype="FLOAT"))
        assert len(load(path).samples) == 36_000

    def test_bytes_behind_the_audio_do_no_harm(self, tmp_path: Path) -> None:
        data = raw_wav(pcm(tone())) + b"LIST\x04\x00\x00\x00INFO"
        assert len(load(write(tmp_path / "a", data)).samples) == 36_000

    @pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
    def test_resampling(self, tmp_path: Path, rate_hz: int) -> None:
        path = write(tmp_path / "a", encoded(tone(rate_hz=rate_hz), rate_hz=rate_hz))
        found, expected = load(path).samples, tone()
        assert found.dtype == np.float32
        assert abs(len(found) - len(expected)) <= 1
        middle = slice(2_000, 34_000)  # the filter rings at both ends
        assert np.allclose(found[middle], expected[middle], atol=2e-3)

    def test_resampled_lengths_are_librosas(self) -> None:
        for count in (1000, 1001, 22_051):
            found = resampled(np.zeros(count, np.float32), 22_050, RATE_HZ)
            assert len(found) == int(np.ceil(count * (RATE_HZ / 22_050)))


class TestDigest:
    def test_silence_and_text_are_for_icl_only(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a", encoded(tone()))
        icl, xvec = load(path), load(path, mode="xvec")
        assert (icl.num_silence, icl.text) == (12_000, "said")
        assert (xvec.num_silence, xvec.text) == (0, None)
        assert load(path, mode="xvec", silence_s=0).digest == xvec.digest
        digests = {load(path, silence_s=silence).digest for silence in (0.0, 0.25, 0.5)}
        assert len(digests | {xvec.digest}) == 4

    def test_content_counts_and_the_path_does_not(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", encoded(tone()))
        second = write(tmp_path / "b", encoded(tone()))
        third = write(tmp_path / "c", encoded(tone(hz=151)))
        assert load(first).digest == load(second).digest != load(third).digest
        facts = read_facts(str(first))
        assert reference_digest(facts.content, "icl", "said", 0.5) == load(first).digest
        assert reference_digest(facts.content, "icl", "else", 0.5) != load(first).digest


def test_files_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tts_cli.voices.needs.REMEMBERED_FILES", 2)
    good, bad = write(tmp_path / "a", encoded(tone())), tmp_path / "none"
    files = ReferenceFiles()
    facts = files.facts(str(good))
    good.unlink()
    assert files.facts(str(good)) is facts
    for _ in range(3):
        with pytest.raises(RowError, match="does not exist"):
            files.facts(str(bad))
    with pytest.raises(RowError):
        files.facts(str(tmp_path / "other"))
    with pytest.raises(RowError):  # two are remembered, and this was the third
        files.facts(str(good))


def test_the_limit_of_open_files_is_never_met(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = max(map(int, os.listdir("/proc/self/fd")))  # other tests may have left some
    resource.setrlimit(resource.RLIMIT_NOFILE, (now + 30, hard))
    try:
        for index in range(100):
            path = write(tmp_path / str(index), b"no audio")
            assert "cannot be decoded" in reason(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
