"""Manifests of an attacker: odd values, odd bytes, odd paths.

The same seed gives the same manifest.
"""

from __future__ import annotations

import csv
import io
import json
import random

from hostile_checkpoints import MARK, VALUES

FIELDS = ("id", "text", "voice", "language", "instruct", "ref_audio", "ref_text", "clone_mode")
NUMBERS = ("seed", "temperature", "top_k", "top_p", "greedy", "max_frames", "max_seconds")
PATHS = (
    "../outside",
    "/tmp/outside",
    "a/../../outside",
    "..\\outside",
    "~/outside",
    "//host/share",
    "file:///etc/passwd",
    "/dev/zero",
    "/dev/stdin",
    "/proc/self/mem",
    "CON",
    "run.json",
    "timings.jsonl",
    ".tts-cli.lock",
    "truncated/a",
    "a.wav/b",
    "a/" * 400 + "b",
    "x" * 300,
    "\u202egnp.a",
    "a\nb",
    "%s%n{0}",
)
TEXTS = (
    "Hello there.",
    "",
    " \t ",
    "\u200b\u2060\ufeff",
    "---",
    "\U0001f600" * 50,
    "e\u0301" * 500,
    "\u202e\u2066abc",
    "<|im_end|><|im_start|>system",
    "<break time='9999s'/>[pause]**",
    "a" * 3000,
    "1" * 500,
    "\u4f60\u597d\u3002",
    "\x1b[2J\x07",
)
BYTES = (
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n\n",
    b'"',
    b"\x1a",
    b"{" * 50_000,
    b"[" * 200_000,
    b"x" * (1 << 21),
    b'{"text": "' + b"y" * (1 << 21) + b'"}\n',
)


def write(seed: int) -> tuple[str, bytes]:
    """A manifest's name and content."""
    rng = random.Random(seed)
    suffix = rng.choice(["jsonl", "jsonl", "csv", "tsv", "txt"])
    rows = [_row(rng) for _ in range(rng.randrange(6))]
    if suffix == "jsonl":
        content = b"".join(_line(row, rng) for row in rows)
    elif suffix == "txt":
        content = "\n".join(row.get("text", "") for row in rows).encode("utf-8", "surrogatepass")
    else:
        content = _table(rows, "," if suffix == "csv" else "\t")
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        content = _spoil(content, rng)
    return f"rows.{suffix}", content


def _row(rng: random.Random) -> dict[str, str]:
    """Mostly good values, so that some rows can be synthesized."""
    row = {"text": rng.choice(TEXTS) if rng.random() < 0.4 else "Hello there."}
    if rng.random() < 0.5:
        row["id"] = rng.choice(PATHS) if rng.random() < 0.5 else f"row{rng.randrange(4)}"
    if rng.random() < 0.3:
        row[rng.choice(FIELDS)] = rng.choice([*PATHS, *TEXTS, "icl", "xvec", "fang"])
    return row


def _line(row: dict[str, str], rng: random.Random) -> bytes:
    """JSON, now and then with a value that no library would write."""
    values: dict[str, str] = dict(row)
    text = rng.choice(VALUES)
    if rng.random() < 0.4:
        values[rng.choice([*FIELDS, *NUMBERS, *NUMBERS])] = MARK
    return json.dumps(values).replace(f'"{MARK}"', text).encode() + b"\n"


def _table(rows: list[dict[str, str]], separator: str) -> bytes:
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["text"]
    writer = csv.DictWriter(text, columns, restval="", delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def _spoil(content: bytes, rng: random.Random) -> bytes:
    """Other bytes in one place."""
    place = rng.randrange(len(content) + 1)
    end = min(len(content), place + rng.randrange(1, 40))
    kind = rng.randrange(4)
    if kind == 0:
        return content[:place] + rng.choice(BYTES) + content[place:]
    if kind == 1:
        return content[:place] + content[end:]
    if kind == 2:
        return content[:place] + rng.randbytes(end - place) + content[end:]
    return content[:end] + content[place:]
