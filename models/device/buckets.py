"""Bucket choice as pure functions: the padded size of a batch or a length."""

from __future__ import annotations

from collections.abc import Sequence


def next_power_of_two(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def is_power_of_two(count: int) -> bool:
    return count > 0 and count & (count - 1) == 0


def batch_buckets(max_batch: int) -> list[int]:
    """Return all batch buckets, largest first (the order of capture): max_batch, ..., 2, 1."""
    if not is_power_of_two(max_batch):
        raise ValueError(f"max_batch must be a power of two, not {max_batch}")
    return [1 << power for power in reversed(range(max_batch.bit_length()))]


def choose_bucket(size: int, buckets: Sequence[int]) -> int:
    """Return the smallest bucket >= `size`. Raises ValueError if there is none."""
    fitting = [bucket for bucket in buckets if bucket >= size]
    if not fitting:
        raise ValueError(f"{size} is larger than the largest bucket {max(buckets)}")
    return min(fitting)


def round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def padded_groups(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Group rows that are padded together: indices into `lengths`, short rows first.

    Args:
        most: rows times the longest length of a group; one row alone may exceed it.
    """
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if not groups or (len(groups[-1]) + 1) * lengths[row] > most:
            groups.append([])
        groups[-1].append(row)
    return groups


def packed_groups(lengths: Sequence[int], max_tokens: int, max_rows: int) -> list[list[int]]:
    """Group rows that share a packed prefill pass, in their order: indices into `lengths`.

    Args:
        max_tokens: of a pass; one row alone may exceed it.
        max_rows: of a pass.
    """
    groups: list[list[int]] = []
    tokens = 0
    for row, length in enumerate(lengths):
        if not groups or tokens + length > max_tokens or len(groups[-1]) == max_rows:
            groups.append([])
            tokens = 0
        groups[-1].append(row)
        tokens += length
    return groups
