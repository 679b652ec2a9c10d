"""`checks.jsonl`: what is written is read, and nobody's lines do harm."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from tts_cli.checks.verdicts import (
    OK,
    SUSPECT,
    MosScores,
    Segment,
    TakeVerdict,
    Transcript,
    VoiceSimilarity,
    read_verdicts,
    verdict_of_line,
    verdicts_by_take,
    write_verdicts,
)
from tts_cli.core import Kind, Remark
from tts_cli.errors import SetupError
from tts_cli.store.files import CHECKS_NAME

CASES = cases(__file__)["verdicts"]

HEARD = Transcript(
    "ear 1", "the cat sat", 0.25, "words", 4, 1, 0.2, 3, (Segment("the", "the"), Segment("", "x"))
)
WHOLE = TakeVerdict(
    "b/2",
    3,
    "ab" * 32,
    SUSPECT,
    (Remark(Kind.WORDS, "25 % of 4 words", 2.5),),
    2.5,
    HEARD,
    VoiceSimilarity("enc", 0.5, 0.25),
    MosScores("DNSMOS 1", 3.25, 3.5, 4.0, 3.75),
)
FINE = TakeVerdict("a", 1, "cd" * 32, OK)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_verdicts(tmp_path, [FINE, WHOLE])
    assert list(read_verdicts(tmp_path)) == [FINE, WHOLE]
    assert verdicts_by_take(tmp_path) == {("a", 1): FINE, ("b/2", 3): WHOLE}


def test_a_line_holds_for_its_audio_alone() -> None:
    assert FINE.fits("cd" * 32)
    assert not FINE.fits("ef" * 32)
    assert not FINE.fits(None)


LINE = json.loads(WHOLE.to_line())


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {},
        {**LINE, "id": ""},
        {**LINE, "id": 1},
        {**LINE, "id": "../a"},
        {**LINE, "id": "#7"},
        {**LINE, "take": -1},
        {**LINE, "take": True},
        {**LINE, "sha256": None},
        {**LINE, "verdict": "fine"},
    ],
)
def test_what_is_no_line(values: Any) -> None:
    assert verdict_of_line(json.dumps(values).encode()) is None


@pytest.mark.parametrize(
    ("changes", "has_heard", "has_likeness"),
    [
        *CASES["what_is_not_of_its_type_is_unknown"],
        ({"heard": None}, False, True),
        ({"stretches": [["a", "b"]] * 20_001}, False, True),
        ({"reasons": "no", "severity": None}, True, True),
        ({"rated_by": None}, True, True),
    ],
)
def test_what_is_not_of_its_type_is_unknown(
    changes: dict[str, Any], has_heard: bool, has_likeness: bool
) -> None:
    check = verdict_of_line(json.dumps({**LINE, **changes}).encode())
    assert check is not None
    assert (check.asr is not None) == has_heard
    assert (check.similarity is not None) == has_likeness
    assert (check.mos is None) == bool({"mos", "rated_by"} & set(changes))


def test_half_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    write_verdicts(
        tmp_path, [TakeVerdict("a", 1, "00", SUSPECT, (Remark(Kind.WORDS, "\ud800", 1.0),))]
    )
    (check,) = read_verdicts(tmp_path)
    assert check.reasons[0].text == "\ud800"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CHECKS_NAME)
    with pytest.raises(SetupError, match="not a regular file"):
        list(read_verdicts(tmp_path))
