"""`tts-cli say`: one text in, one file out, and nothing else left behind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fake_aligner import FakeAligner
from workbench import PATIENCE_S, ROOT, Result, Workbench

from tts_cli.app import align as app_align
from tts_cli.checks.word_times import read_words

SHORT = ("--device", "cpu", "--max-seconds", "1")


@pytest.fixture
def here(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with nothing in it."""
    folder = bench.folder / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def say(bench: Workbench, *args: object) -> Result:
    return bench.run("say", *args, "--model", bench.model, *SHORT)


def read_from(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_text(bench: Workbench, here: Path) -> None:
    result = say(bench, "Hello there.").expect(0)
    assert result.out.startswith("say.wav: ")
    assert os.listdir(here) == ["say.wav"]
    # It is what a row of the id `say` is, with the seed of the run.
    rows = [{"id": "say", "text": "Hello there."}]
    bench.synth(rows, *SHORT).expect(0)
    seed = bench.out().records["say"]["seed"]
    assert result.out.endswith(f", voice dora, seed {seed}\n")
    found, _ = soundfile.read(here / "say.wav", dtype="float32")
    assert np.array_equal(found, bench.out().samples("say.wav"))
    assert say(bench, "Hello there.", "--seed", 4).out != result.out


def test_a_level_and_an_end(bench: Workbench, longer: Path, here: Path) -> None:
    bench.model = longer  # what is very short has no loudness
    flags = ("--loudness", -20, "--highpass", 60, "--trim", "--pad", "0.5,0.25")
    result = say(bench, "Good morning.", *flags, "-o", "a.opus", "--json").expect(0)
    facts = json.loads(result.out)
    applied = facts["applied"]
    assert (applied["level_by"], applied["highpass_hz"]) == ("lufs", 60)
    assert applied["after_db"] == pytest.approx(-20, abs=0.5)
    assert (applied["pad_start_s"], applied["pad_end_s"]) == (0.5, 0.25)
    with soundfile.SoundFile(here / "a.opus") as file:
        assert (file.subtype, file.samplerate) == ("OPUS", 24_000)
        assert file.copy_metadata()["comment"].startswith("synthetic speech; model qwen3_tts")
        assert file.frames / 24_000 == pytest.approx(facts["audio_s"], abs=0.01)


def test_where_it_goes(bench: Workbench, here: Path) -> None:
    (here / "a.flac").write_bytes(b"an older one")
    found = say(bench, "Hello.", "--out", "a.flac", "--sample-rate", 16000, "--json").json
    assert soundfile.info(here / "a.flac").samplerate == 16000
    assert (found["path"], found["voice"], found["text"]) == ("a.flac", "dora", "Hello.")
    assert found["bytes"] == (here / "a.flac").stat().st_size
    say(bench, "Hello.", "--format", "flac").expect(0)
    assert sorted(os.listdir(here)) == ["a.flac", "say.flac"]


def test_pipes(bench: Workbench, here: Path) -> None:
    command = [sys.executable, "-m", "tts_cli", "say", "-", "-o", "-", "--model", bench.model]
    done = subprocess.run(
        [*map(str, command), *SHORT],
        input=b"Hm.\n",
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    say(bench, "Hm.").expect(0)
    assert done.stdout == (here / "say.wav").read_bytes()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("Hi.", "-o", "a.txt"), "the suffix is not an audio format; use one of .wav, .flac"),
        (("Hi.", "-o", "no/a.wav"), "-o no/a.wav: the folder no does not exist; create it first"),
        (("Hi.", "-o", "dir.wav"), "-o dir.wav: is not a regular file; choose another name"),
        (("Hi.", "-o", "a.ogg", "--format", "wav"), "name different formats; leave one out"),
        (("Hi.", "-o", "-", "--json"), "--json and -o - both write to stdout"),
        (("",), "text: is blank"),
        (("\7",), "text: contains the control character U+0007"),
        (("x" * 20_001,), "has 20001 characters; the maximum is 20000; use tts-cli book"),
        (("Hi.", "--voice", "nobody"), "--voice: 'nobody' is unknown"),
        (("Hi.", "--ref-audio", "x.wav"), "a custom_voice checkpoint cannot clone"),
        (("Hi.", "--seed", "-1"), "--seed must be"),
        (("Hi.", "--row-seed", "-1"), "'--row-seed': -1 is not in the range"),
    ],
)
def test_what_cannot_be(bench: Workbench, here: Path, args: tuple[str, ...], said: str) -> None:
    (here / "dir.wav").mkdir()
    say(bench, *args).expect(2, said)
    assert os.listdir(here) == ["dir.wav"]


def test_stdin_that_is_no_text(
    bench: Workbench, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_from(monkeypatch, b"caf\xe9")
    say(bench, "-").expect(2, "byte 4 is not UTF-8")
    read_from(monkeypatch, b"x" * (1 << 21))
    say(bench, "-").expect(2, "is longer than 1 MiB; use tts-cli book")


def test_speech_that_never_ends(bench: Workbench, here: Path, endless: Path) -> None:
    command = ("say", "Hello.", "--model", endless, "--device", "cpu", "--max-seconds", 0.1)
    bench.run(*command, "--retries", 0).expect(
        1,
        "its audio did not end within",
        "try another --seed, or accept the audio with --accept-truncated",
    )
    assert os.listdir(here) == []
    bench.run(*command, "--accept-truncated").expect(0)
    assert os.listdir(here) == ["say.wav"]


def test_synth_points_at_it(bench: Workbench, here: Path) -> None:
    for args in (("Hello world",), ("--text", "Hello world")):
        for command in ("synth", "validate") if args[0] != "--text" else ("synth",):
            bench.run(command, *args, "--out", "x").expect(2, "use: tts-cli say 'Hello world'")
    result = bench.run("synth", "rows.jsonl", "--out", "x")
    assert "rows.jsonl: no such file or directory; check the path" in result.err


def test_words_are_timed_beside_it(
    bench: Workbench, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {"say": 0.4}
    monkeypatch.setattr(app_align, "SphinxAligner", lambda *_: FakeAligner(scores))
    flags = ("Hello there.", "--words", "pocketsphinx", "-o", "a.flac")
    result = say(bench, *flags, "--language", "english", "--json")
    assert (result.code, result.json["words"]) == (0, "a.words.json")
    assert sorted(os.listdir(here)) == ["a.flac", "a.words.json"]
    found = read_words(here, "a")
    assert found is not None
    assert [word.word for word in found.words] == ["Hello", "there"]
    data = (here / "a.flac").read_bytes()
    assert (found.id, found.sha256) == ("a", hashlib.sha256(data).hexdigest())
    assert (found.score, found.unsure) == (0.4, [])
    (here / "a.words.json").unlink()
    scores["say"] = -1.0
    say(bench, *flags, "--language", "english").expect(
        1, "no word times: its words were not found in its audio"
    )
    say(bench, *flags, "--language", "german").expect(1, "the aligner does not know its language")
    assert os.listdir(here) == ["a.flac"]
    say(bench, *flags[:-1], "-").expect(2, "--words writes a file next to the audio")
    say(bench, "Hm.", "--words", here).expect(3)
