"""How long code sequences are cut for a vocoder: chunks with left context, as a pure function."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chunk:
    """Frames [start, end) are kept; `context` frames before them are decoded too, then dropped."""

    start: int
    end: int
    context: int

    @property
    def first(self) -> int:
        """The first frame to decode."""
        return self.start - self.context

    @property
    def num_frames(self) -> int:
        """Frames to decode, context included."""
        return self.end - self.first


def plan_chunks(frames: int, chunk: int = 300, left_context: int = 25) -> list[Chunk]:
    """Cut a sequence exactly as the official `chunked_decode` of Qwen3-TTS does.

    Args:
        frames: length of the sequence; 0 gives no chunk.
        chunk: frames kept per chunk; the last one may be shorter.
        left_context: frames decoded before a chunk; all there are where fewer come before it.
    """
    if frames < 0 or chunk < 1 or left_context < 0:
        raise ValueError(
            f"frames {frames} and left_context {left_context} must be >= 0, chunk {chunk} >= 1"
        )
    return [
        Chunk(start, min(start + chunk, frames), min(start, left_context))
        for start in range(0, frames, chunk)
    ]
