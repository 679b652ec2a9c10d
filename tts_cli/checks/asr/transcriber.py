"""What a recogniser is asked to hear of the takes of a folder, and its answers held against their
texts: the same for takes of a folder and for those of a run that goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from tts_cli.checks.asr.compare import compare
from tts_cli.checks.asr.recognizer import Answer, Asked, Identity
from tts_cli.checks.verdicts import Heard
from tts_cli.store.take import Take
from tts_cli.text.languages import code_of, may_be_english


class Listener:
    """Args:
    identity: of the recogniser.
    text: how the run read texts, as run.json has it; what makes no sense is not known.
    """

    def __init__(self, identity: Identity, text: Any) -> None:
        self.identity = identity
        auto = text.get("auto_language") if isinstance(text, Mapping) else None
        self._auto = auto if isinstance(auto, str) else None

    def knows(self, heard: Heard | None) -> bool:
        """Whether this recogniser has heard it already."""
        return heard is not None and heard.recogniser == self.identity.name

    def has_words(self, speech: Take) -> bool:
        """Whether there is anything to hear."""
        return speech.said is not None and bool(speech.letters)

    def is_fluent(self, speech: Take) -> bool:
        """Whether it hears a take's language; one of several finds out what nobody tells."""
        languages, code = self.identity.languages, self.language_of(speech)
        if not languages or code is not None:
            return not languages or code in languages
        if len(languages) > 1:
            return (speech.language or "auto").casefold() == "auto"
        return may_be_english(speech.said or "")

    def asked(self, place: int, path: Path, speech: Take) -> Asked:
        """What it is told of a take."""
        gaps_s = tuple((part["end_s"], next_["start_s"]) for part, next_ in pairwise(speech.parts))
        return Asked(place, path, self.language_of(speech), gaps_s)

    def heard(self, speech: Take, answer: Answer) -> Heard | None:
        """What it heard in a take; None: its text has nothing to say."""
        forms = speech.spoken_text, speech.text
        identity = self.identity
        language = self.language_of(speech)
        return compare(forms, answer.text, language, identity.name, identity.spellings)

    def language_of(self, speech: Take) -> str | None:
        """The code of a take's language, as it was spoken; None: not told."""
        for told in (speech.language, self._auto):
            if told and (code := code_of(told)):
                return code
        return None
