"""Tables on stdout: rich on a terminal, plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tts_cli.commands.streams import shown


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under column names; numbers (from the second column on) are right-aligned."""
    rows = [[shown(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left")
        for index, name in enumerate(columns):
            table.add_column(
                name, justify="right" if index and _is_numeric(rows, index) else "left"
            )
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    click.echo(title)
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [
            cell.rjust(width) if index and _is_numeric(rows, index) else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  " + "  ".join(cells).rstrip())


def _is_numeric(rows: Sequence[Sequence[str]], index: int) -> bool:
    return all(row[index][:1].isdigit() or row[index] in ("", "-") for row in rows)
