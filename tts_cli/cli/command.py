"""Options and commands as all of ours are: help under headings, values from files and variables."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, fields
from typing import Any

import click
from click.core import ParameterSource

from tts_cli.config import SAMPLING_FLAGS, RunConfig, Scope, flag
from tts_cli.errors import UsageError

log = logging.getLogger(__name__)

UNNAMED = "Options"
PREFIX = "TTS_CLI"  # of variables
PLACES = f"{__name__}.places"  # in a context's meta: where values of files stand, by setting
SETTING_NAMES = {entry.name for entry in fields(RunConfig)} - {"sampling", "verbosity"}
SETTING_NAMES |= set(SAMPLING_FLAGS)


@dataclass
class Invocation:
    """A command line, and what `main` must know of it."""

    args: list[str] = field(default_factory=list)  # without the program's name
    origins: dict[str, str] = field(default_factory=dict)  # of settings: flag, variable, file
    is_debug: bool = False


class SectionedOption(click.Option):
    """An option that knows its heading; whoever groups options sets it. Its value may come from a
    variable of its command (`TTS_CLI_SYNTH_VOICE`) or one for all (`TTS_CLI_VOICE`).

    Args:
        scope: where else; None: where the setting of its name may, and from no file if there is
            none.
    """

    section = UNNAMED

    def __init__(self, *args: Any, scope: Scope | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.scope = scope

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """The variable's value; that of the command counts first."""
        found = super().resolve_envvar_value(ctx)
        if found is None and self.allow_from_autoenv and ctx.auto_envvar_prefix is not None:
            found = os.environ.get(shared_variable(str(self.name))) or None
        return found

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The flag, and the variable if it was that."""
        hint = super().get_error_hint(ctx)
        if ctx and ctx.get_parameter_source(str(self.name)) == ParameterSource.ENVIRONMENT:
            hint += f" (from {variable_of(ctx, self)})"
        return hint


class SectionedCommand(click.Command):
    """A command whose help has headings, and that tells which settings came from elsewhere."""

    def invoke(self, ctx: click.Context) -> Any:
        tell_origins(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(_section(param), []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def _section(param: Any) -> str:
    return str(getattr(param, "section", UNNAMED))


def shared_variable(name: str) -> str:
    """The variable that stands for a flag in every command."""
    return f"{PREFIX}_{name.upper()}"


def variable_of(ctx: click.Context, param: click.Parameter) -> str:
    """The variable that gives a flag its value."""
    own = f"{ctx.auto_envvar_prefix}_{str(param.name).upper()}"
    return own if os.environ.get(own) else shared_variable(str(param.name))


def origins(ctx: click.Context) -> dict[str, str]:
    """Where each value comes from that is not built in: flag, variable, file and line."""
    found: dict[str, str] = {}
    places = ctx.meta.get(PLACES, {})
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if not isinstance(param, click.Option) or source is None:
            continue
        if source == ParameterSource.COMMANDLINE:
            found[name] = "flag"
        elif source == ParameterSource.ENVIRONMENT:
            found[name] = variable_of(ctx, param)
        elif source == ParameterSource.DEFAULT_MAP:
            found[name] = places.get(name, "file")
    return found


def tell_origins(ctx: click.Context) -> None:
    """Check what the environment says, and tell of every value that no flag gave.

    Raises:
        UsageError: a variable has a value that its flag would not take; a project's file says what
            is not for it to say here.
    """
    for name, place in ctx.meta.get(PLACES, {}).items():
        if ctx.get_parameter_source(name) == ParameterSource.DEFAULT:
            raise UsageError(
                f"{place}: {name} of a project's file is not for a command that writes there",
                f"give {flag(name)}",
            )
    told: dict[str, list[str]] = {}
    found = ctx.ensure_object(Invocation).origins = origins(ctx)
    for name, origin in found.items():
        if origin == "flag":
            continue
        param = next(param for param in ctx.command.params if param.name == name)
        assert isinstance(param, click.Option)
        if origin.startswith(f"{PREFIX}_"):
            try:
                check_value(ctx, param, ctx.params[name])
            except (click.BadParameter, UsageError) as error:
                raise UsageError(f"{origin}: {error}") from None
            told.setdefault("the environment", []).append(f"{origin} {ctx.params[name]}")
        else:
            file = origin.rpartition(":")[0] or origin
            told.setdefault(file, []).append(f"{name} {ctx.params[name]}")
    for origin, values in told.items():
        log.info("settings of %s: %s", origin, ", ".join(values))


def check_value(ctx: click.Context, param: click.Option, value: Any) -> None:
    """Raise click.BadParameter or UsageError for a value that the flag would not take."""
    name = str(param.name)
    cast = param.type_cast_value(ctx, value)
    if name in SETTING_NAMES:
        RunConfig.from_options({name: cast})
