"""Released Qwen3-TTS checkpoints at full size, without their weights and without their disk space.

Configurations, names, types and shapes are those of the release (`released/`). A weight file has
its true header, and its data are a hole: all zeros, of the true length to the byte. The vocabulary
has the release's form and few of its merges.
"""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

from released_files import COMMON, RELEASED

SPEECH_TOKENIZER = "common/speech_tokenizer"
# Of the released files; public manifests list them.
WEIGHT_BYTES = {
    "Qwen3-TTS-12Hz-0.6B-Base": 1_829_344_272,
    "Qwen3-TTS-12Hz-0.6B-CustomVoice": 1_811_626_576,
    "Qwen3-TTS-12Hz-1.7B-Base": 3_857_413_744,
    "Qwen3-TTS-12Hz-1.7B-CustomVoice": 3_833_402_552,
    "Qwen3-TTS-12Hz-1.7B-VoiceDesign": 3_833_402_552,
}
SPEECH_TOKENIZER_BYTES = 682_293_092
ITEM_BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
VOCABULARY = 151_643  # entries; the added tokens' ids begin there
ASSISTANT, ASSISTANT_ID = "assistant", 77_091
MERGES = (*(f"{ASSISTANT[:end]} {ASSISTANT[end]}" for end in range(1, len(ASSISTANT))), "t h")
Tensors = dict[str, tuple[str, tuple[int, ...]]]


def write_checkpoint(
    folder: Path, name: str, *, num_shards: int = 1, has_metadata: bool | None = None
) -> Path:
    """Write a released checkpoint into `folder` and return the folder.

    Args:
        name: one of `released_files.CHECKPOINTS`.
        num_shards: above 1, the main weights are split over that many files with an index.
        has_metadata: whether the main weights' header says `{"format": "pt"}`; None: as released.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(COMMON, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.tsv"))
    shutil.copy(RELEASED / name / "config.json", folder)
    write_tokenizer(folder)
    if has_metadata is None:
        has_metadata = not name.endswith("-Base")
    metadata = {"format": "pt"} if has_metadata else None
    write_sparse_parts(folder, read_tensor_list(name), num_shards, metadata)
    codec = folder / "speech_tokenizer" / "model.safetensors"
    write_sparse(codec, read_tensor_list(SPEECH_TOKENIZER))
    return folder


def read_tensor_list(part: str) -> Tensors:
    """Stored type and shape of each tensor of a released file, by name, in the file's order.

    Args:
        part: a checkpoint, or `SPEECH_TOKENIZER`.
    """
    tensors: Tensors = {}
    text = (RELEASED / part / "tensors.tsv").read_text(encoding="utf-8")
    for name, kind, shape in (line.split("\t") for line in text.splitlines()):
        tensors[name] = kind, tuple(int(size) for size in shape.split(","))
    return tensors


def write_sparse(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file that holds zeros and takes no disk space but its header's."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    end = 0
    for name, (kind, shape) in tensors.items():
        start, end = end, end + num_bytes(kind, shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def write_sparse_parts(
    folder: Path, tensors: Tensors, num_shards: int, metadata: dict[str, str] | None
) -> None:
    """`model.safetensors`, or that many shards of about as many tensors each, and their index."""
    if num_shards == 1:
        write_sparse(folder / "model.safetensors", tensors, metadata)
        return
    files = [f"model-{i + 1:05d}-of-{num_shards:05d}.safetensors" for i in range(num_shards)]
    where = {name: files[i * num_shards // len(tensors)] for i, name in enumerate(tensors)}
    for file in files:
        part = {name: tensors[name] for name in tensors if where[name] == file}
        write_sparse(folder / file, part, metadata)
    total = sum(num_bytes(*tensor) for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def num_bytes(kind: str, shape: tuple[int, ...]) -> int:
    """What a tensor takes in a file."""
    return ITEM_BYTES[kind] * math.prod(shape)


def fill(path: Path, names: Iterable[str], value: float) -> None:
    """Give every entry of some float32 tensors of a file one value; their disk space is used."""
    with path.open("r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        for name in names:
            start, end = header[name]["data_offsets"]
            assert header[name]["dtype"] == "F32", name
            file.seek(8 + length + start)
            file.write(struct.pack("<f", value) * ((end - start) // 4))


def write_tokenizer(folder: Path) -> None:
    """`vocab.json` and `merges.txt` without a `#version` line.

    The added tokens stand in `tokenizer_config.json`, which is the release's own.
    """
    (folder / "vocab.json").write_text(vocabulary(), encoding="utf-8")
    merges = "".join(f"{merge}\n" for merge in MERGES)
    (folder / "merges.txt").write_text(merges, encoding="utf-8")


@functools.cache
def vocabulary() -> str:
    """`vocab.json`: as many entries as released, because the ids of added tokens follow them.

    All bytes and the template's one word have their released ids. A few more merges have none; the
    other entries stand for no text.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    units = [*map(chr, printable), *(chr(256 + place) for place in range(len(others)))]
    merged = [merge.replace(" ", "") for merge in MERGES]
    named = [*units, *(word for word in merged if word != ASSISTANT)]
    entries = {index: f"no text {index}" for index in range(VOCABULARY)}
    entries |= dict(enumerate(named)) | {ASSISTANT_ID: ASSISTANT}
    return json.dumps({entry: index for index, entry in entries.items()})


def disk_bytes(folder: Path) -> int:
    """What a folder's files take, holes not counted."""
    return sum(os.stat(path).st_blocks * 512 for path in folder.rglob("*") if path.is_file())
