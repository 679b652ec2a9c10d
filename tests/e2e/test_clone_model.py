"""`--clone-model`: a VoiceDesign checkpoint makes voices, a Base checkpoint speaks all rows."""

from __future__ import annotations

import gc
import json
import os
import signal
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from fake_cluster import use_fake_cluster
from made_voices import voice_files
from tiny_qwen3_tts import SPECS
from workbench import MakeCheckpoint, Workbench, finish

from models.slots.model import SpeechModel
from tts_cli.cli import messages as msg
from tts_cli.engine import load
from tts_cli.engine.load import Loaded, open_checkpoint

# Frames of 80 ms, the same in both. With the seed voices end by themselves after about 5 s.
SHAPE = {
    "num_codebooks": 2,
    "codebook_size": 128,
    "upsample_rates": (8, 5, 3),
    "upsampling_ratios": (4, 4),
    "decoder_dim": 24,
}
CAP = ("--max-seconds", 0.2, "--accept-truncated", "--split", 60, "--seed", 1)
CALM, OLD, CHILD = "A calm man.", "An old woman.", "A child."
SAYS = "The boat left the harbor after five, and nobody spoke of it any more that night."
DONE = msg.nothing_to_do(6) + "\n"


@pytest.fixture(scope="session")
def design(make_checkpoint: MakeCheckpoint) -> Path:
    """A VoiceDesign checkpoint."""
    talker = replace(SPECS["voice_design"].talker, layers=1)
    return make_checkpoint("voice_design", **SHAPE, eos_gain=1.2, talker=talker)


@pytest.fixture(scope="session")
def base(make_checkpoint: MakeCheckpoint) -> Path:
    """The Base checkpoint of its family."""
    return make_checkpoint("base_wide", **SHAPE, encoder_ratios=(8, 6, 5, 4))


@pytest.fixture(scope="session")
def other_base(make_checkpoint: MakeCheckpoint) -> Path:
    """Another one."""
    return make_checkpoint("base_wide", **SHAPE, encoder_ratios=(8, 6, 5, 4), wave_gain=0.3)


@pytest.fixture
def designs(bench: Workbench, design: Path) -> Workbench:
    """The workbench, speaking with the VoiceDesign checkpoint."""
    bench.model = design
    return bench


@pytest.fixture
def spoken(designs: Workbench, base: Path) -> Workbench:
    """The same, with ROWS spoken."""
    designs.synth_once(ROWS, *CAP, "--clone-model", base)
    return designs


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Checkpoints that were loaded; never two at a time."""
    names: list[str] = []
    models: list[weakref.ref[SpeechModel]] = []

    def open_one(*args: Any) -> Loaded:
        gc.collect()  # of the command before
        assert [found() for found in models] == [None] * len(models)
        session = open_checkpoint(*args)
        models.append(weakref.ref(session.model))
        names.append(str(args[0].model))
        return session

    monkeypatch.setattr(load, "open_checkpoint", open_one)
    return names


ROWS = [
    {"id": "long", "text": SAYS, "instruct": CALM},
    {"id": "short", "text": "Good morning.", "instruct": CALM},
    {"id": "pause", "text": f"Yes. [pause 300ms] {SAYS[:59]}.", "instruct": OLD},
    {"id": "old", "text": SAYS, "instruct": OLD},
    {"id": "child", "text": SAYS, "instruct": CHILD},
    {"id": "silent", "text": "...", "instruct": CHILD},
]


def test_each_description_is_one_voice(
    designs: Workbench, design: Path, base: Path, other_base: Path, opened: list[str]
) -> None:
    flags = (*CAP, "--clone-model", base)
    result = designs.synth(ROWS, *flags).expect(0)
    assert result.summary == msg.synthesized(6, 6)
    assert opened == [str(design), str(base)]
    out = designs.out()
    voices = {name: line["voice"] for name, line in out.records.items()}
    assert voices["long"] == voices["short"]
    assert voices["pause"] == voices["old"]
    assert len({voices[name] for name in ("long", "old", "child")}) == 3
    assert (out.records["silent"]["voice"], out.records["silent"]["finish_reason"]) == (
        *(None, "wordless"),
    )
    assert [len(out.records[name]["parts"]) for name in ("long", "pause")] == [2, 2]
    # Each was spoken once, by the first checkpoint, and can be heard.
    made = {name: data for name, data in voice_files(designs).items() if "voice.safe" not in name}
    assert len(made) == 9
    for name in made:
        if name.endswith(".wav"):
            assert 3 <= soundfile.info(out.path / name).duration <= 20
            assert f"{out.path / name}" in result.err
        if name.endswith(".json"):
            about = json.loads(made[name])
            assert about["text"] == SAYS
            assert about["of"]["description"] in (CALM, OLD, CHILD)
    assert out.report["model"]["type"] == "base"
    assert out.report["voice_model"]["type"] == "voice_design"
    # Later runs speak with the second one alone; where nothing is to be done, with none.
    opened.clear()
    assert designs.synth(ROWS, *flags).out == DONE
    assert not opened
    more = [{"id": "new", "text": "And so on.", "instruct": OLD}, *reversed(ROWS)]
    assert msg.synthesized(1, 7, done=6) in designs.synth(more, *flags).out
    assert opened == [str(base)]
    # Another Base encodes what was said, and nobody says it again.
    opened.clear()
    before = voice_files(designs)
    designs.synth(ROWS, *CAP, "--clone-model", other_base).expect(2)
    again = designs.synth(ROWS, *CAP, "--clone-model", other_base, "--redo")
    assert again.summary == msg.synthesized(6, 6)
    assert opened == [str(other_base)]
    after = voice_files(designs)
    assert before.items() < after.items()
    assert len(after) == len(before) + 3


def test_killed_between_the_checkpoints(spoken: Workbench, base: Path, design: Path) -> None:
    args = spoken.command(spoken.write(ROWS), *CAP, "--clone-model", base, out="killed")
    patch = (
        "import os, signal\n"
        "from tts_cli.voices.voice_store import VoiceStore\n"
        "VoiceStore.keep_for = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    finish(spoken.start(args, patch)).expect(-signal.SIGKILL)
    assert not spoken.out("killed").lines
    result = spoken.run(*args).expect(0)
    assert f"loading {design}" not in result.err
    assert voice_files(spoken, "killed") == voice_files(spoken)
    names = [f"{row['id']}.wav" for row in ROWS]
    assert spoken.out("killed").sounds(*names) == spoken.out().sounds(*names)


def test_workers(spoken: Workbench, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = use_fake_cluster(monkeypatch)
    flags = (*CAP, "--clone-model", base, "--workers", 2)
    spoken.synth(ROWS, *flags, out="many").expect(0)
    assert cluster.calls == ["speak_voices", "encode_voices"]
    assert voice_files(spoken, "many") == voice_files(spoken)
    assert spoken.synth(ROWS, *flags, out="many").out == DONE


def test_what_cannot_go_together_is_refused(
    designs: Workbench, base: Path, make_checkpoint: MakeCheckpoint, checkpoint: Path
) -> None:
    def refused(code: int, *flags: object, model: Path | None = None) -> str:
        result = designs.synth(ROWS, *CAP, *flags, model=model).expect(code)
        assert not designs.out().path.exists()
        return result.err

    for model in (checkpoint, base):
        said = refused(2, "--clone-model", base, model=model)
        assert ") generates no voices that another checkpoint could clone" in said
    assert "a custom_voice checkpoint cannot clone" in refused(2, "--clone-model", checkpoint)
    assert "a voice_design checkpoint cannot clone" in refused(2, "--clone-model", designs.model)
    assert "leave one of them out" in refused(2, "--clone-model", base, "--free-voice", "each")
    missing = refused(3, "--clone-model", designs.folder / "none")
    assert f"--clone-model {designs.folder / 'none'}" in missing
    silent = make_checkpoint("base_wide", **SHAPE, encoder_ratios=(8, 6, 5, 4))
    os.remove(silent / "speech_tokenizer" / "model.safetensors")
    assert "--clone-model" in refused(3, "--clone-model", silent)


@pytest.mark.gpu
@pytest.mark.slow
def test_on_a_gpu(designs: Workbench, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have graphs, and the first one's memory is free before the second one loads."""
    before: list[int] = []

    def opened(*args: Any) -> Loaded:
        torch._C._cuda_clearCublasWorkspaces()  # 32 MiB for every stream that met a product
        before.append(torch.cuda.memory_allocated())
        return open_checkpoint(*args)

    monkeypatch.setattr(load, "open_checkpoint", opened)
    flags = (*CAP, "--clone-model", base, "--device", "cuda", "--retries", 9)
    designs.synth(ROWS, *flags).expect(0)
    report = designs.out().report
    assert report["device"]["graphs"] > 0
    assert report["totals"]["graph_hits"] > 0
    assert len(before) == 2
    assert before[1] <= before[0] + (1 << 20)
    assert designs.synth(ROWS, *flags).out == DONE
