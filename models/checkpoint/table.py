"""What a part of a checkpoint holds, said once: official names and shapes, and what our tensors are
made of. Without torch: to check a checkpoint is to compare `shapes` with its files' headers. What
makes ours of the tensors is `assemble` in `weights.py`, and random stand-ins have the same shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from models.checkpoint.files import Shapes, check_shapes


class Assembly(NamedTuple):
    """How one tensor of ours is made."""

    way: str  # a function of the ways that `assemble` is given
    sources: tuple[str, ...]  # official names, its first arguments
    numbers: tuple[int, ...]  # its further ones


@dataclass
class Table:
    """The tensors of a part."""

    shapes: Shapes = field(default_factory=dict)  # in the order that random stand-ins are drawn in
    recipes: dict[str, Assembly] = field(default_factory=dict)  # by our names
    spare: set[str] = field(default_factory=set)  # may be there or not, and are not used

    def hold(self, theirs: str, *shape: int) -> str:
        """There is such a tensor; its name, for a recipe."""
        self.shapes[theirs] = shape
        return theirs

    def make(self, ours: str, way: str, *sources: str, numbers: tuple[int, ...] = ()) -> None:
        """Ours is made of those, which are held."""
        self.recipes[ours] = Assembly(way, sources, numbers)

    def keep(self, theirs: str, ours: str, *shape: int) -> None:
        """There is such a tensor, and it is ours as it is."""
        self.make(ours, "rows", self.hold(theirs, *shape))

    def affine(self, theirs: str, ours: str, *shape: int) -> None:
        """A weight, and a bias of its first dimension, as they are."""
        self.keep(f"{theirs}.weight", f"{ours}.weight", *shape)
        self.keep(f"{theirs}.bias", f"{ours}.bias", shape[0])

    def check(self, found: Shapes, what: str) -> None:
        """Raise CheckpointError with every missing, unexpected or misshapen tensor by name."""
        needed = {name: shape for name, shape in found.items() if name not in self.spare}
        check_shapes(needed, self.shapes, what)
