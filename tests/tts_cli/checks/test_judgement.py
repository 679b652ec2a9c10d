"""Verdicts: what was heard, beside what is usual for its voice and its recogniser."""

from __future__ import annotations

from typing import Any

import pytest
from spoken_folders import TEXT, record

from tts_cli.checks.baselines import Usual, Voices
from tts_cli.checks.judgement import LETTER_ERROR, Ears, judged, length_of, said_twice, verdict_of
from tts_cli.checks.verdicts import SUSPECT, Check, Heard, Stretch
from tts_cli.core import Kind, Remark
from tts_cli.store.take import Take

WORDS = TEXT.split()


def speech(**changes: Any) -> Take:
    made = Take.of(record("a", sha256="aa", **changes))
    assert made is not None
    return made


def heard(*stretches: tuple[str, str], error: float = 0.0, wrong: int = 0, run: int = 0) -> Heard:
    pieces = tuple(Stretch(*pair) for pair in stretches) or (Stretch(TEXT, TEXT),)
    return Heard("ear", "", error, "words", len(WORDS), run, error, wrong, pieces)


def kinds(
    found: Heard,
    row: Take | None = None,
    usually: float = 0.0,
    count: int = 20,
    uneven_s: float = 0.05,
) -> list[str]:
    others = [speech(audio_s=4 + place % 5 * uneven_s) for place in range(20)]
    ears = Ears(
        (other, heard(error=usually * (0.5 + place % 3 / 2)))
        for place, other in enumerate(others[:count])
    )
    return [
        reason.kind
        for reason in verdict_of(row or speech(), "", Voices(others), (found, ears)).reasons
    ]


def test_a_row_that_was_understood_is_fine() -> None:
    assert kinds(heard()) == []
    assert kinds(heard(error=0.1, wrong=4)) == []


def test_another_text() -> None:
    assert kinds(heard(error=0.8)) == ["words"]


def test_a_garbled_stretch_that_the_mean_hides() -> None:
    assert kinds(heard(error=0.05, wrong=40, run=9)) == ["garbled"]


def test_what_is_usual_for_a_voice_is_forgiven_between_bounds() -> None:
    assert kinds(heard(error=0.4)) == ["words"], "others are understood"
    assert kinds(heard(error=0.4), usually=0.1) == [], "hard to understand"
    assert kinds(heard(error=0.9), usually=0.4) == ["words"], "nobody can be that hard"
    assert kinds(heard(error=0.4), count=3) == [], "too few to tell"
    assert kinds(heard(error=0.9), count=3) == ["words"]
    assert LETTER_ERROR.limit(None) == LETTER_ERROR.most
    assert LETTER_ERROR.limit(Usual(0.0, 0.0)) >= LETTER_ERROR.least


def test_words_said_twice_and_words_lost() -> None:
    half = " ".join(WORDS[:8])
    rest = " ".join(WORDS[8:])
    twice = heard((half, half), ("", half), (rest, rest), error=0.3)
    lost = heard((half, half), (rest, ""), error=0.3)
    assert length_of(twice) > 1.3
    assert kinds(twice, usually=0.2) == ["more"]
    assert kinds(lost, usually=0.2) == ["less"]


def test_a_small_difference_counts_where_the_rate_says_the_same() -> None:
    more = heard((TEXT, TEXT), ("", "many words"), error=0.1)
    assert length_of(more) == pytest.approx(1.13, abs=0.02)
    assert kinds(more) == []
    assert kinds(more, speech(audio_s=4.8)) == ["more"]
    assert kinds(more, speech(audio_s=3.5)) == [], "but it was faster"
    slow = speech(audio_s=5.2)
    assert kinds(more, slow) == ["more"]
    assert kinds(more, slow, uneven_s=0.3) == [], "such a voice often is as slow"


def test_without_a_recogniser_the_journal_alone_judges() -> None:
    others = [speech() for _ in range(9)]
    reasons = verdict_of(speech(level_dbfs=-3.0), "", Voices(others), None).reasons
    assert [reason.kind for reason in reasons] == ["loud"]


def test_one_answer_for_all_who_ask() -> None:
    """What `check` noted counts for its audio alone, and only what needed a recogniser: the rest
    is judged anew.
    """
    voices = Voices([speech() for _ in range(9)])
    reasons = (Remark(Kind.WORDS, "all", 3.0), Remark(Kind.SLOW, "then", 2.0))
    check = Check("a", 1, "aa", SUSPECT, reasons)
    assert [reason.kind for reason in judged(speech(), voices, check)] == ["words"]
    assert judged(speech(), voices, Check("a", 1, "bb", SUSPECT, reasons)) == []
    assert judged(speech(), voices, None) == []


def test_a_phrase_that_is_heard_twice_needs_less() -> None:
    """Unless the text has it twice too, or it is no more than two short words."""
    head, tail = " ".join(WORDS[:6]), " ".join(WORDS[6:])
    again = heard((head, head), ("", "the long street"), (tail, tail), error=0.1)
    assert said_twice(again) == "the long street"
    assert kinds(again, usually=0.2) == ["more"]
    short = heard((head, head), ("", "long"), (tail, tail), error=0.05)
    assert said_twice(short) is None
    both = f"{head} the long street {tail}"
    assert said_twice(heard((both, both))) is None
    signs = Heard("ear", "", 0.1, "characters", 5, 0, 0.1, 0, (Stretch("abcde", "abcdabcde"),))
    assert said_twice(signs) == "abcd"


@pytest.mark.parametrize(
    ("text", "said", "phrase"),
    [
        # As pocketsphinx heard the sample voice, which was given some words twice,
        (
            "thank you for calling the county library all of our lines are busy right now",
            "sent you for calling you for calling the county library all of our lines are busy"
            " right now",
            "you for calling",
        ),
        (
            "a motion to adjourn was made by mr petrov and seconded by ms ramirez",
            "i'm ashamed to adjourn muslim aid by mr peterman second in mr peterman seconded by ms"
            " ran errands",
            "mr peterman second in",
        ),
        # or not.
        (
            "a motion to adjourn was made by mr petrov and seconded by mr petrov and seconded by ms"
            " ramirez",
            "i'm ashamed to adjourn muslim aid by mr peterman second in mr peterman seconded by ms"
            " ran errands",
            None,
        ),
        (
            "the child was a boy of seven called peter lindqvist gray in the face",
            "the child was a glance and then call the airline kissed grey and the face rather than"
            " the face",
            None,
        ),
        ("and past the nine and past the eight", "and past the nine and past the eight", None),
    ],
)
def test_words_said_twice_as_they_are_heard(text: str, said: str, phrase: str | None) -> None:
    assert said_twice(heard((text, said))) == phrase
