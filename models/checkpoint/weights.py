"""Tensors of a checkpoint, and loading that leaves none of them unexplained.

Only safetensors files are read: no pickle, no code from a checkpoint.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from models.checkpoint.files import (
    TensorHeader,
    add_shard,
    check_shapes,
    read_header,
    unreadable,
    weight_files,
)
from models.checkpoint.table import Table

READ_THREADS = {"cuda": 8}  # on a CPU files are mapped: one thread reads them
META = torch.device("meta")  # tensors with a shape and a type, and no values


def read_tensors(folder: Path, device: torch.device) -> dict[str, Tensor]:
    """All tensors of one part on the device; on the meta device headers are read and no weight.

    Raises:
        CheckpointError: names the file that is broken.
    """
    tensors: dict[str, Tensor] = {}
    for file in weight_files(folder):
        header = read_header(file)
        add_shard(tensors, read_file(file, header, header.shapes, device), file)
    return tensors


def read_file(
    file: Path, header: TensorHeader, names: Iterable[str], device: torch.device
) -> dict[str, Tensor]:
    """Some of a file's tensors, otherwise as `read_tensors`; for a GPU by several threads.

    From a warm page cache 1.65 GB of bfloat16 took 0.10 s with four threads and 0.09 s with eight,
    19 GB/s, and 0.28 to 0.61 s by safetensors' `load_file` (H200, 2026-11-22). Reading into pinned
    buffers by ourselves was no faster.
    """
    if device == META:
        types = {name: getattr(torch, header.types[name]) for name in names}
        return {
            name: torch.empty(header.shapes[name], dtype=dtype, device=META)
            for name, dtype in types.items()
        }
    largest_first = sorted(names, key=lambda name: math.prod(header.shapes[name]), reverse=True)
    num_threads = READ_THREADS.get(device.type, 1)

    def read(first: int) -> dict[str, Tensor]:
        with safe_open(file, framework="pt", device=str(device)) as opened:
            return {name: opened.get_tensor(name) for name in largest_first[first::num_threads]}

    tensors: dict[str, Tensor] = {}
    try:
        with ThreadPoolExecutor(num_threads) as pool:
            for part in pool.map(read, range(num_threads)):
                tensors |= part
    except (SafetensorError, OSError) as error:
        raise unreadable(file, error) from None
    return tensors


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes by name, as `check_shapes` takes them."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def rows(*parts: Tensor) -> Tensor:
    """Tensors one behind the other; one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def halves(weight: Tensor, num_heads: int, head_dim: int) -> Tensor:
    """The first num_heads * head_dim rows with each head's even rows before its odd ones.

    RoPE here rotates a head's first half against its second; some families rotate neighbours. Dot
    products of queries and keys are the same once both are reordered.
    """
    count = num_heads * head_dim
    head = weight[:count].view(num_heads, head_dim // 2, 2, *weight.shape[1:])
    return torch.cat([head.transpose(1, 2).reshape(count, *weight.shape[1:]), weight[count:]])


WAYS: dict[str, Callable[..., Tensor]] = {
    "rows": rows,
    "halves": halves,
    "stack": lambda *parts: torch.stack(parts),
    "split": lambda weight, count: weight.view(count, -1, weight.shape[1]),
    # Of a table: copies, so that the whole one can be let go.
    "first_rows": lambda weight, count: weight[None, :count].clone(),
    "range_and_one": lambda weight, first, count, one: torch.cat(
        [weight[first : first + count], weight[one, None]]
    ),
}


def assemble(
    table: Table,
    tensors: dict[str, Tensor],
    ways: Mapping[str, Callable[..., Tensor]] = WAYS,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Our tensors of the official ones, which are let go as soon as they have been used.

    Args:
        dtype: what official tensors are cast to first; None: as they are.
    """
    uses = Counter(name for recipe in table.recipes.values() for name in recipe.sources)

    def take(name: str) -> Tensor:
        uses[name] -= 1
        tensor = tensors[name] if uses[name] else tensors.pop(name)
        return tensor if dtype is None else tensor.to(dtype)

    return {
        ours: ways[recipe.way](*map(take, recipe.sources), *recipe.numbers)
        for ours, recipe in table.recipes.items()
    }


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


def load_networks(
    networks: Mapping[str, nn.Module],
    table: Table,
    tensors: dict[str, Tensor],
    dtype: torch.dtype,
    what: str,
) -> None:
    """Give meta-built networks, by the first word of our names, the tensors of a table, cast to
    dtype. Raises CheckpointError with all names and shapes that do not fit.
    """
    table.check(shapes_of(tensors), what)
    load_strictly(nn.ModuleDict(networks), assemble(table, tensors), dtype, what)
