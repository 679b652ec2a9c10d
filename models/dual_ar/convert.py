"""`codec.pth` to `codec.safetensors`: once, by `tts-cli models convert`, and never read otherwise.

A pickle can run code when it is read, so this is the only place that opens one, with PyTorch's
reader that builds nothing but tensors and plain containers. Names, shapes and types must be those
of the codec before anything is copied. The numbers are copied unchanged, with weight norm; tables
that the official code saves too are left out. The hash of the source is stored with the result.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from models.checkpoint.files import CheckpointError, Conversion, check_shapes, read_header
from models.checkpoint.weights import shapes_of
from models.dual_ar.config import CONFIG_FILE, PICKLED_FILE, SOURCE_BYTES, WEIGHTS_FILE, CodecConfig
from models.dual_ar.tensors import STALE, official_shapes

log = logging.getLogger(__name__)

SOURCE_HASH = "source_sha256"
WRAPPERS = ("state_dict", "generator")  # possible keys of the tensors
PREFIX = "generator."
MAX_KEYS = 10_000
BLOCK_BYTES = 2**24


def convert(folder: Path, config: CodecConfig) -> Conversion:
    """Convert the codec of a checkpoint folder, unless that was done before.

    Args:
        config: its sizes if the folder has no `codec.json`.
    Raises:
        CheckpointError: the codec is missing or invalid, or the folder is read-only.
    """
    source, target = folder / PICKLED_FILE, folder / WEIGHTS_FILE
    if not source.is_file():
        if target.is_file():
            return Conversion(source, target, _notes(target).get(SOURCE_HASH, ""), is_new=False)
        raise CheckpointError(f"{folder}: no {PICKLED_FILE}; nothing to convert")
    if (folder / CONFIG_FILE).is_file():
        config = CodecConfig.from_file(folder / CONFIG_FILE)
    size, sha256 = source.stat().st_size, file_hash(source)
    if target.is_file() and _notes(target).get(SOURCE_HASH) == sha256:
        return Conversion(source, target, sha256, is_new=False)
    log.info("reading %s (%.3g GB)", source, size / 1e9)
    tensors = read_pickled(source, config)
    notes = {
        "format": "pt",
        "source": PICKLED_FILE,
        SOURCE_HASH: sha256,
        SOURCE_BYTES: str(size),
        "made_by": "tts-cli models convert",
    }
    text = json.dumps(config.as_json() | {"source": {PICKLED_FILE: sha256}}, indent=2) + "\n"
    try:
        # safetensors makes files that only their owner can read; a checkpoint may be shared.
        mode = source.stat().st_mode & 0o666 | 0o600
        _replace(folder / CONFIG_FILE, lambda path: path.write_text(text, encoding="utf-8"), mode)
        _replace(target, lambda path: save_file(tensors, path, notes), mode)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{target}: cannot be written: {error}") from None
    return Conversion(source, target, sha256, is_new=True)


def file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_pickled(path: Path, config: CodecConfig) -> dict[str, Tensor]:
    """Return the codec's parameters in a pickled file, checked, each in separate memory. Raises
    CheckpointError: it contains anything else.
    """
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # a broken or hostile file can raise almost anything
        raise CheckpointError(f"{path}: refused: {_reason(error)}") from None
    for key in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or len(content) > MAX_KEYS:
        raise CheckpointError(f"{path}: refused: a table of the codec's tensors was expected")
    if any(isinstance(name, str) and name.startswith(PREFIX) for name in content):
        content = {
            name.removeprefix(PREFIX): value
            for name, value in content.items()
            if isinstance(name, str) and name.startswith(PREFIX)
        }
    tensors = {}
    for name, value in content.items():
        if isinstance(name, str) and name.endswith(STALE):
            continue
        is_plain = isinstance(value, Tensor) and value.layout == torch.strided
        if not isinstance(name, str) or not is_plain or not value.is_floating_point():
            raise CheckpointError(f"{path}: refused: {name!r:.120} is not a tensor of weights")
        if value.device.type != "cpu":
            raise CheckpointError(f"{path}: refused: {name!r:.120} has no values")
        tensors[name] = value.detach()
    check_shapes(shapes_of(tensors), official_shapes(config), str(path))
    copies = {
        name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
    }
    broken = [name for name, value in copies.items() if not value.isfinite().all()]
    if broken:
        raise CheckpointError(f"{path}: {len(broken)} tensors hold NaN or inf, {broken[0]} first")
    return copies


def _reason(error: Exception) -> str:
    """Return why a pickle cannot be read, without PyTorch's advice to read it unsafely."""
    found = re.search(r"GLOBAL ([\w.]+)", str(error))
    if found is not None:
        return f"it wants to load {found[1]}, and may hold nothing but tensors"
    return f"not a readable file of tensors ({type(error).__name__})"


def _notes(path: Path) -> dict[str, str]:
    try:
        return read_header(path).notes
    except CheckpointError:
        return {}


def _replace(target: Path, write: Callable[[Path], object], mode: int) -> None:
    """Write under another name, sync and rename: under its own name a file is always complete."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        write(part)
        part.chmod(mode)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
