"""Checkpoints changed by an attacker: one value of a JSON file, or one weight file.

The same seed gives the same change. `change` returns what puts the folder back.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# As they stand in a file: some are no JSON that a library would write.
VALUES = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "true",
    "false",
    "null",
    '""',
    '"a"',
    '"\\ud800"',
    '"\\u001b[2J"',
    json.dumps("x" * 100_000),
    "[]",
    "{}",
    "[0]",
    "[1, 1, 1, 1, 1, 1, 1, 1]",
    "[1048576, 1048576, 1048576, 1048576]",
    f"[{', '.join(['2'] * 1000)}]",
    '{"a": {"b": 1000000000}}',
    "1000",
    "65536",
    "1048576",
    "1000000000",
    "9223372036854775807",
    "18446744073709551616",
    "1" + "0" * 400,
    "9" * 5000,
    "1e40",
    "-1e40",
    "1e-40",
    "1e999",
    "0.5",
    "NaN",
    "Infinity",
    "-Infinity",
    "[" * 200_000,
    '{"a":' * 100_000,
)
TYPES = ("I8", "U8", "BOOL", "I64", "F8_E4M3", "C64", "U16", "F64", "NONE")
MARK = "@HERE@"


def change(folder: Path, seed: int) -> tuple[str, Callable[[], None]]:
    """Change one file. Returns what was done, in words, and what undoes it."""
    rng = random.Random(seed)
    weights = sorted(folder.rglob("*.safetensors"))
    texts = sorted(path for path in folder.rglob("*.json"))
    path = rng.choice(weights if rng.random() < 0.3 else texts)
    before = path.read_bytes()
    change_file = _change_weights if path in weights else _change_json
    what, after = change_file(before, rng)
    path.write_bytes(after)
    return f"{path.relative_to(folder)}: {what}", lambda: _restore(path, before)


def _restore(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the place of something in a JSON value."""
    children = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*place, key)
        yield from _places(child, (*place, key))


def _change_json(before: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Another value somewhere, a value left out, or a file that is none."""
    kind = rng.random()
    if kind < 0.05:
        return "cut", before[: rng.randrange(len(before))]
    if kind < 0.1:
        text = rng.choice(VALUES)
        return f"is {text:.40}", text.encode()
    root = json.loads(before)
    places = sorted(_places(root), key=str)
    if not places:
        return "is []", b"[]"
    place = rng.choice(places)
    parent = root
    for key in place[:-1]:
        parent = parent[key]
    if kind < 0.15:
        del parent[place[-1]]
        return f"without {place}", json.dumps(root).encode()
    text = rng.choice(VALUES)
    parent[place[-1]] = MARK
    return f"{place} is {text:.40}", json.dumps(root).replace(f'"{MARK}"', text).encode()


def _change_weights(before: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return a file that is cut or grown, or one with a false header."""
    (size,) = struct.unpack("<Q", before[:8])
    kind = rng.randrange(6)
    if kind == 0:
        return "cut", before[: rng.randrange(len(before))]
    if kind == 1:
        return "grown", before + bytes(rng.randrange(1, 10_000))
    if kind == 2:
        length = rng.choice([0, 1, 2**20, 2**40, 2**63, 2**64 - 1])
        return f"header of {length} bytes", struct.pack("<Q", length) + before[8:]
    header = json.loads(before[8 : 8 + size])
    name = rng.choice(sorted(header.keys() - {"__metadata__"}))
    entry = header[name]
    if kind == 3:
        entry["dtype"] = rng.choice(TYPES)
    elif kind == 4:
        entry["shape"] = rng.choice([[], [2**40, 2**40], [0], [-1], [10**40], entry["shape"][::-1]])
    else:
        start, end = entry["data_offsets"]
        entry["data_offsets"] = rng.choice([[0, 2**63], [end, start], [start, end - 1], [0, 0]])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    content = struct.pack("<Q", len(text)) + text + before[8 + size :]
    return f"{name} is {entry!s:.100}", content
