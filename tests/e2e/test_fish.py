"""Whole commands on a tiny Fish Speech checkpoint: rows with and without references in one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tiny_fish_speech as tiny
from tiny_fish_codec import SMALL
from workbench import Workbench

# Frames of 2,048 samples as released, and room for references of some seconds.
CODEC = replace(
    SMALL,
    upsampling_ratios=(2, 2),
    upsample_rates=(8, 8, 4, 2),
    encoder_dim=2,
    encoder_strides=(2, 4, 8, 8),
    frames=replace(SMALL.frames, max_steps=4096),
    steps=replace(SMALL.steps, max_steps=100_000),
)
RATE_HZ, SAMPLES = 44_100, 2048
FLAGS = ("--accept-licence", "--accept-truncated", "--max-batch", "4")


@pytest.fixture(scope="module")
def fish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), "small", 1, codec=CODEC)


@pytest.fixture
def recording(bench: Workbench) -> Path:
    path = bench.folder / "tone.wav"
    time_s = np.arange(RATE_HZ * 3 // 2) / RATE_HZ
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * 220 * time_s * (1 + time_s / 9)), RATE_HZ)
    return path


def rows(recording: Path) -> list[dict[str, object]]:
    return [
        {"id": "plain", "text": "Hello [whisper] there."},
        {"id": "two", "text": "<|speaker:0|>Who? <|speaker:1|>Me.", "seed": 4},
        {"id": "cloned", "text": "Hi.", "ref_audio": str(recording), "ref_text": "A tone."},
        {"id": "greedy", "text": "Greedy.", "greedy": True, "max_frames": 9},
        {"id": "hot", "text": "Hot.", "temperature": 2.0, "top_k": 0, "top_p": 1.0},
    ]


def test_rows_of_every_kind(bench: Workbench, fish: Path, recording: Path) -> None:
    result = bench.synth(rows(recording), "--save-codes", *FLAGS, model=fish)
    assert result.code == 0, result.err
    records, out = bench.out().records, bench.out()
    assert set(bench.out().status().values()) == {"ok"}
    assert records["greedy"]["frames"] == 9
    for row_id, record in records.items():
        assert len(out.samples(f"{row_id}.wav")) == record["frames"] * SAMPLES
        assert np.abs(out.samples(f"{row_id}.wav")).max() > 0.01
        assert f"{row_id}.codes.safetensors" in out.files
    assert records["cloned"]["reference_ms"] > 0
    assert records["cloned"]["prompt_tokens"] > records["plain"]["prompt_tokens"] + 1.5 * 21
    assert out.report["model"]["family"] == "fish_speech"
    again = bench.synth(rows(recording), "--save-codes", *FLAGS, model=fish)
    assert again.code == 0
    assert len(bench.out().lines) == len(records)  # nothing was spoken twice


def test_a_row_sounds_the_same_whatever_its_batch(
    bench: Workbench, fish: Path, recording: Path
) -> None:
    for count, out in ((1, "alone"), (4, "together")):
        flags = ("--accept-licence", "--accept-truncated", "--max-batch", count)
        assert bench.synth(rows(recording), *flags, out=out, model=fish).code == 0
    assert bench.out("alone").files == bench.out("together").files


def test_what_it_cannot_speak_fails_with_a_reason(bench: Workbench, fish: Path) -> None:
    bad = [
        {"id": "good", "text": "Fine.", "max_frames": 3},
        {"id": "control", "text": "Bad<|im_end|>", "max_frames": 3},
        {"id": "early", "text": "Lost. <|speaker:0|>Kept.", "max_frames": 3},
        {"id": "penalty", "text": "Fine.", "repetition_penalty": 1.2, "max_frames": 3},
    ]
    result = bench.synth(bad, *FLAGS, model=fish)
    assert result.code == 1
    errors = {row_id: record["error"] for row_id, record in bench.out().records.items()}
    assert errors["good"] is None
    assert "control token <|im_end|>" in errors["control"]
    assert "before the first speaker tag" in errors["early"]
    assert "leave it out" in errors["penalty"]


def test_a_reference_needs_its_transcript(bench: Workbench, fish: Path, recording: Path) -> None:
    result = bench.synth([{"text": "Hi.", "ref_audio": str(recording)}], *FLAGS, model=fish)
    assert result.code == 2
    assert "clones by icl only; give ref_text" in result.err
    added = bench.run(
        *("voices", "add", "tone", "--model", fish, "--ref-audio", recording, "--device", "cpu"),
        *("--voices", bench.folder / "voices", "--accept-licence"),
    )
    assert added.code != 0
    assert "with its transcript only" in added.err


def test_a_voice_file_is_spoken_with(bench: Workbench, fish: Path, recording: Path) -> None:
    voices = bench.folder / "voices"
    added = bench.run(
        *("voices", "add", "tone", "--model", fish, "--ref-audio", recording, "--device", "cpu"),
        *("--ref-text", "A tone.", "--voices", voices, "--accept-licence"),
    )
    assert added.code == 0, added.err
    listed = bench.run("voices", "--model", fish, "--voices", voices)
    assert "cloning: if asked for, by icl" in listed.out
    manifest = [
        {"id": "file", "text": "Hi.", "voice": "tone", "seed": 3, "max_frames": 12},
        {"id": "none", "text": "Hi.", "seed": 3, "max_frames": 12},
        {
            "id": "again",
            "text": "Hi.",
            "seed": 3,
            "max_frames": 12,
            "ref_audio": str(recording),
            "ref_text": "A tone.",
        },
    ]
    result = bench.synth(manifest, "--voices", voices, *FLAGS, model=fish)
    assert result.code == 0, result.err
    files = bench.out().files
    assert files["file.wav"] == files["again.wav"] != files["none.wav"]


def test_profile_and_warmup_run(bench: Workbench, fish: Path) -> None:
    common = ("--model", fish, "--device", "cpu", "--accept-licence", "--json")
    found = bench.run("profile", *common, "--batches", "1,2", "--frames", "6", "--repeats", "2")
    assert found.code == 0, found.err
    stages = [stage["stage"] for stage in found.json["results"][1]["stages"]]
    assert {"code predictor", "talker", "frame"} < set(stages)
    warm = bench.run("warmup", *common, "--max-seconds", "1", "--max-batch", "2")
    assert warm.code == 0, warm.err
