"""Seeds: a row's own, and those derived from it.

A row's seed is its field `seed`, or made of run seed and id. Everything that speaks the row once
more takes a seed derived from that one by a label, step by step in this order; the first of a kind
adds no step, so that whoever asks for one take, whole, at the first attempt has the row's seed:

    take 2, 3, ...      derive(seed, "take 2")
    part 2, 3, ...      derive(seed, "part 2")       of a row that is split
    attempt 2, 3, ...   derive(seed, "attempt 2")

None of it changes the row's seed; a take has a `request_hash` with its own. The labels hold a
space, which no id does.

All seeds are below 2^53, the integers that jq, pandas and browsers read exactly.
"""

from __future__ import annotations

import hashlib

SEED_BITS = 53


def derive(seed: int, label: str) -> int:
    """53 bits of a hash of a seed and what it is derived for."""
    return _hash(seed, label) >> (64 - SEED_BITS)


def row_seed(run_seed: int, row_id: str) -> int:
    """The seed of a row that names none."""
    return derive(run_seed, row_id)


def take_seed(seed: int, take: int) -> int:
    """The seed of a further take 2, 3, ... of a row."""
    return seed if take == 1 else derive(seed, f"take {take}")


def is_made_of(found: int, seed: int, row_id: str, attempts: int) -> bool:
    """Whether a row's kept seed is what `seed` gives, as the row's own or as the run's."""
    firsts = (seed, row_seed(seed, row_id))
    return any(
        found == attempt_seed(first, attempt)
        for first in firsts
        for attempt in range(1, max(1, attempts) + 1)
    )


def part_seed(seed: int, part: int) -> int:
    """The seed of part 1, 2, ... of a row that is split."""
    return seed if part == 1 else derive(seed, f"part {part}")


def attempt_seed(seed: int, attempt: int) -> int:
    """The seed of attempt 1, 2, ... at what `seed` speaks."""
    return seed if attempt == 1 else derive(seed, f"attempt {attempt}")


def _hash(seed: int, label: str) -> int:
    """64 bits."""
    digest = hashlib.sha256(f"{seed}\n{label}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
