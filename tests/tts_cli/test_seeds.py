"""Seeds: published ones stay, derived ones are their own."""

from __future__ import annotations

from tts_cli.seeds import attempt_seed, row_seed
from tts_cli.sources.ids import id_problem


def test_row_seeds() -> None:
    seeds = {row_seed(run, row) for run in range(10) for row in ("a", "b", "1", "0\n1")}
    assert len(seeds) == 40
    assert all(0 <= seed < 2**53 for seed in seeds)
    # A published seed must stay what it is: audio depends on it.
    assert row_seed(0, "000001") == 7015276921736176
    assert attempt_seed(7015276921736176, 2) == 2588270653274359


def test_a_rows_attempts_have_seeds_of_their_own() -> None:
    seeds = [attempt_seed(5, attempt) for attempt in range(1, 100)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 99


def test_no_id_is_a_label() -> None:
    assert id_problem("attempt 2") is not None
