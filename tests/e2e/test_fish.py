"""Fish Speech with whole commands: speaking, cloning, voice files, what is refused, rerunning."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_speech as tiny
from hostile_audio import encoded, tone
from safetensors.torch import load_file
from workbench import Workbench

CAP = ("--max-seconds", 0.3, "--accept-truncated", "--device", "cpu", "--free-voice", "each")
SAID = "What is said."


@pytest.fixture(scope="session")
def fish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted checkpoint with frames of 3.3 ms."""
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"))


@pytest.fixture
def refs(bench: Workbench, fish: Path) -> Workbench:
    """The workbench, with a recording beside the manifest and the licence accepted."""
    (bench.folder / "a.wav").write_bytes(encoded(tone(1.1)))
    bench.run("voices", "--model", fish, "--accept-licence").expect(0)
    return bench


def row(row_id: str, text: str = "Good morning.", **more: Any) -> dict[str, Any]:
    return {"id": row_id, "text": text, "seed": 5, **more}


def test_rows_of_every_kind_share_a_run(refs: Workbench, fish: Path) -> None:
    voices = ("--voice-dir", refs.folder / "voices")
    recording = ("--ref-audio", refs.folder / "a.wav", "--ref-text", SAID)
    refs.run("voices", "add", "anna", "--model", fish, *recording, *voices).expect(0)
    rows = [
        row("plain", "Good morning. [whisper] And good night."),
        row("turns", "<|speaker:0|>Good morning.<|speaker:1|>Good night."),
        row("clone", ref_audio="a.wav", ref_text=SAID),
        row("file", voice="anna"),
        row("other-words", ref_audio="a.wav", ref_text="Something else."),
        row("unheard", ref_audio="a.wav", clone_mode="xvec"),
        row("control", "Good <|im_end|> morning."),
    ]
    refs.synth(rows, *CAP, *voices, "--skip-invalid", "--save-codes", model=fish).expect(1)
    out = refs.out()
    bad = {"unheard": "this checkpoint clones only with icl", "control": "control token <|im_end|>"}
    assert out.status() == {r["id"]: "failed" if r["id"] in bad else "ok" for r in rows}
    for name, words in bad.items():
        assert words in out.records[name]["error"]
    # Voice, text and seed are the same, so is the speech: by recording and by voice file.
    clone, file, other = out.sounds("clone.wav", "file.wav", "other-words.wav")
    assert clone == file != other
    for name in ("plain", "turns", "clone"):
        frames = out.records[name]["frames"]
        assert len(out.samples(f"{name}.wav")) == 144 * frames
        codes = load_file(out.path / f"{name}.codes.safetensors")["codes"]
        assert codes.shape == (frames, 4)
        assert (codes[:, 1:] < 16).all()
    # Its 1.1 s in frames of 144 samples at 44.1 kHz, and no silence behind them.
    frames = math.ceil(1.1 * 44100 / 144)
    assert frames < out.records["clone"]["prompt_tokens"] < frames + 250
    assert out.report["model"]["licence"] == "Fish Audio Research License"


def test_a_voice_file_needs_a_transcript(refs: Workbench, fish: Path) -> None:
    # It once ended as an internal error.
    given = ("--model", fish, "--ref-audio", refs.folder / "a.wav", "--device", "cpu")
    added = refs.run("voices", "add", "tone", *given, "--voice-dir", refs.folder / "voices")
    assert added.code not in (0, 4)
    assert "with its transcript only" in added.err
    assert "internal error" not in added.err


def test_a_text_at_which_the_tokenizer_panics_fails_alone(
    refs: Workbench, fish: Path, tmp_path: Path
) -> None:
    """A panic of Rust is no Exception: the run ended as a traceback, with exit code 1."""
    model = Path(shutil.copytree(fish, tmp_path / "panics"))
    values = json.loads((model / "tokenizer.json").read_text())
    endless = {"Regex": "(a|a|aa)+$|(?:(a+)+)+b"}
    split = {"type": "Split", "pattern": endless, "behavior": "Isolated", "invert": False}
    both = {"type": "Sequence", "pretokenizers": [split, values["pre_tokenizer"]]}
    (model / "tokenizer.json").write_text(json.dumps({**values, "pre_tokenizer": both}))
    rows = [row("bad", "a" * 60 + "! Then we went."), row("good")]
    refs.synth(rows, *CAP, model=model).expect(1)
    assert refs.out().status() == {"bad": "failed", "good": "ok"}
    assert "tokenizer.json: cannot split this text" in refs.out().records["bad"]["error"]
