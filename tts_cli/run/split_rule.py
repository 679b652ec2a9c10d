"""Which rows are spoken in parts, and in which: `--split`.

A row is split where it is longer than its checkpoint speaks well and its voice can be kept: it is a
speaker, a recording or a voice file; or the model can take the first part for the reference of the
others, which then must hear every speaker that the text has tags for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from models.pace import Pace
from tts_cli.deliver.join import Pauses
from tts_cli.manifest.request import text_cap
from tts_cli.manifest.seeds import part_seed
from tts_cli.text.carry import with_tags_in_force
from tts_cli.text.split import Part, split
from tts_cli.voices.speech_row import PlannedPart

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.config import RunConfig

# Parts are shorter than the longest row that is spoken in one. Of the sample voice, sentences to
# choose by (sentences_dev.txt, 2,375 characters joined, three voices) had 0.6 % of their words
# wrong in parts of up to 180 characters, 2.5 % in those of up to 240, 2.2 % in those of up to 300.
PART_SHARE = 0.6
WORD_SHARE = 1 / 3  # of the pause within a sentence, where not even a comma is
BYTES_PER_CHAR = 4  # of UTF-8, at most
NO_VOICE = (
    "nothing fixes its voice, which would be another one in every part; make it a voice with "
    "`tts-cli voices design`, and speak with a Base checkpoint"
)
BY_SETTING = "--split says so"
LATE_SPEAKER = (
    "it has speakers that come in after its first part, whose voices would change; give ref_audio, "
    "or make rows of it yourself"
)


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
        """Whether a text is too long for one part."""
        text = request.text
        if self.longest is None or BYTES_PER_CHAR * len(text) <= self.longest:
            return False
        return replace(self._pace, longest_chars=self.longest).is_long(text)

    def problem(self, request: SpeechRequest) -> str | None:
        """Why a long row cannot be split, or None."""
        if request.voice is not None or request.ref_audio is not None:
            return None
        if not self.info.can_clone or "icl" not in self.info.clone_modes:
            return NO_VOICE
        if not self._pace.tags:
            return None
        speakers = re.compile(self._pace.tags[0])
        everyone = set(speakers.findall(request.text))
        if not everyone:
            return None
        first = self._spans(request.text)[0]
        heard = set(speakers.findall(request.text[: first.end]))
        return None if heard == everyone else LATE_SPEAKER

    def why_whole(self, request: SpeechRequest) -> str | None:
        """Why a row longer than the checkpoint speaks well is not split; None: it is, or it is not
        longer.
        """
        if self.info.pace is None or not self.info.pace.is_long(request.text):
            return None
        return self.problem(request) if self.is_long(request) else BY_SETTING

    def is_split(self, request: SpeechRequest) -> bool:
        """Whether a row is spoken in parts."""
        return self.is_long(request) and self.problem(request) is None

    def parts(self, request: SpeechRequest) -> tuple[PlannedPart, ...]:
        """What a row is spoken in; nothing for one that is spoken in one."""
        if not self.is_split(request):
            return ()
        spans = self._spans(request.text)
        texts = [request.text[span.start : span.end] for span in spans]
        carried = with_tags_in_force(texts, self._pace.tags)
        most = self.most_frames(request)
        return tuple(
            PlannedPart(span, _part_request(request, text, number, self.info, most))
            for number, (span, text) in enumerate(zip(spans, carried, strict=True), 1)
        )

    def most_frames(self, request: SpeechRequest) -> int | None:
        """The cap that somebody gave the whole row; None: nobody did."""
        cap = request.max_frames
        return None if cap == text_cap(request.text, self.info) else cap

    def settings(self) -> dict[str, float]:
        """What of the rule changes how a split row sounds."""
        return {"limit": self.limit, **vars(self.pauses)}

    def _spans(self, text: str) -> list[Part]:
        pace = self._pace
        return split(text, self.limit, markup=pace.markup, unbroken=pace.unbroken)


def _part_request(
    request: SpeechRequest, text: str, number: int, info: ModelInfo, most: int | None
) -> SpeechRequest:
    cap = text_cap(text, info)
    return replace(
        request,
        text=text,
        seed=part_seed(request.seed, number),
        max_frames=cap if most is None else min(cap, most),
    )
