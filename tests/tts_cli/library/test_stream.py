"""Batches: rows that come one by one, perhaps without end, and whoever leaves early."""

from __future__ import annotations

import collections
import itertools
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_speakers import OpenSpeaker, RoomyModel
from fakes import fake_codes

from tts_cli import Cancelled, Row, Speaker, SpeakerBusy, StoppedEarly, UsageError

pytestmark = pytest.mark.slow

PATIENCE_S = 10.0


def endless(text: str = "xx", pulled: list[int] | None = None) -> Iterator[dict[str, Any]]:
    """The seed of a row is its number; its length changes."""
    for number in itertools.count(1):
        if pulled is not None:
            pulled.append(number)
        yield {"text": text * (1 + number % 5), "seed": number}


def slots(speaker: Speaker) -> dict[int, Any]:
    model: Any = speaker.session.loaded.model
    found: dict[int, Any] = model.slots
    return found


def test_results_in_order(open_speaker: OpenSpeaker) -> None:
    given = [{"text": "x" * (30 - number), "seed": number} for number in range(1, 25)]
    found = list(open_speaker().batch(given))
    assert [speech.id for speech in found] == [f"{number:06d}" for number in range(1, 25)]
    for row, speech in zip(given, found, strict=True):
        codes = fake_codes(row["seed"], len(row["text"])).numpy()
        assert np.array_equal(speech.codes, codes)
        assert (speech.error, speech.text, speech.seed) == (None, row["text"], row["seed"])
        assert speech.samples.dtype == np.float32
        assert speech.samples.base is None, "it keeps the samples of others in memory"


def test_rows_of_every_kind(open_speaker: OpenSpeaker) -> None:
    given = [
        "xx",
        {"id": "a/b", "input": "xxx", "speaker": "clara", "seed": 7},
        Row(line=9, number=9, id="typed", text="xxxx", sampling={"top_k": 3}, max_seconds=5.0),
        {"text": "xx", "speed": 9},
        {"text": "xx", "voice": "clarra"},
        Row(line=1, number=1, id="../out", text="xx"),
        None,
        "...",
        {1: "xx"},
        {"text": "x" * 30_000},
    ]
    found = list(open_speaker().batch(given))  # type: ignore[arg-type]
    assert [speech.is_ok for speech in found] == [True] * 3 + [False] * 4 + [True] + [False] * 2
    assert [speech.id for speech in found[:3]] == ["000001", "a/b", "typed"]
    assert (found[1].voice, found[1].seed, found[1].text) == ("clara", 7, "xxx")
    assert "speed" in str(found[3].error)
    assert "did you mean 'clara'?" in str(found[4].error)
    assert found[4].id == "000005"
    assert str(found[5].error).startswith("id '../out'")
    assert found[6].error == "must be a text, a mapping or a Row, not None"
    assert (found[7].finish_reason, found[7].seconds) == ("wordless", 0.5)
    assert found[8].error == "must have strings as keys, not 1"
    assert "the maximum is 20000" in str(found[9].error)
    for speech in found:
        assert speech.is_ok or (len(speech.samples), speech.codes.shape) == (0, (0, 16))


def test_rows_have_their_own_pace(open_speaker: OpenSpeaker) -> None:
    fields = [{"seed": 1}, {"seed": 1, "speed": 2.0}, {"seed": 1, "duration_s": 5.0}]
    plain, fast, fit = open_speaker().batch([{"text": "x" * 20, **one} for one in fields])
    assert len(fast.samples) == round(len(plain.samples) / 2)
    assert fit.seconds == pytest.approx(5.0)
    assert fit.samples[: len(plain.samples)].tolist() == plain.samples.tolist()
    assert not fit.samples[len(plain.samples) :].any()
    assert np.array_equal(fast.codes, plain.codes)


def test_one_text_is_no_batch(open_speaker: OpenSpeaker) -> None:
    speaker = open_speaker()
    with pytest.raises(UsageError, match="is one row"):
        speaker.batch("Hello.")
    with pytest.raises(UsageError, match="is one row"):
        speaker.batch({"text": "Hello."})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="look_ahead: must be at least 1, not 0"):
        speaker.batch(["Hello."], look_ahead=0)
    assert list(speaker.batch([])) == []


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("look_ahead", [1, 7, None])
def test_rows_without_end_are_pulled_as_needed(
    open_speaker: OpenSpeaker, ordered: bool, look_ahead: int | None
) -> None:
    pulled: list[int] = []
    given = endless(pulled=pulled)
    most = look_ahead or 32
    for count, speech in enumerate(
        open_speaker().batch(given, ordered=ordered, look_ahead=look_ahead), 1
    ):
        assert speech.is_ok
        if count % 50 == 0:
            time.sleep(0.03)  # a slow reader; everything else comes to a stop
        assert count <= len(pulled) <= count + most
        if count == 200:
            break


def test_an_iterator_that_waits_for_ever_is_left_waiting(open_speaker: OpenSpeaker) -> None:
    rows: queue.Queue[str | None] = queue.Queue()
    speaker = open_speaker()
    results = speaker.batch(iter(rows.get, None))
    rows.put("xx")
    assert next(results).is_ok
    results.close()
    (waiting,) = [thread for thread in threading.enumerate() if thread.name == "rows"]
    assert waiting.daemon
    assert speaker.say("xxx").is_ok  # nobody is in its way
    rows.put("it is dropped")
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


class Left(Exception):  # noqa: N818
    """What the loop is left by."""


def leave_by_break(speaker: Speaker) -> None:
    for speech in speaker.batch(endless()):
        if speech.id == "000009":
            break


def leave_by_error(speaker: Speaker) -> None:
    try:
        for speech in speaker.batch(endless()):
            if speech.id == "000009":
                raise Left
    except Left:
        pass


def leave_by_interrupt(speaker: Speaker) -> None:
    try:
        for speech in speaker.batch(endless()):
            if speech.id == "000009":
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass


def leave_by_close(speaker: Speaker) -> None:
    results = speaker.batch(endless())
    for _ in range(9):
        next(results)
    results.close()


def leave_at_once(speaker: Speaker) -> None:
    next(speaker.batch(endless()))


def never_begin(speaker: Speaker) -> None:
    speaker.batch(endless())


@pytest.mark.parametrize(
    "leave",
    [
        leave_by_break,
        leave_by_error,
        leave_by_interrupt,
        leave_by_close,
        leave_at_once,
        never_begin,
    ],
)
def test_leaving_early_leaves_nothing_behind(open_speaker: OpenSpeaker, leave: Any) -> None:
    speaker = open_speaker()
    before = threading.active_count()
    for _ in range(3):
        leave(speaker)
        assert threading.active_count() == before
        assert slots(speaker) == {}
        assert [speech.text for speech in speaker.batch(["xx", "x" * 40])] == ["xx", "x" * 40]


def test_an_error_of_the_rows_comes_behind_their_results(open_speaker: OpenSpeaker) -> None:
    def rows() -> Iterator[str]:
        yield from ("xx", "xxx")
        raise LookupError("the database is gone")

    speaker, found = open_speaker(), []
    with pytest.raises(LookupError, match="the database is gone"):
        found += [speech.text for speech in speaker.batch(rows())]  # a list is not made in part
    assert found == []
    results = speaker.batch(rows())
    assert [next(results).text, next(results).text] == ["xx", "xxx"]
    with pytest.raises(LookupError):
        next(results)
    with pytest.raises(TypeError, match="not iterable"):
        list(speaker.batch(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_another_thread_ends_a_batch(open_speaker: OpenSpeaker, how: str) -> None:
    speaker = open_speaker()
    timer = threading.Timer(0.1, getattr(speaker, how))
    timer.start()
    results = speaker.batch(endless())
    with pytest.raises(Cancelled, match="the batch was cancelled"):
        collections.deque(results, maxlen=0)
    timer.join()
    if how == "cancel":
        assert slots(speaker) == {}
        assert speaker.say("xx").is_ok
    else:
        with pytest.raises(UsageError, match="the speaker is closed"):
            speaker.say("xx")


def test_one_call_at_a_time(open_speaker: OpenSpeaker) -> None:
    speaker = open_speaker()
    first, second = speaker.batch(endless()), speaker.batch(endless())
    next(first)
    with pytest.raises(SpeakerBusy, match="the speaker is busy with another call"):
        next(second)
    with pytest.raises(SpeakerBusy):
        speaker.say("xx")
    assert next(first).is_ok  # it goes on
    first.close()
    assert speaker.say("xx").is_ok


def test_many_threads_get_speech_or_a_refusal(open_speaker: OpenSpeaker) -> None:
    speaker = open_speaker()
    outcomes: list[str] = []

    def use() -> None:
        for _ in range(20):
            try:
                spoken = list(speaker.batch(["xx", "xxx"]))
            except SpeakerBusy:
                outcomes.append("busy")
            else:
                outcomes.append("".join(speech.text for speech in spoken))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"busy", "xxxxx"}
    assert outcomes.count("xxxxx")
    assert len(outcomes) == 80


def test_a_row_larger_than_the_room(open_speaker: OpenSpeaker) -> None:
    """Those before it come to their ends, then the slots are made anew, once."""
    model = RoomyModel(4)
    speaker = open_speaker(model, longest=20, accept_truncated=True)
    first = model.rooms[0]
    given = ["xx"] * 9 + ["y" * 150, "x" * 10, "y" * 160]
    found = list(speaker.batch(given))
    assert [(speech.text, speech.error) for speech in found] == [(text, None) for text in given]
    assert model.rooms[1][0] == 1  # the old ones are let go first
    assert len(model.rooms) == 3
    assert model.rooms[2][1] >= 1.5 * first[1]
    assert model.rooms[2][0] == first[0] == 4
    assert speaker.say("y" * 155).is_ok
    assert len(model.rooms) == 3


def test_a_row_that_no_room_can_be_made_for(open_speaker: OpenSpeaker) -> None:
    model = RoomyModel(4)
    speaker = open_speaker(model, longest=20)
    model.most_positions = model.rooms[0][1]
    found = list(speaker.batch(["xx", "y" * 400, "xxx"]))
    assert [speech.is_ok for speech in found] == [True, False, True]
    assert "not have enough memory for the slots" in str(found[1].error)
    assert speaker.session.loaded.batch.rows == 4


def test_a_lost_device(open_speaker: OpenSpeaker, monkeypatch: pytest.MonkeyPatch) -> None:
    speaker = open_speaker()

    def lost(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(speaker.session.loaded.model, "decode_frames", lost)
    with pytest.raises(StoppedEarly, match="the device failed"):
        list(speaker.batch(["xx"]))
    with pytest.raises(StoppedEarly, match="device has failed; create another speaker"):
        speaker.say("xx")


def test_an_error_of_ours_reaches_the_caller(
    open_speaker: OpenSpeaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaker = open_speaker()
    real = speaker.session.loaded.model.poll

    def broken() -> Any:
        raise ValueError("a bug")

    monkeypatch.setattr(speaker.session.loaded.model, "poll", broken)
    with pytest.raises(ValueError, match="a bug"):
        list(speaker.batch(["xx"] * 9))
    monkeypatch.setattr(speaker.session.loaded.model, "poll", real)
    assert slots(speaker) == {}
    assert len(list(speaker.batch(["xx"] * 9))) == 9
