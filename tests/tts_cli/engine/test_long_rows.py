"""Long rows in parts: spoken like rows, put together whole, few at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_harness import request
from fakes import FakeSpeechModel, fake_codes

from models.base import ModelInfo, Prompt, SpeechRequest
from models.pace import Pace
from tts_cli.audio.join import Pauses
from tts_cli.core import Kind, PlannedPart, Remark, SpeechRow
from tts_cli.engine.judge import RetryPolicy
from tts_cli.engine.load import Session
from tts_cli.engine.local import SpeechRun
from tts_cli.engine.pieces import Finished, LongRows
from tts_cli.engine.scheduler import BatchSize
from tts_cli.text.boundaries import Boundary
from tts_cli.text.split import Part


@pytest.fixture
def session(make_info: Callable[..., ModelInfo]) -> Session:
    """A model in plain Python whose rows speak one frame a letter, two samples each."""
    model: Any = FakeSpeechModel(4)
    model.info = make_info(max_positions=200, samples_per_frame=2, sample_rate_hz=20)
    return Session(model, torch.device("cpu"), torch.float32, BatchSize(4), 0.0)


def long_row(row_id: str, *texts: str, seed: int = 1, max_frames: int = 100) -> SpeechRow:
    """A row in parts of these texts, seeds counted up."""
    parts, place = [], 0
    for number, text in enumerate(texts):
        boundary = Boundary.SENTENCE if number < len(texts) - 1 else None
        span = Part(place, place + len(text), boundary)
        parts.append(PlannedPart(span, request(text, seed + number, max_frames)))
        place += len(text) + 1
    whole = replace(request(" ".join(texts), seed), voice="clara")
    return SpeechRow(row_id, whole, parts=tuple(parts))


def speak(session: Session, given: list[SpeechRow], **settings: Any) -> dict[str, SpeechRow]:
    """All rows at their ends, by id."""
    ended: list[SpeechRow] = []
    SpeechRun(session, ended.append, RetryPolicy(2), **settings).run(given)
    found = {row.id: row for row in ended}
    assert len(found) == len(ended), "a row ended twice"
    return found


@pytest.mark.parametrize("takers", [1, 8])
def test_a_long_row_comes_back_whole_among_others(session: Session, takers: int) -> None:
    long = long_row("long", "abc", "defgh", "ij", seed=7)
    short = [SpeechRow(str(number), request("x" * (number + 1), number)) for number in range(20)]
    found = speak(session, [*short[:10], long, *short[10:]], takers=takers)
    assert len(found) == 21
    row = found["long"]
    assert row is long
    assert (row.error, row.finish_reason, row.attempts, row.frames) == (None, "eos", 1, 10)
    assert (row.seed, row.remarks, row.frames_dropped) == (7, [], 0)
    codes = [fake_codes(seed, len(text)) for seed, text in ((7, "abc"), (8, "defgh"), (9, "ij"))]
    assert np.array_equal(row.codes, np.concatenate(codes))
    assert row.samples.dtype == np.float32
    assert row.levels is not None
    assert row.work.prompt_tokens == 10
    assert row.queued_s is not None
    assert [(part["text_start"], part["text_end"]) for part in row.part_records] == [
        *((0, 3), (4, 9), (10, 12))
    ]
    assert [part["seed"] for part in row.part_records] == [7, 8, 9]
    assert [part["boundary"] for part in row.part_records] == ["sentence", "sentence", None]
    assert row.part_records[-1]["end_s"] == pytest.approx(len(row.samples) / 20)


def test_a_part_keeps_only_its_own_samples(session: Session) -> None:
    """They come as slices of a whole batch of the vocoder, which would wait in memory with them."""
    joined: list[SpeechRow] = []

    class Looking(LongRows):
        def finish(self, part: SpeechRow) -> Finished:
            joined.append(part)
            return super().finish(part)

    run = SpeechRun(session, lambda _: None, RetryPolicy(2))
    run.long_rows = Looking(session.model.info, session.batch, Pauses(), run.policy)
    run.run([long_row("a", "abc", "defgh", "ij")])
    assert len(joined) == 3
    assert all(part.samples.base is None and part.codes.base is None for part in joined)


def test_pauses_stand_between_parts(session: Session) -> None:
    without = speak(session, [long_row("a", "abc", "defgh")])["a"]
    row = speak(session, [long_row("a", "abc", "defgh")], pauses=Pauses(sentence=1.0))["a"]
    first, second = row.part_records
    assert second["start_s"] - first["end_s"] == pytest.approx(1.0)
    assert len(row.samples) == len(without.samples) + 20


def test_a_part_is_tried_again_alone(session: Session) -> None:
    row = long_row("a", "abc", "x" * 9, "ij", max_frames=5)
    spoken = speak(session, [row])["a"]
    assert spoken.error == "part 2 of 3: no end of speech within 5 frames (0.5 s) in 3 attempts"
    assert (spoken.finish_reason, spoken.attempts) == ("max_frames", 3)
    assert [part["attempts"] for part in spoken.part_records] == [1, 3, 1]
    assert spoken.frames_dropped == 10
    assert len(spoken.samples) == 2 * (3 + 5 + 2), "what there is is kept to be listened to"


@pytest.mark.parametrize("accepts", [False, True])
def test_a_cap_of_the_row_holds_for_its_parts_together(session: Session, accepts: bool) -> None:
    """Every part is shorter than the cap that somebody gave the row, all together are not."""
    rows = [long_row("over", "abc", "defgh"), long_row("just", "abc", "defgh")]
    rows[0].most_frames, rows[1].most_frames = 7, 8
    ended: list[SpeechRow] = []
    SpeechRun(session, ended.append, RetryPolicy(2, accepts)).run(rows)
    found = {row.id: row for row in ended}
    over = None if accepts else "its parts have 8 frames, 7 are allowed"
    assert (found["over"].error, found["over"].finish_reason) == (over, "max_frames")
    assert (found["just"].error, found["just"].finish_reason) == (None, "eos")
    assert found["over"].samples is not None


def test_a_part_without_audio_leaves_its_row_without(session: Session) -> None:
    spoken = speak(session, [long_row("a", "abc", "nan", "ij")])["a"]
    assert spoken.error == "part 2 of 3: the model gave NaN or infinite values twice"
    assert spoken.samples is None
    assert spoken.frames == 0


def test_a_row_whose_voice_is_gone_ends_once(session: Session) -> None:
    row = long_row("a", "abc", "de")
    row.error = "its voice is gone"
    assert speak(session, [row])["a"].error == "part 1 of 2: its voice is gone"


def test_rows_are_opened_as_the_slots_need_them(session: Session) -> None:
    """Twenty thousand characters are 25 minutes of audio: all rows at once would fill memory."""
    opened: list[int] = []

    class Counting(LongRows):
        def open(self, row: SpeechRow, stop: threading.Event) -> list[SpeechRow]:
            parts = super().open(row, stop)
            opened.append(self._num_left)
            return parts

    ended: list[SpeechRow] = []
    run = SpeechRun(session, ended.append, RetryPolicy(2))
    run.long_rows = Counting(session.model.info, session.batch, Pauses(), run.policy)
    run.run([long_row(str(number), "abcde", "fgh", "ij", "k") for number in range(40)])
    assert len(ended) == 40
    assert max(opened) < 1.5 * 4 + 4
    assert [int(row.id) for row in ended] == sorted(range(40), key=lambda n: n)


def test_a_run_that_is_stopped_opens_no_more(session: Session) -> None:
    rows = LongRows(session.model.info, session.batch, Pauses(), RetryPolicy(2))
    stop = threading.Event()
    assert len(rows.open(long_row("a", *"abcdefgh"), stop)) == 8
    threading.Timer(0.05, stop.set).start()
    assert rows.open(long_row("b", "a", "b"), stop) == []


class Hurrying(FakeSpeechModel):
    """Speaks only half of a text that begins with `f` at its first attempt."""

    def prompt(self, request: SpeechRequest) -> Prompt:
        text = request.text
        is_half = text.startswith("f")
        return super().prompt(replace(request, text=text[: len(text) // 2] if is_half else text))

    def codes(self, slot: int, frames: int) -> torch.Tensor:
        """Their first one never stands still."""
        codes = super().codes(slot, frames)
        codes[:, 0] += codes[:, 1] % 2
        return codes


EVEN = tuple(letter * 60 for letter in "abcd")  # six seconds each
HURRIED = "f" * 60


@pytest.fixture
def hurrying(make_info: Callable[..., ModelInfo]) -> Session:
    model: Any = Hurrying(4)
    pace = Pace(letter=0.1)
    model.info = make_info(max_positions=200, samples_per_frame=2, sample_rate_hz=20, pace=pace)
    return Session(model, torch.device("cpu"), torch.float32, BatchSize(4), 0.0)


@pytest.mark.parametrize("takers", [1, 8])
def test_a_part_far_faster_than_the_others_is_spoken_again(hurrying: Session, takers: int) -> None:
    """One of 151 parts was said to a third less, too long for the floor of any voice."""
    row = long_row("a", EVEN[0], HURRIED, *EVEN[1:], seed=7)
    short = [SpeechRow(str(number), request("x" * (number + 1), number)) for number in range(20)]
    spoken = speak(hurrying, [row, *short], takers=takers)["a"]
    assert spoken.error is None
    assert spoken.remarks == []
    assert [part["attempts"] for part in spoken.part_records] == [1, 2, 1, 1, 1]
    assert [part["frames"] for part in spoken.part_records] == [60] * 5
    assert spoken.part_records[1]["seed"] != 8
    assert spoken.frames_dropped == 30
    assert len(spoken.codes) == 300


def test_a_part_that_cannot_be_spoken_again_is_suspect(hurrying: Session) -> None:
    ended: list[SpeechRow] = []
    SpeechRun(hurrying, ended.append, RetryPolicy(0)).run([long_row("a", *EVEN, HURRIED)])
    (row,) = ended
    assert row.error is None
    assert row.remarks == [Remark(Kind.FAST, "part 5: 2.00 times as fast as the other parts")]


def test_a_part_that_fails_the_second_time_is_what_it_was(hurrying: Session) -> None:
    row = long_row("a", *EVEN, HURRIED)
    last = row.parts[-1]
    row.parts = (*row.parts[:-1], replace(last, request=replace(last.request, max_frames=50)))
    spoken = speak(hurrying, [row])["a"]
    assert spoken.error is None
    assert spoken.finish_reason == "eos"
    assert spoken.remarks == [Remark(Kind.FAST, "part 5: 2.00 times as fast as the other parts")]
    assert [part["frames"] for part in spoken.part_records] == [60] * 4 + [30]
    assert spoken.part_records[-1]["attempts"] == 3


def test_a_part_is_suspect_once(hurrying: Session) -> None:
    """While another one is spoken again, nothing is said of it yet."""
    row = long_row("a", HURRIED, HURRIED, *EVEN, "e" * 60)
    first = row.parts[0]
    greedy = replace(first.request.sampling, greedy=True, subtalker_greedy=True)
    row.parts = (replace(first, request=replace(first.request, sampling=greedy)), *row.parts[1:])
    spoken = speak(hurrying, [row])["a"]
    assert [part["attempts"] for part in spoken.part_records] == [1, 2, 1, 1, 1, 1, 1]
    assert spoken.remarks == [Remark(Kind.FAST, "part 1: 2.00 times as fast as the other parts")]
