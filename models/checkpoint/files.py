"""Checkpoints on disk or on the hub: their paths and their contents, without reading a weight or
importing torch. Tensors are in `weights.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

HUB_FILES = ["*.json", "*.txt", "*.md", "*.safetensors", "speech_tokenizer/*", "codec.pth"]
MAX_HEADER_BYTES = 100 * 2**20
BLOCK_BYTES = 2**20
MAX_JSON_BYTES = 64 * 2**20  # a tokenizer's are the largest, a few MB
STORED_TYPES = {  # that weights are read in: as safetensors and as torch name them
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}
MAX_SHOWN = 20  # tensors that do not fit, named in one message

Shapes = dict[str, tuple[int, ...]]  # of tensors by name
T = TypeVar("T")


class CheckpointError(Exception):
    """A checkpoint is missing, incomplete or not one that this tool can read."""


class NoSuchCheckpoint(CheckpointError):  # noqa: N818
    """No checkpoint is known under its name, which may be mistyped."""


@dataclass(frozen=True)
class Conversion:
    """A file of a checkpoint that was converted to safetensors, the only format read later."""

    source: Path
    target: Path
    sha256: str  # of the source; recorded in the target
    is_new: bool  # False: it had been converted before


@dataclass(frozen=True)
class TensorHeader:
    shapes: dict[str, tuple[int, ...]]  # of tensors by name
    types: dict[str, str]  # of tensors by name, as torch names them
    notes: dict[str, str]  # metadata of its writer


def resolve(source: str, revision: str | None = None) -> Path:
    """Return the local folder of a checkpoint: the path itself, or a repository in the hub's
    cache. huggingface_hub itself honours `HF_HUB_OFFLINE` and its other variables.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    looks_local = source.startswith((".", "/", "~")) or source.count("/") != 1
    if folder.exists() or looks_local:
        raise NoSuchCheckpoint(f"{source}: the checkpoint folder does not exist")
    return fetch(source, revision, HUB_FILES)


def fetch(source: str, revision: str | None, patterns: list[str]) -> Path:
    """Return the folder of a repository in the hub's cache, with the files that match. Files in the
    cache are not fetched again, and partial ones are continued.

    Raises:
        NoSuchCheckpoint: the repository does not exist, or the hub cannot be reached.
        CheckpointError: the hub refuses it, or it has no such revision.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=patterns))
    except HFValidationError as error:
        raise CheckpointError(f"{source}: neither a folder nor a repository id: {error}") from None
    except LocalEntryNotFoundError as error:
        where = f"{source}: not a local folder, not complete in the hub cache, and"
        if constants.HF_HUB_OFFLINE or isinstance(error.__cause__, OfflineModeIsEnabled):
            raise NoSuchCheckpoint(
                f"{where} HF_HUB_OFFLINE forbids access to the hub; unset it to download the "
                "checkpoint, or check the name"
            ) from None
        raise NoSuchCheckpoint(
            f"{where} the hub cannot be reached ({_reason(error.__cause__ or error)}); check the "
            "network"
        ) from None
    except GatedRepoError:
        raise CheckpointError(
            f"{source}: its owner requires that you accept terms on its hub page; accept them "
            "there, then log in with `hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise CheckpointError(f"{source}: has no revision {revision!r:.120}") from None
    except RepositoryNotFoundError:
        raise NoSuchCheckpoint(
            f"{source}: neither a local folder nor a hub repository; check the name, or log "
            "in with `hf auth login` if it is private"
        ) from None
    except (HfHubHTTPError, OSError) as error:
        raise CheckpointError(
            f"{source}: the hub refused access or failed: {_reason(error)}"
        ) from None


def cached_repositories() -> list[str]:
    """Return the names of the models in the hub's cache, of any kind."""
    from huggingface_hub import constants

    try:
        names = os.listdir(constants.HF_HUB_CACHE)
    except OSError:
        return []
    prefix = "models--"
    found = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return sorted(name.replace("--", "/", 1) for name in found)


def _reason(error: BaseException) -> str:
    """The first line of a library's error message."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of one part (a folder or the file itself): one file, or the
    shards in its index.
    """
    if folder.is_file():
        return [folder]
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        hint = ""
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
            hint = " (there are pickled weights, which are never loaded)"
        raise CheckpointError(f"{folder}: no {single.name} and no {index.name}{hint}")
    try:
        names = set(read_json(index)["weight_map"].values())
    except (KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index}: not a shard index: {error!r:.120}") from None
    files = []
    for name in sorted(names, key=str):
        is_plain = isinstance(name, str) and Path(name).name == name
        if not is_plain or not name.endswith(".safetensors"):
            raise CheckpointError(f"{index}: shard {name!r} is not a plain safetensors file name")
        if not (folder / name).is_file():
            raise CheckpointError(f"{index}: shard {name} is missing")
        files.append(folder / name)
    return files


def require_plain_files(folder: Path) -> None:
    """Raise CheckpointError for a pipe or a device in a checkpoint, which would block libraries."""
    for path in (*folder.glob("*"), *folder.glob("*/*")):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CheckpointError(f"{path}: is not a plain file; remove it")


def read_json(path: Path) -> Any:
    """Return the content of a small file. Raises CheckpointError: missing, not a plain file, too
    large, no JSON.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a regular file")  # a pipe would be waited for
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_JSON_BYTES:
                raise ValueError(f"more than {MAX_JSON_BYTES // 2**20} MiB")
            return json.loads(file.read().decode("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: not found; is this a complete checkpoint?") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not readable as JSON: {error}") from None


def read_header(file: Path) -> TensorHeader:
    """Return the header of a safetensors file. Raises CheckpointError: the file is broken,
    shorter or longer than its header states, or has an unknown type.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as opened:
            parts = {name: opened.get_slice(name) for name in list(opened.keys())}
            shapes = {name: tuple(part.get_shape()) for name, part in parts.items()}
            stored = {name: part.get_dtype() for name, part in parts.items()}
            notes = dict(opened.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise unreadable(file, error) from None
    for name, kind in stored.items():
        if kind not in STORED_TYPES:
            raise CheckpointError(
                f"{file}: {name:.120} is stored as {kind}, which is not supported"
            )
    return TensorHeader(shapes, {name: STORED_TYPES[kind] for name, kind in stored.items()}, notes)


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors of one part, from its files' headers. Raises
    CheckpointError.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in weight_files(folder):
        add_shard(shapes, read_header(file).shapes, file)
    return shapes


def add_shard(found: dict[str, T], shard: Mapping[str, T], file: Path) -> None:
    """Add the content of a file to `found`. Raises CheckpointError if a name occurs twice."""
    if twice := found.keys() & shard.keys():
        raise CheckpointError(f"{file}: {sorted(twice)[0]} occurs in two shards")
    found.update(shard)


def unreadable(file: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{file}: not a readable safetensors file: {error}")


def check_shapes(found: Shapes, wanted: Shapes, what: str) -> None:
    """Raise CheckpointError with the names of all missing, unexpected and misshapen tensors."""
    problems = [f"missing {name}" for name in sorted(wanted.keys() - found.keys())]
    problems += [f"unexpected {name!r:.120}" for name in sorted(found.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & found.keys()):
        if found[name] != wanted[name]:
            problems.append(
                f"{name} has shape {found[name]}, but the config requires {wanted[name]}"
            )
    if problems:
        shown = "\n  ".join(problems[:MAX_SHOWN])
        rest = len(problems) - MAX_SHOWN
        more = f"\n  and {rest} more" if rest > 0 else ""
        raise CheckpointError(f"{what}: {len(problems)} tensors do not match:\n  {shown}{more}")


def identity(folder: Path, parts: Iterable[Path]) -> str:
    """Return a short hash that changes with configs and weights: small files whole, weights by
    header and samples. It distinguishes checkpoints for resume; it does not protect against
    forgery.
    """
    digest = hashlib.sha256()
    found = folder.rglob("*")
    small = sorted(path for path in found if path.suffix in (".json", ".txt") and path.is_file())
    for path in small:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        digest.update(b"\0")
    for path in parts:
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}\0".encode())
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            digest.update(file.read(min(header_bytes, MAX_HEADER_BYTES)))
            for sample in range(64):
                file.seek(sample * size // 64)
                digest.update(file.read(65536))
    return digest.hexdigest()[:16]
