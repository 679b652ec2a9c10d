"""Room for rows that nobody has seen yet: usual rows fit, and no more is taken than they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from models.base import ModelInfo
from models.pace import Pace
from tts_cli.config import RunConfig
from tts_cli.core import Row, VoiceKey
from tts_cli.plan.resolve import build_request
from tts_cli.plan.room import Needs, usual_needs

MakeInfo = Callable[..., ModelInfo]


def fits(length: int, config: RunConfig, info: ModelInfo, room: Needs, **more: object) -> bool:
    row = Row(1, 1, "a", "x" * length, **more)  # type: ignore[arg-type]
    needs = Needs()
    voice = VoiceKey("", 376, 300) if info.can_clone else None
    needs.add(build_request(row, config, info), info, voice)
    return needs.fits(room)


@pytest.mark.parametrize(
    ("longest_chars", "asked", "most"),
    [(1600, None, 400), (300, None, 300), (1600, 900, 900), (300, 20, 20)],
)
def test_as_long_as_it_says(
    make_info: MakeInfo, longest_chars: int, asked: int | None, most: int
) -> None:
    info = make_info(pace=Pace(longest_chars=longest_chars), max_frames=4096, max_positions=8192)
    config = RunConfig()
    room = usual_needs(config, info, asked, rows=8)
    assert room.rows == 8
    assert fits(most, config, info, room)
    assert not fits(most + 1, config, info, room)


@pytest.mark.parametrize("layout", ["streaming", "non_streaming"])
def test_a_recording_and_an_instruction_fit(make_info: MakeInfo, layout: str) -> None:
    pace = Pace(longest_chars=1600)
    info = make_info(can_clone=True, takes_instruct=True, pace=pace, max_frames=4096)
    config = RunConfig(layout=layout)
    assert fits(400, config, info, usual_needs(config, info), instruct="y" * 200)
    bare = replace(info, can_clone=False, takes_instruct=False)
    assert not fits(400, config, info, usual_needs(config, bare))


def test_room_for_both() -> None:
    one, other = Needs(4, 100, 50, 3, 0), Needs(1, 80, 60, 0, 7)
    both = one.joined(other)
    assert both == Needs(4, 100, 60, 3, 7)
    assert one.fits(both)
    assert other.fits(both)
    assert not both.fits(one)
    assert replace(one, rows=99).fits(one)
