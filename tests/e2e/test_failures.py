"""One row failing never ends the batch; what ends a run says so and loses nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from workbench import MakeCheckpoint, Workbench, finish, wait_until

from models.qwen3_tts.model import Qwen3TTS
from tts_cli.engine import Job
from tts_cli.journal import row_seed
from tts_cli.lock import LOCK_NAME
from tts_cli.synthesis import Synthesis

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"row{number}", "text": TEXTS[number % 4]} for number in range(8)]
FLAGS = ("--max-seconds", 1, "--save-codes")
FRAME_S = 0.0025


class TestRunaways:
    """Rows that reach their cap: other seeds first, then reported, never passed off as speech."""

    ROW = ({"id": "sub/x", "text": "Hello there.", "max_frames": 12},)

    def test_retried_then_failed_and_kept_apart(self, bench: Workbench, endless: Path) -> None:
        result = bench.synth(self.ROW, "--save-codes", model=endless)
        assert result.code == 1
        assert result.out.startswith("0 of 1 rows spoken, 1 failed\n")
        reason = "no end of speech within 12 frames (0.0 s) in 3 attempts; its audio is kept under"
        assert f"warning: row sub/x failed: {reason} truncated/\n" in result.err
        out = bench.out()
        record = out.records["sub/x"]
        assert (record["status"], record["finish_reason"]) == ("failed", "max_frames")
        assert (record["attempts"], record["frames"]) == (3, 12)
        assert record["path"] == "truncated/sub/x.wav"
        assert list(out.files) == ["truncated/sub/x.codes.safetensors", "truncated/sub/x.wav"]
        assert len(out.samples(record["path"])) == 12 * 60
        totals = out.report["totals"]
        assert totals["audio_s"] == 0
        assert totals["decoded_s"] == pytest.approx(3 * 12 * FRAME_S)
        # The audio and the seed are those of the last attempt.
        first = row_seed(0, "sub/x")
        assert record["seed"] == row_seed(first, "attempt 3")
        row = {**self.ROW[0], "seed": record["seed"]}
        flags = ("--save-codes", "--accept-truncated")
        assert bench.synth([row], *flags, model=endless, out="again").code == 0
        assert list(bench.out("again").files.values()) == list(out.files.values())

    @pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (4, 5)])
    def test_retries(self, bench: Workbench, endless: Path, retries: int, attempts: int) -> None:
        assert bench.synth(self.ROW, "--retries", retries, model=endless).code == 1
        assert bench.out().records["sub/x"]["attempts"] == attempts

    @pytest.mark.parametrize(
        ("row", "attempts"),
        [
            ({"greedy": True}, 1),
            ({"greedy": True, "subtalker_greedy": False}, 3),
            ({"greedy": False, "subtalker_greedy": True}, 3),
        ],
    )
    def test_greedy_rows_would_end_the_same_way(
        self, bench: Workbench, endless: Path, row: dict[str, Any], attempts: int
    ) -> None:
        assert bench.synth([{**self.ROW[0], **row}], model=endless).code == 1
        assert bench.out().records["sub/x"]["attempts"] == attempts

    def test_accepted(self, bench: Workbench, endless: Path) -> None:
        assert bench.synth(self.ROW, "--accept-truncated", model=endless).code == 0
        record = bench.out().records["sub/x"]
        found = (record["status"], record["finish_reason"], record["attempts"], record["path"])
        assert found == ("ok", "max_frames", 1, "sub/x.wav")

    def test_a_retry_that_ends_well_is_a_success(self, bench: Workbench) -> None:
        """A third of these rows run into their usual cap of 100 frames, and not all of them twice."""
        rows = [{"id": f"r{number}", "text": "Hello there."} for number in range(8)]
        bench.synth(rows)
        retried = [
            record
            for record in bench.out().records.values()
            if record["attempts"] == 2 and record["status"] == "ok"
        ]
        assert retried
        for record in retried:
            seed = row_seed(row_seed(0, record["id"]), "attempt 2")
            assert (record["seed"], record["finish_reason"]) == (seed, "eos")
            row = {"id": record["id"], "text": "Hello there.", "seed": seed}
            assert bench.synth([row], out="again").code == 0
            name = record["path"]
            assert bench.out("again").files[name] == bench.out().files[name]

    def test_audio_is_kept_when_the_retries_give_none(
        self, bench: Workbench, endless_and_poisoned: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A runaway whose next attempts gave NaN was reported as NaN, its audio thrown away."""
        retry = Synthesis._retry

        def retry_with_poison(self: Synthesis, job: Job, reason: str) -> Job | None:
            again = retry(self, job, reason)
            if again is not None:
                request = replace(again.prompt.request, text="~")
                again.prompt = self.session.model.plan(request)
            return again

        monkeypatch.setattr(Synthesis, "_retry", retry_with_poison)
        result = bench.synth(self.ROW, model=endless_and_poisoned)
        assert result.code == 1
        record = bench.out().records["sub/x"]
        assert "in 3 attempts, the last of which gave NaN" in record["error"]
        assert (record["finish_reason"], record["attempts"]) == ("max_frames", 3)
        assert record["seed"] == row_seed(0, "sub/x")
        assert record["frames"] == 12
        assert list(bench.out().files) == ["truncated/sub/x.wav"]


class TestNaN:
    def test_only_its_own_row_fails(self, bench: Workbench, poisoned: Path) -> None:
        bad = {"id": "bad", "text": "Good ~ morning."}
        assert bench.synth(ROWS, *FLAGS, model=poisoned, out="clean").code == 0
        rows = [*ROWS[:2], bad, *ROWS[2:]]
        result = bench.synth(rows, *FLAGS, model=poisoned)
        assert result.code == 1
        assert "row bad failed: the model gave NaN or infinite values twice" in result.err
        record = bench.out().records["bad"]
        assert (record["status"], record["attempts"], record["path"]) == ("failed", 2, None)
        assert record["total_ms"] > 0
        assert bench.out().files == bench.out("clean").files

    def test_with_one_slot_the_next_row_is_clean(self, bench: Workbench, poisoned: Path) -> None:
        rows = [{"id": "bad", "text": "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"}, *ROWS[:3]]
        assert bench.synth(rows, *FLAGS, "--max-batch", 1, model=poisoned).code == 1
        assert bench.synth(ROWS[:3], *FLAGS, model=poisoned, out="clean").code == 0
        assert bench.out().files == bench.out("clean").files


def fail_writes(
    monkeypatch: pytest.MonkeyPatch, is_hit: Callable[[bytes, int], bool], code: int = errno.ENOSPC
) -> None:
    """Make writes of file descriptors fail; `is_hit` sees the data and how many came before."""
    real, mutex, calls = os.write, threading.Lock(), [0]

    def write(handle: int, data: bytes) -> int:
        with mutex:
            calls[0] += 1
            if is_hit(bytes(data), calls[0] - 1):
                raise OSError(code, os.strerror(code))
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)


class TestDisk:
    @pytest.mark.parametrize(
        ("where", "is_hit"),
        [
            ("everything from some point on", lambda data, calls: calls >= 10),
            ("the audio of one row", lambda data, calls: data[:4] == b"RIFF" and calls > 6),
            ("one line of the journal", lambda data, calls: b"request_hash" in data and calls > 6),
            ("the lock file", lambda data, calls: b'"pid"' in data),
        ],
    )
    def test_full(
        self,
        bench: Workbench,
        monkeypatch: pytest.MonkeyPatch,
        where: str,
        is_hit: Callable[[bytes, int], bool],
    ) -> None:
        assert bench.synth(ROWS, *FLAGS, out="clean").code == 0
        wanted = bench.out("clean").files
        with monkeypatch.context() as patched:
            fail_writes(patched, is_hit)
            result = bench.synth(ROWS, *FLAGS)
        assert result.code == 4, where
        assert "No space left on device" in result.err
        assert "make room and run the same command again: finished rows are kept" in result.err
        files = bench.out().files
        files.pop(LOCK_NAME, None)
        assert all(wanted.get(name) == data for name, data in files.items())
        if where != "the lock file":
            assert len(files) < len(wanted)
            assert set(bench.out().status().values()) <= {"ok"}
        rerun = bench.synth(ROWS, *FLAGS)
        assert rerun.code == 0
        assert bench.out().files == wanted

    def test_full_before_the_report(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            fail_writes(patched, lambda data, calls: b'"totals"' in data)
            result = bench.synth(ROWS[:2], *FLAGS)
        assert result.code == 4
        assert "run.json" in result.err
        assert bench.synth(ROWS[:2], *FLAGS).out.startswith("nothing to do")

    def test_something_in_the_way_fails_its_row(self, bench: Workbench) -> None:
        (bench.out().path / "row1.wav").mkdir(parents=True)
        (bench.out().path / "folder").write_text("a file")
        rows = [*ROWS[:3], {"id": "folder/x", "text": "Hi."}]
        result = bench.synth(rows, *FLAGS)
        assert result.code == 1
        records = bench.out().records
        assert bench.out().status() == {
            "row0": "ok", "row1": "failed", "row2": "ok", "folder/x": "failed"
        }  # fmt: skip
        assert "is a folder" in records["row1"]["error"]
        assert "folder" in records["folder/x"]["error"]

    def test_a_folder_in_use(self, bench: Workbench) -> None:
        sign = bench.folder / "loading"
        patch = (
            "import time\nfrom pathlib import Path\nfrom tts_cli import session\n"
            f"session.load_model = lambda *_: (Path({str(sign)!r}).touch(), time.sleep(600))\n"
        )
        process = bench.start(bench.command(bench.write(ROWS), *FLAGS), patch)
        wait_until(sign.exists, process)
        result = bench.synth(ROWS, *FLAGS)
        assert result.code == 2
        assert f"is in use by process {process.pid} on " in result.err
        assert "wait for it, or choose another --out" in result.err
        assert bench.out().lines == []
        process.kill()
        finish(process)
        assert bench.synth(ROWS, *FLAGS).code == 0

    def test_a_folder_that_cannot_be_made(self, bench: Workbench) -> None:
        (bench.folder / "file").write_text("")
        for name in ("file", "file/out"):
            result = bench.synth(ROWS, *FLAGS, out=name)
            assert result.code == 2
            assert f"--out {bench.folder / name}: is not a folder" in result.err

    def test_a_folder_that_cannot_be_written(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.out().path.mkdir()
        monkeypatch.setattr("tts_cli.output.os.access", lambda path, mode: not mode & os.W_OK)
        result = bench.synth(ROWS, *FLAGS)
        assert result.code == 3
        assert f"--out {bench.out().path}: is not writable" in result.err
        assert not any(bench.out().path.iterdir())


class TestCheckpoint:
    """What is wrong with a checkpoint is said by name, with exit code 3."""

    @staticmethod
    def refuse(bench: Workbench, model: Path | str, *words: str) -> None:
        result = bench.run("synth", bench.write(ROWS), "--out", bench.out().path, "--model", model)
        assert result.code == 3, result
        assert result.out == ""
        for word in words:
            assert word in result.err
        assert bench.run("voices", "--model", model).code in (0, 3)

    def test_no_such_folder(self, bench: Workbench) -> None:
        self.refuse(bench, bench.folder / "nowhere", "nowhere: no such checkpoint folder")
        assert not bench.out().path.exists()

    def test_not_a_checkpoint(self, bench: Workbench) -> None:
        self.refuse(bench, bench.folder, "no config.json; is this a checkpoint folder?")
        (bench.folder / "config.json").write_text('{"model_type": "llama"}')
        self.refuse(bench, bench.folder, "model_type 'llama' is not one of qwen3_tts")
        (bench.folder / "config.json").write_text("{")
        self.refuse(bench, bench.folder, "not readable as JSON")

    @pytest.fixture
    def copied(self, checkpoint: Path, tmp_path: Path) -> Path:
        """A checkpoint to break."""
        return Path(shutil.copytree(checkpoint, tmp_path / "copied"))

    @pytest.mark.parametrize("part", ["", "speech_tokenizer"])
    def test_no_weights(self, bench: Workbench, copied: Path, part: str) -> None:
        path = copied / part / "model.safetensors"
        path.rename(path.with_name("pytorch_model.bin"))
        self.refuse(bench, copied, "no model.safetensors", "pickled weights are there")

    def test_keys_that_do_not_fit(self, bench: Workbench, copied: Path) -> None:
        weights = load_file(copied / "model.safetensors")
        weights["surplus"] = torch.zeros(1)
        del weights["talker.codec_head.weight"]
        weights["talker.model.norm.weight"] = torch.ones(3)
        save_file(weights, copied / "model.safetensors")
        self.refuse(
            bench,
            copied,
            "model: 3 keys do not fit",
            "missing talker.codec_head.weight",
            "unexpected surplus",
            "norm.weight has shape (3,), the config says (64,)",
        )

    @pytest.mark.parametrize("part", ["", "speech_tokenizer"])
    def test_a_download_cut_short(self, bench: Workbench, copied: Path, part: str) -> None:
        path = copied / part / "model.safetensors"
        path.write_bytes(path.read_bytes()[:5000])
        self.refuse(bench, copied, f"{path}: not a readable safetensors file")

    @pytest.mark.parametrize("name", ["vocab.json", "speech_tokenizer/config.json"])
    def test_a_file_is_missing(self, bench: Workbench, copied: Path, name: str) -> None:
        (copied / name).unlink()
        self.refuse(bench, copied, "tokenizer" if name == "vocab.json" else name)

    def test_base_cannot_be_spoken_with(
        self, bench: Workbench, make_checkpoint: MakeCheckpoint
    ) -> None:
        """Its rows were told both to give ref_audio and to leave it out."""
        base = make_checkpoint("base")
        words = (
            "error: a Base checkpoint speaks only by cloning a reference recording, which this "
            "version does not do yet; use a CustomVoice or VoiceDesign checkpoint\n"
        )
        manifest = bench.write(ROWS)
        for command in ("synth", "validate"):
            out = ("--out", bench.out().path)
            result = bench.run(command, manifest, "--model", base, *out)
            assert (result.code, result.out, result.err) == (3, "", words)
        for command in ("warmup", "profile"):
            assert bench.run(command, "--model", base).err == words
        assert not bench.out().path.exists()
        assert "does not clone yet" in bench.run("voices", "--model", base).out

    def test_a_reference_needs_a_checkpoint_that_clones(self, bench: Workbench) -> None:
        (bench.folder / "me.wav").write_bytes(b"RIFF")
        manifest = bench.write([*ROWS, {"id": "x", "text": "Hi.", "ref_audio": "me.wav"}])
        result = bench.run("synth", manifest, "--out", bench.out().path)  # the sample voice
        assert result.code == 2
        problem = "gives ref_audio, but a custom_voice checkpoint cannot clone; leave it out"
        assert f"{manifest}:9: id 'x': {problem}" in result.err
        assert not bench.out().path.exists()


class TestDevice:
    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    @pytest.mark.parametrize("device", ["cuda", "cuda:3"])
    def test_absent(self, bench: Workbench, device: str) -> None:
        """It was noticed only after the output folder had been made."""
        result = bench.synth(ROWS, "--device", device)
        assert result.code == 3
        assert f"--device {device}: no CUDA device found; use --device cpu" in result.err
        assert not bench.out().path.exists()
        for command in ("warmup", "profile"):
            assert bench.run(command, "--device", device).code == 3

    @pytest.mark.parametrize("operation", ["decode_frames", "decode_audio"])
    def test_lost(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, operation: str
    ) -> None:
        calls = 2 if operation == "decode_audio" else 80
        error = RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines")
        self.break_after(monkeypatch, operation, calls, error)
        result = bench.synth(ROWS, *FLAGS, "--max-batch", 2)
        assert result.code == 4
        last = result.err.splitlines()[-1]
        assert last.startswith(
            "error: the device failed: CUDA error: an illegal memory access was encountered; "
            "finished rows are kept"
        )
        report = bench.out().report
        assert (report["exit_code"], report["totals"]["is_interrupted"]) == (4, True)
        kept = bench.out().files
        monkeypatch.undo()
        result = bench.synth(ROWS, *FLAGS)
        assert result.code == 0
        assert kept.items() <= bench.out().files.items()
        assert bench.synth(ROWS, *FLAGS, out="clean").code == 0
        assert bench.out().files == bench.out("clean").files

    def test_out_of_memory_lowers_the_batch(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert bench.synth(ROWS, *FLAGS, out="clean").code == 0
        real = Qwen3TTS.decode_frames

        def decode_frames(self: Qwen3TTS, bucket: int, count: int) -> None:
            if bucket > 2:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
            real(self, bucket, count)

        monkeypatch.setattr(Qwen3TTS, "decode_frames", decode_frames)
        result = bench.synth(ROWS, *FLAGS)
        assert result.code == 0
        assert "out of device memory; going on with 2 rows at a time" in result.err
        assert bench.out().report["device"]["memory_step_downs"] == 2
        assert bench.out().files == bench.out("clean").files

    def test_a_bug_is_an_internal_error(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No traceback unless asked for, and the helper threads end as well."""
        self.break_after(monkeypatch, "decode_audio", 2, ZeroDivisionError("oh"))
        threads = threading.active_count()
        result = bench.synth(ROWS, *FLAGS)
        assert result.code == 4
        assert result.err.splitlines()[-1] == (
            "error: internal error: ZeroDivisionError: oh; run again with --debug"
        )
        assert threading.active_count() == threads
        assert not (bench.out().path / LOCK_NAME).exists()
        result = bench.synth(ROWS, *FLAGS, "--debug", out="debug")
        assert result.code == 4
        assert "Traceback" in result.err

    def test_a_bug_in_a_helper_thread_ends_the_run_too(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.break_after(monkeypatch, "plan", 1, ZeroDivisionError("oh"))
        result = bench.synth(ROWS, *FLAGS)
        assert result.code == 4
        assert "internal error: ZeroDivisionError: oh" in result.err

    @staticmethod
    def break_after(
        monkeypatch: pytest.MonkeyPatch, operation: str, calls: int, error: Exception
    ) -> None:
        """Make an operation of the model raise from its call number `calls` (from 0) on."""
        real, done = getattr(Qwen3TTS, operation), [0]

        def broken(self: Qwen3TTS, *args: Any) -> Any:
            done[0] += 1
            if done[0] > calls:
                raise error
            return real(self, *args)

        monkeypatch.setattr(Qwen3TTS, operation, broken)


def test_a_text_longer_than_the_cache_fails_alone(
    bench: Workbench, make_checkpoint: MakeCheckpoint
) -> None:
    small = make_checkpoint()
    config = json.loads((small / "config.json").read_text())
    config["talker_config"]["max_position_embeddings"] = 300
    (small / "config.json").write_text(json.dumps(config))
    rows = [*ROWS[:2], {"id": "long", "text": "A" * 200}, {"id": "capped", "text": "B" * 200}]
    rows[-1] |= {"max_frames": 50}
    result = bench.synth(rows, "--accept-truncated", model=small)
    assert result.code == 1
    error = bench.out().records["long"]["error"]
    assert error == (
        "210 prompt tokens and 664 frames are more than the 300 positions of this checkpoint; "
        "split the text or lower max_frames"
    )
    assert bench.out().status() == {"row0": "ok", "row1": "ok", "long": "failed", "capped": "ok"}
