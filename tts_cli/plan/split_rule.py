"""Decide which rows are spoken in parts, and in which: `--split`.

A row is split where it is longer than its checkpoint speaks well and its voice is the same in all
parts: it is a speaker, a recording or a voice file. A voice that a run has made is that of one
speaker, so that a text with tags of others is spoken in one.

Pauses that a text marks cut it too, however short it is, under the same condition. Where that is
not met, they are left out.
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

# Parts are shorter than the longest row that is spoken in one. Of the sample voice, sentences to
# choose by (sentences_dev.txt, 2,375 characters joined, three voices) had 0.6 % of their words
# wrong in parts of up to 180 characters, 2.5 % in those of up to 240, 2.2 % in those of up to 300.
PART_SHARE = 0.6
PAUSES_VERSION = 1  # of how marked pauses are made; stands in the hash of rows that have any
WORD_SHARE = 1 / 3  # of the pause within a sentence, where not even a comma is
BYTES_PER_CHAR = 4  # of UTF-8, at most
NO_VOICE = "its voice is not fixed and would change with every piece; "
NO_CLONING = NO_VOICE + "give a Base checkpoint that keeps it, with --clone-model"
NOT_MADE = NO_VOICE + "--free-voice one fixes it"
BY_SETTING = "because of --split"
SECOND_SPEAKER = (
    "it has tags of a second speaker, whose voice would change; give ref_audio, or split it "
    "into rows yourself"
)
FIRST_TAG = "<|speaker:0|>"  # whose voice a reference without tags is


def pauses_of(config: RunConfig) -> Pauses:
    """The silence behind what is spoken, by the settings of a run."""
    return Pauses(
        paragraph=config.pause_paragraph,
        sentence=config.pause_sentence,
        clause=config.pause_clause,
        word=WORD_SHARE * config.pause_clause,
    )


@dataclass(frozen=True)
class SplitRule:
    """The rule of a run."""

    info: ModelInfo
    longest: int | None  # UTF-8 bytes of a row spoken in one, at most; None: no row is split
    limit: int  # UTF-8 bytes of a part, at most
    pauses: Pauses

    @classmethod
    def of(cls, config: RunConfig, info: ModelInfo) -> SplitRule:
        """What the settings of a run say."""
        longest = limit = config.split_limit
        if config.split == "auto" and info.pace is not None and info.pace.longest_chars is not None:
            longest = info.pace.longest_chars
            limit = max(1, round(PART_SHARE * longest))
        return cls(info, longest, limit or 0, pauses_of(config))

    @property
    def _pace(self) -> Pace:
        return self.info.pace or Pace()

    def is_long(self, request: SpeechRequest) -> bool:
        """Whether a text, or what stands between two of its pauses, is too long for one part."""
        text = request.text
        if self.longest is None or BYTES_PER_CHAR * len(text) <= self.longest:
            return False  # most rows, at no cost
        return any(map(self._is_long, _said(text)))

    def _is_long(self, text: str) -> bool:
        return replace(self._pace, longest_chars=self.longest).is_long(text)

    def problem(self, request: SpeechRequest) -> str | None:
        """Why a long row cannot be split, or None."""
        is_free = request.voice is None and request.ref_audio is None
        if not is_free and not is_made(request.voice):
            return None
        if self._pace.tags and set(re.findall(self._pace.tags[0], request.text)) - {FIRST_TAG}:
            return SECOND_SPEAKER
        if is_free:
            return NOT_MADE if self.info.can_clone else NO_CLONING
        return None

    def why_whole(self, request: SpeechRequest) -> str | None:
        """Why a row longer than the checkpoint speaks well is not split; None: it is, or it is not
        longer.
        """
        pace = self.info.pace
        if pace is None or not pace.is_long(request.text):
            return None
        if has_pauses(request.text) and not any(map(pace.is_long, _said(request.text))):
            return None
        return self.problem(request) if self.is_long(request) else BY_SETTING

    def without_lost_pauses(self, request: SpeechRequest) -> SpeechRequest:
        """The request as it is, or without the pauses that cannot be made."""
        if not has_pauses(request.text) or self.problem(request) is None:
            return request
        text = without_pauses(request.text)
        if is_wordless(text, self.info.pace):
            return request  # they are all that there is
        spaced = None if request.spaced is None else without_pauses(request.spaced)
        is_default = request.max_frames == text_cap(request.text, self.info)
        cap = text_cap(text, self.info) if is_default else request.max_frames
        return replace(request, text=text, spaced=spaced, max_frames=cap)

    def pieces(self, request: SpeechRequest, reading: NormalizedText | None) -> tuple[Piece, ...]:
        """What a text is spoken in that is split.

        Args:
            reading: of the text; None: it is spoken as it is written.
        """
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
            if pause_s is not None:  # what the text marks comes first
                label = "pause"
            elif boundary is not None:
                pause_s = self.pauses.seconds(boundary)
            written, lead_s = (start, end), cut.pause_before_s
            pieces.append(Piece(own, written, label, lead_s, pause_s, *self._usual(own)))
        return tuple(pieces)

    def whole(self, request: SpeechRequest, reading: NormalizedText | None = None) -> Piece:
        """All of a text in one piece."""
        written = request.text if reading is None else reading.text
        return Piece(request, (0, len(written)), None, None, None, *self._usual(request))

    def _usual(self, request: SpeechRequest) -> tuple[float, int]:
        """What speech of a text usually takes, and its least frames."""
        pace = self.info.pace
        if pace is None:
            return 0.0, 0
        most_s = request.max_frames * self.info.frame_s
        seconds = min(most_s, usual_s(pace.without_markup(request.text)))
        return seconds, pace.least_frames(request.text)

    def most_frames(self, request: SpeechRequest) -> int | None:
        """The cap that somebody gave the whole row; None: nobody did."""
        cap = request.max_frames
        return None if cap == text_cap(request.text, self.info) else cap

    def settings(self, request: SpeechRequest, is_silent: bool = False) -> dict[str, float] | None:
        """What of the rule changes how a row sounds; None for one that is spoken in one."""
        marks: dict[str, float] = {"marks": PAUSES_VERSION} if has_pauses(request.text) else {}
        if is_silent:
            return marks or None
        is_long = self.is_long(request)
        if not (marks or is_long) or self.problem(request) is not None:
            return None
        if not is_long:
            return marks
        return {"limit": self.limit, **vars(self.pauses), **marks}

    def _cuts(self, request: SpeechRequest) -> list[_Cut]:
        """A text cut at its pauses, and what is long between two of them cut further. What has no
        word between pauses is not spoken, but for tags, which go to the words behind them.
        """
        text, spaced = request.text, request.spaced or request.text
        cuts: list[_Cut] = []
        lead_s: float | None = None
        tags = ""
        for stretch in segments(text):
            said = text[stretch.start : stretch.end]
            pause_s = stretch.pause_after_s
            if is_wordless(said, self.info.pace):
                tags += self._tags_of(said)
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

    def _tags_of(self, text: str) -> str:
        pattern = self._pace.markup
        return "" if pattern is None else "".join(re.findall(pattern, text))

    def _spans(self, text: str) -> list[Part]:
        pace = self._pace
        return split(text, self.limit, markup=pace.markup, unbroken=pace.unbroken)


@dataclass(frozen=True)
class _Cut:
    """What becomes one part."""

    span: Part
    text: str  # with tags from before a pause
    pause_before_s: float | None  # as a mark says; only of the first piece
    pause_after_s: float | None  # as marks say; None: as the boundary does

    def with_pause(self, seconds: float | None) -> _Cut:
        """The same with more silence behind it."""
        if seconds is None:
            return self
        return replace(self, pause_after_s=(self.pause_after_s or 0.0) + seconds)


def _said(text: str) -> list[str]:
    """What stands between the pauses of a text."""
    if not has_pauses(text):
        return [text]
    return [text[stretch.start : stretch.end] for stretch in segments(text)]


def _moved(part: Part, start: int) -> Part:
    return replace(part, start=start + part.start, end=start + part.end)


def _part_request(
    request: SpeechRequest, text: str, number: int, info: ModelInfo, most: int | None
) -> SpeechRequest:
    cap = text_cap(text, info)
    if info.normalizes:  # the sample voice never learnt what an empty line is
        text = " ".join(text.split())
    return replace(
        request,
        text=text,
        spaced=None,
        seed=part_seed(request.seed, number),
        max_frames=cap if most is None else min(cap, most),
    )
