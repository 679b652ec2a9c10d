"""Prepare a text for synthesis: apply the lexicon, then the normalizer ($5 becomes five dollars),
then typographic cleaning for voices that need it.

Words that the lexicon replaces are not changed again, and markup of a model family is never
changed. English has its own rules (`english/`); numbers of other languages are read by num2words.
Tokens that are not understood stay as written; nothing is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tts_cli.errors import UsageError
from tts_cli.named import counted, first_few
from tts_cli.text import languages, phones
from tts_cli.text.languages import named_language
from tts_cli.text.lexicon import Lexicon, read_lexicon
from tts_cli.text.normalized_text import ODD_SPACE, Edit, NormalizedText
from tts_cli.text.pauses import pause_spans
from tts_cli.text.rule import apply_rules

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.config import RunConfig


AUTO, OFF, ENGLISH = "auto", "off", "english"
MAX_UNUSED = 8  # entries that a message names
_DIGIT = re.compile("[0-9]")
_ENTITY = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_LOUD = re.compile("[A-Z]{2}")


@dataclass(frozen=True)
class TextFrontend:
    lexicon: Lexicon = field(default_factory=Lexicon)
    is_normalized: bool = False
    language: str | None = None  # of texts whose language is not known; None: left alone
    is_typed: bool = False  # whether the checkpoint was trained on plain typed text
    markup: str | None = None  # regular expression of markup, which is not synthesized
    num_respelled: int = 0  # entries with sounds that the model does not read
    used: set[int] = field(default_factory=set, compare=False)  # lines of the lexicon, so far

    @classmethod
    def of(cls, config: RunConfig, info: ModelInfo) -> TextFrontend:
        """Return the frontend of a run. A text of language `auto` has the language that
        `--normalize` names, else the only one of the checkpoint. Raises UsageError if the language
        has no rules, or the lexicon has invalid lines.
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
        lexicon = Lexicon() if config.lexicon is None else read_lexicon(config.lexicon)
        has_phones = info.pace is not None and phones.has_phones(info.pace.unbroken)
        return cls(
            lexicon=lexicon.for_model(has_phones),
            num_respelled=0 if has_phones else lexicon.num_phonetic,
            is_normalized=asked != OFF,
            language=language,
            is_typed=info.normalizes and asked != OFF,
            markup=None if info.pace is None else info.pace.markup,
        )

    def leaves(self, text: str, language: str = AUTO) -> bool:
        """Return whether a text is certain to be synthesized as written; a cheap check."""
        if self.lexicon.entries or not (text.isascii() or ODD_SPACE.search(text) is None):
            return False
        if not self.is_normalized:
            return True
        if self.known(language) != ENGLISH or (self.markup and re.search(self.markup, text)):
            return False
        if self.is_typed and not (text.isascii() and _LOUD.search(text) is None):
            return False
        # Imported here: see `normalize`.
        from tts_cli.text.english.rules import is_plain

        return is_plain(text)

    def read(self, text: str, language: str = AUTO, own: Lexicon | None = None) -> NormalizedText:
        """Return the normalized text. The row's `own` lexicon comes first. Raises SetupError."""
        known = self.known(language)
        protected = pause_spans(text)
        if "&" in text:  # entities are one sign each
            protected += [match.span() for match in _ENTITY.finditer(text)]
        if self.markup is not None:
            protected += [match.span() for match in re.finditer(self.markup, text)]
        edits = [] if own is None else own.edits(text, known, protected)
        if self.lexicon.entries:
            spans = [(edit.start, edit.end) for edit in edits]
            found = self.lexicon.edits(text, known, protected + spans)
            self.used.update(edit.line for edit in found if edit.line is not None)
            edits += found
        if self.is_normalized and known is not None:
            protected += [(edit.start, edit.end) for edit in edits]
            edits += normalize(text, known, protected)
        return NormalizedText.of(text, self._typed(text, edits, protected))

    def finished(self, text: str) -> str:
        """Clean a text that has passed the lexicon and the rules."""
        return NormalizedText.of(text, self._typed(text, [], pause_spans(text))).spoken

    def _typed(self, text: str, edits: list[Edit], protected: list[tuple[int, int]]) -> list[Edit]:
        """Return the edits, with typographic ones added for a checkpoint trained on typed texts."""
        if not self.is_typed:
            return edits
        if not edits and text.isascii() and _LOUD.search(text) is None:
            return edits  # typed already
        # Imported here: see `normalize`.
        from tts_cli.text.typed import as_typed, typed

        protected = [*protected, *((edit.start, edit.end) for edit in edits)]
        edits = [replace(edit, spoken=as_typed(edit.spoken)) for edit in edits]
        return edits + typed(text, protected)

    def unused(self) -> str | None:
        """Return a line about entries of the lexicon that no text contained so far, or None."""
        entries = self.lexicon.entries
        words = [entry.written for entry in entries if entry.line not in self.used]
        if not words:
            return None
        named = first_few([*map(repr, words)], MAX_UNUSED)
        return (
            f"{self.lexicon.path}: {len(words)} of "
            f"{counted(len(entries), 'entry', 'entries')} occur in no text: {named}"
        )

    def respelled(self) -> str | None:
        """Return a line about sounds that the model does not read, or None."""
        if not self.num_respelled:
            return None
        entries = counted(self.num_respelled, "entry has", "entries have")
        return (
            f"{self.lexicon.path}: {entries} sounds, which this model does not read. IPA and "
            "ARPAbet are respelled in letters, pinyin is left out. Try them with "
            "`tts-cli lexicon test`"
        )

    def left_as_written(self, spoken: str, language: str = AUTO) -> str | None:
        """Return the first number of a normalized text that no English rule understood, or None."""
        if not (self.is_normalized and _DIGIT.search(spoken)) or self.known(language) != ENGLISH:
            return None
        from tts_cli.text.english.numeric_tokens import left_as_written

        return left_as_written(re.sub(self.markup, " ", spoken) if self.markup else spoken)

    def known(self, language: str) -> str | None:
        """Return the language of a text by its language setting, or None if unknown."""
        name = language.lower()
        return self.language if name == AUTO else name

    def facts(self) -> dict[str, Any]:
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


LANGUAGES = (ENGLISH, *languages.LANGUAGES)


def normalize(text: str, language: str, protected: Sequence[tuple[int, int]] = ()) -> list[Edit]:
    """Return the edits that normalize a text. Raises SetupError if a library is missing.

    Args:
        language: one of LANGUAGES; texts of other languages are not changed.
        protected: spans (start, end) that no rule may change: markup, words of the lexicon.
    """
    if language == ENGLISH:
        # Imported here: its many patterns take longer to compile than most manifests to read.
        from tts_cli.text.english.rules import edits as english_edits

        return english_edits(text, protected)
    if language in languages.LANGUAGES:
        return apply_rules(languages.rules_of(language), text, protected)
    return []
