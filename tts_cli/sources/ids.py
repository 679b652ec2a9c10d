"""Row ids: valid and reserved ids, ids by content, and a compact table of ids.

An id becomes `DIR/<id>.wav`. It therefore may not lead out of DIR, be a name that a file system
treats specially, or differ from another id only in letter case.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeGuard

from tts_cli.config import SUBTITLES, SUBTYPES

MAX_PART_BYTES = 200  # of UTF-8; leaves room for a suffix and a temporary name in 255
MAX_ID_BYTES = 1000
_CONTENT_HEX = 16  # 64 bits: two of a million rows collide with a chance of 3e-8
TRUNCATED = "truncated"  # folder of runaway audio inside the output folder
TAKES = "takes"  # folder of the takes of rows that have several
REMOVED = "removed"  # folder of the files of rows that the manifest no longer has
VOICES = ".voices"  # folder of generated voices, see `voices.generated`
_RESERVED = {
    TRUNCATED: "rows cut off at the maximum length",
    TAKES: "takes of rows that have several",
    REMOVED: "rows that the manifest no longer has",
    VOICES: "generated voices",
    "report.html": "the page of `report`",
    "book.m4b": "a book in one file",
}

_DIGITS = re.compile(r"([0-9]+)")
_ASCII_ID = re.compile(r"[A-Za-z0-9._/-]+")
# Most ids: short, and without anything that needs further checks.
_PART = (
    r"(?:[A-Za-z0-9_-]{5,40}"
    r"|(?!(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:/|\Z))[A-Za-z0-9_-]{1,4})"
)
_PLAIN_ID = re.compile(rf"(?!(?i:truncated|takes|removed)/)(?:{_PART}/){{0,8}}{_PART}")
_PLAIN_PART = re.compile(r"[A-Za-z0-9_.-]+")
_PLAIN_PATH = re.compile(r"/?(?:[\w-]+(?:\.[\w-]+)*/)*[\w-]+(?:\.[\w-]+)*", re.ASCII)
_LINE_ID = re.compile(r"#(?:.*:)?[0-9]{1,12}")  # of a row without an id, see `BadRow.record_id`
_DEVICE_NAMES = frozenset(
    ["CON", "PRN", "AUX", "NUL"] + [f"{port}{n}" for port in ("COM", "LPT") for n in range(10)]
)
# A folder with such a suffix could have the name of an output file.
_FILE_SUFFIXES = (
    *(f".{format}" for format in SUBTYPES),
    *(f".{format}" for format in SUBTITLES),
    ".safetensors",
    ".original",
    ".json",
    ".jsonl",
    ".lock",
    ".part",
)


def id_problem(row_id: str) -> str | None:
    """Return why `row_id` cannot name an output file, or None."""
    if _PLAIN_ID.fullmatch(row_id):
        return None
    if problem := _path_problem(row_id):
        return problem
    folder, _, rest = row_id.casefold().partition("/")
    if rest and (use := _RESERVED.get(folder)):
        return f"starts with '{folder}/', which is reserved for {use}"
    return None


def manifest_id_problem(row_id: str) -> str | None:
    """Return why a manifest may not have this id, or None. Folders of old versions may have it."""
    if ".textgrid/" in row_id.casefold():
        return "has a folder that ends with '.TextGrid', as files of `align --textgrid` do"
    return id_problem(row_id)


def natural_order(row_id: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts `line2` before `line10`."""
    return [
        (0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part)
        for part in _DIGITS.split(row_id)
    ]


def is_recorded_id(row_id: object, status: object = "ok") -> TypeGuard[str]:
    """Return whether an id in a file of an output folder, which is untrusted, is valid.

    Ids that are reserved now are valid, because earlier versions allowed them. Invalid rows without
    an id are recorded as `#LINE`, which is only valid if the status is not ok.
    """
    if not isinstance(row_id, str):
        return False
    if _PLAIN_ID.fullmatch(row_id) or _path_problem(row_id) is None:
        return True
    return status != "ok" and row_id.isprintable() and _LINE_ID.fullmatch(row_id) is not None


def voice_label(voice: str | None) -> str | None:
    """Return a voice's name for users: a generated voice's without its folder."""
    return None if voice is None else voice.removeprefix(f"{VOICES}/")


def _path_problem(row_id: str) -> str | None:
    if not row_id:
        return "is empty"
    if len(row_id.encode("utf-8", "surrogatepass")) > MAX_ID_BYTES:
        return f"is longer than {MAX_ID_BYTES} bytes"
    if not _ASCII_ID.fullmatch(row_id):
        for char in row_id:
            if not _is_allowed(char):
                return (
                    f"contains {char!r}; use letters, digits, '.', '_', '-' and '/' for subfolders"
                )
    if row_id.startswith("/"):
        return "starts with '/'; ids are relative to the output folder"
    parts = row_id.split("/")
    for position, part in enumerate(parts):
        if problem := _part_problem(part, is_folder=position < len(parts) - 1):
            return problem
    return None


def _is_allowed(char: str) -> bool:
    return char in "._-/" or unicodedata.category(char)[0] in "LM" or char.isdecimal()


def _part_problem(part: str, is_folder: bool) -> str | None:
    if not part:
        return "has an empty part between '/'"
    if part in (".", ".."):
        return f"has the part '{part}', which could leave the output folder"
    if part.endswith("."):
        return f"has the part '{part}', which ends with '.'"
    if len(part.encode("utf-8")) > MAX_PART_BYTES:
        return f"has a part longer than {MAX_PART_BYTES} bytes"
    if part.split(".")[0].upper() in _DEVICE_NAMES:
        return f"has the part '{part}', a device name on Windows"
    if is_folder and part.casefold().endswith(_FILE_SUFFIXES):
        return f"has the folder '{part}', which could be the name of an output file"
    return None


def as_id(name: str) -> str:
    """Return the id for a name or path, without parts such as `..`; _ replaces invalid
    characters.
    """
    if _PLAIN_PATH.fullmatch(name):
        return name.removeprefix("/")
    parts = re.sub("^[A-Za-z]:", "", name.replace("\\", "/")).split("/")
    return "/".join(filter(None, map(_id_part, parts)))


def _id_part(name: str) -> str:
    if name.strip(".") == "":
        return ""
    if not _PLAIN_PART.fullmatch(name):
        name = "".join(char if id_problem(f"a{char}a") is None else "_" for char in name)
    return name.rstrip(".")


def default_id(number: int) -> str:
    return f"{number:06d}"


def content_id(text: str, voice: str | None, times: int) -> str:
    """Return the id of the `times`-th row (from 1) with this text and voice."""
    content = json.dumps([text, voice, times]).encode()
    return hashlib.blake2b(content, digest_size=_CONTENT_HEX // 2).hexdigest()


class ContentIds:
    """Makes ids by content for the rows of a manifest, in order."""

    def __init__(self) -> None:
        self._times = IdTable()

    def next(self, text: str, voice: str | None) -> str:
        key = id_hash(json.dumps([text, voice]))
        times = (self._times.get(key) or 0) + 1
        self._times.put(key, times)
        return content_id(text, voice, times)


def fold_id(row_id: str) -> str:
    """Return a form that is equal for ids that name the same file on some file system."""
    if row_id.isascii():
        return row_id.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", row_id).casefold())


@lru_cache(maxsize=64)  # a row needs it several times
def id_hash(row_id: str) -> int:
    """Return a hash of 64 bits, never 0. Two of a million ids collide with a chance of 3e-8."""
    digest = hashlib.blake2b(row_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def is_in_shard(row_id: str, shard: tuple[int, int] | None) -> bool:
    """Return whether a row belongs to part I of N (I from 1). Only its id decides."""
    return shard is None or id_hash(row_id) % shard[1] == shard[0] - 1


class IdTable:
    """A map from nonzero 64-bit keys to 64-bit values in two flat arrays.

    A dict of a million ints takes about 100 MB; this takes 24 to 48 bytes per entry. SQLite took
    7.6 us for what this does in 1.5.
    """

    def __init__(self) -> None:
        self._mask = 1023
        self._keys = array("Q", bytes(8 * 1024))  # 0 is a free place
        self._values = array("Q", bytes(8 * 1024))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def get(self, key: int) -> int | None:
        place = self._find(key)
        return self._values[place] if self._keys[place] else None

    def put(self, key: int, value: int) -> None:
        if self.setdefault(key, value) != value:
            self._values[self._find(key)] = value

    def setdefault(self, key: int, value: int) -> int:
        """Return the value of a key; a new key first gets `value`."""
        place = self._find(key)
        if self._keys[place]:
            return self._values[place]
        self._keys[place], self._values[place] = key, value
        self._used += 1
        if 3 * self._used > 2 * (self._mask + 1):
            self._grow()
        return value

    def items(self) -> Iterator[tuple[int, int]]:
        return (item for item in zip(self._keys, self._values, strict=True) if item[0])

    def values(self) -> Iterator[int]:
        return (value for _, value in self.items())

    def _find(self, key: int) -> int:
        keys, mask = self._keys, self._mask
        place = key & mask
        while keys[place] and keys[place] != key:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        size = 2 * (self._mask + 1)
        self._mask = size - 1
        self._keys, self._values = array("Q", bytes(8 * size)), array("Q", bytes(8 * size))
        for key, value in zip(keys, values, strict=True):
            if key:
                place = self._find(key)
                self._keys[place], self._values[place] = key, value
