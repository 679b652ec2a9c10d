"""Lexicon and normaliser together."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.base import ModelInfo
from models.fish_speech.family import PACE
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.text.frontend import TextFrontend
from tts_cli.text.lexicon import Entry, Lexicon

WORDS = Lexicon(
    (
        Entry("5G", "five gee", None, False, 1),
        Entry("NASA", "nassa", "english", False, 2),
        Entry("Dr.", "Dr.", None, True, 3),
    )
)


def test_the_lexicon_comes_first_and_the_normaliser_leaves_its_words_alone() -> None:
    care = TextFrontend(WORDS, is_normalized=True, language="english")
    reading = care.read("Dr. Hill of NASA has 5G and 5 km.")
    assert reading.spoken == "Dr. Hill of nassa has five gee and five kilometers."
    assert [(change.spoken, change.line) for change in reading.edits] == [
        *(("Dr.", 3), ("nassa", 2), ("five gee", 1), ("five kilometers.", None))
    ]


def test_a_text_of_unknown_language_takes_only_entries_for_any() -> None:
    care = TextFrontend(WORDS, is_normalized=True)
    assert care.read("NASA has 5G and 5 km.").spoken == "NASA has five gee and 5 km."
    assert care.read("NASA has 5 km.", "English").spoken == "nassa has five kilometers."
    assert care.read("NASA hat 5.", "german").spoken == "NASA hat fünf."


def test_entries_that_no_text_had_are_told_in_one_line() -> None:
    care = TextFrontend(Lexicon(WORDS.entries, Path("words.tsv")))
    care.read("It is 5G.")
    assert care.unused() == "words.tsv: 2 of 3 entries occur in no text: 'NASA', 'Dr.'"
    care.read("Dr. Hill of NASA", "english")
    assert care.unused() is None
    many = tuple(Entry(f"w{number}", "x", None, False, number) for number in range(10))
    unused = TextFrontend(Lexicon(many, Path("words.tsv"))).unused()
    assert unused is not None
    assert unused.endswith(
        "10 of 10 entries occur in no text: 'w0', 'w1', 'w2', 'w3', 'w4', 'w5', 'w6', 'w7', ..."
    )


def test_a_family_s_markup_is_no_text() -> None:
    care = TextFrontend(WORDS, is_normalized=True, language="english", markup=PACE.markup)
    text = "[5G pause] It is 5 <|speaker:1|> NASA"
    assert care.read(text).spoken == "[5G pause] It is five <|speaker:1|> nassa"


def test_a_text_that_is_left_is_one_that_reading_does_not_change() -> None:
    """Most rows are left by a look at their signs and words, and are never read."""
    care = TextFrontend(is_normalized=True, language="english", is_typed=True, markup=PACE.markup)
    plain = ["The ferry leaves at noon.", "Wait, what? No!", "It is late -- come in."]
    others = ["[laughs] Come in.", "Come [pause 500ms] in.", "5 apples.", "NASA.", "A caf\u00e9."]
    others += ["Mr. Hill", "It\u2019s late.", "Come\u00a0in."]
    assert [text for text in plain + others if care.leaves(text)] == plain
    assert [care.read(text).spoken for text in plain] == plain
    assert not any(care.leaves(text, "german") for text in plain)
    assert not TextFrontend(WORDS, is_normalized=True, language="english").leaves(plain[0])


def test_without_care_a_text_is_spoken_as_it_is_and_no_pattern_is_compiled() -> None:
    program = (
        "import sys; from tts_cli.text.frontend import TextFrontend; text = 'It is $5.'\n"
        "assert TextFrontend().read(text).spoken == text\n"
        "assert 'tts_cli.text.english.rules' not in sys.modules and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("flag", "info", "is_normalized", "language"),
    [
        (None, {}, False, None),
        ("auto", {}, True, None),
        ("German", {}, True, "german"),
        (None, {"normalizes": True}, True, None),
        ("OFF", {"normalizes": True, "languages": ("auto", "english")}, False, "english"),
        (None, {"normalizes": True, "languages": ("auto", "english")}, True, "english"),
        ("french", {"languages": ("auto",)}, True, "french"),
    ],
)
def test_flag_then_checkpoint_decide(
    make_info: Callable[..., ModelInfo],
    flag: str | None,
    info: dict[str, Any],
    is_normalized: bool,
    language: str | None,
) -> None:
    care = TextFrontend.of(RunConfig(normalize=flag), make_info(**info))
    assert (care.is_normalized, care.language) == (is_normalized, language)
    assert care.leaves("2") is not is_normalized
    assert (care.known("auto"), care.known("Auto")) == (language, language)
    assert care.known("French") == "french"


def test_a_language_without_rules_cannot_be_asked_for(make_info: Callable[..., ModelInfo]) -> None:
    with pytest.raises(UsageError, match="--normalize 'chinese': must be auto, off, or one of en"):
        TextFrontend.of(RunConfig(normalize="chinese"), make_info())
