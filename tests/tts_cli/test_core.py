"""The words of files, as they are written; and the nouns that are handed on."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass

import numpy as np
import pytest
from tasks import joined_task, task_of

from models.base import SpeechRequest
from tts_cli.audio.treatment import PostProcessReport
from tts_cli.core import (
    BadRow,
    Encoded,
    Finish,
    Kind,
    Levels,
    Remark,
    Result,
    Role,
    Row,
    Status,
    TakeRef,
    VoiceKey,
    Work,
)
from tts_cli.engine.session import SessionFacts
from tts_cli.voices.voice_loader import TaskWithVoice
from tts_cli.workers.messages import Ended, Ready, RowOrder

WORDS = [word for kind in (Role, Status, Finish, Kind) for word in kind]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_its_text(word: Kind) -> None:
    text = word.value
    assert (str(word), f"{word}", "%s" % word, json.dumps(word)) == (text, text, text, f'"{text}"')  # noqa: UP031
    assert word == text
    assert pickle.loads(pickle.dumps(word)) is word


def test_ends_that_are_not_all_of_the_text() -> None:
    assert [end for end in Finish if end.is_runaway] == ["max_frames", "early", "stuck"]


def test_what_remarks_are_about() -> None:
    assert [kind for kind in Kind if kind.about == "file"] == ["level", "noise_floor", "slot"]
    assert {kind.about for kind in Kind} == {"file", "speech"}
    assert Remark(Kind.LONG, "x").weight == 2.0


REQUEST = SpeechRequest("Hello. Hello.", voice="clara", seed=3)
SHAPES = [
    Row(1, 2, "a", "Hello.", character="Anna", sampling={"top_k": 3.0}, extra={"mood": "glad"}),
    BadRow(1, 2, None, "has no text"),
    task_of("a", REQUEST, need=VoiceKey("abc", 3, 9, None, "icl"), place=TakeRef(2, Role.EXTRA)),
    joined_task("a", REQUEST, REQUEST, most_frames=99, notes=("is odd",)),
    Result(
        Finish.STUCK,
        error="it stood still",
        samples=np.arange(3, dtype=np.int16),
        codes=np.zeros((3, 2), np.int64),
        levels=Levels(-20.0),
        remarks=(Remark(Kind.FAST, "twice as fast"),),
        work=Work(5, 2),
        parts=({"text_start": 0},),
        queued_s=1.5,
    ),
    Result(encoded=Encoded("parts/a.wav", b"codes", 9, "aa", "bb", 3), worker=2),
    Ready("host", SessionFacts(1.5, graph_misses_by={"frame": 2}, device={"graphs": 3}), 4, True),
    RowOrder(1, TaskWithVoice(task_of("a", REQUEST), error="its voice is gone"), 0),
    Ended(
        1,
        Result(
            encoded=Encoded(b"RIFF", None, 9, "aa", None, 3, PostProcessReport(pad_start_s=0.5))
        ),
        0.5,
    ),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape).__name__)
def test_what_crosses_threads_and_workers_is_plain(shape: object) -> None:
    """Spool, threads and Ray hand it on, pickled: no callable, handle, lock or tensor is in it."""
    found = pickle.loads(pickle.dumps(shape))
    assert repr(found) == repr(shape)
    assert not [value for value in inside(shape) if not isinstance(value, PLAIN)]


PLAIN = (str, bytes, int, float, bool, type(None), np.ndarray)


def inside(thing: object) -> Iterator[object]:
    """All values of a thing and of what it holds."""
    if isinstance(thing, Mapping):
        held = [*thing.values()]
    elif isinstance(thing, tuple | list):
        held = [*thing]
    elif is_dataclass(thing):
        held = [*vars(thing).values()]
    else:
        yield thing
        return
    for value in held:
        yield from inside(value)
