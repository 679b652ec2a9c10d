"""Configuration files of checkpoints: JSON objects whose reads name file and key when they fail."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from models.checkpoint.files import CheckpointError, read_plain


class Section:
    """A JSON object whose reads name file and key when they fail."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    @classmethod
    def from_file(cls, path: Path) -> Section:
        """Read a JSON object; raises CheckpointError naming the file."""
        try:
            values = json.loads(read_plain(path))
        except FileNotFoundError:
            raise CheckpointError(f"{path}: not found; is this a complete checkpoint?") from None
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}: not readable as JSON: {error}") from None
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: a JSON object was expected")
        return cls(values, str(path))

    def section(self, key: str) -> Section:
        """A nested object."""
        return Section(self.read(key, dict), f"{self.where}: {key}")

    def holds(self, key: str) -> bool:
        """Whether a key is there and not null."""
        return self.values.get(key) is not None

    def read(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The value of a key of the given type; bool never passes as a number."""
        if key not in self.values:
            raise CheckpointError(f"{self.where}: key {key!r} is missing")
        value = self.values[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        is_wrong_bool = isinstance(value, bool) and bool not in kinds
        if not isinstance(value, kinds) or is_wrong_bool:
            names = " or ".join(k.__name__ for k in kinds)
            raise CheckpointError(f"{self.where}: {key!r} must be {names}, not {value!r:.60}")
        return value

    def integer(self, key: str, least: int = 0) -> int:
        """A whole number of at least `least`."""
        value = int(self.read(key, int))
        if value < least:
            raise CheckpointError(f"{self.where}: {key!r} must be at least {least}, it is {value}")
        return value

    def counts(self, *names: str, **keys: str) -> dict[str, int]:
        """Whole numbers of at least 1, under our own names.

        Args:
            names: what is called the same here. keys: our name to the one here.
        """
        same = dict(zip(names, names, strict=True))
        return {ours: self.integer(key, least=1) for ours, key in (same | keys).items()}

    def factors(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers of at least 1, and of at least one of them."""
        values = self.read(key, list)
        if not values or not all(type(value) is int and value > 0 for value in values):
            raise CheckpointError(
                f"{self.where}: {key!r} must be a list of positive numbers, not {values!r:.60}"
            )
        return tuple(values)

    def token_id(self, key: str, vocab_size: int) -> int:
        """An id of a vocabulary."""
        value = self.integer(key)
        if value >= vocab_size:
            raise CheckpointError(
                f"{self.where}: {key!r} is {value}, the vocabulary has {vocab_size} ids"
            )
        return value

    def number(self, key: str, most: float = math.inf) -> float:
        """A finite number above 0 and at most `most`, as float."""
        value = float(self.read(key, (int, float)))
        if not (0 < value <= most and math.isfinite(value)):
            limit = "" if most == math.inf else f" and at most {most:g}"
            raise CheckpointError(f"{self.where}: {key!r} must be above 0{limit}, it is {value}")
        return value

    def expect(self, key: str, *accepted: Any) -> None:
        """Refuse a setting this code does not implement; an absent key passes."""
        if key in self.values and self.values[key] not in accepted:
            raise CheckpointError(
                f"{self.where}: {key} = {self.values[key]!r} is not supported (only {accepted})"
            )

    def check_heads(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        """Refuse heads that cannot share keys evenly, or whose width RoPE cannot halve."""
        if num_heads % num_kv_heads:
            raise CheckpointError(
                f"{self.where}: {num_heads} heads cannot share {num_kv_heads} key heads"
            )
        if head_dim % 2:
            raise CheckpointError(f"{self.where}: head_dim = {head_dim} must be even")
