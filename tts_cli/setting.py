"""The facts of a setting, all of them beside its name and type in a field of `config.RunConfig`.
Flags and their help, checks, settings files, variables, `config show`, the library's keywords, and
whoever reads a run's settings back follow from them.
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

Check = Callable[[Any], str | None]  # what is wrong with a value, as said behind its flag


class Scope(Enum):
    """Where a setting may come from, beside the command line and variables."""

    ANY = "any file"
    USERS = "the user's file"  # a project's may be anybody's
    ONE_RUN = "no file"  # all that somebody else's could do harm with, unseen


class About(Enum):
    """What a setting is about."""

    SPEECH = "the words and how they sound"
    DELIVERY = "the format of the audio files"
    ROWS = "how the manifest is read, and which rows are used"
    RUN = "how and where the run takes place"
    SCREEN = "what is printed"


class Topic(Enum):
    """A heading of help: what the settings below it are about, and where they may come from, unless
    they say otherwise themselves.
    """

    MODEL = "Model", About.SPEECH, Scope.ANY
    DEVICE = "Device", About.RUN, Scope.ANY
    MESSAGES = "Messages", About.SCREEN, Scope.ONE_RUN  # they are not for others to hide
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
        """A field of a dataclass that is a setting of this topic; `facts`: see `SettingFacts`."""
        facts = {"about": self.about, "scope": self.scope, **facts}
        facts.setdefault("is_keyword", facts["about"] is About.SPEECH)
        found = SettingFacts(self, default, help, unset, **facts)
        return field(default=default, metadata={"setting": found})


@dataclass(frozen=True)
class SettingFacts:
    """All of a setting but its name. A default of None is decided later; `unset` says how."""

    topic: Topic
    default: Any
    help: str
    unset: str
    about: About
    scope: Scope
    kind: type = str  # of its value, by the field's type; tuple for more than one
    metavar: str | None = None  # None: by its kind
    choices: tuple[str, ...] | None = None
    limits: Range | None = None
    check: Check | None = None  # beside these two
    parse: Callable[[str], Any] | None = None  # of a tuple; raises ValueError
    form: str | None = None  # how a tuple is written
    bare: str | None = None  # value of its flag where that is given without one
    exists: bool = False  # a path that must be there
    is_keyword: bool = False  # of the library
    is_completed: bool = False  # by what `app.offers` has
    is_common: bool = False  # in the short help of a command with many options
    others: str = ""  # flags that other tools, or earlier versions, have for it

    @property
    def names_path(self) -> bool:
        """Whether its value is a path, or may be one."""
        return self.kind is Path or "PATH" in (self.metavar or "")

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, as said behind the flag; None for one that can be."""
        if value is None:
            return None
        if self.choices is not None and value not in self.choices:
            return f"{value!r}: must be one of {', '.join(self.choices)}"
        if self.limits is not None and (problem := self.limits.problem(value)):
            return problem
        return None if self.check is None else self.check(value)

    def plain(self, value: Any) -> Any:
        """A value as JSON can hold it."""
        if self.form is not None and value is not None:
            return self.form.format(*value)
        return str(value) if isinstance(value, Path) else value


def either(pattern: str, means: str, limits: Range | None = None) -> Check:
    """A check of text: a word or a number, of which a number keeps to limits."""

    def problem(value: str) -> str | None:
        if not re.fullmatch(pattern, value):
            return f"{value!r}: must be {means}"
        if limits is None or value.isalpha():
            return None
        return limits.problem(int(value) if limits.is_integer else float(value))

    return problem


_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}


def table_of(config: type) -> dict[str, SettingFacts]:
    """The settings of a class by name, in their order; those of drawing stand where its field
    `sampling` does.
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
    """The flag of a setting: max_batch -> --max-batch."""
    return "--" + name.replace("_", "-")


def meant(name: str, known: Mapping[str, Any]) -> str | None:
    """Which setting or option, of those known by name, another flag stands for."""
    others = ((own, getattr(one, "others", "")) for own, one in known.items())
    return next((own for own, names in others if name in names.split()), None)
