"""Explain options and commands that have another name in other tools.

click would suggest the option with the most similar spelling, which for `--output` is `--layout`.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from tts_cli.plain import read_table
from tts_cli.setting import setting_meant


def _by_name(kind: str) -> dict[str, str]:
    table = read_table(Path(__file__).with_suffix(".toml"))[kind]
    return {name: meaning for meaning, names in table.items() for name in names}


def command_meant(name: str) -> str | None:
    """Return advice about a word in the place of a command, or None."""
    if ours := _by_name("commands").get(name.lower()):
        return f"use tts-cli {ours}" if ours.startswith("-") else f"did you mean '{ours}'?"
    if os.path.isfile(name):
        return f"to synthesize a manifest: tts-cli synth {name} --out DIR"
    return None


def explain(error: click.ClickException) -> click.ClickException:
    """Return a better error than click's for an option that does not exist."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    ctx, given = error.ctx, error.option_name
    if ctx.parent is None:
        if error.possibilities:  # a misspelled option of the program itself
            return error
        advice = "put options after the command, as in tts-cli synth MANIFEST --out DIR"
        return click.UsageError(f"No such option '{given}': {advice}.", ctx)
    name = given.replace("_", "-")
    flags = {opt: param for param in ctx.command.params for opt in param.opts if opt[0] == "-"}
    flag = name if name in flags else setting_meant(name, flags)
    words = _by_name("flags").get(name)
    if flag is not None:
        advice = f"here it is called {flag}"
    elif words is not None and "MANIFEST" in " ".join(ctx.command.collect_usage_pieces(ctx)):
        advice = words.format(command=ctx.info_name)
    elif words is not None and "voices" in words:
        advice = words
    else:
        return error
    return click.UsageError(f"No such option '{given}': {advice}.", ctx)
