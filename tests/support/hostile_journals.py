"""Output folders whose files were changed by an attacker: the journal, and the files next to it.

The same seed makes the same change. Audio is left alone, so that what a row sounds like stays true.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile_checkpoints import MARK, VALUES

JOURNAL = "timings.jsonl"
ODD = ('"../../outside"', '"/tmp/outside"', '"ok"', '"failed"', '"a/../../b"', *VALUES)


def change(out: Path, seed: int) -> str:
    """Change a folder that a run has left. Returns what was done, in words."""
    rng = random.Random(seed)
    if rng.random() < 0.15:
        return _replace_file(out, rng)
    path = out / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    done = []
    for _ in range(rng.choice([1, 1, 2, 5])):
        change_lines = rng.choice(CHANGES)
        done.append(change_lines.__name__.strip("_"))
        lines = change_lines(lines, rng)
    path.write_bytes(b"".join(lines))
    return " and ".join(done)


def _replace_file(out: Path, rng: random.Random) -> str:
    """Something else under the name of one of our own files."""
    name = rng.choice([JOURNAL, "run.json", "runs.jsonl", ".tts-cli.lock"])
    kind = rng.choice(["a pipe", "a link", "a folder", "bytes", "nothing", "a dangling link"])
    path = out / name
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link":
        target = out.parent / "target"
        target.write_text("not ours")
        path.symlink_to(target)
    elif kind == "a dangling link":
        path.symlink_to(out.parent / "outside")
    elif kind == "a folder":
        path.mkdir()
    elif kind == "bytes":
        path.write_bytes(rng.choice(VALUES).encode() + rng.randbytes(20))
    return f"{name} is {kind}"


def _value(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Another value in a line."""
    place = rng.randrange(len(lines))
    values = _values(lines[place])
    if values is None:
        return lines
    values[rng.choice(sorted(values))] = MARK
    line = json.dumps(values).replace(f'"{MARK}"', rng.choice(ODD)).encode() + b"\n"
    return [*lines[:place], line, *lines[place + 1 :]]


def _stranger(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Return a line of a row that is not in the manifest."""
    values = _values(rng.choice(lines)) or {}
    values["id"] = rng.choice(
        ["../outside", "/tmp/outside", "", "a" * 5000, "\ud800", "#1", "x\ny"]
    )
    values["path"] = f"{values['id']}.wav"
    return [*lines, json.dumps(values).encode() + b"\n"]


def _bytes(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Other bytes somewhere."""
    content = b"".join(lines)
    place = rng.randrange(len(content))
    end = place + rng.randrange(1, 60)
    other = rng.choice([rng.randbytes(5), b"\0" * 4096, b"\n", b"", b"[" * 100_000, b"\xff"])
    return (content[:place] + other + content[end:]).splitlines(keepends=True) or [b"\n"]


def _cut(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Torn somewhere."""
    content = b"".join(lines)
    return content[: rng.randrange(1, len(content))].splitlines(keepends=True) or [b"\n"]


def _long(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """A line without end."""
    return [*lines, b'{"id": "' + b"x" * (3 << 20) + rng.choice([b"", b'"}\n', b"\n"])]


def _mixed(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """In another order, some of them twice."""
    return rng.choices(lines, k=2 * len(lines))


CHANGES: tuple[Callable[[list[bytes], random.Random], list[bytes]], ...] = (
    _value, _value, _value, _stranger, _bytes, _cut, _long, _mixed
)  # fmt: skip


def _values(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None
