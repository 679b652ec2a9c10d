"""Hash settings so that a field that is added later does not change existing hashes.

Such a field has `as_before` in its metadata: the value that stands for the behavior before the
field existed. A field with that value is left out of the hash:

    pace: float = field(default=1.0, metadata={"as_before": 1.0})
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import Any

encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def hashed_values(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, without those that equal their `as_before`."""
    values = dict(vars(settings))
    for name, value in _as_before(settings.__class__):
        if values[name] == value:
            del values[name]
    return values


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _as_before(settings: Hashable) -> tuple[tuple[str, Any], ...]:
    found = ((entry.name, entry.metadata) for entry in fields(settings))  # type: ignore[arg-type]
    return tuple((name, about["as_before"]) for name, about in found if "as_before" in about)
