"""TOML files that users write: read within bounds, and searched for the line of a key, so that
messages can name it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 20
_HEAD = re.compile(r"\s*\[+\s*(.+?)\s*\]+\s*(#.*)?")
_KEY_PART = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+)\s*(\.)?')

Problem = Callable[[str, str | None], Exception]  # message and remedy -> what is raised


class TomlFile:
    """The tables of one file.

    Args:
        problem: makes the error for a file that cannot be read, of its message and remedy.
    """

    def __init__(self, path: Path, problem: Problem) -> None:
        self.path = path
        try:
            if not path.is_file():  # a pipe would be waited for
                raise OSError("no plain file")
            with open(path, "rb") as file:
                raw = file.read(MAX_BYTES + 1)
            if len(raw) > MAX_BYTES:
                raise OSError(f"larger than {MAX_BYTES >> 20} MiB")
            self._text = raw.decode("utf-8-sig").replace("\r\n", "\n")
            self.values: dict[str, Any] = _toml_loads()(self._text)
        except OSError as error:
            raise problem(f"{path}: {error.strerror or error}", None) from None
        except UnicodeDecodeError:
            raise problem(f"{path}: is not UTF-8", "save it as UTF-8") from None
        except RecursionError:
            raise problem(f"{path}: is nested too deep", None) from None
        except ValueError as error:
            raise problem(f"{path}: not TOML: {error}", "mend it") from None

    def place(self, *keys: str) -> str:
        """File and line of a key, or of a table; the file alone where its line is not found."""
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
    """`a."b c"` as its parts."""
    parts = []
    place = 0
    while match := _KEY_PART.match(text, place):
        part = match[1]
        parts.append(part[1:-1].replace('\\"', '"') if part[0] in "\"'" else part)
        place = match.end()
        if not match[2]:
            break
    return parts


def _toml_loads() -> Callable[[str], dict[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads
    import tomli  # has types only where it is installed

    loads: Callable[[str], dict[str, Any]] = tomli.loads
    return loads
