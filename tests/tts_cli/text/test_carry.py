"""Speaker and style tags go on in the next part."""

from __future__ import annotations

import pytest

from models.fish_speech.family import PACE
from tts_cli.text.split import with_tags_in_force


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        (["One.", "Two."], ["One.", "Two."]),
        (["<|speaker:1|>One.", "Two."], ["<|speaker:1|>One.", "<|speaker:1|>Two."]),
        (
            ["<|speaker:0|>One.<|speaker:1|>[sad] Two.", "Three.", "[glad] Four.", "Five."],
            [
                "<|speaker:0|>One.<|speaker:1|>[sad] Two.",
                "<|speaker:1|>[sad]Three.",
                "<|speaker:1|>[glad] Four.",
                "<|speaker:1|>[glad]Five.",
            ],
        ),
        # Another speaker does not speak in the last one's manner, and an empty turn is no turn.
        (
            ["<|speaker:0|>[sad] One.", "<|speaker:1|>Two."],
            ["<|speaker:0|>[sad] One.", "<|speaker:1|>Two."],
        ),
        (
            ["<|speaker:0|>[sad] One.", "Two.<|speaker:1|>Three.", "Four."],
            [
                "<|speaker:0|>[sad] One.",
                "<|speaker:0|>[sad]Two.<|speaker:1|>Three.",
                "<|speaker:1|>Four.",
            ],
        ),
        # A sound is made once.
        (
            ["[whisper] One [laughing] two.", "Three [short pause]", "Four."],
            ["[whisper] One [laughing] two.", "[whisper]Three [short pause]", "[whisper]Four."],
        ),
    ],
)
def test_fish_speech(parts: list[str], wanted: list[str]) -> None:
    assert list(with_tags_in_force(parts, PACE.tags)) == wanted


def test_a_family_without_tags() -> None:
    assert list(with_tags_in_force(["[sad] One.", "Two."], ())) == ["[sad] One.", "Two."]
