"""Cast files: the voice and the other settings of each character, in TOML.

A table `[Anna]` or `[characters."Old Tom"]` has the fields of rows. `TomlFile` reads TOML files of
users within bounds, and finds the line of a key for messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tts_cli.core import BadRow, Row
from tts_cli.errors import UsageError
from tts_cli.named import nearest, shown
from tts_cli.plain import read_given, toml_loads
from tts_cli.sources.mapping import ALIASES, KINDS
from tts_cli.sources.row import build_row, expand_greedy

GROUP = "characters"
FIELDS = tuple(name for name in KINDS if name not in ("id", "text", "character"))
_CLONING = ("ref_audio", "ref_text", "clone_mode")
_CAPS = ("max_frames", "max_seconds")


@dataclass(frozen=True)
class Cast:
    """The characters of a cast file, each as a row."""

    path: Path | None = None
    sha256: str | None = None
    characters: Mapping[str, Row] = field(default_factory=dict)  # by name as in the file
    places: Mapping[str, str] = field(default_factory=dict)  # file and line of each

    def find(self, name: str) -> Row | None:
        """Return the settings of a character, by exact name or in any letter case."""
        found = self.characters.get(name)
        if found is None and self.characters:
            folded = name.casefold()
            same = (key for key in self.characters if key.casefold() == folded)
            found = self.characters.get(next(same, ""))
        return found

    def facts(self) -> dict[str, Any] | None:
        """Return the cast's entry in `run.json`."""
        if self.path is None:
            return None
        return {"path": str(self.path), "sha256": self.sha256, "characters": list(self.characters)}


def read_cast(path: Path) -> Cast:
    """Read a cast file. Raises UsageError naming file and line."""
    file = TomlFile(path)
    tables: dict[str, tuple[str, ...]] = {}
    group = file.values.get(GROUP, {})
    is_group = isinstance(group, dict) and all(
        isinstance(value, dict) or ALIASES.get(name, name) not in FIELDS
        for name, value in group.items()
    )
    for name in file.values:
        if name == GROUP and is_group:
            continue
        tables[name] = (name,)
    for name in group if is_group else ():
        if name in tables:
            raise UsageError(f"{file.place(GROUP, name)}: {shown(name)} already has a table")
        tables[name] = (GROUP, name)
    if not tables:
        raise UsageError(f"{path}: contains no characters", remedy='write [NAME] and voice = "..."')
    folded: dict[str, str] = {}
    for name in tables:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise UsageError(
                f"{file.place(*tables[name])}: {shown(name)} and {shown(other)} differ only "
                "in letter case"
            )
    characters = {name: _character(file, keys) for name, keys in tables.items()}
    places = {name: file.place(*keys) for name, keys in tables.items()}
    return Cast(path, file.sha256, characters, places)


def _character(file: TomlFile, keys: tuple[str, ...]) -> Row:
    values: Any = file.values
    for key in keys:
        values = values[key]
    if isinstance(values, str):
        values = {"voice": values}
    if not isinstance(values, dict):
        raise UsageError(
            f"{file.place(*keys)}: {keys[-1]!r} is not a table",
            remedy=f"write [{keys[-1]}], and the settings of that character below it",
        )
    for name in values:
        if ALIASES.get(name, name) not in FIELDS:
            close = nearest(name, [*FIELDS, *(key for key in ALIASES if ALIASES[key] in FIELDS)])
            advice = f"did you mean '{close}'?" if close else f"the keys are {', '.join(FIELDS)}"
            raise UsageError(f"{file.place(*keys, name)}: unknown key {shown(name)}", advice)
    row = build_row({**values, "text": "."}, line=1, number=1, folder=str(file.path.parent))
    if isinstance(row, BadRow):
        named = next((name for name in values if row.message.startswith(f"{name}:")), None)
        place = file.place(*keys, named) if named else file.place(*keys)
        raise UsageError(f"{place}: [{'.'.join(keys)}] {row.message}")
    return row


def with_character(row: Row, character: Row) -> Row:
    """Return a row with the settings of its character; the row's own have precedence."""
    names = ["language", "instruct", "seed"]
    if row.voice is None and row.ref_audio is None:
        names += ["voice", *_CLONING]
    if row.max_frames is None and row.max_seconds is None:
        names += _CAPS
    given = {
        name: getattr(character, name)
        for name in names
        if getattr(row, name) is None and getattr(character, name) is not None
    }
    if character.sampling:
        given["sampling"] = {**expand_greedy(character.sampling), **expand_greedy(row.sampling)}
    return replace(row, **given)


MAX_BYTES = 1 << 20
_HEAD = re.compile(r"\s*\[+\s*(.+?)\s*\]+\s*(#.*)?")
_KEY_PART = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+)\s*(\.)?')


class TomlFile:
    """The tables of one file. Raises UsageError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            raw = read_given(path, MAX_BYTES)
            self.sha256 = hashlib.sha256(raw).hexdigest()
            self._text = raw.decode("utf-8-sig").replace("\r\n", "\n")
            self.values: dict[str, Any] = toml_loads()(self._text)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: is not UTF-8", "save it as UTF-8") from None
        except RecursionError:
            raise UsageError(f"{path}: is nested too deep") from None
        except ValueError as error:
            raise UsageError(f"{path}: not TOML: {error}", "fix it") from None

    def place(self, *keys: str) -> str:
        """Return file and line of a key or a table; only the file if the line is not found."""
        line = self._line(list(keys))
        return f"{self.path}:{line}" if line else str(self.path)

    def _line(self, wanted: list[str]) -> int | None:
        table: list[str] = []
        for number, line in enumerate(self._text.split("\n"), 1):
            if match := _HEAD.fullmatch(line):
                table = _key_parts(match[1])
                if table[: len(wanted)] == wanted:
                    return number
            elif "=" in line:
                found = table + _key_parts(line.partition("=")[0])
                if found[: len(wanted)] == wanted:
                    return number
        return None


def _key_parts(text: str) -> list[str]:
    parts = []
    place = 0
    while match := _KEY_PART.match(text, place):
        part = match[1]
        parts.append(part[1:-1].replace('\\"', '"') if part[0] in "\"'" else part)
        place = match.end()
        if not match[2]:
            break
    return parts
