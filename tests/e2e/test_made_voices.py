"""Voices that nothing fixes are made before the rows, once, and kept: with Fish Speech."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_fish_speech as tiny
from hostile_audio import encoded, tone
from made_voices import voice_files
from safetensors.numpy import load_file
from tiny_fish_codec import FEW_FRAMES
from workbench import Workbench, finish

from models.base import Prompt, SpeechRequest
from models.dual_ar.model import DualAR
from tts_cli import Cancelled, Speaker
from tts_cli.cli import messages as msg
from tts_cli.named import counted
from tts_cli.voices.voice_file import StoredVoice
from tts_cli.voices.voice_store import VoiceStore

# With this seed each voice ends by itself in its first attempt.
CAP = ("--max-seconds", 0.2, "--accept-truncated", "--split", 60, "--seed", 8)
SAYS = "The boat left the harbor after five, and nobody spoke of it any more that night."
LONG = "The boat left the harbor after five. Nobody of them spoke of it, and so it goes."
DONE = msg.nothing_to_do(40) + "\n"


@pytest.fixture(scope="session")
def fish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted checkpoint whose speech ends."""
    spec = replace(
        tiny.SPECS["small"], end_gain=1.0, num_layers=1, predictor_layers=1, num_codebooks=2
    )
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), spec, codec=FEW_FRAMES)


@pytest.fixture
def made(bench: Workbench, fish: Path) -> Workbench:
    """The workbench, with the licence accepted."""
    bench.model = fish
    bench.run("voices", "--model", fish, "--accept-licence").expect(0)
    return bench


@pytest.fixture
def forty(made: Workbench) -> Workbench:
    """The same, with the forty rows spoken."""
    made.synth_once(FORTY, *CAP)
    return made


FORTY = [{"id": f"r{n:02}", "text": f"So it was, {'again ' * (n % 4)}then."} for n in range(40)]
FORTY[5]["text"] = SAYS[:59].rstrip() + "."
FORTY[7]["text"], FORTY[20]["text"] = SAYS, LONG


def spy(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """Text and reference of every prompt."""
    found: list[tuple[str, str | None]] = []
    real = DualAR.prompt

    def prompt(self: DualAR, request: SpeechRequest) -> Prompt:
        found.append((request.text, None if request.clone is None else request.clone.digest))
        return real(self, request)

    monkeypatch.setattr(DualAR, "prompt", prompt)
    return found


def test_forty_rows_have_one_voice(made: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = spy(monkeypatch)
    result = made.synth(FORTY, *CAP).expect(0)
    assert result.summary == msg.synthesized(40, 40)
    out, (voice, *others) = made.out(), sorted({line["voice"] for line in made.out().lines})
    assert not others
    assert sum(bool(line["parts"]) for line in out.lines) == 2
    # What it says is spoken in nobody's voice, then all is spoken in its.
    assert prompts[0] == (SAYS, None)
    assert len(prompts) == 1 + 38 + 2 * 2
    assert len({digest for _, digest in prompts[1:]}) == 1
    assert prompts[1][1] is not None
    name = out.path / voice
    about = json.loads(name.with_suffix(".json").read_text())
    assert about["text"] == SAYS
    assert 3 <= soundfile.info(name.with_suffix(".wav")).duration <= 20
    assert f"{name}.wav" in result.err
    assert out.report["made_voices"] == [
        {
            "voice": voice,
            "of": "all rows without a voice",
            "rows": 40,
            "is_made": True,
            "says": None,
        }
    ]


CHANGES: dict[str, tuple[Callable[[list[dict[str, Any]]], object], tuple[object, ...], str]] = {
    "reordered": (lambda rows: rows.reverse(), (), DONE),
    "edited": (
        lambda rows: rows[7].update(text=SAYS[:-11] + "."),
        (),
        msg.synthesized(1, 40, done=39),
    ),
    "top": (
        lambda rows: rows.insert(0, {"id": "top", "text": SAYS}),
        (),
        msg.synthesized(1, 41, done=40),
    ),
    "voice-text": (lambda rows: None, ("--voice-text", "Something else is said now."), DONE),
    "overwrite": (lambda rows: None, ("--overwrite",), msg.synthesized(40, 40)),
    "only": (lambda rows: rows[3].update(text="Not so."), ("--only", "r03"), msg.synthesized(1, 1)),
    "takes": (lambda rows: None, ("--only", "r03", "--takes", 2), "takes/"),
    "limit": (lambda rows: None, ("--limit", 2), msg.all_done(2)),
    "cut": (lambda rows: rows.__delitem__(slice(1, None)), (), msg.all_done(1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_changes_it(forty: Workbench, name: str) -> None:
    change, flags, said = CHANGES[name]
    before, rows = voice_files(forty), [dict(row) for row in FORTY]
    change(rows)
    forty.synth(rows, *CAP, *flags).expect(0, out=said)
    assert voice_files(forty) == before
    assert forty.synth(rows, *CAP).out.startswith(msg.NOTHING_TO_DO.format(reason=""))


KILL = """
import os, signal
def _kill_before(number):
    count = 0
    def watched(real):
        def call(what, *args, **named):
            nonlocal count
            path = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else str(what)
            count += "/.voices" in path
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(what, *args, **named)
        return call
    for name in ("mkdir", "open", "write", "fsync", "replace"):
        setattr(os, name, watched(getattr(os, name)))
"""
DIES = """
import os, signal
from {0} import {1} as kind
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
kind.{2} = die
"""
MOMENTS = {
    "prompt": DIES.format("models.dual_ar.model", "DualAR", "prompt"),
    "spoken": DIES.format("tts_cli.voices.voice_store", "VoiceStore", "keep"),
    # Each of four files is opened, written, synced, named; its folder opened and synced.
    **{f"call {n}": f"{KILL}_kill_before({n})" for n in (1, 3, 5, 11, 14, 17, 21, 24)},
    "encoded": DIES.format("tts_cli.voices.voice_store", "VoiceStore", "keep_for"),
    "rows": DIES.format("tts_cli.store.results", "ResultCommits", "commit"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if number % 4 else ())
        for number, name in enumerate(MOMENTS)
    ],
)
def test_killed(forty: Workbench, name: str) -> None:
    """The same command then makes the same voice, or finds it, and nothing is lost or left."""
    whole = voice_files(forty)
    rows = FORTY[5:9]
    args = forty.command(forty.write(rows), *CAP, out="killed")
    finish(forty.start(args, MOMENTS[name])).expect(-signal.SIGKILL)
    before = forty.out("killed").files
    result = forty.run(*args).expect(0)
    assert result.summary == msg.synthesized(4, 4)
    assert voice_files(forty, "killed") == whole
    assert before.items() <= {**before, **forty.out("killed").files}.items()
    assert set(Counter(line["id"] for line in forty.out("killed").lines).values()) == {1}


def test_stopped_while_it_is_made(made: Workbench) -> None:
    patch = (
        "import os, signal\n"
        "from models.dual_ar.model import DualAR\n"
        "real = DualAR.prompt\n"
        "def prompt(self, request):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(self, request)\n"
        "DualAR.prompt = prompt\n"
    )
    finish(made.start(made.command(made.write(FORTY), *CAP), patch)).expect(130)
    assert not voice_files(made)
    assert not made.out().lines


GOLDEN = {  # of rows as 614cc07 spoke them: their hash, and their codes
    "a": ("9a49178602eee1d78ef3a54bed53f88d58d697d5b59bc341463c30fe901266dc", "b70d570214267ca5"),
    "b": ("8ebf67a52e30daaf5ae8ee972c65c0d0b739195ae79454f85117f5e118fb9008", "ad81628db9ebf8aa"),
    "own": ("fb85a70855f2bcdafe262ed64e72224470c5bde4ea428d4352f72300e257a63b", "ba2b31c234165ca0"),
    "file": (
        "ccee31924fea1545bf4eff009179e62212af7b48fa085ff3bdb018869d62b208",
        "319fa5e37ec316e2",
    ),
}


def test_rows_with_and_without_a_voice_as_before_there_were_made_ones(bench: Workbench) -> None:
    spec = replace(tiny.SPECS["small"], end_gain=1.0)
    bench.model = tiny.write_checkpoint(bench.folder / "fish", spec, codec=FEW_FRAMES)
    (bench.folder / "a.wav").write_bytes(encoded(tone(1.1)))
    codes = np.arange(120, dtype=np.int16).reshape(30, 4) % 16
    stored = StoredVoice(
        *(np.zeros(1, np.float32), codes, "What is said.", "icl", "f03a7d49ee1e5c67", "fish"),
        *(44100, "0" * 64, "tts-cli"),
    )
    VoiceStore(bench.folder / "voices").write("mine", stored)
    rows = [
        {"id": "a", "text": "Good morning."},
        {"id": "b", "text": "The boat left the harbor after five, and nobody spoke.", "seed": 5},
        {"id": "own", "text": "Yes.", "ref_audio": "a.wav", "ref_text": "What is said."},
        {"id": "file", "text": "Yes.", "voice": "mine"},
    ]
    flags = (*CAP[:3], "--save-codes", "--voice-dir", bench.folder / "voices", "--accept-licence")
    bench.synth(rows, *flags, "--free-voice", "each").expect(0)
    out = bench.out()
    for name, line in out.records.items():
        codes = load_file(out.path / f"{name}.codes.safetensors")["codes"]
        digest = hashlib.sha256(codes.astype("<i2").tobytes()).hexdigest()[:16]
        assert (line["request_hash"], digest) == GOLDEN[name], name
    assert not voice_files(bench)
    # Under the default those without a voice are synthesized again, which is logged.
    plain = bench.synth(rows, *flags, "--dry-run", "--forget", "free_voice", "--redo")
    assert (
        msg.VOICE_NOT_FIXED.split(",")[0] % counted(2, "done row has", "done rows have")
        in plain.err
    )
    again = bench.synth(rows, *flags, "--free-voice", "each")
    assert again.out == msg.nothing_to_do(4) + "\n"


def test_characters_have_their_own(made: Workbench) -> None:
    rows = [
        {"id": "a", "text": SAYS, "character": "Anna"},
        {"id": "b", "text": "So it was.", "character": "ANNA"},
        {"id": "c", "text": "So it goes.", "character": "Ben \u2603"},
        {"id": "d", "text": "Nobody knows."},
        {"id": "e", "text": "..."},
    ]
    flags = (*CAP[:-1], 1)
    shown = made.run("validate", made.write(rows), "--model", made.model, *flags[3:])
    assert shown.out.count(msg.PLAN_NEW_VOICE[0]) == 3, shown
    assert "Anna" in shown.out
    dry = made.synth(rows, *flags, "--dry-run", "--json").json
    assert [(one["of"], one["rows"]) for one in dry["made_voices"]] == [
        *(("Anna", 2), ("Ben \u2603", 1), ("all rows without a voice", 1))
    ]
    assert not made.out().path.exists()
    made.synth(rows, *flags).expect(0)
    voices = {name: line["voice"] for name, line in made.out().records.items()}
    assert voices["a"] == voices["b"]
    assert len({voices[name] for name in "acd"}) == 3
    assert voices["e"] is None
    assert len(voice_files(made)) == 12


def test_gone_while_rows_were_spoken_with_it(forty: Workbench) -> None:
    before = voice_files(forty)
    shutil.move(forty.out().path / ".voices", forty.folder / "away")
    for more in ((), ("--dry-run",), ("--only", "r03")):
        forty.synth(FORTY, *CAP, *more).expect(2, "missing; 40 done rows use this voice")
    # Its voice file alone is made of its codes.
    shutil.copytree(forty.folder / "away", forty.out().path / ".voices")
    next((forty.out().path / ".voices").glob("*.voice.safetensors")).unlink()
    assert forty.synth(FORTY, *CAP).out == DONE
    assert voice_files(forty) == before
    shutil.rmtree(forty.out().path / ".voices")
    forty.synth(FORTY, *CAP, "--overwrite", "--only", "r03").expect(0)
    assert voice_files(forty) == before


def test_voices_only_and_shards(made: Workbench) -> None:
    shard = (*CAP, "--shard", "1/2")
    for more in ((), ("--dry-run",)):
        made.synth(FORTY[5:9], *shard, *more).expect(2, "--voices-only")
        assert not made.out().path.exists()
    made.run("validate", made.write(FORTY[5:9]), "--model", made.model, *shard[3:]).expect(
        0, "--voices-only"
    )
    listed = made.synth(FORTY[5:9], *CAP, "--voices-only", out="voices").expect(0)
    path = Path(listed.out.strip())
    assert path.is_file()
    assert path.parent == made.out("voices").path / ".voices"
    assert made.synth(FORTY[5:9], *CAP, "--voices-only", out="voices").out == listed.out
    shared = ("--made-voices", made.folder / "voices")
    # What lies there is a stranger's.
    path.write_bytes(b"")
    made.synth(FORTY[5:9], *CAP, *shared, out="new").expect(2, "copy it back")


def test_a_folder_of_voices_that_leads_away(made: Workbench) -> None:
    (made.folder / "elsewhere").mkdir()
    made.out().path.mkdir()
    (made.out().path / ".voices").symlink_to(made.folder / "elsewhere")
    made.synth(FORTY, *CAP).expect(3, ".voices: is not a folder; move it out of the way")
    assert not list((made.folder / "elsewhere").iterdir())
    made.synth([{"id": ".voices/a", "text": "One."}], *CAP).expect(2)


LIBRARY: dict[str, Any] = {
    "device": "cpu",
    "seed": 8,
    "accept_licence": True,
    "max_seconds": 0.2,
    "accept_truncated": True,
}


def test_a_speaker_makes_it_of_its_first_row(
    forty: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(forty.folder / "tmp"))
    (forty.folder / "tmp").mkdir()
    prompts = spy(monkeypatch)
    kept = forty.folder / "shared"
    for settings in ({"made_voices": kept}, {"made_voices": kept}, {}):
        with Speaker(forty.model, **LIBRARY, **settings) as speaker:
            speech = speaker.say(SAYS, id="r07", max_frames=4)
            assert speech.voice == forty.out().records["r07"]["voice"]
            speaker.say("So it was.")
    assert [text for text, digest in prompts if digest is None] == [SAYS] * 2, "and once kept"
    assert voice_files(forty, "shared") == voice_files(forty)
    prompts.clear()
    with Speaker(forty.model, **LIBRARY, free_voice="each") as speaker:
        assert speaker.say(SAYS).voice is None
    assert prompts == [(SAYS, None)]
    assert not os.listdir(forty.folder / "tmp")


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_speaker_is_cancelled_while_it_makes_one(
    made: Workbench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    speaker, real = Speaker(made.model, **LIBRARY), DualAR.prompt

    def prompt(self: DualAR, request: SpeechRequest) -> Prompt:
        thread.start()
        return real(self, request)

    thread = threading.Thread(target=getattr(speaker, how))
    monkeypatch.setattr(DualAR, "prompt", prompt)
    with pytest.raises(Cancelled):
        speaker.say(SAYS)
    thread.join()
    monkeypatch.undo()
    if how == "cancel":
        thread = threading.Thread(target=speaker.cancel)
        monkeypatch.setattr(DualAR, "prompt", prompt)
        with pytest.raises(Cancelled):
            list(speaker.batch([SAYS, "So it was."]))
        thread.join()
        monkeypatch.undo()
        assert [speech.error for speech in speaker.batch([SAYS, "So it was."])] == [None] * 2
    speaker.close()


def test_a_voice_that_fails_fails_nobody_elses_rows(
    made: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is spoken once; its other rows have the same error."""
    prompts = spy(monkeypatch)
    rows = [{"text": SAYS, "character": name} for name in ("B", "L", "B")]
    with Speaker(made.model, **LIBRARY, retries=0) as speaker:
        found = list(speaker.batch(rows))
    assert [speech.error is None for speech in found] == [False, True, False]
    assert "the voice of B cannot be generated" in str(found[0].error)
    assert found[2].error == found[0].error
    assert [digest for _, digest in prompts].count(None) == 2
