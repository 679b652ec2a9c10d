"""Rows without any letter or digit: no model is asked to speak them, which would make something up.

They become silence, or fail, as `--wordless` says. Such a row needs no prompt, no slot and no
reference; it has no frames, so that codes kept of it are none, (0, K).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tts_cli.manifest.words import SILENCE_S
from tts_cli.text.pauses import sum_of_pauses
from tts_cli.voices.speech_row import WORDLESS, SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest

NO_WORDS = "its text has no letter or digit; add words, or let --wordless silence keep it silent"


def silent_row(
    row_id: str, request: SpeechRequest, request_hash: str, info: ModelInfo
) -> SpeechRow:
    """A row at its end, with its silence: the pauses its text marks, else some, never longer than
    its cap.
    """
    seconds = sum_of_pauses(request.text) or min(SILENCE_S, request.max_frames * info.frame_s)
    row = SpeechRow(row_id, request, request_hash)
    row.finish_reason = WORDLESS
    row.samples = np.zeros(round(seconds * info.sample_rate_hz), np.float32)
    row.codes = np.zeros((0, info.num_codebooks), np.int64)
    # Random weights expect nothing of any row.
    row.expected_s = seconds if info.pace is not None else 0.0
    return row
