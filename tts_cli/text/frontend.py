"""Prepare a text before it is spoken: the lexicon first, then the normaliser, and the printed marks
for a voice that needs it.

The lexicon sees the text as its author wrote it, and what it says is said: the others leave those
words alone. None touches a family's markup.

Figures, signs and abbreviations as a reader says them: $5 is five dollars, Dr. is Doctor.

English has rules of its own (`english/`), in the American way: no "and" inside numbers, the month
first in 10/3/1999. Other languages have their numbers read, as far as num2words knows them. What is
not understood stays as it is written, and nothing is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tts_cli.errors import UsageError
from tts_cli.named import counted, first_few
from tts_cli.text import languages
from tts_cli.text.languages import named_language
from tts_cli.text.lexicon import Lexicon, read_lexicon
from tts_cli.text.normalized_text import ODD_SPACE, Edit, NormalizedText
from tts_cli.text.pauses import pause_spans
from tts_cli.text.rule import apply_rules

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.config import RunConfig


AUTO, OFF = "auto", "off"
MAX_UNUSED = 8  # entries that a message names
_DIGIT = re.compile("[0-9]")
_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_LOUD = re.compile("[A-Z]{2}")


@dataclass(frozen=True)
class TextFrontend:
    """How all texts of a run are read."""

    lexicon: Lexicon = field(default_factory=Lexicon)
    is_normalized: bool = False
    language: str | None = None  # of texts whose language is not known; None: left alone
    is_typed: bool = False  # printed marks and capitals are not known to the checkpoint either
    markup: str | None = None  # regular expression of what stands in a text and is not spoken
    used: set[int] = field(default_factory=set, compare=False)  # lines of the lexicon, so far

    @classmethod
    def of(cls, config: RunConfig, info: ModelInfo) -> TextFrontend:
        """What the settings of a run say. A text of language `auto` is of the language that
        `--normalize` names, else of the checkpoint's where it has but one.

        Raises:
            UsageError: there are no rules for the language, or the lexicon has bad lines.
        """
        asked = (config.normalize or (AUTO if info.normalizes else OFF)).lower()
        own = [name for name in info.languages if name != AUTO]
        language = own[0] if len(own) == 1 else None
        if asked not in (AUTO, OFF):
            language = named_language(asked, LANGUAGES)
            if language not in LANGUAGES:
                known = ", ".join(LANGUAGES)
                raise UsageError(
                    f"--normalize {config.normalize!r}: must be auto, off, or one of {known}"
                )
        return cls(
            lexicon=Lexicon() if config.lexicon is None else read_lexicon(config.lexicon),
            is_normalized=asked != OFF,
            language=language,
            is_typed=info.normalizes and asked != OFF,
            markup=None if info.pace is None else info.pace.markup,
        )

    @cached_property
    def _is_idle(self) -> bool:
        return not (self.is_normalized or self.lexicon.entries)

    def leaves(self, text: str) -> bool:
        """Whether a text is spoken as it is written, found at no cost. True is sure, False not."""
        return self._is_idle and (text.isascii() or ODD_SPACE.search(text) is None)

    def read(self, text: str, language: str = AUTO) -> NormalizedText:
        """A text as it is spoken. Raises SetupError, see `normalize`."""
        known = self.known(language)
        protected = pause_spans(text)
        if "&" in text:  # entities are one sign each
            protected += [match.span() for match in _ENTITY.finditer(text)]
        if self.markup is not None:
            protected += [match.span() for match in re.finditer(self.markup, text)]
        edits: list[Edit] = []
        if self.lexicon.entries:
            edits = self.lexicon.edits(text, known, protected)
            self.used.update(edit.line for edit in edits if edit.line is not None)
        if self.is_normalized and known is not None:
            protected += [(edit.start, edit.end) for edit in edits]
            edits += normalize(text, known, protected)
        return NormalizedText.of(text, self._typed(text, edits, protected))

    def finished(self, text: str) -> str:
        """A text that lexicon and rules have gone over, as it is spoken."""
        return NormalizedText.of(text, self._typed(text, [], pause_spans(text))).spoken

    def _typed(self, text: str, edits: list[Edit], protected: list[tuple[int, int]]) -> list[Edit]:
        """The edits, and those that follow them for a checkpoint that learnt typed texts."""
        if not self.is_typed:
            return edits
        if not edits and text.isascii() and _LOUD.search(text) is None:
            return edits  # typed already, as most rows are
        # Imported here: see `normalize`.
        from tts_cli.text.typed import as_typed, typed

        protected = [*protected, *((edit.start, edit.end) for edit in edits)]
        edits = [replace(edit, spoken=as_typed(edit.spoken)) for edit in edits]
        return edits + typed(text, protected)

    def unused(self) -> str | None:
        """Which entries of the lexicon were in no text that was read so far, in one line."""
        entries = self.lexicon.entries
        words = [entry.written for entry in entries if entry.line not in self.used]
        if not words:
            return None
        named = first_few([*map(repr, words)], MAX_UNUSED)
        return (
            f"{self.lexicon.path}: {len(words)} of "
            f"{counted(len(entries), 'entry', 'entries')} occur in no text: {named}"
        )

    def left_as_written(self, spoken: str, language: str = AUTO) -> str | None:
        """The first figure of a spoken text that no rule of English understood."""
        if not (self.is_normalized and _DIGIT.search(spoken)) or self.known(language) != "english":
            return None
        from tts_cli.text.english.numeric_tokens import left_as_written

        return left_as_written(re.sub(self.markup, " ", spoken) if self.markup else spoken)

    def known(self, language: str) -> str | None:
        """The language that a row's is taken for; None: nobody says."""
        name = language.lower()
        return self.language if name == AUTO else name

    def facts(self) -> dict[str, Any]:
        """What a run's report says of it."""
        lexicon = self.lexicon
        return {
            # [true, false] whether numbers, abbreviations and the like were normalized to words
            "normalize": self.is_normalized,
            # [text] language that was assumed for `auto`; null: not known
            "auto_language": self.language,
            # [text] path of the lexicon; null: none
            "lexicon": None if lexicon.path is None else str(lexicon.path),
            "lexicon_sha256": lexicon.sha256,  # SHA-256 of the lexicon
            "lexicon_entries": len(lexicon.entries),  # [number] entries of the lexicon
        }


LANGUAGES = ("english", *languages.LANGUAGES)


def normalize(text: str, language: str, protected: Sequence[tuple[int, int]] = ()) -> list[Edit]:
    """What of a text is said otherwise than it is written.

    Args:
        language: one of LANGUAGES; with any other the text is left alone.
        protected: spans (start, end) that no rule may change: markup, a lexicon's entries.
    Raises:
        SetupError: the language needs a library that is missing.
    """
    if language == "english":
        # Imported here: its many patterns take longer to compile than most manifests to read.
        from tts_cli.text.english.rules import edits as english_edits

        return english_edits(text, protected)
    if language in languages.LANGUAGES:
        return apply_rules(languages.rules_of(language), text, protected)
    return []
