"""`synth` from manifest to files: formats in and out, the log, the report, parts of a manifest."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_aligner import FakeAligner
from workbench import MakeCheckpoint, Workbench, as_table

from models.registry import describe
from tts_cli.app import align as app_align
from tts_cli.cli import messages as msg
from tts_cli.plan.checkpoint import sample_voice
from tts_cli.store.entry import FIELDS

RATE_HZ = 24_000
SAMPLES_PER_FRAME = 60
ROWS = [
    {"id": "one", "text": "Hello there."},
    {"id": "chapter/1/two", "text": "Good morning, all of you.", "voice": "emil"},
    {"id": "Drei.x", "text": "Größe, Straße", "language": "german", "seed": "5"},
]
CAP = ("--max-seconds", 1)  # far beyond where these rows end by themselves


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


def test_timings_and_audio_agree(bench: Workbench) -> None:
    bench.synth(as_table(ROWS, "\t"), "--manifest-format", "tsv", *CAP).expect(0)
    out = bench.out()
    assert len(out.lines) == len(ROWS)
    assert out.status() == {str(row["id"]): "ok" for row in ROWS}
    for record in out.lines:
        assert record.keys() == set(FIELDS)
        assert record["finish_reason"] == "eos"
        assert record["path"] == record["id"] + ".wav"
        samples = out.samples(record["path"])
        assert len(samples) == record["frames"] * SAMPLES_PER_FRAME > 0
        assert np.abs(samples).max() > 0.01
        assert record["audio_s"] == pytest.approx(len(samples) / RATE_HZ)
        assert record["attempts"] == 1
        assert record["bucket"] in (1, 2, 4)
        assert record["prompt_tokens"] > record["text_chars"] // 2
        own = sum(record[f"{name}_ms"] for name in ("prefill", "decode", "vocoder", "write"))
        assert record["rtf"] == pytest.approx(own / 1000 / record["audio_s"], 1e-3)
        parts = [record[f"{name}_ms"] for name in ("queue", "prefill", "decode", "vocoder")]
        assert all(part >= 0 for part in parts)
        assert record["decode_ms"] > 0
        assert record["latency_ms"] >= max(*parts, record["write_ms"])
        assert record["frames_per_char"] * record["text_chars"] == pytest.approx(record["frames"])
        rms = 20 * np.log10(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))
        assert record["level_dbfs"] == pytest.approx(rms, abs=0.01)
        assert record["peak_dbfs"] == pytest.approx(20 * np.log10(np.abs(samples).max()), abs=0.01)
        assert (record["run_id"], record["sample_rate_hz"]) == (out.report["run_id"], RATE_HZ)
        assert out.report["started"] <= record["started"] <= out.report["ended"]
        assert (record["schema"], record["take"]) == (4, 1)
    records = out.records
    assert (records["one"]["voice"], records["chapter/1/two"]["voice"]) == ("dora", "emil")
    assert records["Drei.x"]["seed"] == 5
    assert records["Drei.x"]["text_chars"] == 13
    assert records["Drei.x"]["text"] == "Größe, Straße"
    assert (records["Drei.x"]["language"], records["one"]["language"]) == ("german", "auto")


def test_the_report_adds_up(bench: Workbench, checkpoint: Path) -> None:
    rows = [*ROWS, {"id": "cut", "text": "Hello there.", "max_frames": 2}]
    bench.synth(rows[:2], *CAP).expect(0)
    result = bench.synth(
        as_table(rows, ","), *CAP, "--manifest-format", "csv", "--retries", 1
    ).expect(1)
    report, records = bench.out().report, bench.out().records
    totals = report["totals"]
    spoken = records["Drei.x"]
    assert report["exit_code"] == 1
    counts = {name: totals[name] for name in ("rows", "ok", "failed", "skipped", "retried")}
    assert counts == {"rows": 4, "ok": 1, "failed": 1, "skipped": 2, "retried": 1}
    assert totals["frames"] == spoken["frames"]
    assert totals["audio_s"] == pytest.approx(spoken["audio_s"], abs=1e-4)
    # Two attempts at the row that was cut, two frames each, are work but no audio.
    assert totals["decoded_s"] == pytest.approx(spoken["audio_s"] + 4 * 0.0025, abs=1e-4)
    assert totals["xrt"] == pytest.approx(totals["audio_s"] / totals["wall_s"], rel=0.01)
    assert not totals["is_interrupted"]
    assert report["model"]["default_voice"] == "dora"
    assert report["model"]["identity"] == describe(str(checkpoint)).identity
    assert report["device"]["device"] == "cpu"
    assert report["device"]["dtype"] == "float32"
    assert report["settings"]["retries"] == 1
    assert report["versions"]["torch"] == torch.__version__
    words = result.out.splitlines()[0]
    assert words == msg.synthesized(1, 4, done=2, failed=1)


def test_voice_design_speaks_by_description(
    bench: Workbench, make_checkpoint: MakeCheckpoint
) -> None:
    model = make_checkpoint("voice_design")
    rows = [
        {"id": "deep", "text": "Hello there.", "instruct": "a deep voice", "seed": 1},
        {"id": "high", "text": "Hello there.", "instruct": "a high voice", "seed": 1},
        {"id": "plain", "text": "Hello there.", "seed": 1},
    ]
    bench.synth(rows, "--accept-truncated", model=model).expect(0, "1 row gives no instruct")
    assert len(set(bench.out().files.values())) == 3
    assert {record["voice"] for record in bench.out().records.values()} == {None}


def test_the_sample_voice_speaks_by_default(bench: Workbench) -> None:
    rows = [
        {"id": f"hello/{voice}", "text": "Hello.", "voice": voice} for voice in ("clara", "Ewan")
    ]
    manifest = bench.write(rows)
    flags = ("--device", "cpu", "--seed", 1)
    bench.run("synth", manifest, "--out", bench.out().path, *flags).expect(
        0, "loading sample voice on cpu in float32"
    )
    info = describe(str(sample_voice()))
    for record in bench.out().lines:
        samples = bench.out().samples(record["path"])
        assert len(samples) == record["frames"] * info.samples_per_frame
        assert 0.2 < record["audio_s"] < 3.0
        assert 0.02 < np.abs(samples).max() <= 1.0
    assert bench.out().report["model"]["source"] == "sample voice"


def test_words_are_aligned_at_the_end(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the run's rows alone, as `align` does it, which has nothing left to do then."""
    aligner = FakeAligner({"bad": -1.0})
    monkeypatch.setattr(app_align, "SphinxAligner", lambda processes, flag: aligner)
    rows = [
        {"id": name, "text": "One, two.", "language": "english"} for name in ("good", "bad", "no")
    ]
    result = bench.synth(rows, *CAP, "--words", "pocketsphinx", "--only", "good,bad").expect(
        1, out=[msg.synthesized(2, 2), "1 row aligned, 2 words in 2.0 s"]
    )
    assert result.out.splitlines()[-1].startswith(msg.NEXT_LISTEN.format(command=""))
    assert "row bad was skipped: its words were not found in its audio" in result.err
    assert [one.path.name for one in aligner.asked] == ["bad.wav", "good.wav"]
    assert (bench.out().path / "good.words.json").is_file()
    again = bench.synth(rows, *CAP, "--words", "pocketsphinx", "--only", "good", "--json").expect(0)
    assert (again.json["words"]["aligned"], again.json["words"]["kept"]) == (0, 1)


def test_an_aligner_that_is_not_there_is_told_before_anything_is_spoken(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    bench.synth(ROWS, *CAP, "--words", "pocketsphinx").expect(
        3, "--words needs pocketsphinx: pocketsphinx is not installed"
    )
    result = bench.synth(ROWS, *CAP, "--words", bench.model)
    assert (
        "model, not a Qwen3-ForcedAligner; give --words pocketsphinx, or the folder or "
        "Hugging Face repository of a Qwen3-ForcedAligner"
    ) in result.err
    assert not bench.out().path.exists()
