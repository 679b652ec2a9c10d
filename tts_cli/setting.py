"""The facts of a setting, declared with its field in `config.RunConfig`.

Flags, help, checks, settings files, variables, `config show`, the library's keywords and reading
the settings of an earlier run all follow from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from models.sampling import SETTINGS as SAMPLING
from models.sampling import Range

Check = Callable[[Any], str | None]  # returns what is wrong, worded to follow the flag


class Scope(Enum):
    """Where a setting may come from, in addition to the command line and variables."""

    ANY = "any file"
    USERS = "the user's file"  # not a project's, which may be untrusted
    ONE_RUN = "no file"  # settings with which an untrusted file could do harm unnoticed


class About(Enum):
    """The subject of a setting."""

    SPEECH = "the words and how they sound"
    DELIVERY = "the format of the audio files"
    ROWS = "how the manifest is read, and which rows are used"
    RUN = "how and where the run takes place"
    SCREEN = "what is printed"


class Topic(Enum):
    """A heading of the help, with the subject and scope of its settings."""

    MODEL = "Model", About.SPEECH, Scope.ANY
    DEVICE = "Device", About.RUN, Scope.ANY
    MESSAGES = "Messages", About.SCREEN, Scope.ONE_RUN  # no file may hide messages
    ROWS = "Rows of the manifest", About.ROWS, Scope.ANY
    CLONING = "Cloning", About.SPEECH, Scope.ANY
    TEXT = "Text", About.SPEECH, Scope.ANY
    SPEECH = "Speech (fields of a row take precedence)", About.SPEECH, Scope.ANY
    SAMPLING = "Sampling (fields of a row take precedence)", About.SPEECH, Scope.ANY
    OUTPUT = "Output", About.DELIVERY, Scope.ANY
    BOOK = "Book", About.DELIVERY, Scope.ANY
    AGAIN = "What to synthesize", About.RUN, Scope.ONE_RUN
    FAILURES = "Failures", About.RUN, Scope.ANY
    VERIFY = "Checking during the run", About.RUN, Scope.ANY
    WORDS = "Word times", About.DELIVERY, Scope.ANY
    RECOGNISER = "Speech recognition", About.RUN, Scope.ANY
    DRIFT = "Voice and sound", About.RUN, Scope.ANY
    TAKES = "Takes", About.RUN, Scope.ONE_RUN

    def __init__(self, heading: str, about: About, scope: Scope) -> None:
        self.heading, self.about, self.scope = heading, about, scope

    def setting(self, default: Any, help: str, unset: str = "", **facts: Any) -> Any:
        """Return a dataclass field for a setting of this topic. For `facts` see `SettingFacts`."""
        facts = {"about": self.about, "scope": self.scope, **facts}
        facts.setdefault("is_keyword", facts["about"] is About.SPEECH)
        found = SettingFacts(self, default, help, unset, **facts)
        return field(default=default, metadata={"setting": found})


@dataclass(frozen=True)
class SettingFacts:
    """Everything about a setting except its name. A default of None is decided later (`unset`)."""

    topic: Topic
    default: Any
    help: str
    unset: str
    about: About
    scope: Scope
    kind: type = str  # type of its value, taken from the field; tuple for several values
    metavar: str | None = None  # None: derived from `kind`
    choices: tuple[str, ...] | None = None
    limits: Range | None = None
    check: Check | None = None  # further check
    parse: Callable[[str], Any] | None = None  # parser of a tuple; raises ValueError
    form: str | None = None  # format string of a tuple
    bare: str | None = None  # value of a flag that is given without one
    exists: bool = False  # the path must exist
    is_keyword: bool = False  # also a keyword of the library
    is_completed: bool = False  # shells complete it with `app.offers`
    is_common: bool = False  # shown in the short help
    others: str = ""  # its flags in other tools or earlier versions

    @property
    def names_path(self) -> bool:
        """Whether its value is or may be a path."""
        return self.kind is Path or "PATH" in (self.metavar or "")

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value, worded to follow the flag, or None if it is valid."""
        if value is None:
            return None
        if self.choices is not None and value not in self.choices:
            return f"{value!r}: must be one of {', '.join(self.choices)}"
        if self.limits is not None and (problem := self.limits.problem(value)):
            return problem
        return None if self.check is None else self.check(value)

    def plain(self, value: Any) -> Any:
        if self.form is not None and value is not None:
            return self.form.format(*value)
        return str(value) if isinstance(value, Path) else value

    def read(self, value: Any) -> Any:
        """Return a value from JSON, as `plain` made it. Raises ValueError."""
        read = Path if self.kind is Path else self.parse
        return read(value) if read and isinstance(value, str) else value


def either(pattern: str, means: str, limits: Range | None = None) -> Check:
    """Return a check that accepts a word or a number, and limits the number."""

    def problem(value: str) -> str | None:
        if not re.fullmatch(pattern, value):
            return f"{value!r}: must be {means}"
        if limits is None or value.isalpha():
            return None
        return limits.problem(int(value) if limits.is_integer else float(value))

    return problem


_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}


def table_of(config: type) -> dict[str, SettingFacts]:
    """Return the settings of a class by name, in their order. Sampling settings are at the place of
    its field `sampling`.
    """
    found: dict[str, SettingFacts] = {}
    for entry in fields(config):
        if entry.name == "sampling":
            found |= {name: _of_drawing(name) for name in SAMPLING_FLAGS}
        elif entry.metadata:
            kind = _KINDS.get(str(entry.type).split(" ")[0], tuple)
            found[entry.name] = replace(entry.metadata["setting"], kind=kind)
    return found


# Settings of drawing that have a flag, switches first.
SAMPLING_FLAGS = sorted(
    (name for name, one in SAMPLING.items() if one.help),
    key=lambda name: SAMPLING[name].kind is not bool,
)


def _of_drawing(name: str) -> SettingFacts:
    one = SAMPLING[name]
    default, unset = (False, "") if one.kind is bool else (None, "the model's")
    made: SettingFacts = Topic.SAMPLING.setting(
        default, one.help, unset, kind=one.kind, metavar=one.metavar, limits=one.limits
    ).metadata["setting"]
    return made


def flag(name: str) -> str:
    """Return the flag of a setting: max_batch -> --max-batch."""
    return "--" + name.replace("_", "-")


def setting_meant(name: str, known: Mapping[str, Any]) -> str | None:
    """Return the known setting or option that another tool's flag stands for, or None."""
    others = ((own, getattr(one, "others", "")) for own, one in known.items())
    return next((own for own, names in others if name in names.split()), None)
