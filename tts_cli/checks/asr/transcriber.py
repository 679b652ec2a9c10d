"""Requests for the takes of a folder, and comparisons of the transcripts with their texts, for
finished folders and for running commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from tts_cli.checks.asr.compare import compare
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult, Identity
from tts_cli.checks.verdicts import Transcript
from tts_cli.events import Event
from tts_cli.store.entry import JournalEntry
from tts_cli.text.languages import code_of, may_be_english


class Transcriber:
    """Decides which takes a recognizer can transcribe.

    Args:
        text: settings of the text in run.json; anything else is ignored.
    """

    def __init__(self, identity: Identity, text: Any) -> None:
        self.identity = identity
        auto = text.get("auto_language") if isinstance(text, Mapping) else None
        self._auto = auto if isinstance(auto, str) else None

    def has_made(self, transcript: Transcript | None) -> bool:
        return transcript is not None and transcript.recognizer == self.identity.name

    def skipped(self, take: JournalEntry) -> Event | None:
        """Return why a take cannot be transcribed: `WITHOUT_WORDS`, `OTHER_LANGUAGE`, or None."""
        if take.said is None or not take.letters:
            return Event.WITHOUT_WORDS
        return None if self.is_supported(take) else Event.OTHER_LANGUAGE

    def is_supported(self, take: JournalEntry) -> bool:
        """Whether the recognizer supports the language of a take. A multilingual recognizer
        detects it if the manifest does not state it.
        """
        languages, code = self.identity.languages, self.language_of(take)
        if not languages or code is not None:
            return not languages or code in languages
        if len(languages) > 1:
            return (take.language or "auto").casefold() == "auto"
        return may_be_english(take.said or "")

    def request(self, place: int, path: Path, take: JournalEntry) -> AsrRequest:
        gaps_s = tuple((part["end_s"], next_["start_s"]) for part, next_ in pairwise(take.parts))
        return AsrRequest(place, path, self.language_of(take), gaps_s)

    def transcript(self, take: JournalEntry, result: AsrResult) -> Transcript | None:
        """Return a result compared with the text of its take; None: the text has no words."""
        forms, identity = (take.spoken_text, take.text), self.identity
        language = self.language_of(take)
        return compare(forms, result.text, language, identity.name, identity.spellings)

    def language_of(self, take: JournalEntry) -> str | None:
        """Return the code of the language of a take; None: unknown."""
        for name in (take.language, self._auto):
            if name and (code := code_of(name)):
                return code
        return None
