"""The floor below which speech cannot be all of its text."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases

from models.fish_speech.family import PACE as FISH
from models.pace import LONGEST_CHARS, SLACK_CHARS, Pace
from models.registry import describe

CASES = cases(__file__)["pace"]

ONE = Pace(letter=1.0, ideograph=3.0, syllable=2.0, other=0.5)
SENTENCES = Path(__file__).parents[2] / "samples" / "voice" / "recipe"
SAMPLE_VOICE = SENTENCES.parent / "checkpoint"


def floor(text: str, pace: Pace = ONE) -> int:
    """Of the text behind as many letters as count for nothing."""
    return pace.least_frames("ab" * (SLACK_CHARS // 2) + text)


@pytest.mark.parametrize(("text", "frames"), CASES["letters_and_digits_count"])
def test_letters_and_digits_count(text: str, frames: int) -> None:
    assert floor(text) == frames


@pytest.mark.parametrize(
    ("text", "frames"),
    [("早上好", 9), ("ありがとう", 10), ("ｱｲｳ", 6), ("안녕", 4), ("שלום", 2), ("𠀀𠀁", 6)],
)
def test_every_script_has_its_own_floor(text: str, frames: int) -> None:
    """The slack takes what costs most first, so these texts are made of one script alone."""
    assert ONE.least_frames(text * 30) == frames * 30 - SLACK_CHARS * frames // len(text)


def test_short_texts_need_nothing() -> None:
    assert ONE.least_frames("Hello there.") == 0
    assert ONE.least_frames("早" * SLACK_CHARS) == 0


def test_what_a_family_does_not_speak_does_not_count() -> None:
    text = "<|speaker:0|>[whispering in a very small voice] " + "ab" * 20
    assert FISH.least_frames(text) == FISH.least_frames("ab" * 20) > 0
    assert FISH.without_markup("a[b]c<|speaker:1|>d") == "a c d"


def test_texts_too_long_to_be_spoken_well_have_a_higher_floor() -> None:
    """Two rows of 531 characters once lost more than half of their words and were ok."""
    pace = Pace(letter=0.7, longest_chars=300)
    assert pace.least_frames("a" + "bc" * 149) == int(0.7 * (299 - 12))
    assert pace.least_frames("ab" * 150 + "c") == int(0.7 * 1.15 * (301 - 12))


def test_no_figures_no_floor() -> None:
    assert Pace().least_frames("x y" * 500) == 0
    assert not Pace().is_long("x" * 10_000)


def test_long_rows() -> None:
    pace = Pace.of_people(12.5)
    assert not pace.is_long("a" * LONGEST_CHARS)
    assert pace.is_long("a" * (LONGEST_CHARS + 1))
    assert pace.is_long("早" * (LONGEST_CHARS // 3 + 1))
    assert not FISH.is_long("[" + "x" * LONGEST_CHARS + "] Hello.")


@pytest.mark.parametrize("name", ["qwen3-tts-0.6b", "fish-s2-pro"])
def test_random_weights_state_none(name: str) -> None:
    assert describe(f"synthetic:{name}").pace is None


def test_half_of_a_text_is_below_the_floor_and_fast_speech_is_not() -> None:
    """At usual rates of reading aloud (13 letters a second, 4.5 ideographs)."""
    for frames_a_s in (12.5, 44100 / 2048):
        pace = Pace.of_people(frames_a_s)
        for text, rate in (("abcde " * 100, 12.5), ("早上" * 200, 4.5)):
            usual = sum(map(str.isalnum, text)) / rate * frames_a_s
            assert 0.4 * usual < pace.least_frames(text) < 0.6 * usual


def test_the_sample_voice_states_its_own() -> None:
    pace = describe(str(SAMPLE_VOICE)).pace
    assert pace == Pace(letter=0.7, longest_chars=300)
    for line in (SENTENCES / "sentences_long.txt").read_text().splitlines():
        assert not pace.is_long(line)
        letters = sum(map(str.isalnum, line))
        assert pace.least_frames(line) > 0.55 * 0.93 * letters  # more than half of the median
