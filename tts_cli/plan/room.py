"""Bound the capacity that the rows of a run need before they are tokenized, and check whether a
row fits at all. Only rows near the limit are tokenized for that.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from models.base import RequestError, SpeechRequest
from tts_cli.core import Task, VoiceKey
from tts_cli.plan.split_rule import SplitRule
from tts_cli.text.words import text_cap
from tts_cli.voices.needs import reference_silence_s
from tts_cli.voices.recording import MAX_SECONDS

if TYPE_CHECKING:
    from models.base import ModelInfo, Prompt, SpeechRequest
    from tts_cli.config import RunConfig


# Prompt tokens of a request with a number of reference frames; None: no voice is cloned.
Count = Callable[["SpeechRequest", "int | None"], int]
_SIZES = ("max_positions", "max_frames", "max_trailing", "max_reference_frames")


@dataclass
class Needs:
    rows: int = 0  # rows or pieces to synthesize, the limit of slots
    max_positions: int = 1  # prompt and frames of the longest row
    max_frames: int = 1  # frames of the longest row
    max_trailing: int = 0  # text tokens after the prompt, in a streaming layout
    max_reference_frames: int = 0  # frames of the longest reference

    @classmethod
    def of(cls, tasks: Iterable[Task], info: ModelInfo) -> Needs:
        needs = cls()
        for task in tasks:
            for piece in task.pieces:
                needs.add(piece.request, info, task.need)
        return needs

    def add(self, request: SpeechRequest, info: ModelInfo, voice: VoiceKey | None = None) -> None:
        positions = most_positions(request, info, voice)
        if voice is not None:
            self.max_reference_frames = max(self.max_reference_frames, voice.num_frames)
        self.rows += 1
        self.max_positions = min(max(self.max_positions, positions), info.max_positions)
        self.max_frames = min(max(self.max_frames, request.max_frames), info.max_positions)
        layout = info.default_layout if request.layout == "auto" else request.layout
        if layout == "streaming":
            text = most_tokens(request.text) + info.prompt_overhead
            text += 0 if voice is None else voice.num_bytes
            self.max_trailing = max(self.max_trailing, text)

    def fits(self, room: Needs) -> bool:
        """Return whether slots and graphs of capacity `room` suffice for each of these rows."""
        return all(getattr(self, name) <= getattr(room, name) for name in _SIZES)

    def joined(self, other: Needs) -> Needs:
        sizes = {name: max(getattr(self, name), getattr(other, name)) for name in _SIZES}
        return replace(self, **sizes)

    def problem(self, prompt: Prompt) -> str | None:
        """Return why slots of this capacity cannot hold a prompt and its frames, or None."""
        frames = prompt.request.max_frames
        if (
            prompt.num_tokens + frames <= self.max_positions
            and frames <= self.max_frames
            and len(prompt.trailing_ids) <= self.max_trailing
        ):
            return None
        return (
            f"{prompt.num_tokens} prompt tokens and {frames} frames are more than this run "
            "has capacity for; run the same command again"
        )


def most_positions(request: SpeechRequest, info: ModelInfo, voice: VoiceKey | None = None) -> int:
    """Return an upper bound of the positions of a row's prompt and frames."""
    texts = most_tokens(request.text) + most_tokens(request.instruct or "")
    reference = 0 if voice is None else voice.num_bytes + voice.num_frames
    return info.prompt_overhead + texts + reference + request.max_frames


def room_problem(
    request: SpeechRequest, info: ModelInfo, voice: VoiceKey | None, count: Callable[[], Count]
) -> str | None:
    """Return why a row is certain to exceed the checkpoint's positions, or None.

    Args:
        voice: lower bound of the voice to clone.
        count: returns the function that counts prompt tokens; called only if the number of bytes
            does not decide.
    """
    if most_positions(request, info, voice) <= info.max_positions:
        return None
    try:
        tokens = count()(request, None if voice is None else voice.num_frames)
    except RequestError as error:
        return str(error)
    return too_long(tokens, request.max_frames, info)


def too_long(tokens: int, frames: int, info: ModelInfo) -> str | None:
    """Return the message about prompt tokens and frames that do not fit, or None."""
    if tokens + frames <= info.max_positions:
        return None
    return (
        f"{tokens} prompt tokens and {frames} frames are more than the {info.max_positions} "
        "positions of this checkpoint; split the text or lower max_frames"
    )


def most_tokens(text: str) -> int:
    """Return an upper bound of a text's tokens: its bytes after NFC, which can lengthen it."""
    if text.isascii():
        return len(text)
    return len(unicodedata.normalize("NFC", text).encode())


# Half a minute of speech, which nearly all rows are below. Every slot's cache has the length of the
# longest row: with 1,600 bytes an H200 would hold 64 rows of a large checkpoint instead of 256.
USUAL_BYTES = 400
INSTRUCT_BYTES = 200
TRANSCRIPT_BYTES = 500  # of a recording of 30 s


def usual_needs(
    config: RunConfig, info: ModelInfo, longest: int | None = None, rows: int = 1
) -> Needs:
    """Return the capacity of slots and graphs before any row is known.

    Args:
        longest: UTF-8 bytes of the longest piece; None: `USUAL_BYTES`, or the length that the
            checkpoint synthesizes well, if that is less.
        rows: number of concurrent rows.
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
    voice = None
    if info.can_clone:  # the longest reference
        frames = math.ceil((MAX_SECONDS + reference_silence_s(config, info)) / info.frame_s) + 1
        voice = VoiceKey("", frames, TRANSCRIPT_BYTES)
    needs.add(request, info, voice)
    needs.rows = rows
    return needs
