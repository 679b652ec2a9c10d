"""Room for rows that nobody has seen yet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from models.base import SpeechRequest
from tts_cli.manifest.request import text_cap
from tts_cli.run.needs import Needs
from tts_cli.run.plan.split_rule import SplitRule
from tts_cli.voices.recording import MAX_SECONDS
from tts_cli.voices.resolve import Need, reference_silence_s

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.config import RunConfig

# Half a minute of speech, and more than nearly all rows have. Every slot's cache is as long as the
# longest row needs: with the 1,600 that large checkpoints speak well, an H200 would hold 64 rows of
# them instead of 256.
USUAL_BYTES = 400
INSTRUCT_BYTES = 200
TRANSCRIPT_BYTES = 500  # of a recording of 30 s


def usual_needs(
    config: RunConfig, info: ModelInfo, longest: int | None = None, rows: int = 1
) -> Needs:
    """What slots and graphs are made for before the first row is known.

    Args:
        longest: UTF-8 bytes of the longest text that is spoken in one; None: `USUAL_BYTES`, or
            what the checkpoint speaks well in one, if that is less.
        rows: to be spoken at once.
    """
    if longest is None:
        limit = SplitRule.of(config, info).longest
        longest = USUAL_BYTES if limit is None else min(limit, USUAL_BYTES)
    text = "x" * longest
    frames = text_cap(text, info)
    if config.max_seconds is not None:
        frames = max(1, int(config.max_seconds / info.frame_s + 1e-6))
    request = SpeechRequest(
        text,
        instruct="x" * INSTRUCT_BYTES if info.takes_instruct else None,
        layout=config.layout,
        max_frames=frames,
    )
    needs = Needs()
    needs.add(request, info, _longest_reference(config, info) if info.can_clone else None)
    needs.rows = rows
    return needs


def _longest_reference(config: RunConfig, info: ModelInfo) -> Need:
    seconds = MAX_SECONDS + reference_silence_s(config, info)
    return Need("", math.ceil(seconds / info.frame_s) + 1, TRANSCRIPT_BYTES)
