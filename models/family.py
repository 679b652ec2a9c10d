"""A family as one object, and everything that follows from it: describing, checking, loading,
random weights.

A family's `family.py` has a `FAMILY`, which imports no torch. The tensors of each network are
listed in a table; all else is generic. `load.py` does the part that needs torch.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from models.base import (
    Licence,
    ModelInfo,
    PromptBuilder,
    Reader,
    RequestError,
    Tokenizer,
    library_errors,
)
from models.checkpoint.files import CheckpointError, Shapes, identity, tensor_shapes, weight_files
from models.checkpoint.table import Table
from models.pace import Pace

FIRST_TEXT_ID = 1000  # byte b of a text is id 1000 + b for random weights
# Of the chat template that the families' tokenizers have from Qwen.
MARKERS = {"<|im_start|>": 151644, "<|im_end|>": 151645, "assistant": 77091, "user": 872}


class NetworkPart(NamedTuple):
    name: str  # in messages
    network: str  # its class, as module:name
    config: Any  # of that class
    table: Table
    where: str = ""  # its weight files: a folder in the checkpoint, or a file
    prefix: str = ""  # of its tensors' names, where several parts share files
    is_float32: bool = False  # whatever the model's dtype


def unused(prefix: str, where: str = "") -> NetworkPart:
    """Return tensors that a file may have and that none of our networks needs."""
    return NetworkPart("", "", None, Table(), where, prefix)


@dataclass(frozen=True)
class Family:
    """A family of checkpoints. Its configuration C covers all files of a checkpoint, and has
    `main`, a FamilyConfig, and `codec`, the DecoderSizes of its vocoder.
    """

    name: str
    model: str  # its SpeechModel, as module:name
    read: Callable[[Path], Any]  # C of a folder; raises CheckpointError
    released: Callable[[str], Any]  # C of a released size
    parts: Callable[[Any], Sequence[NetworkPart]]  # of C: `model` first, then `vocoder` and others
    info: Callable[[Any], dict[str, Any]]  # of C: fields of ModelInfo that sizes do not tell
    tokenizer: Callable[[Path, Any], Tokenizer]  # of a folder and C; raises CheckpointError
    prompt: Callable[[Any, Tokenizer], PromptBuilder]  # of C
    pace: Pace  # of all its checkpoints
    markers: Mapping[str, int] | None = None  # ids of the template in a random checkpoint
    licence: Licence | None = None  # whose terms must be accepted first
    shared_codec: tuple[str, ...] = ()  # sizes whose checkpoints all have one codec
    # A function of files that are not safetensors, as module:name, and its argument for a folder.
    convert: tuple[str, Callable[[Path], Any]] | None = None


def named(name: str) -> Any:
    """Import an object by its module:name."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


class Folder:
    """A checkpoint on disk. Raises CheckpointError if it does not match its configs."""

    def __init__(self, family: Family, folder: Path) -> None:
        self.family, self.folder, self.place = family, folder, str(folder)
        self.config = family.read(folder)
        self.all_parts = family.parts(self.config)
        self.parts = [part for part in self.all_parts if part.name]

    def identity(self) -> str:
        """A hash of configs and weights, after all names and shapes were checked."""
        found: dict[str, Shapes] = {}
        files: list[Path] = []
        for where in dict.fromkeys(part.where for part in self.all_parts):
            files += weight_files(self.folder / where)
            found[where] = tensor_shapes(self.folder / where)
        wanted: dict[tuple[str, str], tuple[str, Table]] = {}
        for part in self.all_parts:
            name, table = wanted.get((part.where, part.prefix), (part.name, Table()))
            merged = Table(table.shapes | part.table.shapes, spare=table.spare | part.table.spare)
            wanted[part.where, part.prefix] = name, merged
        for (where, prefix), (name, table) in sorted(wanted.items(), reverse=True):
            mine = {n: found[where].pop(n) for n in list(found[where]) if n.startswith(prefix)}
            if name:
                table.check(mine, f"{self.folder / where}: {name}")
        return identity(self.folder, files)

    def tokenizer(self) -> Tokenizer:
        return self.family.tokenizer(self.folder, self.config)


class MadeUp:
    """Random weights of a released size, for judging hardware before any download. The same seed
    and device give the same weights.
    """

    def __init__(self, family: Family, name: str, seed: int = 0, config: Any = None) -> None:
        self.family, self.place, self.seed = family, f"synthetic:{name}", seed
        self.config = config or family.released(name)
        self.parts = [part for part in family.parts(self.config) if part.name]

    def identity(self) -> str:
        return self.place

    def tokenizer(self) -> Tokenizer:
        """Return bytes to ids; a marker of the template is one id, as in a released tokenizer."""
        return byte_tokenizer(self.family.markers or MARKERS)


Source = Folder | MadeUp  # of a checkpoint's networks


def describe(source: Source) -> ModelInfo:
    """Describe a checkpoint. Random weights have no licence and no pace."""
    family, main, codec = source.family, source.config.main, source.config.codec
    info = ModelInfo(
        family=family.name,
        num_codebooks=main.num_codebooks,
        sample_rate_hz=codec.sample_rate_hz,
        samples_per_frame=codec.samples_per_frame,
        max_frames=main.max_frames,
        max_positions=main.talker.max_positions,
        sampling=main.sampling,
        identity=source.identity(),
        licence=family.licence,
        **family.info(source.config),
    )
    return replace(info, licence=None, pace=None) if isinstance(source, MadeUp) else info


def read(source: Source) -> Reader:
    """Return the layout of requests, without reading a weight."""
    tokenize = source.tokenizer()
    with library_errors(CheckpointError, f"{source.place}: its tokenizer"):
        prompt = source.family.prompt(source.config, tokenize)
    return Reader(prompt, tokenize, source.config.main)


def tokenizer_of(library: Any, problem: str) -> Tokenizer:
    """Return text to ids by a tokenizer of the tokenizers library; special tokens are recognised.

    Args:
        problem: the beginning of its RequestError for a text that it cannot split.
    """

    def tokenize(text: str) -> list[int]:
        with library_errors(RequestError, f"{problem} cannot split this text, so change it"):
            return list(library.encode(text, add_special_tokens=False).ids)

    return tokenize


def byte_tokenizer(markers: Mapping[str, int]) -> Tokenizer:
    """Return a tokenizer of bytes. `markers`: text to id."""
    pieces = re.compile(f"({'|'.join(map(re.escape, markers))})")

    def tokenize(text: str) -> list[int]:
        ids: list[int] = []
        for piece in pieces.split(text):
            if piece in markers:
                ids.append(markers[piece])
            else:
                ids += [FIRST_TEXT_ID + byte for byte in piece.encode()]
        return ids

    return tokenize
