"""Speakers: one text, settings, interruptions, and what is left of a closed one."""

from __future__ import annotations

import threading
from inspect import signature
from typing import Any, get_type_hints

import numpy as np
import pytest
import soundfile
from cases import cases
from fake_speakers import OpenSpeaker, RoomyModel

from tts_cli import Cancelled, RowError, Settings, SetupError, Speaker, UsageError
from tts_cli.library.settings import KEYWORDS, RowFields, StrPath
from tts_cli.seeds import row_seed
from tts_cli.sources.mapping import KINDS

CASES = cases(__file__)["speaker"]


def test_one_text(open_speaker: OpenSpeaker) -> None:
    speaker = open_speaker(seed=3)
    speech = speaker.say("Hello", voice="clara", max_frames=9)
    assert (speech.id, speech.text, speech.voice) == ("000001", "Hello", "clara")
    assert (speech.error, speech.finish_reason, speech.attempts) == (None, "eos", 1)
    assert speech.seed == row_seed(3, "000001")
    assert speaker.say("Hello", id="other").seed == row_seed(3, "other")
    assert speaker.say("Hello", seed=4).seed == 4
    assert (speech.codes.shape, speech.samples.shape, speech.seconds) == ((5, 2), (10,), 0.5)
    assert speech.timings.rtf is not None
    assert (speaker.sample_rate_hz, speaker.voices) == (20, ("arthur", "clara", "uncle_fu"))
    assert speaker.languages == ("auto", "english", "french")


@pytest.mark.parametrize(("fields", "said"), CASES["what_cannot_be_said"])
def test_what_cannot_be_said(open_speaker: OpenSpeaker, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError, match=said.replace("?", r"\?")):
        open_speaker().say("Hello", **fields)


@pytest.mark.parametrize(("settings", "said"), CASES["settings_are_checked"])
def test_settings_are_checked(
    open_speaker: OpenSpeaker, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        open_speaker(**{"max_batch": 4, **settings})


def test_no_such_model() -> None:
    with pytest.raises(SetupError, match="nowhere"):
        Speaker("nowhere/at/all/for/sure", device="cpu")


def test_settings_are_those_of_runs() -> None:
    """Names and kinds cannot drift from those of flags and rows."""
    named = signature(Speaker).parameters.keys() & KEYWORDS.keys()
    assert get_type_hints(Settings).keys() | named == KEYWORDS.keys()
    assert get_type_hints(RowFields).keys() | {"text", "x_vector_only_mode"} == KINDS.keys()
    for name, kind in get_type_hints(Settings).items():
        assert kind == (StrPath if KEYWORDS[name].names_path else KEYWORDS[name].kind), name


def test_pauses_and_parts(open_speaker: OpenSpeaker) -> None:
    speaker = open_speaker(pause_sentence=1.0)
    speech = speaker.say("abcd [pause 500ms] efgh", voice="clara")
    assert [part.boundary for part in speech.parts] == ["pause", None]
    assert [part.frames for part in speech.parts] == [4, 4]
    assert speech.parts[0].text_start == 0
    assert len(speech.codes) == 8
    assert speech.seconds > 0.8


def test_a_text_longer_than_the_room(open_speaker: OpenSpeaker) -> None:
    model = RoomyModel(4)
    speaker = open_speaker(model, longest=10, accept_truncated=True)
    assert speaker.say("y" * 100).is_ok
    assert speaker.say("y" * 100).is_ok
    assert len(model.rooms) == 3
    model.most_positions = model.rooms[-1][1]
    with pytest.raises(RowError, match="not have enough memory"):
        speaker.say("y" * 500)
    assert speaker.say("y" * 100).is_ok


def test_a_moment_without_memory_costs_no_rows(open_speaker: OpenSpeaker) -> None:
    """Memory was too short for the old room as well; from then on one row at a time was spoken."""
    model = RoomyModel(4)
    speaker = open_speaker(model, longest=10, accept_truncated=True)
    model.most_positions = 64  # taken by another process; enough to give the slots back
    with pytest.raises(SetupError, match="not have enough memory"):
        speaker.say("y" * 100)
    model.most_positions = 2000
    assert speaker.say("y" * 100).is_ok
    assert model.rooms[-1][0] == 4


class Interrupted(RoomyModel):
    """Ctrl-C in the third launch of frames."""

    def decode_frames(self, bucket: int, count: int) -> None:
        super().decode_frames(bucket, count)
        if len(self.batches) == 3:
            raise KeyboardInterrupt


def test_an_interrupted_text(open_speaker: OpenSpeaker) -> None:
    model = Interrupted(4)
    speaker = open_speaker(model)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        speaker.say("Hello there")
    assert threading.active_count() == threads
    assert model.slots == {}
    assert speaker.say("Hello there").is_ok


class Slow(RoomyModel):
    """A text that is never over, until somebody cancels it."""

    def decode_frames(self, bucket: int, count: int) -> None:
        self.begun.set()


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_another_thread_ends_a_text(open_speaker: OpenSpeaker, how: str) -> None:
    model = Slow(4)
    model.begun = threading.Event()  # type: ignore[attr-defined]
    speaker = open_speaker(model)

    def end() -> None:
        model.begun.wait(10)  # type: ignore[attr-defined]
        getattr(speaker, how)()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(Cancelled, match="the synthesis of the text was interrupted"):
        speaker.say("Hello")
    thread.join()
    assert model.slots == {}
    assert speaker.is_closed == (how == "close")
    speaker.cancel()  # nothing is going on


def test_speech_is_saved(open_speaker: OpenSpeaker, tmp_path: Any) -> None:
    speaker = open_speaker(info={"sample_rate_hz": 8000, "samples_per_frame": 160})
    speech = speaker.say("Hello there")
    for name, subtype in [("a.wav", "PCM_16"), ("a.flac", "PCM_24"), ("a.WAV", "FLOAT")]:
        assert speech.save(tmp_path / name, subtype=subtype) == tmp_path / name
        found = soundfile.info(tmp_path / name)
        assert (found.samplerate, found.subtype) == (8000, subtype)
        assert found.frames == len(speech.samples)
    assert speech.save(str(tmp_path / "b"), "wav").stat().st_size > 44
    read, _ = soundfile.read(tmp_path / "a.WAV", dtype="float32")
    assert np.array_equal(read, speech.samples)
    for args, said in [
        (("a.txt",), "'txt' is not one of the formats wav"),
        (("a",), "'no suffix' is not one of"),
        (("a.flac", None, "FLOAT"), "subtype 'FLOAT' does not exist in flac; use PCM_16, PCM_24"),
    ]:
        with pytest.raises(UsageError, match=said):
            speech.save(*args)
    (bad,) = speaker.batch([{"text": "x", "voice": "nobody"}])
    with pytest.raises(RowError, match="row 000001 has no audio: voice: 'nobody'"):
        bad.save(tmp_path / "c.wav")
    with pytest.raises(FileNotFoundError):
        speech.save(tmp_path / "none" / "a.wav")
