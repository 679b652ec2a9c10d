"""Properties that hold for whatever hypothesis makes up: a few tries always, many under `long`.

The tries are the same on every machine and in every run. TTS_TESTS_TIMES=10 tries ten times as
many of the long ones, and the fuzzing tests take it too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

# Values of any shape that JSON has.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values),
    max_leaves=5,
)
TIMES = int(os.environ.get("TTS_TESTS_TIMES", "1"))


def holds_for(
    *values: SearchStrategy[Any], quick: int = 25, many: int = 3000
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """A test of one property: it is called with values of these kinds, and must not fail."""

    def decorate(prop: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize(
            "tries", [quick, pytest.param(many * TIMES, marks=pytest.mark.long)]
        )
        def test(tries: int) -> None:
            settings(
                max_examples=tries,
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            )(given(*values)(prop))()

        test.__name__, test.__doc__ = prop.__name__, prop.__doc__
        return test

    return decorate
