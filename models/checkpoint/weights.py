"""Tensors of a checkpoint, and loading that leaves none of them unexplained.

Only safetensors files are read: no pickle, no code from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from models.checkpoint.files import (
    Header,
    add_shard,
    check_shapes,
    read_header,
    unreadable,
    weight_files,
)

META = torch.device("meta")  # tensors with a shape and a type, and no values


def read_tensors(folder: Path, device: torch.device) -> dict[str, Tensor]:
    """All tensors of one part on the device; on the meta device headers are read and no weight.

    Raises:
        CheckpointError: names the file that is broken.
    """
    tensors: dict[str, Tensor] = {}
    for file in weight_files(folder):
        try:
            shard = (
                meta_tensors(read_header(file))
                if device == META
                else load_file(file, device=str(device))
            )
        except (SafetensorError, OSError) as error:
            raise unreadable(file, error) from None
        add_shard(tensors, shard, file)
    return tensors


def meta_tensors(header: Header) -> dict[str, Tensor]:
    """What a file holds, on the meta device."""
    return {
        name: torch.empty(shape, dtype=getattr(torch, header.types[name]), device=META)
        for name, shape in header.shapes.items()
    }


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes by name, as `check_shapes` takes them."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def take_part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Take the tensors of one part out."""
    return {name: tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}


def rename(
    tensors: dict[str, Tensor], names: Mapping[str, str], old: str = "", new: str = ""
) -> None:
    """Give tensors other names, in place; those that are not there are left to `load_strictly`.

    Args:
        names: theirs to ours, behind the prefixes `old` and `new`.
    """
    for theirs, ours in names.items():
        if old + theirs in tensors:
            tensors[new + ours] = tensors.pop(old + theirs)


def fuse(tensors: dict[str, Tensor], sources: Iterable[str], target: str) -> None:
    """Replace projections by one row-stacked tensor, in place, unless one is missing."""
    names = list(sources)
    if all(name in tensors for name in names):
        tensors[target] = torch.cat([tensors.pop(name) for name in names])


def load_strictly(
    module: nn.Module, tensors: dict[str, Tensor], dtype: torch.dtype, what: str
) -> None:
    """Give every parameter and buffer of a meta-built module its tensor, cast to dtype.

    Raises:
        CheckpointError: lists missing keys, unexpected keys and wrong shapes together.
    """
    check_shapes(shapes_of(tensors), shapes_of(module.state_dict()), what)
    cast = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    module.load_state_dict(cast, assign=True)
    module.requires_grad_(False)
