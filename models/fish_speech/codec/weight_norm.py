"""Weight norm, folded once in float32: w = g * v / |v|, over all dimensions but the first."""

from __future__ import annotations

from torch import Tensor

from models.checkpoint.files import Shapes
from models.fish_speech.codec.tensors import DIRECTION, LENGTH, OLD_DIRECTION, OLD_LENGTH


def without_weight_norm(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """float32 tensors, `g` and `v` of each weight as one; the others as they are."""
    folded = {}
    for name, tensor in tensors.items():
        for length, direction in ((LENGTH, DIRECTION), (OLD_LENGTH, OLD_DIRECTION)):
            if name.endswith(direction):
                stem = name.removesuffix(direction)
                v = tensor.float()
                norm = v.square().sum(tuple(range(1, v.dim())), keepdim=True).sqrt()
                folded[f"{stem}weight"] = v * (tensors[stem + length].float() / norm)
                break
            if name.endswith(length):
                break
        else:
            folded[name] = tensor.float()
    return folded


def plain_shapes(shapes: Shapes) -> Shapes:
    """Of tensors without weight norm."""
    return {
        name.replace(OLD_DIRECTION, "weight").replace(DIRECTION, "weight"): shape
        for name, shape in shapes.items()
        if not name.endswith((LENGTH, OLD_LENGTH))
    }
