"""Find what a user should know about rows that are synthesized nevertheless. Notes on a single
row are texts; those on the rows of a manifest become events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tts_cli.config import RunConfig
from tts_cli.core import Row
from tts_cli.events import Event
from tts_cli.named import shown
from tts_cli.plan.free_voices import FreeVoices
from tts_cli.plan.split_rule import BYTES_PER_CHAR, SplitRule
from tts_cli.sources.decode import garbled
from tts_cli.sources.lists import transcript_marks
from tts_cli.sources.subtitles import cue_length_s
from tts_cli.text.frontend import LANGUAGES, TextFrontend
from tts_cli.text.pauses import has_pauses, without_pauses
from tts_cli.text.words import SILENCE_S, are_latin, is_foreign, markup_in, usual_s
from tts_cli.voices.generated import is_made
from tts_cli.voices.needs import Cloning

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest

_PLAIN = re.compile(r"[A-Za-z ,.!?'\n-]*")  # no figures, no markup, no other letters


class Note(NamedTuple):
    about: Event
    text: str = ""  # sentence about the row alone; empty: reported for many rows only
    kind: str = ""  # group in which rows are reported; empty: rows with the same text
    what: str = ""  # fact for the sentence about many rows


class Notes:
    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        care: TextFrontend,
        split_rule: SplitRule,
        voices: FreeVoices,
    ) -> None:
        self._config = config
        self._info = info
        self._care = care
        self._split_rule = split_rule
        self._voices = voices
        self._is_latin = are_latin(info.languages)
        self._longest = 0 if info.pace is None else info.pace.longest_chars or 0
        self._well = f"the {self._longest} characters or so that this checkpoint synthesizes well"
        # `instruct` describes the voice to generate, although the model that clones it ignores it.
        self._is_described = voices.maker.info.needs_instruct

    def of_text(self, row: Row, request: SpeechRequest, is_silent: bool) -> Iterator[Note]:
        """Yield the notes on a row's text and on fields that the checkpoint ignores."""
        info, care = self._info, self._care
        if is_silent:
            is_bad = self._config.wordless == "fail"
            fate = "they will fail" if is_bad else f"{SILENCE_S:g} s of silence each"
            yield Note(Event.WORDLESS, "has no letter or digit, so it becomes silence", what=fate)
            return
        if care.is_normalized and (known := care.known(request.language)) not in LANGUAGES:
            why = f"in {known}, which has no rules for figures, so they stay as written"
            if known is None:
                why = "of unknown language, so figures stay as written; "
                why += "give --language, or a language with --normalize"
            yield Note(Event.UNREAD, kind=why, what=why)
        text, written = request.text, row.text
        if "[" in row.text:  # as written: figures of `text` may be words already
            has_marks = has_pauses(row.text)
            if has_marks and not has_pauses(text):
                lost = "its pauses are left out, because its voice would change after a pause"
                yield Note(Event.PAUSES, lost)
            elif has_marks:
                text, written = without_pauses(text), without_pauses(written)
            unread = row.text if info.pace is None else info.pace.without_markup(row.text)
            for name, mark in transcript_marks(unread):
                yield Note(Event.MARKUP, f"{name} ({mark!r}) would be read aloud; remove it", name)
        if _PLAIN.fullmatch(text) is None or "www." in text:
            yield from self._of_odd_text(text, written, request.language)
        cue_s = None if row.extra is None else cue_length_s(row.extra)
        if cue_s is not None and (needed_s := usual_s(text)) > cue_s:
            late = f"takes about {needed_s:.1f} s, but its cue has only {cue_s:.1f} s"
            yield Note(Event.CUE, late, "cue")
        if row.instruct is not None and not (info.takes_instruct or self._is_described):
            yield Note(Event.INSTRUCT, "has instruct, which this checkpoint ignores")
        is_asked = self._is_described and (info.needs_instruct or is_made(request.voice))
        if is_asked and row.instruct is None and row.character is None:
            why = "so its voice is not described to this checkpoint"
            yield Note(Event.NO_INSTRUCT, f"has no instruct, {why}")

    def _of_odd_text(self, text: str, written: str, language: str) -> Iterator[Note]:
        """Yield the notes on a text with figures, markup or letters of another script.

        Args:
            written: the text of the row, in which a user can search for its markup.
        """
        info = self._info
        if figure := self._care.left_as_written(text, language):
            left = "is not understood and left as written; add it to a --lexicon"
            yield Note(Event.FIGURE, f"{figure!r} {left}", what=repr(figure))
        if self._is_latin and is_foreign(text):
            known = ", ".join(name for name in info.languages if name != "auto")
            problem = f"is in letters that this checkpoint does not support; it has {known}"
            yield Note(Event.FOREIGN, f"{problem}; choose another with --model")
        if wrong := garbled(text):
            problem = f"contains {wrong!r}, which is text decoded in a wrong encoding"
            yield Note(Event.GARBLED, f"{problem}; take it from its source again", "garbled")
        if markups := markup_in(text, info.pace):  # without the lexicon's words
            shown = {one.kind: str(one) for one in markup_in(written, info.pace)}
            for kind in (one.kind for one in markups if one.kind in shown):
                yield Note(Event.MARKUP, shown[kind], kind)

    def of_recording(
        self, row: Row, cloning: Cloning, decodes_audio: bool = False
    ) -> Iterator[Note]:
        """Yield the notes on the recording that a row clones. Raises RowError: it cannot be used.

        Args:
            decodes_audio: decode the recording, to find one without a voice.
        """
        if row.ref_audio is None:
            return
        if problem := cloning.transcript_problem(row.ref_audio, row.ref_text):
            yield Note(Event.RECORDING, problem)
        for oddity in cloning.files.heard(row.ref_audio) if decodes_audio else ():
            yield Note(Event.RECORDING, oddity)

    def of_due(
        self, row: Row, request: SpeechRequest, *, is_silent: bool, is_joined: bool
    ) -> Iterator[Note]:
        """Yield the notes on a pending row. `is_joined`: its audio is joined from pieces."""
        config, rule = self._config, self._split_rule
        has_own = row.max_frames is not None or row.max_seconds is not None
        if has_own and config.retry_failed and config.max_seconds is not None:
            yield Note(Event.OWN_CAP, what=f"{config.max_seconds:g}")
        if is_joined and 0 < self._longest < rule.limit:
            yield Note(Event.LIMIT, what=f"{rule.limit} allows longer pieces than {self._well}")
        may_be_long = self._longest < BYTES_PER_CHAR * len(request.text)
        if may_be_long and not (is_joined or is_silent) and (reason := rule.why_whole(request)):
            spoken = f"and not split: {reason}; words may be lost"
            text = f"is longer than {self._well}, {spoken}"
            yield Note(Event.WHOLE, text, reason, self._well)
        if self._voices.is_one and self._voices.is_unheard(row, request):
            whose = shown(row.character)
            yield Note(
                Event.UNHEARD,
                f"its instruct differs from the one that the voice of {whose} was generated with",
            )
