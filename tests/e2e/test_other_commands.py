"""`validate`, `voices`, `doctor`, `warmup` and `profile` on a CPU, and what all commands share."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import FakeCapturer
from tiny_qwen3_tts import LANGUAGES
from workbench import Result, Workbench

from models.registry import load_model
from models.slots.model import SpeechModel
from tts_cli.app import doctor
from tts_cli.app.profile import Profiler
from tts_cli.cli import messages as msg
from tts_cli.engine import load as session
from tts_cli.errors import UsageError
from tts_cli.extras import all_extras
from tts_cli.plan import checkpoint as consent
from tts_cli.plan import checkpoint as model_source

ROWS = [
    {"id": "a", "text": "Hello there."},
    {"id": "b", "text": "Good morning, all of you.", "voice": "emil"},
]
CPU = ("--device", "cpu")
STAGES = {"prompt (one row)", "prefill (batch)", "code predictor", "talker", "frame"}

needs_no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="shows what a CPU does")


class TestValidate:
    def test_sums(self, bench: Workbench) -> None:
        manifest = bench.write(ROWS)
        result = bench.run("validate", manifest, "--model", bench.model, "--json")
        assert (result.code, result.err) == (0, "")
        chars = sum(len(row["text"]) for row in ROWS)
        assert result.json == {
            "manifest": str(manifest),
            "rows": 2,
            "selected": 2,
            "wordless": 0,
            "split": 0,
            "parts": 0,
            "due": 2,
            "takes": 0,
            "made_voices": [],
            "strangers": [],
            "chars": chars,
            "longest_id": "b",
            "longest_chars": 25,
            "audio_s": pytest.approx(0.075 * chars, abs=1e-3),
            "disk_bytes": pytest.approx(0.075 * chars * 48_000 + 2 * 4796, abs=1),
            "warnings": [],
            "bad_rows": 0,
            "bad": [],
            "xrt": None,
            "time_s": None,
        }

    def test_it_takes_the_command_line_of_synth(self, bench: Workbench) -> None:
        manifest = bench.write([*ROWS, {"text": "x", "voice": "?"}])
        flags = ["--seed", 3, "--voice", "emil", "--max-seconds", 1, "--top-k", 5, "--greedy"]
        flags += ["--format", "flac", "--save-codes", "--out", bench.out().path, "--limit", 2]
        flags += ["--shard", "1/2", "--layout", "streaming", "--model", bench.model]
        result = bench.run("validate", manifest, *flags).expect(
            2, f"Error: {manifest}:3: id '000003': voice: '?' is unknown"
        )
        assert result.out.startswith(": ".join(msg.PLAN_ROWS).format(good=2, invalid=1) + "\n")
        bench.run("validate", manifest, *flags, "--skip-invalid").expect(0)
        assert not bench.out().path.exists()

    def test_the_sample_voice_speaks_long_texts_in_parts(self, bench: Workbench) -> None:
        text = "The old clock was wrong again by noon, and nobody cared to mend it. " * 5
        found = bench.run("validate", bench.write([{"text": text}]), "--json").json
        assert (found["split"], found["parts"]) == (1, 3)


class TestVoices:
    def test_custom_voice(self, bench: Workbench) -> None:
        result = bench.run("voices", "--model", bench.model)
        assert (result.code, result.err) == (0, "")
        assert "voices: dora, emil, fang\n" in result.out
        assert f"languages: auto, {', '.join(LANGUAGES)}\n" in result.out
        assert "mode: custom voice: rows name a voice\n" in result.out
        found = bench.run("voices", "--model", bench.model, "--json").json
        assert found["voices"] == ["dora", "emil", "fang"]
        assert found["source"] == str(bench.model)
        assert found["sampling"]["top_k"] == 50

    def test_the_sample_voice(self, bench: Workbench) -> None:
        text = bench.run("voices").out
        assert text.startswith("model: sample voice (qwen3_tts, ")
        assert "voices: arthur, clara, ewan\n" in text

    def test_random_weights(self, bench: Workbench) -> None:
        found = bench.run("voices", "--model", "synthetic:qwen3-tts-0.6b", "--json").json
        assert (found["num_codebooks"], found["samples_per_frame"]) == (16, 1920)
        bench.run("voices", "--model", "synthetic:gpt").expect(
            3, "no synthetic model 'gpt'; there are qwen3-tts-0.6b, qwen3-tts-1.7b"
        )


class TestDoctor:
    @needs_no_cuda
    def test_all_that_is_needed_is_here(self, bench: Workbench) -> None:
        result = bench.run("doctor", "--json")
        assert (result.code, result.err) == (0, "")
        found = {finding["name"]: finding for finding in result.json}
        needed = ("torch", "transformers", "safetensors", "soundfile", "cpu", "sample voice")
        assert {found[name]["status"] for name in needed} == {"ok"}
        assert found["torch"]["detail"] == torch.__version__
        assert found["cuda"]["status"] == "note"
        assert found["kernels"]["detail"]
        assert {name for name in found if name.startswith("extra ")} == {
            f"extra {name}" for name in all_extras()
        }
        table = bench.run("doctor").out
        assert all(name in table for name in found)

    def test_a_missing_package_is_named_with_its_remedy(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "soundfile", None)
        result = bench.run("doctor", "--json").expect(3)
        (missing,) = (finding for finding in result.json if finding["status"] == "missing")
        assert (missing["name"], missing["remedy"]) == ("soundfile", "pip install soundfile")

    @pytest.mark.parametrize("failure", [None, "probe: Failed to find C compiler"])
    def test_on_a_gpu_a_kernel_is_compiled(
        self, failure: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All was well wherever Triton could be imported."""
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr("kernels.launch.probe.probe", lambda device: failure)
        found = {"C compiler": "/usr/bin/gcc", "ptxas": "/opt/ptxas (12.8)"}
        monkeypatch.setattr("kernels.launch.probe.tools", lambda device: found)
        (told,) = doctor.kernels()
        assert told.detail.endswith("; C compiler /usr/bin/gcc; ptxas /opt/ptxas (12.8)")
        assert told.status == ("ok" if failure is None else "note")
        if failure is not None:
            assert (
                "using the slower PyTorch reference, because Triton does not work (" in told.detail
            )
            assert failure in told.detail
            assert told.remedy.startswith("install gcc")

    def test_a_package_that_is_broken_is_no_error_of_ours(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "triton.py").write_text("raise RuntimeError")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "triton", raising=False)
        found = {one["name"]: one for one in bench.run("doctor", "--json").json}
        assert found["extra gpu"]["status"] == "note"
        assert "triton cannot be imported: RuntimeError, for " in found["extra gpu"]["detail"]


class TestWarmup:
    def test_graphs_are_checked_against_eager(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_fake_graphs(monkeypatch)
        flags = (*CPU, "--model", bench.model, "--max-batch", 4, "--max-seconds", 0.1)
        found = bench.run("warmup", *flags, "--json").json
        assert [(graph["graph"], graph["key"], graph["check"]) for graph in found["graphs"]] == [
            ("frame", "4", "equal"),
            ("frame", "2", "equal"),
            ("frame", "1", "equal"),
        ]
        text = bench.run("warmup", *flags).out
        assert text.startswith("3 graphs on cpu, captured in ")


class TestProfile:
    FLAGS = (*CPU, "--batches", "1,2", "--frames", 6, "--repeats", 2)

    def test_every_stage_is_measured(self, bench: Workbench) -> None:
        result = bench.run("profile", "--model", bench.model, *self.FLAGS, "--json").expect(0)
        report = result.json
        assert [entry["batch"] for entry in report["results"]] == [1, 2]
        for entry in report["results"]:
            names = [stage["stage"] for stage in entry["stages"]]
            assert set(names) > STAGES
            assert f"vocoder ({entry['batch']} x 6 frames)" in names
            assert "write (one row)" in names
            for stage in entry["stages"]:
                assert 0 < stage["p50_ms"] <= stage["p95_ms"] <= stage["p99_ms"]
            assert entry["xrt"] == pytest.approx(1 / entry["rtf"])
        assert (report["frames"], report["repeats"]) == (6, 2)
        assert report["versions"]["torch"] == torch.__version__

    def test_tables(self, bench: Workbench) -> None:
        result = bench.run("profile", "--model", bench.model, *self.FLAGS, "--max-batch", 1).expect(
            0
        )
        assert result.out.startswith("batch 1\n")
        assert "batch 2" not in result.out
        assert " xRT (RTF " in result.out

    def test_some_stages(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was not asked for is neither measured nor made up, nor its graphs recorded."""
        use_fake_graphs(monkeypatch)
        flags = ("--model", bench.model, *CPU, "--batches", 4, "--frames", 6, "--repeats", 1)
        report = bench.run("profile", *flags, "--stages", "frame", "--json").json
        (entry,) = report["results"]
        assert [stage["stage"] for stage in entry["stages"]] == ["frame"]
        assert entry["codes_xrt"] > 0
        assert (entry["vocoder_xrt"], entry["xrt"], entry["graph_speedup"]) == (None, None, None)
        assert [graph["key"] for graph in report["graphs"]] == ["4"]
        report = bench.run("profile", *flags, "--stages", "vocoder,write", "--json").json
        (entry,) = report["results"]
        names = [stage["stage"] for stage in entry["stages"]]
        assert names == ["vocoder (4 x 6 frames)", "write (one row)"]
        assert entry["codes_xrt"] is None
        assert entry["vocoder_xrt"] > 0
        shown = bench.run("profile", *flags, "--stages", "vocoder").out
        assert shown.splitlines()[-1].startswith("  vocoder ")
        assert "together" not in shown

    def test_nothing_runs_beside_what_is_timed(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A vocoder that was being warmed up made 114 kernels of one slot's 43."""
        capture, timed = SpeechModel.capture, Profiler._device
        is_over: list[bool] = []

        def capture_and_begin(model: SpeechModel, *args: Any, **settings: Any) -> None:
            capture(model, *args, **settings)
            model._beside.start(lambda: (time.sleep(0.3), is_over.append(True)))

        def device(profiler: Profiler, *args: Any, **settings: Any) -> Any:
            assert is_over
            return timed(profiler, *args, **settings)

        monkeypatch.setattr(SpeechModel, "capture", capture_and_begin)
        monkeypatch.setattr(Profiler, "_device", device)
        flags = ("--model", bench.model, *CPU, "--batches", 1, "--frames", 4, "--repeats", 1)
        bench.run("profile", *flags, "--stages", "frame").expect(0)

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            (("--batches", "3"), "--batches: 3 is not a power of two"),
            (("--batches", "a"), "--batches 'a': must be numbers with commas"),
            (("--stages", "frame,all"), "--stages: 'all' is not one of prompt, prefill"),
            (("--synthetic", "qwen3-tts-0.6b"), "--synthetic and --model exclude each other"),
        ],
    )
    def test_mistakes_cost_no_loading(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
    ) -> None:
        monkeypatch.delattr("tts_cli.engine.load.load_model")
        result = bench.run("profile", "--model", bench.model, *flags)
        assert (result.code, result.out) == (2, "")
        assert words in result.err


def use_fake_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record and replay frames on a CPU, as CUDA graphs would."""

    def load(*args: Any) -> SpeechModel:
        model = load_model(*args)
        model.graph_runners()[0].capturer = FakeCapturer()
        return model

    monkeypatch.setattr(session, "load_model", load)


class TestGraphs:
    def test_synth_says_that_it_captures_and_counts_hits(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A first run may be silent for a minute otherwise."""
        bench.synth(ROWS, "--max-seconds", 1, out="eager").expect(0)
        use_fake_graphs(monkeypatch)
        result = bench.synth(ROWS, "--max-seconds", 1).expect(0)
        said = result.err.splitlines()
        assert said[1] == (
            "allocating slots and graphs for up to 2 rows at a time; the first run on "
            "a machine also compiles kernels, which takes longer"
        )
        captured = next(line for line in said if line.startswith("captured 1 graph in "))
        assert captured.endswith("; 1 more on first use")
        assert " to capture graphs" in result.out
        totals = bench.out().report["totals"]
        assert totals["graph_hits"] == bench.out().report["device"]["steps"] > 0
        assert totals["graph_misses"] == 0
        assert bench.out().files == bench.out("eager").files


SPEAKING = {
    "synth": ("MANIFEST", "--out", "OUT"),
    "warmup": ("--max-batch", 1),
    "profile": ("--batches", 1, "--frames", 4, "--repeats", 1),
    "voices add": ("x", "--ref-audio", "REF"),
    "voices design": ("x", "--instruct", "low", "--text", "Hi.", "--design-model", "MODEL"),
}


class TestBeforeTheWeights:
    """What is done before a checkpoint's weights are read, by every command that reads them."""

    @staticmethod
    def run(bench: Workbench, command: str) -> Result:
        places = {"MANIFEST": bench.write(ROWS), "OUT": bench.out().path, "MODEL": bench.model}
        given = [places.get(str(word), word) for word in SPEAKING[command]]
        return bench.run(*command.split(), *given, "--model", bench.model, *CPU)

    @pytest.mark.parametrize("command", ["synth", "warmup", "profile"])
    def test_the_checkpoint_is_described_once(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        looks, describe = [], model_source.describe
        monkeypatch.setattr(
            model_source, "describe", lambda *given: (looks.append(given), describe(*given))[1]
        )
        self.run(bench, command).expect(0)
        assert len(looks) == 1

    @pytest.mark.parametrize("command", SPEAKING)
    def test_a_licence_is_asked_for(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        def refuse(*_: Any) -> None:
            raise UsageError("it must be accepted")

        monkeypatch.setattr(consent, "require_consent", refuse)
        monkeypatch.delattr(session, "load_model")
        result = self.run(bench, command)
        assert (result.code, result.err) == (2, "Error: it must be accepted\n")
        assert not bench.out().path.exists()
