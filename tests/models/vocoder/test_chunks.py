from __future__ import annotations

import pytest

from models.vocoder.chunks import Chunk, plan_chunks


def official(frames: int, chunk: int, left_context: int) -> list[tuple[int, int, int]]:
    """First frame decoded, end, frames dropped: the loop of the official `chunked_decode`."""
    steps, start = [], 0
    while start < frames:
        end = min(start + chunk, frames)
        context = left_context if start - left_context > 0 else start
        steps.append((start - context, end, context))
        start = end
    return steps


@pytest.mark.parametrize("frames", [1, 24, 25, 26, 299, 300, 301, 325, 600, 601, 2000])
@pytest.mark.parametrize(("chunk", "left_context"), [(300, 25), (12, 5), (5, 12), (25, 25), (7, 0)])
def test_chunks_are_the_official_ones(frames, chunk, left_context) -> None:
    plan = plan_chunks(frames, chunk, left_context)
    assert [(c.first, c.end, c.context) for c in plan] == official(frames, chunk, left_context)
    kept = [frame for c in plan for frame in range(c.start, c.end)]
    assert kept == list(range(frames))
    assert all(c.num_frames <= chunk + left_context for c in plan)


def test_defaults() -> None:
    assert plan_chunks(620) == [Chunk(0, 300, 0), Chunk(300, 600, 25), Chunk(600, 620, 25)]
    assert plan_chunks(620)[1].num_frames == 325
    assert plan_chunks(0) == []


@pytest.mark.parametrize("arguments", [(-1, 300, 25), (10, 0, 25), (10, 300, -1)])
def test_impossible_plans_are_refused(arguments) -> None:
    with pytest.raises(ValueError, match=r"must be >= 0, chunk"):
        plan_chunks(*arguments)
