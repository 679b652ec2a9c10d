"""Cut long code sequences for a vocoder into chunks with left context, as pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Chunk:
    """Frames [start, end); `context` frames before them are decoded too, then dropped."""

    start: int
    end: int
    context: int

    @property
    def first(self) -> int:
        """The first frame to decode."""
        return self.start - self.context

    @property
    def num_frames(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Slice:
    """A part of one row that is decoded in one pass: a chunk of reference and row."""

    row: int
    chunk: Chunk
    kept: int  # last frames whose samples are returned: others are context or reference
    is_tail: bool  # samples are made of its last latents only, not of the whole chunk


@dataclass(frozen=True)
class Cutting:
    """The sizes of a family's chunks.

    With `renders_windows` the left context of a chunk is used for its latents only, and samples are
    made of the chunk alone. With a left context as long as the rows, chunks are exact.
    """

    chunk_frames: int
    left_context: int
    renders_windows: bool = False

    def pieces(self, frames: Sequence[int], references: Sequence[int]) -> list[Slice]:
        """Return the pieces of all rows, in the order of their rows and frames.

        Args:
            frames: of each row alone.
            references: reference frames before each row, without samples; or 0.
        """
        return [
            Slice(
                row,
                chunk,
                kept=chunk.end - max(chunk.start, front),
                is_tail=front > 0 or (self.renders_windows and chunk.context > 0),
            )
            for row, (count, front) in enumerate(zip(frames, references, strict=True))
            for chunk in plan_chunks(front + count, self.chunk_frames, self.left_context)
            if chunk.end > front
        ]


def plan_chunks(frames: int, chunk: int = 300, left_context: int = 25) -> list[Chunk]:
    """Cut a sequence exactly as the official `chunked_decode` of Qwen3-TTS does.

    Args:
        frames: length of the sequence; 0 gives no chunk.
        chunk: frames per chunk; the last one may be shorter.
        left_context: frames decoded before a chunk, or all earlier ones if they are fewer.
    """
    if frames < 0 or chunk < 1 or left_context < 0:
        raise ValueError(
            f"frames {frames} and left_context {left_context} must be >= 0, chunk {chunk} >= 1"
        )
    return [
        Chunk(start, min(start + chunk, frames), min(start, left_context))
        for start in range(0, frames, chunk)
    ]
