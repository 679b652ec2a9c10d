"""What is done to a text before it is spoken: the lexicon first, then the normaliser.

The lexicon sees the text as its author wrote it, and what it says is said: the normaliser leaves
those words alone. Neither touches a family's markup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tts_cli.text.lexicon import Lexicon
from tts_cli.text.reading import Reading


@dataclass(frozen=True)
class TextCare:
    """How all texts of a run are read."""

    lexicon: Lexicon = field(default_factory=Lexicon)
    is_normalized: bool = False
    language: str | None = None  # of texts whose language is not known; None: left alone
    markup: str | None = None  # regular expression of what stands in a text and is not spoken

    def read(self, text: str, language: str = "auto") -> Reading:
        """A text as it is spoken. Raises SetupError, see `normalize`."""
        known = self.language if language == "auto" else language.lower()
        taken = []
        if self.markup is not None:
            taken = [match.span() for match in re.finditer(self.markup, text)]
        changes = self.lexicon.changes(text, known, taken)
        if self.is_normalized and known is not None:
            # Imported here: its many patterns take longer to compile than a whole manifest to read.
            from tts_cli.text.normalize import normalize

            taken += [(change.start, change.end) for change in changes]
            changes += normalize(text, known, taken)
        kept = [change for change in changes if change.spoken != text[change.start : change.end]]
        return Reading.of(text, kept)
