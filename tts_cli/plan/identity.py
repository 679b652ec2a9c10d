"""What a row is known by: the hashes of what is asked of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tts_cli.core import SpeechRow
from tts_cli.folder.hashes import content_hash, request_hash
from tts_cli.plan.planner import silent_row

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.core import Need
    from tts_cli.plan.split_rule import SplitRule


class RowIdentity:
    """Tells the hashes of rows that a checkpoint speaks."""

    def __init__(self, info: ModelInfo, split_rule: SplitRule) -> None:
        self._info = info
        self._split_rule = split_rule

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

    def _asked(
        self, request: SpeechRequest, need: Need | None, is_silent: bool
    ) -> tuple[str, str | None, dict[str, float] | None]:
        """Of whom, in which voice, and in which parts: what the hashes take besides."""
        split = self._split_rule.settings(request, is_silent)
        return self._info.identity, need.digest if need else None, split
