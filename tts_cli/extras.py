"""The extras: optional packages that some commands need. `extras.toml` has the same packages as
`pyproject.toml`.
"""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tts_cli.errors import SetupError, first_line
from tts_cli.plain import read_table


@dataclass(frozen=True)
class Package:
    name: str  # name for pip
    module: str  # name for import
    min_version: str  # lowest supported version

    def problem(self) -> str | None:
        """Return why the package cannot be used, or None. It is not imported."""
        try:
            found = version(self.name)
            is_there = find_spec(self.module) is not None
        except (PackageNotFoundError, ImportError, ValueError):
            is_there = False
        if not is_there:
            return f"{self.name} is not installed"
        if _numbers(found) < _numbers(self.min_version):
            return f"{self.name} is {found}, at least {self.min_version} is needed"
        return None

    def load(self) -> Any:
        """Import the module. Raises ImportError, whatever exception the module raised."""
        try:
            return importlib.import_module(self.module)
        except Exception as error:
            reason = first_line(error)[:200]
            raise ImportError(f"{self.name} cannot be imported: {reason}") from error


@dataclass(frozen=True)
class Extra:
    serves: str
    packages: tuple[Package, ...]

    def problems(self) -> list[str]:
        """Import every package, and return the reasons why some cannot be used."""
        found = []
        for package in self.packages:
            if problem := package.problem():
                found.append(problem)
                continue
            try:
                package.load()
            except ImportError as error:
                found.append(str(error))
        return found


@functools.cache
def all_extras() -> dict[str, Extra]:
    return {
        name: Extra(one["serves"], tuple(Package(*values) for values in one["packages"]))
        for name, one in read_table(Path(__file__).with_suffix(".toml")).items()
    }


def remedy_of(extra: str) -> str:
    """Return the command that installs an extra. It names the packages, because our own package may
    not be in an index.
    """
    names = " ".join(f'"{one.name}>={one.min_version}"' for one in all_extras()[extra].packages)
    return f"pip install {names}"


def require(extra: str, name: str, what: str) -> Package:
    """Return a package of an extra, not imported yet. Raises SetupError if it is missing or too
    old.

    Args:
        what: what the user asked for that needs it, such as a flag.
    """
    (package,) = (found for found in all_extras()[extra].packages if found.name == name)
    if problem := package.problem():
        raise SetupError(f"{what} needs {name}: {problem}", remedy_of(extra))
    return package


def load(extra: str, name: str, what: str) -> Any:
    try:
        return require(extra, name, what).load()
    except ImportError as error:
        raise SetupError(f"{what} needs {name}: {error}", remedy_of(extra)) from None


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, so that 0.10 is greater than 0.9."""
    found = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return tuple(found + [0] * (3 - len(found)))
