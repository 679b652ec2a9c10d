"""The library on a real checkpoint: what it gives is what `synth` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from fake_aligner import FakeAligner
from hostile_audio import encoded, tone
from safetensors.numpy import load_file
from workbench import MakeCheckpoint, Workbench

from tts_cli import Cancelled, RowError, SetupError, Speaker
from tts_cli.app import align as app_align
from tts_cli.checks.asr import processes

TEXTS = ("Hello there.", "Good morning, all of you.", "Hm.", "The rain in the street sings")
VOICES = ("dora", "emil", "fang")
ROWS: list[dict[str, Any]] = [
    {"text": TEXTS[number % 4], "voice": VOICES[number % 3], "max_seconds": 0.5}
    for number in range(24)
]
LONG = "The boat left after five that day. Nobody of them spoke at all. [pause 300ms] It rained."


def speaker_on(checkpoint: Path, **settings: Any) -> Speaker:
    return Speaker(checkpoint, device="cpu", accept_truncated=True, **settings)


def synth(bench: Workbench, rows: list[dict[str, Any]], *flags: object, **more: Any) -> None:
    bench.synth(rows, "--accept-truncated", "--save-codes", *flags, **more).expect(0)


def test_a_batch_is_what_synth_writes(bench: Workbench, checkpoint: Path) -> None:
    """Byte by byte, ids and tags included; whatever the batch was."""
    synth(bench, ROWS, "--seed", 3)
    records = bench.out().records
    with speaker_on(checkpoint, seed=3, max_batch=8) as speaker:
        found = list(speaker.batch(ROWS, ordered=False))
        assert len(found) == 24
        for speech in found:
            record = records[speech.id]
            assert (speech.seed, speech.attempts) == (record["seed"], record["attempts"])
            assert (speech.finish_reason, speech.voice) == (
                record["finish_reason"],
                record["voice"],
            )
            assert len(speech.codes) == record["frames"]
            path = speech.save(bench.folder / "saved.wav")
            assert path.read_bytes() == (bench.out().path / f"{speech.id}.wav").read_bytes()
            codes = load_file(bench.out().path / f"{speech.id}.codes.safetensors")["codes"]
            assert np.array_equal(speech.codes, codes)
        alone = speaker.say(ROWS[0]["text"], voice="dora", max_seconds=0.5)
        path = alone.save(bench.folder / "alone.wav")
        assert path.read_bytes() == (bench.out().path / "000001.wav").read_bytes()


def test_a_row_in_parts(bench: Workbench, checkpoint: Path) -> None:
    """Its float samples are the same; as 16 bits the edges of parts, which fade, may round
    otherwise: `synth` has 16 bits already when they do.
    """
    rows = [{"id": "long", "text": LONG, "voice": "emil"}]
    flags = ("--split", 40, "--max-seconds", 1, "--pause-sentence", 0.2)
    synth(bench, rows, *flags, "--subtype", "FLOAT")
    settings: dict[str, Any] = {"split": "40", "max_seconds": 1.0, "pause_sentence": 0.2}
    with speaker_on(checkpoint, **settings) as speaker:
        (speech,) = speaker.batch(rows)
    assert np.array_equal(speech.samples, bench.out().samples("long.wav"))
    record = bench.out().records["long"]
    assert [vars(part) for part in speech.parts] == record["parts"]
    assert len(speech.parts) > 2
    synth(bench, rows, *flags, out="short")
    saved = speech.save(bench.folder / "long.wav")
    ours, theirs = (
        soundfile.read(path, dtype="int16")[0].astype(int)
        for path in (saved, bench.out("short").path / "long.wav")
    )
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize("mode", ["icl", "xvec"])
def test_voices_are_cloned(bench: Workbench, make_checkpoint: MakeCheckpoint, mode: str) -> None:
    """A recording is encoded once in a speaker's life; one that cannot be used fails its row."""
    base = make_checkpoint("base_wide")
    audio = bench.folder / "a.wav"
    audio.write_bytes(encoded(tone(1.2)))
    cloned = {"ref_audio": str(audio), "ref_text": "What is said.", "clone_mode": mode}
    rows = [{"text": text, "max_seconds": 0.2, **cloned} for text in TEXTS]
    synth(bench, rows, model=base)
    with speaker_on(base) as speaker:
        wrong = {"text": "Hm.", "ref_audio": str(bench.folder / "no.wav")}
        found = list(speaker.batch([*rows, wrong]))
        assert [speech.is_ok for speech in found] == [True] * 4 + [False]
        assert "no.wav" in str(found[4].error)
        for speech in found[:4]:
            saved = speech.save(bench.folder / "saved.wav")
            assert saved.read_bytes() == (bench.out().path / f"{speech.id}.wav").read_bytes()
        (again,) = speaker.batch([{**rows[1], "id": "000002", "ref_audio": audio}])
        assert np.array_equal(again.samples, found[1].samples)
        assert speaker.session.facts().references == 1
        with pytest.raises(RowError, match=r"no\.wav"):
            speaker.say("Hm.", ref_audio=bench.folder / "no.wav")
        with pytest.raises(RowError, match="has no ref_audio and no voice, and"):
            speaker.say("Hm.")


def test_words_are_timed(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of speech as it is handed over; where there are none, a warning says why."""
    aligner = FakeAligner()
    monkeypatch.setattr(app_align, "SphinxAligner", lambda *_: aligner)
    rows: list[dict[str, Any]] = [
        {"id": "one", "text": "Hello, Nguyen.", "language": "english", "max_seconds": 0.5},
        {"id": "two", "text": "Guten Tag.", "language": "german", "max_seconds": 0.5},
        {"id": "none", "text": "...", "language": "english"},
        {"id": "bad", "text": "Hm.", "voice": "nobody"},
    ]
    with speaker_on(checkpoint, words="pocketsphinx") as speaker:
        one, two, none, bad = speaker.batch(rows)
        assert one.words is not None
        assert [word.word for word in one.words.words] == ["Hello", "Nguyen"]
        assert (one.words.id, one.words.take, one.words.text) == ("one", 1, "Hello, Nguyen.")
        assert (two.words, none.words, bad.words) == (None, None, None)
        assert "no word times: the aligner does not know its language" in two.warnings[-1]
        assert "no word times: its text has no words" in none.warnings[-1]
        aligner.scores["speech"] = 0.01
        (part, *_) = said = speaker.say(LONG, language="english").words, len(aligner.asked)
        assert part is not None
        assert part.unsure == ["score 0.010, below 0.12: the words may differ"]
        assert said[1] == 2
        assert len(aligner.asked[-1].passages) > 1, "part by part"
        aligner.scores["speech"] = -1.0
        lost = speaker.say("Hello.", language="english", max_seconds=0.5)
        assert "no word times: its words were not found in its audio" in lost.warnings[-1]


@pytest.mark.long
def test_words_are_timed_by_a_real_aligner() -> None:
    """Whose processes stay, also when a call is interrupted; times are those of the samples."""
    pytest.importorskip("pocketsphinx")
    with pytest.raises(SetupError, match="words /nowhere/at/all: the folder does not exist"):
        Speaker(device="cpu", words="/nowhere/at/all")
    text = "The old miller walked down to the river."
    with Speaker(device="cpu", language="english", words="pocketsphinx", max_batch=1) as speaker:
        first = speaker.say(text)
        assert speaker._words is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(processes, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                speaker.say(text)
        second = speaker.say(text)
        assert first.words is not None
        assert first.words == second.words
        assert [word.word for word in first.words.words] == text.rstrip(".").split()
        assert 0 < first.words.words[-1].end_s <= first.seconds
        assert first.words.unsure == []
        timer = speaker._words
    with pytest.raises(Cancelled):
        timer.of(first.as_take, Path("any.wav"))


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt
