"""Seeds of any run, id and attempt."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from properties import holds_for

from tts_cli.config import SETTINGS
from tts_cli.seeds import attempt_seed, derive, row_seed

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**53 - 1)
TEXTS = st.text(st.characters(exclude_categories=[]), max_size=20)


@holds_for(SEEDS, TEXTS)
def test_derived_seeds_are_seeds(seed: int, label: str) -> None:
    """What is derived may be given in a manifest, and derives as any other does."""
    for found in (derive(seed, label), row_seed(seed, label), attempt_seed(seed, 2)):
        assert SETTINGS["seed"].problem(found) is None
    assert derive(seed, label) == derive(seed, label)


@holds_for(st.sets(SEEDS, min_size=1, max_size=20), st.sets(TEXTS, min_size=1, max_size=20))
def test_rows_have_seeds_of_their_own(runs: set[int], ids: set[str]) -> None:
    assert len({row_seed(run, row_id) for run in runs for row_id in ids}) == len(runs) * len(ids)


@holds_for(SEEDS, st.integers(2, 50))
def test_attempts_have_seeds_of_their_own(seed: int, attempts: int) -> None:
    found = [attempt_seed(seed, attempt) for attempt in range(1, attempts + 1)]
    assert found[0] == seed
    assert len(set(found)) == attempts
