"""Figures, signs and abbreviations as a reader says them: $5 is five dollars, Dr. is Doctor.

English has rules of its own (`english/`), in the American way: no "and" inside numbers, the month
first in 10/3/1999. Other languages have their numbers read, as far as num2words knows them. What is
not understood stays as it is written, and nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from tts_cli.text import other_languages
from tts_cli.text.reading import Change
from tts_cli.text.rule import apply_rules

LANGUAGES = ("english", *other_languages.LANGUAGES)


def normalize(text: str, language: str, taken: Sequence[tuple[int, int]] = ()) -> list[Change]:
    """What of a text is said otherwise than it is written.

    Args:
        language: one of LANGUAGES; with any other the text is left alone.
        taken: places (start, end) nobody shall change: markup, a lexicon's entries.
    Raises:
        SetupError: the language needs a library that is missing.
    """
    if language == "english":
        # Imported here: its many patterns take longer to compile than most manifests to read.
        from tts_cli.text.english.rules import changes

        return changes(text, taken)
    if language in other_languages.LANGUAGES:
        return apply_rules(other_languages.rules_of(language), text, taken)
    return []
