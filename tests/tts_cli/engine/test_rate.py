"""Parts that are too fast for their row."""

from __future__ import annotations

import pytest

from tts_cli.engine.pieces import too_fast


def test_a_part_that_lost_a_quarter_is_found() -> None:
    spoken = [8.0, 7.6, 5.9, 8.4, 8.1]
    (place,) = found = too_fast(spoken, [8.0] * 5)
    assert place == 2
    assert found[2] == pytest.approx(8.05 / 5.9, abs=0.01)


def test_short_parts_and_those_without_an_end_say_nothing() -> None:
    assert too_fast([8.0, 8.0, 8.0, 1.0], [8.0, 8.0, 8.0, 3.0]) == {}
    assert too_fast([8.0, 8.0, 8.0, 0.0, 4.0], [8.0, 8.0, 8.0, 8.0, 0.0]) == {}


def test_two_others_are_not_enough() -> None:
    assert too_fast([8.0, 8.0, 4.0], [8.0] * 3) == {}
    assert list(too_fast([8.0, 8.0, 8.0, 4.0], [8.0] * 4)) == [3]
