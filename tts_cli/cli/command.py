"""Options and commands as all of ours are: help under headings, values from files and variables."""

from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from tts_cli.config import Scope

UNNAMED = "Options"


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
            from tts_cli.cli.settings_files import shared_variable

            found = os.environ.get(shared_variable(str(self.name))) or None
        return found

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The flag, and the variable if it was that."""
        hint = super().get_error_hint(ctx)
        if ctx and ctx.get_parameter_source(str(self.name)) == ParameterSource.ENVIRONMENT:
            from tts_cli.cli.settings_files import variable_of

            hint += f" (from {variable_of(ctx, self)})"
        return hint


class SectionedCommand(click.Command):
    """A command whose help has headings, and that tells which settings came from elsewhere."""

    def invoke(self, ctx: click.Context) -> Any:
        from tts_cli.cli.settings_files import tell_origins

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
