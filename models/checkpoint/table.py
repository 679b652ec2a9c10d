"""The tensors of a network, listed once: official names and shapes, and how ours are made from
them.

Checking, loading and random weights all follow from this table. Without torch: a checkpoint is
checked by comparing `shapes` with the headers of its files. `weights.py` assembles our tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from models.checkpoint.files import Shapes, check_shapes


class Assembly(NamedTuple):
    """The recipe of one of our tensors."""

    way: str  # a function in `WAYS` or `FOLDS`
    sources: tuple[str, ...]  # official names, its first arguments
    numbers: tuple[int, ...]  # its further ones


@dataclass
class Table:
    shapes: Shapes = field(default_factory=dict)  # in the order that random weights are drawn in
    recipes: dict[str, Assembly] = field(default_factory=dict)  # by our names
    spare: set[str] = field(default_factory=set)  # optional in a file, and not used

    def hold(self, theirs: str, *shape: int) -> str:
        """Add an official tensor; return its name, for a recipe."""
        self.shapes[theirs] = shape
        return theirs

    def make(self, ours: str, way: str, *sources: str, numbers: tuple[int, ...] = ()) -> None:
        self.recipes[ours] = Assembly(way, sources, numbers)

    def keep(self, theirs: str, ours: str, *shape: int) -> None:
        self.make(ours, "rows", self.hold(theirs, *shape))

    def affine(self, theirs: str, ours: str, *shape: int) -> None:
        """Add a weight and a bias of its first dimension, unchanged."""
        self.keep(f"{theirs}.weight", f"{ours}.weight", *shape)
        self.keep(f"{theirs}.bias", f"{ours}.bias", shape[0])

    @property
    def num_weights(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())

    def check(self, found: Shapes, what: str) -> None:
        needed = {name: shape for name, shape in found.items() if name not in self.spare}
        check_shapes(needed, self.shapes, what)
