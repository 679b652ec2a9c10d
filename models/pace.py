"""How fast a checkpoint can speak, to find speech that is too short for its text.

Only synthesized characters count: letters and digits, without a family's markup. A long character
("nooooo") or a number's zeros count twice at most. One character means more in some scripts than in
others, so each kind has a separate floor. The first characters are not counted (`SLACK_CHARS`): a
short text may be synthesized fast, in part, or as an abbreviation.

For a family whose weights were never measured, the floors are those of people (`of_people`). Source
of the usual rates: Pellegrino, Coupe and Marsico, "A cross-language perspective on speech
information rate", Language 87 (2011): 5.2 syllables a second in Mandarin, 6.2 in English, 7.8 in
Japanese and Spanish, without pauses. That is 16 to 18 letters a second of European languages. Users
report that texts of more than two minutes became noise or nothing at all (LostRuins/koboldcpp#2132,
jamiepine/voicebox#1077).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

LONGEST_CHARS = 1600  # two minutes of speech
SLACK_CHARS = 12  # characters without frames: two or three words
LETTERS_A_S = 25.0  # 1.4 times the usual rate; twice that of reading aloud with its pauses
IDEOGRAPHS_A_S = 10.0  # 1.9 times the usual rate of Mandarin; in Japanese one is up to three morae
SYLLABLES_A_S = 14.0  # 1.8 times the usual rate
OTHERS_A_S = 30.0  # scripts that may omit vowels, as Arabic does, or were never measured
# A text longer than the checkpoint's limit loses words, so it has a higher floor. Of the sample
# voice's rows of 531 characters in one piece, those with more than half of their words lost have
# 0.70 to 0.76 frames per letter; its rows of 340 have 0.84 and more.
LONG_SHARE = 1.15

_LONG = re.compile(r"(.)\1{2,}")  # a character three times and more
_UNSPOKEN = {code: None for code in range(128) if not chr(code).isalnum()}
# Latin, Greek, Cyrillic; Latin with further accents; full-width Latin.
_LETTERS = ((0x0, 0x052F), (0x1E00, 0x1FFF), (0xFF10, 0xFF5A))
_IDEOGRAPHS = ((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_SYLLABLES = ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D), (0xAC00, 0xD7A3))


@dataclass(frozen=True)
class Pace:
    """Figures of a family's or checkpoint's speech. Floors are frames per synthesized character;
    0: no floor for a script.
    """

    letter: float = 0.0  # of the Latin, Greek and Cyrillic alphabets, and digits
    ideograph: float = 0.0  # of Chinese, also in Japanese
    syllable: float = 0.0  # kana and hangul
    other: float = 0.0
    longest_chars: int | None = None  # UTF-8 bytes of one row that it can do well; None: not known
    markup: str | None = None  # regular expression of text that is not synthesized
    unbroken: str | None = None  # regular expression of other text that must not be split
    # Regular expressions of tags that stay in force until the next one of their kind or of an outer
    # kind; the outer kind first.
    tags: tuple[str, ...] = ()

    @classmethod
    def of_people(cls, frames_a_s: float, **more: Any) -> Pace:
        """Return the floors of people for a codec of `frames_a_s` frames per second. `more`:
        further fields.
        """
        return cls(
            letter=frames_a_s / LETTERS_A_S,
            ideograph=frames_a_s / IDEOGRAPHS_A_S,
            syllable=frames_a_s / SYLLABLES_A_S,
            other=frames_a_s / OTHERS_A_S,
            longest_chars=LONGEST_CHARS,
            **more,
        )

    def least_frames(self, text: str) -> int:
        """Return the minimum of frames of speech of the whole text; 0 if unknown."""
        floors = sorted(self._floors(text), reverse=True)
        share = LONG_SHARE if self.is_long(text) else 1.0
        return int(share * sum(floors[SLACK_CHARS:]))

    def without_markup(self, text: str) -> str:
        return text if self.markup is None else re.sub(self.markup, " ", text)

    def is_long(self, text: str) -> bool:
        if self.longest_chars is None:
            return False
        return len(self.without_markup(text).encode()) > self.longest_chars

    def _floors(self, text: str) -> list[float]:
        text = _LONG.sub(r"\1\1", self.without_markup(text))
        if text.isascii():
            return [self.letter] * len(text.translate(_UNSPOKEN))
        return [self._floor(ord(char)) for char in text if char.isalnum()]

    def _floor(self, point: int) -> float:
        for floor, blocks in (
            (self.letter, _LETTERS),
            (self.ideograph, _IDEOGRAPHS),
            (self.syllable, _SYLLABLES),
        ):
            if any(first <= point <= last for first, last in blocks):
                return floor
        return self.other


# Seconds per character: the usual rates, less a quarter for pauses in reading aloud.
_READING = Pace(letter=1 / 13, ideograph=1 / 4.5, syllable=1 / 6.5, other=1 / 12)


def reading_s(text: str) -> float:
    """Return approximate seconds that people take to read a text aloud, by its script."""
    return sum(_READING._floors(text))
