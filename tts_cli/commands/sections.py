"""Help with its options under headings, in the order in which a command takes them."""

from __future__ import annotations

from typing import Any

import click

UNNAMED = "Options"


class SectionedOption(click.Option):
    """An option that knows its heading; whoever groups options sets it."""

    section = UNNAMED


class SectionedCommand(click.Command):
    """A command whose help has headings."""

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
