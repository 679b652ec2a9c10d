"""Decide which rows are split into pieces, and where: `--split`.

A row is split if it is longer than its checkpoint synthesizes well and all pieces have the same
voice: that of a speaker, a recording or a voice file. A generated voice is that of one speaker, so
a text with tags of other speakers is not split.

Marked pauses split a text of any length under the same condition; otherwise they are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from models.pace import Pace
from tts_cli.audio.join import Pauses
from tts_cli.core import Piece
from tts_cli.seeds import part_seed
from tts_cli.text.pauses import has_pauses, segments, without_pauses
from tts_cli.text.split import Part, split, with_tags_in_force
from tts_cli.text.words import is_wordless, text_cap, usual_s
from tts_cli.voices.generated import is_made

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.config import RunConfig
    from tts_cli.text.normalized_text import NormalizedText

# Length limit of a piece relative to the longest unsplit row. With the sample voice 0.6 % of the
# words were wrong in pieces of up to 180 characters, 2.5 % up to 240, 2.2 % up to 300
# (sentences_dev.txt, 2,375 characters, three voices).
PART_SHARE = 0.6
PAUSES_VERSION = 1  # version of marked pauses, part of the hash of rows that have any
WORD_SHARE = 1 / 3  # pause between words, relative to the pause between clauses
BYTES_PER_CHAR = 4  # maximum of UTF-8
NO_VOICE = "its voice is not fixed and would change with every piece; "
NO_CLONING = NO_VOICE + "give a Base checkpoint that keeps it, with --clone-model"
NOT_MADE = NO_VOICE + "--free-voice one fixes it"
BY_SETTING = "because of --split"
SECOND_SPEAKER = (
    "it has tags of a second speaker, whose voice would change; give ref_audio, or split it "
    "into rows yourself"
)
FIRST_TAG = "<|speaker:0|>"  # speaker of a reference without tags


def pauses_of(config: RunConfig) -> Pauses:
    return Pauses(
        paragraph=config.pause_paragraph,
        sentence=config.pause_sentence,
        clause=config.pause_clause,
        word=WORD_SHARE * config.pause_clause,
    )


@dataclass(frozen=True)
class SplitRule:
    info: ModelInfo
    longest: int | None  # maximum UTF-8 bytes of an unsplit row; None: no row is split
    limit: int  # maximum UTF-8 bytes of a piece
    pauses: Pauses

    @classmethod
    def of(cls, config: RunConfig, info: ModelInfo) -> SplitRule:
        longest = limit = config.split_limit
        if config.split == "auto" and info.pace is not None and info.pace.longest_chars is not None:
            longest = info.pace.longest_chars
            limit = max(1, round(PART_SHARE * longest))
        return cls(info, longest, limit or 0, pauses_of(config))

    @property
    def _pace(self) -> Pace:
        return self.info.pace or Pace()

    def is_long(self, request: SpeechRequest) -> bool:
        """Return whether a text, or a segment between pauses, is too long for one piece."""
        text = request.text
        if self.longest is None or BYTES_PER_CHAR * len(text) <= self.longest:
            return False  # the usual case, without decoding
        return any(map(self._is_long, _said(text)))

    def _is_long(self, text: str) -> bool:
        return replace(self._pace, longest_chars=self.longest).is_long(text)

    def problem(self, request: SpeechRequest) -> str | None:
        """Return why a long row cannot be split, or None."""
        is_free = request.voice is None and request.ref_audio is None
        if not is_free and not is_made(request.voice):
            return None
        if self._pace.tags and set(re.findall(self._pace.tags[0], request.text)) - {FIRST_TAG}:
            return SECOND_SPEAKER
        if is_free:
            return NOT_MADE if self.info.can_clone else NO_CLONING
        return None

    def why_whole(self, request: SpeechRequest) -> str | None:
        """Return why a row longer than the checkpoint synthesizes well is not split, or None."""
        pace = self.info.pace
        if pace is None or not pace.is_long(request.text):
            return None
        if has_pauses(request.text) and not any(map(pace.is_long, _said(request.text))):
            return None
        return self.problem(request) if self.is_long(request) else BY_SETTING

    def without_lost_pauses(self, request: SpeechRequest) -> SpeechRequest:
        """Return a request without its marked pauses if the voice would change after a pause."""
        if self.problem(request) is None:
            return request
        text = without_pauses(request.text)
        if is_wordless(text, self.info.pace):
            return request  # the text has nothing but pauses
        spaced = None if request.spaced is None else without_pauses(request.spaced)
        is_default = request.max_frames == text_cap(request.text, self.info)
        cap = text_cap(text, self.info) if is_default else request.max_frames
        return replace(request, text=text, spaced=spaced, max_frames=cap)

    def pieces(self, request: SpeechRequest, reading: NormalizedText | None) -> tuple[Piece, ...]:
        """Return the pieces of a split text. `reading`: normalized text; None: as written."""
        cuts = self._cuts(request)
        carried = with_tags_in_force([cut.text for cut in cuts], self._pace.tags)
        most = self.most_frames(request)
        pieces = []
        for number, (cut, text) in enumerate(zip(cuts, carried, strict=True), 1):
            own = _part_request(request, text, number, self.info, most)
            start, end = cut.span.start, cut.span.end
            if reading is not None:
                start, end = reading.written_place(start), reading.written_place(end)
            boundary, pause_s = cut.span.boundary, cut.pause_after_s
            label = None if boundary is None else boundary.label
            if pause_s is not None:  # a marked pause replaces that of the boundary
                label = "pause"
            elif boundary is not None:
                pause_s = self.pauses.seconds(boundary)
            written, lead_s = (start, end), cut.pause_before_s
            pieces.append(Piece(own, written, label, lead_s, pause_s, *self._usual(own)))
        return tuple(pieces)

    def whole(self, request: SpeechRequest, reading: NormalizedText | None = None) -> Piece:
        written = request.text if reading is None else reading.text
        return Piece(request, (0, len(written)), None, None, None, *self._usual(request))

    def _usual(self, request: SpeechRequest) -> tuple[float, int]:
        """Return the usual length of a text's speech in seconds, and its minimum of frames."""
        pace = self.info.pace
        if pace is None:
            return 0.0, 0
        most_s = request.max_frames * self.info.frame_s
        seconds = min(most_s, usual_s(pace.without_markup(request.text)))
        return seconds, pace.least_frames(request.text)

    def most_frames(self, request: SpeechRequest) -> int | None:
        """Return the frame limit that a user gave the row, or None."""
        cap = request.max_frames
        return None if cap == text_cap(request.text, self.info) else cap

    def settings(self, request: SpeechRequest, is_silent: bool = False) -> dict[str, float] | None:
        """Return the options that affect the sound of a split row, for its hash, or None."""
        marks: dict[str, float] = {}
        if "[" in request.text and has_pauses(request.text):
            marks["marks"] = PAUSES_VERSION
        if is_silent:
            return marks or None
        is_long = self.is_long(request)
        if not (marks or is_long) or self.problem(request) is not None:
            return None
        if not is_long:
            return marks
        return {"limit": self.limit, **vars(self.pauses), **marks}

    def _cuts(self, request: SpeechRequest) -> list[_Cut]:
        """Cut a text at its pauses, and long segments further. Segments without words are
        dropped, except for their tags, which move to the next segment.
        """
        text, spaced = request.text, request.spaced or request.text
        cuts: list[_Cut] = []
        lead_s: float | None = None
        tags = ""
        for stretch in segments(text):
            said = text[stretch.start : stretch.end]
            pause_s = stretch.pause_after_s
            if is_wordless(said, self.info.pace):
                markup = self._pace.markup
                tags += "".join(re.findall(markup, said)) if markup else ""
                if cuts:
                    cuts[-1] = cuts[-1].with_pause(pause_s)
                elif pause_s is not None:
                    lead_s = (lead_s or 0.0) + pause_s
                continue
            parts = [Part(stretch.start, stretch.end, None)]
            if self._is_long(said):
                found = self._spans(spaced[stretch.start : stretch.end])
                parts = [_moved(part, stretch.start) for part in found]
            for part in parts:
                cuts.append(_Cut(part, tags + text[part.start : part.end], lead_s, None))
                tags, lead_s = "", None
            cuts[-1] = cuts[-1].with_pause(pause_s)
        return cuts

    def _spans(self, text: str) -> list[Part]:
        pace = self._pace
        return split(text, self.limit, markup=pace.markup, unbroken=pace.unbroken)


@dataclass(frozen=True)
class _Cut:
    span: Part
    text: str  # with tags from before a pause
    pause_before_s: float | None  # marked pause, before the first piece only
    pause_after_s: float | None  # marked pause; None: by the boundary

    def with_pause(self, seconds: float | None) -> _Cut:
        if seconds is None:
            return self
        return replace(self, pause_after_s=(self.pause_after_s or 0.0) + seconds)


def _said(text: str) -> list[str]:
    if not has_pauses(text):
        return [text]
    return [text[stretch.start : stretch.end] for stretch in segments(text)]


def _moved(part: Part, start: int) -> Part:
    return replace(part, start=start + part.start, end=start + part.end)


def _part_request(
    request: SpeechRequest, text: str, number: int, info: ModelInfo, most: int | None
) -> SpeechRequest:
    cap = text_cap(text, info)
    if info.normalizes:  # the sample voice was trained without line breaks
        text = " ".join(text.split())
    return replace(
        request,
        text=text,
        spaced=None,
        seed=part_seed(request.seed, number),
        max_frames=cap if most is None else min(cap, most),
    )
