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

WORD_SHARE = 1 / 3  # of the pause within a sentence, where not even a comma is
NO_VOICE = (
    "nothing fixes its voice, which would be another one in every part; give it a voice by "
    "`tts-cli voices design` and a Base checkpoint"
)
LATE_SPEAKER = (
    "it has speakers that come in after its first part, whose voices would change; give ref_audio, "
    "or make rows of it yourself"
)


@dataclass(frozen=True)
class SplitRule:
    """The rule of a run."""

    info: ModelInfo
    limit: int | None  # UTF-8 bytes of a part, at most; None: no row is split
    pauses: Pauses

    @classmethod
    def of(cls, config: RunConfig, info: ModelInfo) -> SplitRule:
        """What the settings of a run say."""
        limit = config.split_limit
        if config.split == "auto":
            limit = None if info.pace is None else info.pace.longest_chars
        pauses = Pauses(
            paragraph=config.pause_paragraph,
            sentence=config.pause_sentence,
            clause=config.pause_clause,
            word=WORD_SHARE * config.pause_clause,
        )
        return cls(info, limit, pauses)

    @property
    def _pace(self) -> Pace:
        return self.info.pace or Pace()

    def is_long(self, request: SpeechRequest) -> bool:
        """Whether a text is too long for one part."""
        return replace(self._pace, longest_chars=self.limit).is_long(request.text)

    def problem(self, request: SpeechRequest) -> str | None:
        """Why a long row cannot be split, or None."""
        if request.voice is not None or request.ref_audio is not None:
            return None
        if not self.info.can_clone or "icl" not in self.info.clone_modes:
            return NO_VOICE
        if not self._pace.tags:
            return None
        speakers = re.compile(self._pace.tags[0])
        first = self._spans(request.text)[0]
        heard = set(speakers.findall(request.text[: first.end]))
        return None if heard.issuperset(speakers.findall(request.text)) else LATE_SPEAKER

    def parts(self, request: SpeechRequest) -> tuple[PlannedPart, ...]:
        """What a row is spoken in; nothing for one that is spoken in one."""
        if not self.is_long(request) or self.problem(request) is not None:
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
        return {"limit": self.limit or 0, **vars(self.pauses)}

    def _spans(self, text: str) -> list[Part]:
        assert self.limit is not None
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
