"""How much room the rows of a run need, bounded before any of them is tokenised."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.voices.resolve import Need


@dataclass
class Needs:
    """What slots and graphs are made for."""

    rows: int = 0  # to be spoken; more slots than that are not made
    max_positions: int = 1  # prompt and frames of the longest row
    max_frames: int = 1  # of the longest row
    max_trailing: int = 0  # text tokens of a streaming layout that come after the prompt
    max_reference_frames: int = 0  # of the longest reference that a row is decoded behind

    def add(self, request: SpeechRequest, info: ModelInfo, voice: Need | None = None) -> None:
        """Make room for one more row, which may clone a voice."""
        text = most_tokens(request.text) + info.prompt_overhead
        positions = text + most_tokens(request.instruct or "") + request.max_frames
        if voice is not None:
            text += voice.num_bytes
            positions += voice.num_bytes + voice.num_frames
            self.max_reference_frames = max(self.max_reference_frames, voice.num_frames)
        self.rows += 1
        self.max_positions = min(max(self.max_positions, positions), info.max_positions)
        self.max_frames = min(max(self.max_frames, request.max_frames), info.max_positions)
        layout = info.default_layout if request.layout == "auto" else request.layout
        if layout == "streaming":
            self.max_trailing = max(self.max_trailing, text)


def most_tokens(text: str) -> int:
    """A byte is at most one token, once normalised as tokenizers do: NFC can lengthen a text."""
    return len(unicodedata.normalize("NFC", text).encode())
