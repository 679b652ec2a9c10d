"""Commands on the released checkpoints at full size, whose weights are all zeros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import released_checkpoint as released
import released_fish_speech
from hostile_audio import encoded, tone
from released_files import CHECKPOINTS
from workbench import Workbench

SPEAKERS = {"Base": 0, "CustomVoice": 9, "VoiceDesign": 0}
LAST_BIAS = "decoder.decoder.6.conv.bias"
FRAMES, SAMPLES_PER_FRAME = 2, 1920
LEVEL = 0.25


@pytest.fixture
def check(bench: Workbench) -> Callable[..., Any]:
    """Run `voices` and `validate` and return what `voices` says."""

    def run(folder: Path, **row: str) -> Any:
        (bench.folder / "a.wav").write_bytes(encoded(tone(1.2)))
        manifest = bench.write([{"id": "a", "text": "Good morning.", **row}])
        result = bench.run("validate", manifest, "--model", folder, "--json").expect(0)
        assert result.json["warnings"] == []
        voices = bench.run("voices", "--model", folder, "--json").expect(0)
        return voices.json

    return run


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_released_checkpoint_is_listed_and_validates(
    name: str, check: Callable[..., Any], tmp_path: Path
) -> None:
    kind = name.split("-")[-1]
    row = {
        "Base": {"ref_audio": "a.wav", "ref_text": "What is said."},
        "CustomVoice": {"voice": "ono_anna", "language": "japanese"},
        "VoiceDesign": {"instruct": "A low, calm voice."},
    }[kind]
    shown = check(released.write_checkpoint(tmp_path / name, name), **row)
    assert len(shown["voices"]) == SPEAKERS[kind]
    assert shown["can_clone"] == (kind == "Base")


def test_s2_pro_is_listed_and_validates(check: Callable[..., Any], tmp_path: Path) -> None:
    shown = check(released_fish_speech.write_checkpoint(tmp_path / "fish"))
    assert (shown["family"], shown["size"]) == ("fish_speech", "4.6b")


@pytest.mark.long
def test_a_full_size_base_checkpoint_clones(bench: Workbench, tmp_path: Path) -> None:
    """Loaded whole, fed recordings of other rates, and written, in 3.5 GB of memory.

    Of zeros come silence and codes that never end, but for one bias of the vocoder's. Tiny ones
    clone in test_clone.py; test_released_layout.py has that each full-size tensor finds its place.
    """
    name = "Qwen3-TTS-12Hz-0.6B-Base"
    folder = released.write_checkpoint(tmp_path / name, name)
    released.fill(folder / "speech_tokenizer" / "model.safetensors", [LAST_BIAS], LEVEL)
    rows = []
    for row_id, rate_hz, channels, said in (
        ("icl", 44_100, 2, {"ref_text": "What is said."}),
        ("xvec", 16_000, 1, {}),
    ):
        recording = encoded(tone(1.2, rate_hz, channels), rate_hz=rate_hz)
        (bench.folder / f"{row_id}.wav").write_bytes(recording)
        row = {"id": row_id, "text": "Good morning.", "ref_audio": f"{row_id}.wav", **said}
        rows.append({**row, "max_frames": FRAMES})
    flags = ("--dtype", "bfloat16", "--accept-truncated")
    bench.synth(rows, *flags, model=folder).expect(0)
    out = bench.out()
    for row_id in ("icl", "xvec"):
        record = out.records[row_id]
        assert (record["status"], record["finish_reason"]) == ("ok", "max_frames")
        samples = out.samples(f"{row_id}.wav")
        assert len(samples) == FRAMES * SAMPLES_PER_FRAME == record["frames"] * SAMPLES_PER_FRAME
        assert abs(samples - LEVEL).max() < 1e-3
    # 1.2 s are 15 frames and half a second of silence 7 more; an x-vector is one position.
    tokens = {row_id: record["prompt_tokens"] for row_id, record in out.records.items()}
    assert tokens["icl"] - tokens["xvec"] == 22
