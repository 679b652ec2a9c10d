"""Derive the seeds of rows, takes, pieces and attempts.

A row's seed is its field `seed`, or derived from the run's seed and its id. Other seeds are derived
from it by a label, in this order. The first of a kind adds no step, so the first attempt at the
first take of an unsplit row has the row's seed:

    take 2, 3, ...      derive(seed, "take 2")
    part 2, 3, ...      derive(seed, "part 2")       piece of a split row
    attempt 2, 3, ...   derive(seed, "attempt 2")

The labels contain a space, which ids do not. All seeds are below 2^53, the integers that jq, pandas
and browsers read exactly.
"""

from __future__ import annotations

import hashlib

SEED_BITS = 53


def derive(seed: int, label: str) -> int:
    """Return 53 bits of the hash of a seed and a label."""
    digest = hashlib.sha256(f"{seed}\n{label}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


def row_seed(run_seed: int, row_id: str) -> int:
    return derive(run_seed, row_id)


def take_seed(seed: int, take: int) -> int:
    return seed if take == 1 else derive(seed, f"take {take}")


def is_derived_from(found: int, seed: int, row_id: str, attempts: int) -> bool:
    """Whether a stored seed is derived from `seed`, as the row's own seed or as the run's."""
    firsts = (seed, row_seed(seed, row_id))
    return any(
        found == attempt_seed(first, attempt)
        for first in firsts
        for attempt in range(1, max(1, attempts) + 1)
    )


def part_seed(seed: int, part: int) -> int:
    return seed if part == 1 else derive(seed, f"part {part}")


def attempt_seed(seed: int, attempt: int) -> int:
    return seed if attempt == 1 else derive(seed, f"attempt {attempt}")
