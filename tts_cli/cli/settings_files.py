"""Read settings from files called `tts-cli.toml` and from the environment.

`tts-cli config --help` has the order of precedence. Keys at the top of a file apply to every
command that has such a flag; keys under `[synth]` apply to that command and take precedence.
`validate` also uses `[synth]`, and checks there what only `synth` has. The values are passed as
click's default_map.

A project's file is untrusted. It is read only if it belongs to the user, every run logs what it
sets, and it can set only settings with `Scope.ANY`: none that chooses what is written, accepts
terms, sends texts and voices somewhere, widens what rows may read, or hides messages.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import PLACES, PREFIX, SectionedOption, checked_value, shared_variable
from tts_cli.config import SETTINGS, users_folder
from tts_cli.errors import UsageError
from tts_cli.named import nearest, shown
from tts_cli.setting import Scope, flag, setting_meant
from tts_cli.sources.cast import TomlFile
from tts_cli.sources.mapping import map_text

log = logging.getLogger(__name__)

FILE_NAME = "tts-cli.toml"
FILE_VARIABLE = f"{PREFIX}_SETTINGS"
OFF = "off"
_COUNTS = ("verbose", "quiet")  # flags of every command that are not settings
_SECTIONS = {"validate": ("synth", "validate")}  # tables of a command, if not only its own


@dataclass
class FileSettings:
    values: dict[str, Any] = field(default_factory=dict)  # by parameter
    # File and line by parameter, including values that a project's file must not set here.
    places: dict[str, str] = field(default_factory=dict)


def user_file() -> Path:
    return users_folder("XDG_CONFIG_HOME", ".config") / FILE_NAME


def project_file() -> Path | None:
    """Return the file that the environment names, or the nearest in or above the working folder."""
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
    """Whether a file belongs to the user or to root."""
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
    """Return the settings files, the strongest last, and whether each is the user's own."""
    found = []
    if os.path.lexists(user_file()):
        found.append((user_file(), True))
    if (path := project_file()) is not None:
        found.append((path, False))
    return found


def load_settings(
    ctx: click.Context, names: tuple[str, ...], command: click.Command
) -> FileSettings:
    """Return the settings that the files have for a command, given as words: ("voices", "add").

    Raises UsageError with file and line if a file cannot be read, a key is unknown, or its flag
    would not accept the value.
    """
    found = FileSettings()
    params = _flags(command)
    program = ctx.find_root().command
    assert isinstance(program, click.Group)
    commands = program.list_commands(ctx)
    below = command.list_commands(ctx) if isinstance(command, click.Group) else []
    for path, is_users in settings_files():
        file = TomlFile(path)
        for keys, value in _entries(file, names, commands, below):
            name = keys[-1].replace("-", "_")
            place = file.place(*keys)
            other = None
            if len(keys) == 2 and keys[0] != names[0]:  # a key of `synth`, for `validate`
                other = program.get_command(ctx, keys[0])
            flags = _flags(other) | params if other else params
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
    """Return where a setting may come from. A flag's own scope takes precedence."""
    if found := getattr(flags.get(name), "scope", None):
        return Scope(found)
    return SETTINGS[name].scope if name in SETTINGS else Scope.ONE_RUN


def _flags(command: click.Command) -> dict[str, click.Option]:
    return {
        str(param.name): param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
    }


def use_settings(ctx: click.Context, name: str, command: click.Command, args: list[str]) -> None:
    """Pass the settings of files to a command, and to the subcommand that the arguments name. `ctx`
    is the context of the group that has the command. Raises as `load_settings`.
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


def _entries(
    file: TomlFile, names: tuple[str, ...], commands: list[str], below: list[str]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the keys and values that apply to a command, the last one taking precedence.

    The tables of the subcommands `below` are not keys of the command.
    """
    for key, value in file.values.items():
        is_setting = key in SETTINGS or setting_meant(flag(key), SETTINGS) is not None
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
    """Raise UsageError for a key that is unknown or not allowed here."""
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
    flags = {**params, **SETTINGS} if is_shared else params
    close = setting_meant(flag(name), flags) or nearest(name, known)
    advice = f"did you mean '{close}'?" if close else "see `tts-cli config show`"
    raise UsageError(f"{place}: unknown key '{name[:80]}'", advice)


def _checked(ctx: click.Context, param: click.Option, value: Any, path: Path, place: str) -> Any:
    """Return a TOML value for click's default_map. Raises UsageError if it is not valid."""
    value = _converted(param, value, path, place)
    try:
        checked_value(ctx, param, value)
    except UsageError as error:
        raise UsageError(f"{place}: {param.name}: {error}") from None
    return value


def _converted(param: click.Option, value: Any, path: Path, place: str) -> Any:
    """Return a TOML value as the flag's type. Paths are relative to the file's folder."""
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
        value = str(value)  # as in split = 300
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
    """Warn about variables that look like ours but set nothing."""
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
    """Map the variables of a flag, and those of its other names, to its own variable."""
    called = (*(other.lstrip("-").replace("-", "_") for other in others.split()), name)
    return {f"{prefix}_{one}".upper(): f"{prefix}_{name}".upper() for one in called}


def _variables(ctx: click.Context, command: click.Command, prefix: str) -> dict[str, str]:
    """Map all variables of a command and its subcommands as `_called` does."""
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
