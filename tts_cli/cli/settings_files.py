"""Read settings that are not flags: from files called `tts-cli.toml`, and from the environment.

A value comes from the first of these that has one: the flag, the environment (`TTS_CLI_SYNTH_VOICE`
for one command, `TTS_CLI_VOICE` for all), the project's file, which is the nearest in the working
folder or above it, and the user's file in the configuration folder. In a file the keys at the top
hold for every command that has such a flag, those under `[synth]` for that command, and count
first; `validate` heeds `[synth]` too, and checks there what only `synth` has. click's default_map
carries them.

A project's file may come from anybody: it is read only if it belongs to the user, what it sets is
told in every run, and it can set only what is marked for it beside the setting (`Scope.ANY`):
nothing that names what is written, accepts terms, says to whom texts and voices go, widens what
rows may read or hides messages.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import (
    PLACES,
    PREFIX,
    SectionedOption,
    check_value,
    shared_variable,
)
from tts_cli.config import SETTINGS, users_folder
from tts_cli.errors import UsageError
from tts_cli.named import nearest, shown
from tts_cli.setting import Scope, flag, meant
from tts_cli.sources.cast import TomlFile
from tts_cli.sources.mapping import map_text

log = logging.getLogger(__name__)

FILE_NAME = "tts-cli.toml"
FILE_VARIABLE = f"{PREFIX}_SETTINGS"
OFF = "off"
_COUNTS = ("verbose", "quiet")  # flags that are no settings, and of every command
_SECTIONS = {"validate": ("synth", "validate")}  # whose command line it tries


@dataclass
class FileSettings:
    """What files say for one command."""

    values: dict[str, Any] = field(default_factory=dict)  # by name of the parameter
    places: dict[str, str] = field(default_factory=dict)  # file and line of each, and of what is
    # not taken: it is for all commands, and this one needs it from the user


def user_file() -> Path:
    """Where the user's settings are looked for."""
    return users_folder("XDG_CONFIG_HOME", ".config") / FILE_NAME


def project_file() -> Path | None:
    """The nearest file in the working folder or above it, or the one the environment names."""
    named = os.environ.get(FILE_VARIABLE)
    if named is not None:
        return None if named in ("", OFF) else Path(named).expanduser()
    try:
        folder = Path.cwd()
    except OSError:  # it was removed
        return None
    for parent in (folder, *folder.parents):
        path = parent / FILE_NAME
        if os.path.lexists(path):
            return path if path != user_file() and _is_trusted(path) else None
    return None


def _is_trusted(path: Path) -> bool:
    """Whether a file was put there by the user, or by whoever runs the machine."""
    if not hasattr(os, "geteuid"):
        return True
    try:
        owner = path.stat().st_uid
    except OSError as error:
        log.warning("%s: cannot be read: %s", path, error.strerror)
        return False
    if owner in (os.geteuid(), 0):
        return True
    log.warning(
        "%s: ignored because it belongs to another user; to use it, set %s to its path",
        path,
        FILE_VARIABLE,
    )
    return False


def settings_files() -> list[tuple[Path, bool]]:
    """The files that count, the weaker first, and whether each is the user's own."""
    found = []
    if os.path.lexists(user_file()):
        found.append((user_file(), True))
    if (path := project_file()) is not None:
        found.append((path, False))
    return found


def load_settings(
    ctx: click.Context, names: tuple[str, ...], command: click.Command
) -> FileSettings:
    """What the files say for a command.

    Args:
        names: of the command, behind the program's: ("voices", "add").
    Raises:
        UsageError: a file cannot be read, a key is unknown or its value not what the flag takes;
            it names file and line.
    """
    found = FileSettings()
    params = _flags(command)
    for path, is_users in settings_files():
        file = TomlFile(path, UsageError)
        commands = _commands(ctx)
        below = command.list_commands(ctx) if isinstance(command, click.Group) else []
        for keys, value in _entries(file, names, commands, below):
            name = keys[-1].replace("-", "_")
            place = file.place(*keys)
            others = _flags_of(ctx, keys[0]) if len(keys) == 2 and keys[0] != names[0] else {}
            flags = others | params
            _check_name(name, len(keys) <= len(names), flags, place, commands, is_users)
            checked = _checked(ctx, flags[name], value, path, place) if name in flags else None
            if name not in params:
                continue
            found.places[name] = place
            if is_users or _scope(name, params) is Scope.ANY:
                found.values[name] = checked
            else:
                found.values.pop(name, None)
    return found


def _scope(name: str, flags: Mapping[str, click.Option]) -> Scope:
    """Where a setting may come from: by its flag, where that says more than the setting."""
    if found := getattr(flags.get(name), "scope", None):
        return Scope(found)
    return SETTINGS[name].scope if name in SETTINGS else Scope.ONE_RUN


def _flags_of(ctx: click.Context, name: str) -> dict[str, click.Option]:
    """The flags of another command."""
    group = ctx.find_root().command
    command = group.get_command(ctx, name) if isinstance(group, click.Group) else None
    return {} if command is None else _flags(command)


def _flags(command: click.Command) -> dict[str, click.Option]:
    return {
        str(param.name): param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
    }


def use_settings(ctx: click.Context, name: str, command: click.Command, args: list[str]) -> None:
    """Let a command, and the one below it that the arguments name, take what the files say.

    Args:
        ctx: of the group that has the command.
    Raises:
        UsageError: see `load_settings`.
    """
    found = load_settings(ctx, (name,), command)
    values, places = found.values, found.places
    if isinstance(command, click.Group):
        below = next((arg for arg in args if arg in command.list_commands(ctx)), None)
        sub = None if below is None else command.get_command(ctx, below)
        if below is not None and sub is not None:
            further = load_settings(ctx, (name, below), sub)
            values, places = {**values, below: further.values}, further.places
    ctx.default_map = {name: values}
    ctx.meta[PLACES] = places


def _commands(ctx: click.Context) -> list[str]:
    group = ctx.find_root().command
    return group.list_commands(ctx) if isinstance(group, click.Group) else []


def _entries(
    file: TomlFile, names: tuple[str, ...], commands: list[str], below: list[str]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Keys and values that hold for a command, the weaker first.

    Args:
        below: the commands that it has, whose tables are no keys of its own.
    """
    for key, value in file.values.items():
        is_setting = key in SETTINGS or meant(flag(key), SETTINGS) is not None
        if key not in commands or (is_setting and not isinstance(value, dict)):
            yield (key,), value
        elif not isinstance(value, dict):
            raise UsageError(f"{file.place(key)}: [{key}] must be a table")
    for section in _SECTIONS.get(names[0], (names[0],)):
        path: tuple[str, ...] = ()
        table: Any = file.values
        for name in (section, *names[1:]):
            path, table = (*path, name), table.get(name)
            if not isinstance(table, dict):
                break
            for key, value in table.items():
                if not isinstance(value, dict) or key not in (*below, *names[1:]):
                    yield (*path, key), value


def _check_name(
    name: str,
    is_shared: bool,
    params: Mapping[str, click.Option],
    place: str,
    commands: list[str],
    is_users: bool,
) -> None:
    """Raise UsageError for a key that stands for nothing here."""
    is_setting = name in SETTINGS
    scope = _scope(name, {} if is_shared and is_setting else params)
    if scope is Scope.ONE_RUN and (is_setting or name in params):
        raise UsageError(f"{place}: {name} can only be given on the command line")
    if scope is Scope.USERS and not is_users:
        raise UsageError(
            f"{place}: {name} is not allowed in a project file", f"put it into {user_file()}"
        )
    if name in params or (is_shared and is_setting):
        return
    names = set(SETTINGS if is_shared else params)
    known = sorted(
        [*commands] * is_shared + [key for key in names if _scope(key, params) is not Scope.ONE_RUN]
    )
    close = meant(flag(name), {**params, **(SETTINGS if is_shared else {})}) or nearest(name, known)
    advice = f"did you mean '{close}'?" if close else "see `tts-cli config show`"
    raise UsageError(f"{place}: unknown key '{name[:80]}'", advice)


def _checked(ctx: click.Context, param: click.Option, value: Any, path: Path, place: str) -> Any:
    """A value as the flag would take it. Raises UsageError."""
    name = str(param.name)
    value = _converted(param, value, path, place)
    try:
        check_value(ctx, param, value)
    except (click.BadParameter, UsageError) as error:
        message = error.message if isinstance(error, click.BadParameter) else str(error)
        raise UsageError(f"{place}: {name}: {message}") from None
    return value


def _converted(param: click.Option, value: Any, path: Path, place: str) -> Any:
    """A TOML value of the kind that the flag has; paths from the file's folder."""
    name = str(param.name)
    if name == "map" and isinstance(value, dict):
        value = map_text({str(key): str(target) for key, target in value.items()})
    kind: tuple[type, ...] = (str,)
    wanted = "text"
    if param.is_flag:
        kind, wanted = (bool,), "true or false"
    elif param.type is click.INT:
        kind, wanted = (int,), "a whole number"
    elif param.type is click.FLOAT:
        kind, wanted = (int, float), "a number"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # such as split = 300
    if not isinstance(value, kind) or (isinstance(value, bool) and not param.is_flag):
        raise UsageError(f"{place}: {name}: must be {wanted}, not {shown(value)}")
    if not isinstance(value, str):
        return value
    may_be_path = name in SETTINGS and SETTINGS[name].names_path
    if isinstance(param.type, click.Path) or (may_be_path and _is_folder(path, value)):
        return os.path.join(path.parent.absolute(), os.path.expanduser(value))
    return value


def _is_folder(path: Path, value: str) -> bool:
    try:
        return (path.parent / value).is_dir()
    except (OSError, ValueError):
        return False


def warn_of_unknown_variables(ctx: click.Context) -> None:
    """A variable that is almost one of ours does nothing, which should be known.

    Args:
        ctx: of the program.
    """
    names = {shared_variable(name): shared_variable(name) for name in ("settings", *_COUNTS)}
    for name, one in SETTINGS.items():
        names |= _called(PREFIX, name, one.others)
    given = {name for name in os.environ if name.startswith(f"{PREFIX}_")} - set(names.values())
    if given:
        names |= _variables(ctx, ctx.command, PREFIX)
    fronted = {name.removeprefix(PREFIX): name for name in sorted(set(names.values()))}
    for variable in sorted(given - set(names.values())):
        close = names.get(variable) or fronted.get(
            nearest(variable.removeprefix(PREFIX), list(fronted)) or ""
        )
        advice = f"; did you mean {close}?" if close else ""
        log.warning("%s is not a setting%s", variable, advice)


def _called(prefix: str, name: str, others: str) -> dict[str, str]:
    """The variable of a flag, by its name and by what might be taken for that."""
    called = (*(other.lstrip("-").replace("-", "_") for other in others.split()), name)
    return {f"{prefix}_{one}".upper(): f"{prefix}_{name}".upper() for one in called}


def _variables(ctx: click.Context, command: click.Command, prefix: str) -> dict[str, str]:
    """All that give a flag of a command, or of those below it, its value, as `_called` has them."""
    found: dict[str, str] = {}
    for name, param in _flags(command).items():
        found |= _called(prefix, name, getattr(param, "others", ""))
        if isinstance(param, SectionedOption):
            found |= _called(PREFIX, name, param.others)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None, name
            found |= _variables(ctx, below, f"{prefix}_{name.upper()}")
    return found
