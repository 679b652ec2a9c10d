"""What a row is known by: the hashes of what is asked of the model, and of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tts_cli.output.hashes import content_hash, request_hash
from tts_cli.run.plan.wordless import silent_row
from tts_cli.voices.speech_row import SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.run.plan.split_rule import SplitRule
    from tts_cli.voices.resolve import Need


class RowIdentity:
    """Tells the hashes of rows that a checkpoint speaks, or two of them.

    Args:
        clone: what the second one offers, see `clone_model`; None: there is none.
        silence_s: seconds of silence behind what is cloned.
    """

    def __init__(
        self,
        info: ModelInfo,
        split_rule: SplitRule,
        clone: ModelInfo | None = None,
        silence_s: float = 0.0,
    ) -> None:
        self._info = info
        self._split_rule = split_rule
        self._clone = clone
        self._silence_s = silence_s

    def planned(
        self, row_id: str, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> SpeechRow:
        """A row with its `request_hash`; one that is silent is whole already."""
        digest = request_hash(request, *self._asked(request, need, is_silent))
        if is_silent:
            return silent_row(row_id, request, digest, self._info)
        return SpeechRow(row_id, request, digest, need)

    def content(self, request: SpeechRequest, need: Need | None, is_silent: bool) -> str:
        """The `content_hash`."""
        return content_hash(request, *self._asked(request, need, is_silent))

    def is_cloned(self, request: SpeechRequest, is_silent: bool = False) -> bool:
        """Whether the second checkpoint speaks a row, or all of its parts but one."""
        if self._clone is None or is_silent:
            return False
        return request.ref_audio is not None or self._split_rule.is_joined(request)

    def _asked(
        self, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> tuple[str, str | None, dict[str, float] | None]:
        """Of whom, in which voice, and in which parts: what the hashes take besides."""
        model, split = self._info.identity, self._split_rule.settings(request, is_silent)
        if self.is_cloned(request, is_silent):
            assert self._clone is not None
            model = f"{model}+{self._clone.identity}"
            if request.ref_audio is None:  # else the digest tells of the silence
                split = {**(split or {}), "ref_silence": self._silence_s}
        return model, need.digest if need else None, split
