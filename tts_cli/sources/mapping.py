"""Map the columns of a manifest to fields: `--map` and `--extra`.

The value of `--map` is a list such as `Line ID=id,Dialogue=text`. A name with a comma, an equals
sign or a quote is enclosed in quotes, and quotes inside it are doubled. `Voice=` makes an extra
column, even if the name is that of a field.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from models.sampling import SETTINGS
from tts_cli.config import EXTRAS
from tts_cli.errors import ManifestError, UsageError
from tts_cli.named import first_few, nearest, shown
from tts_cli.plain import read_table
from tts_cli.text.languages import code_of, is_code

ERROR, KEEP, DROP = EXTRAS
_NAMES = Path(__file__).parent / "data" / "columns.toml"
_MAX_NAMED = 8
_MIN_RATIO = 0.76  # of similarity; "context" does not mean "text"
_ENTRY = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",=]*?))\s*=\s*([^",=]*?)\s*(,|$)')

MAX_NAME_CHARS = 200
_FIELDS = read_table(Path(__file__).parent / "data" / "fields.toml")
ALIASES: dict[str, str] = _FIELDS["aliases"]
# Kind of value by field.
KINDS: dict[str, str] = {
    **_FIELDS["kinds"],
    **{name: setting.kind.__name__ for name, setting in SETTINGS.items()},
    **_FIELDS["kinds_after_sampling"],
}


class RowProblem(ValueError):  # noqa: N818
    """A problem of one row; becomes the message of a `BadRow`."""


def is_field(name: str) -> bool:
    return ALIASES.get(name, name) in KINDS


@cache
def usual_names() -> dict[str, str]:
    """Return the fields by the names that other programs give them."""
    table = read_table(_NAMES)["usual"]
    return {name: target for target, names in table.items() for name in names}


@cache
def foreign_fields() -> dict[str, str]:
    """Return advice by the names of fields that only other tools have."""
    table = read_table(_NAMES)["instead"]
    return {name: entry["advice"] for entry in table for name in entry["names"]}


def instead_of(name: str) -> str | None:
    """Return what replaces a field of another tool, or None."""
    return foreign_fields().get(name.strip().casefold().replace("-", "_").replace(" ", "_"))


def parse_map(text: str) -> dict[str, str]:
    """Parse `--map` into fields by column; "" for an extra column. Raises UsageError."""
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _ENTRY.match(text, place)
        if match is None:
            raise UsageError(
                f"--map: cannot be read from {shown(text[place:])} on",
                remedy='write COLUMN=field,COLUMN=field; a name with a comma, = or " goes in '
                "quotes: --map '\"Line, ID\"=id'",
            )
        quoted, plain, target, _ = match.groups()
        name = (plain if quoted is None else quoted.replace('""', '"')).strip()
        if not name:
            raise UsageError(f"--map: '={target}' has no column")
        if target and not is_field(target):
            close = nearest(target, [*KINDS, *ALIASES])
            advice = f"did you mean '{close}'?" if close else "fields: " + ", ".join(KINDS)
            raise UsageError(f"--map: {shown(name)} cannot be mapped to {shown(target)}", advice)
        if name in found:
            raise UsageError(f"--map: maps {shown(name)} twice")
        target = ALIASES.get(target, target)
        found[name] = target
        place = match.end()
    if text.rstrip().endswith(","):
        raise UsageError("--map: ends with a comma")
    return found


def map_text(fields: Mapping[str, str]) -> str:
    """Format a map for `parse_map`."""
    return ",".join(f"{_quoted(name)}={target}" for name, target in fields.items())


def as_flag(fields: Mapping[str, str]) -> str:
    text = map_text(fields)
    return f'--map "{text}"' if not re.search(r'["$`\\!]', text) else f"--map {shlex.quote(text)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if re.search(r'[,="]', name) else name


def guess_mapping(names: Iterable[str], language: str | None = None) -> dict[str, str]:
    """Return the likely fields of columns whose names are not fields, each field once.

    Args:
        language: of the run. Of columns named by language codes, the text is the one of this
            language; "": the first one; None: such names are ignored.
    """
    names = list(names)
    taken = {ALIASES.get(name, name) for name in names if is_field(name)}
    found: dict[str, str] = {}
    guesses = [_own_name, _usual_name, _mistyped_name, _last_name]
    if language is not None:
        codes = {name: code for name in names if is_code(code := _code_in(name))}
        fits = [name for name in codes if language and code_of(codes[name]) == code_of(language)]
        guesses.append(lambda name: "text" if name in (fits or [*codes])[:1] else None)
    for guess in guesses:  # a safe guess for a later column goes before a bold one for this one
        for name in names:
            is_open = name.isprintable() and not is_field(name) and name not in found
            target = guess(name) if is_open else None
            target = ALIASES.get(target, target) if target else None
            if target and target not in taken:
                found[name] = target
                taken.add(target)
    return {name: found[name] for name in names if name in found}


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-.:,;#/]+", " ", name[:MAX_NAME_CHARS]).strip().casefold()


def _code_in(name: str) -> str:
    """Return `de` for `German(de)`, as in exports of Unity, and other names unchanged."""
    return name[:-1].rpartition("(")[2] if name.endswith(")") else name


def _own_name(name: str) -> str | None:
    plain = _plain(name).replace(" ", "_")
    return plain if is_field(plain) and plain not in usual_names() else None


def _usual_name(name: str) -> str | None:
    return usual_names().get(_plain(name))


def _last_name(name: str) -> str | None:
    """Return the likely field of the last part of a name such as `body.input`, or None."""
    last = name.rpartition(".")[2] if "." in name else ""
    return _own_name(last) or _usual_name(last)


def _mistyped_name(name: str) -> str | None:
    close = None if instead_of(name) else nearest(name, [*KINDS, *ALIASES])
    ratio = difflib.SequenceMatcher(None, name.casefold(), close).ratio() if close else 0.0
    return close if ratio >= _MIN_RATIO else None


def unknown_names(
    names: Iterable[str], fields: Mapping[str, str] | None = None, language: str = ""
) -> str:
    """Return a message about columns, or keys of an object, that are not fields.

    Args:
        names: all names, or an object with its values, which may be objects themselves.
        language: see `guess_mapping`.
    """
    given = dict(fields or {})
    lists: set[str] = set()
    if isinstance(names, Mapping):
        lists = {key for key, value in names.items() if isinstance(value, list)}
        names = [name for key, value in names.items() for name in _with_inner(key, value)]
    names = [given.get(name) or name for name in names if given.get(name) != ""]
    unknown = [name for name in dict.fromkeys(names) if not is_field(name)]
    fits = guess_mapping([name for name in names if name not in lists], language)
    rest = [name for name in unknown if name not in fits]
    instead = [(name, advice) for name in rest if (advice := instead_of(name))]
    if len(unknown) == 1 and instead:
        said = f"unknown field {shown(unknown[0])}; {instead[0][1]}; or "
    elif len(unknown) == 1:
        close = fits.get(unknown[0]) or nearest(unknown[0], [*KINDS, *ALIASES])
        advice = f"did you mean '{close}'? " if close else ""
        if not close:
            advice = f"known fields: {', '.join(KINDS)}; "
        said = f"unknown field {shown(unknown[0])}; {advice}"
    else:
        listed = _named(unknown)
        said = f"unknown fields {listed}; "
        said += "".join(f"{shown(name)}: {advice}; " for name, advice in instead[:_MAX_NAMED])
    flags = [as_flag({**given, **fits})] if fits else []
    if rest:
        flags.append("--extra keep")
        return (
            f"{said}add {' '.join(flags)} (or --extra drop, which would leave out {_named(rest)})"
        )
    return f"{said}add {' '.join(flags)}, or --extra keep or drop"


def _with_inner(name: str, value: Any) -> list[str]:
    """Return a key, or the keys of the object that is its value, as `--map` has them."""
    return [f"{name}.{key}" for key in value] if isinstance(value, Mapping) and value else [name]


def _named(names: list[str]) -> str:
    return first_few([*map(shown, names)], _MAX_NAMED)


@dataclass
class ColumnMapping:
    fields: Mapping[str, str] = field(default_factory=dict)  # by column; "": an extra column
    extra: str = ERROR  # treatment of extra columns
    is_shared: bool = False  # whether several manifests use it; each may lack some columns
    language: str = ""  # of the run; "": not set
    _missing: set[str] = field(init=False)  # columns of the map that were not found so far
    _others: dict[str, None] = field(
        default_factory=dict, init=False
    )  # other names that were found

    def __post_init__(self) -> None:
        self._missing = set(self.fields)
        self._inner = [name for name in self.fields if "." in name]
        # Whether neither a map nor `--extra` changes the treatment of names.
        self.is_idle = not self.fields and self.extra == ERROR

    def field_of(self, name: str) -> str | None:
        target = self.fields.get(name)
        if target is None:
            return name if is_field(name) else None
        return target or None

    def meet(self, name: str) -> None:
        if name in self._missing:
            self._missing.discard(name)
        elif self._missing and len(self._others) < 1000:
            self._others[name] = None

    def require_met(self, where: str) -> None:
        """Raise ManifestError if a column of the map was not found."""
        for name in self.fields:
            if name in self._missing:
                close = nearest(name, list(self._others))
                has = f"did you mean {shown(close)}?" if close else ""
                has = has or "the columns are " + _named(list(self._others))
                raise ManifestError(
                    f"{where}: --map names {shown(name)}, which is not a column", has
                )

    def split(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return values by field, and extra ones. Raises RowProblem for unknown or
        ambiguous names.
        """
        known: dict[str, Any] = {}
        others: dict[str, Any] = {}
        opened: set[str] = set()
        if self._inner:
            values, opened = self._with_inner(values)
        for name, value in values.items():
            if self._missing:
                self.meet(name)
            target = self.field_of(name)
            if target is not None:
                if known.get(target) not in (None, "", value) and value not in (None, ""):
                    raise RowProblem(
                        f"has '{target}' twice, once as {shown(name)}; leave one out with "
                        f"{as_flag({target: ''})}, or map only one of them"
                    )
                known[target] = known[target] if value in (None, "") and target in known else value
            elif self.extra == KEEP:
                others[name] = value
            elif self.extra == ERROR and name not in self.fields and name not in opened:
                raise RowProblem(unknown_names(values, self.fields, self.language))
        return known, others

    def _with_inner(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """Return values with the inner ones that the map names (`body.input`), and the keys of the
        inner objects.
        """
        found, opened = dict(values), set()
        for name in self._inner:
            inner: Any = None if name in values else values
            for key in name.split("."):
                inner = inner.get(key) if isinstance(inner, Mapping) else None
            if inner is not None:
                found[name] = inner
                opened.add(name.partition(".")[0])
        return found, opened
