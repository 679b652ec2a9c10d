"""Checkpoints on disk or on the hub: where they are, what is in them, and loading that leaves
nothing unexplained.

Only safetensors files are read: no pickle, no code from a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

HUB_FILES = ["*.json", "*.txt", "*.md", "*.safetensors", "speech_tokenizer/*", "codec.pth"]
MAX_HEADER_BYTES = 100 * 2**20
Shapes = dict[str, tuple[int, ...]]  # of tensors by name
META = torch.device("meta")  # tensors with a shape and a type, and no values
STORED_TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


class CheckpointError(Exception):
    """A checkpoint is missing, incomplete or not one this tool reads."""


@dataclass(frozen=True)
class Conversion:
    """A file of a checkpoint that was turned into safetensors, which is all that is read later."""

    source: Path
    target: Path
    sha256: str  # of the source; recorded in the target
    is_new: bool  # False: it had been converted before


def resolve(source: str, revision: str | None = None) -> Path:
    """The local folder of a checkpoint: a path as it is, a repository id through the hub's cache.

    `HF_HUB_OFFLINE` and the other variables of huggingface_hub are honoured by that library.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    looks_local = source.startswith((".", "/", "~")) or source.count("/") != 1
    if folder.exists() or looks_local:
        raise CheckpointError(f"{source}: no such checkpoint folder")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=HUB_FILES))
    except HFValidationError as error:
        raise CheckpointError(f"{source}: neither a folder nor a repository id: {error}") from None
    except LocalEntryNotFoundError:
        raise CheckpointError(
            f"{source}: not a local folder, not in the hub cache, and the hub cannot be reached; "
            "check the name, the network and HF_HUB_OFFLINE"
        ) from None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"{source}: the hub refused or failed: {reason}") from None


def weight_files(folder: Path, stem: str = "model") -> list[Path]:
    """The safetensors files of one part: a single file, or the shards its index names."""
    single = folder / f"{stem}.safetensors"
    if single.is_file():
        return [single]
    index = folder / f"{stem}.safetensors.index.json"
    if not index.is_file():
        hint = ""
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
            hint = " (pickled weights are there, and are never read)"
        raise CheckpointError(f"{folder}: no {single.name} and no {index.name}{hint}")
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{index}: not a shard index: {error!r}") from None
    files = []
    for name in names:
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or not name.endswith(".safetensors")
        ):
            raise CheckpointError(f"{index}: shard {name!r} is not a plain safetensors file name")
        if not (folder / name).is_file():
            raise CheckpointError(f"{index}: shard {name} is missing")
        files.append(folder / name)
    return files


def read_tensors(folder: Path, device: torch.device, stem: str = "model") -> dict[str, Tensor]:
    """All tensors of one part on the device; on the meta device headers are read and no weight.

    Raises:
        CheckpointError: names the file that is broken.
    """
    tensors: dict[str, Tensor] = {}
    for file in weight_files(folder, stem):
        try:
            shard = read_header(file) if device == META else load_file(file, device=str(device))
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{file}: not a readable safetensors file: {error}") from None
        twice = tensors.keys() & shard.keys()
        if twice:
            raise CheckpointError(f"{file}: {sorted(twice)[0]} stands in two shards")
        tensors.update(shard)
    return tensors


def read_header(file: Path) -> dict[str, Tensor]:
    """Tensors on the meta device: what a file holds, by its header.

    Raises:
        CheckpointError: a tensor is stored in a type that is not read.
        SafetensorError, OSError: the file is broken, or shorter or longer than its header says.
    """
    tensors = {}
    with safe_open(file, framework="pt") as shard:
        for name in shard.keys():  # noqa: SIM118  (it is no dictionary)
            part = shard.get_slice(name)
            stored = part.get_dtype()
            if stored not in STORED_TYPES:
                raise CheckpointError(f"{file}: {name} is stored as {stored}, which is not read")
            tensors[name] = torch.empty(part.get_shape(), dtype=STORED_TYPES[stored], device=META)
    return tensors


def fuse(tensors: dict[str, Tensor], sources: Iterable[str], target: str) -> None:
    """Replace projections by one row-stacked tensor, in place, unless one is missing."""
    names = list(sources)
    if all(name in tensors for name in names):
        tensors[target] = torch.cat([tensors.pop(name) for name in names])


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """The shape of each."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def check_shapes(found: Shapes, wanted: Shapes, what: str) -> None:
    """Compare what a file holds with what a config asks for.

    Raises:
        CheckpointError: every missing, unexpected and misshapen tensor by name; of many the first.
    """
    problems = [f"missing {name}" for name in sorted(wanted.keys() - found.keys())]
    problems += [f"unexpected {name!r:.120}" for name in sorted(found.keys() - wanted.keys())]
    problems += [
        f"{name} has shape {found[name]}, the config says {wanted[name]}"
        for name in sorted(wanted.keys() & found.keys())
        if found[name] != wanted[name]
    ]
    if problems:
        shown = "\n  ".join(problems[:20])
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise CheckpointError(f"{what}: {len(problems)} tensors do not fit:\n  {shown}{more}")


def load_strictly(
    module: nn.Module, tensors: dict[str, Tensor], dtype: torch.dtype, what: str
) -> None:
    """Give every parameter and buffer of a meta-built module its tensor, cast to dtype.

    Raises:
        CheckpointError: as `check_shapes`.
    """
    check_shapes(shapes_of(tensors), shapes_of(module.state_dict()), what)
    cast = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    module.load_state_dict(cast, assign=True)
    module.requires_grad_(False)


def identity(folder: Path, parts: Iterable[Path]) -> str:
    """A short hash that changes with configs and weights: small files whole, weights by header and
    samples.

    It tells checkpoints apart for resume; it is no protection against forgery.
    """
    digest = hashlib.sha256()
    found = folder.rglob("*")
    small = sorted(path for path in found if path.suffix in (".json", ".txt") and path.is_file())
    for path in small:
        digest.update(
            path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
        )
    for path in parts:
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}\0".encode())
        with path.open("rb") as file:
            prefix = file.read(8)
            header_bytes = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            digest.update(file.read(min(header_bytes, MAX_HEADER_BYTES)))
            for sample in range(64):
                file.seek(sample * size // 64)
                digest.update(file.read(65536))
    return digest.hexdigest()[:16]
