"""Take settings that are not given from the last run of the output folder."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tts_cli.book.utterances import MANIFEST_NAME
from tts_cli.cli.options import FOLDER, PLACES, SectionedCommand, checked_value, origins
from tts_cli.config import SETTINGS
from tts_cli.errors import UsageError
from tts_cli.named import nearest
from tts_cli.plan.remembered import is_remembered, last_run, without_orphans
from tts_cli.setting import flag

log = logging.getLogger(__name__)
ALL = "all"


class RememberingCommand(SectionedCommand):
    def invoke(self, ctx: click.Context) -> Any:
        remember(ctx)
        return super().invoke(ctx)


def remember(ctx: click.Context) -> None:
    """Use and log the settings of the folder's last run that neither flags nor variables set.

    Raises UsageError if --forget names an unknown setting, or a remembered value cannot be used.
    """
    given, forgotten = origins(ctx), forgotten_by(ctx.params.get("forget") or ())
    stronger = {
        name: ctx.params[name]
        for name, source in given.items()
        if ctx.get_parameter_source(name) != ParameterSource.DEFAULT_MAP
    }
    out, manifests = ctx.params["out"], manifests_of(ctx)
    run = None if out is None else last_run(out, manifests)
    found = {} if run is None else run.remembered(manifests)
    if ALL in forgotten:
        forgotten = frozenset(found)
    found = without_orphans(found, stronger)
    params = {str(param.name): param for param in ctx.command.params}
    used = []
    for name, value in found.items():
        param = params.get(name)
        if name in stronger or name in forgotten or not isinstance(param, click.Option):
            continue
        try:
            value = checked_value(ctx, param, value)
        except UsageError as error:
            raise UsageError(
                f"{flag(name)}, from the last run in {out}/: {error}",
                f"give another {flag(name)}, or --forget {name}",
            ) from None
        is_other = name in given and ctx.params[name] != value
        used.append(shown_flag(name, value) + f" (not {given.get(name)})" * is_other)
        ctx.params[name] = value
        ctx.set_parameter_source(name, ParameterSource.DEFAULT_MAP)
        ctx.meta.setdefault(PLACES, {})[name] = FOLDER
    if ctx.params.get("overwrite"):
        log.info(
            "--overwrite is the earlier name of --redo all and will be removed; use --redo all"
        )
    if used:
        log.info("settings from the last run in %s/: %s", out, ", ".join(used))
    chosen = {name for name, origin in origins(ctx).items() if origin != FOLDER}
    ctx.params["chosen"] = frozenset(chosen | forgotten)


def manifests_of(ctx: click.Context) -> list[str]:
    """Return the absolute paths of the manifests that a command will read."""
    if "book" in ctx.params and ctx.params["out"] is None:
        return []
    if "book" in ctx.params:
        return [os.path.abspath(Path(ctx.params["out"]) / MANIFEST_NAME)]
    paths = map(str, ctx.params.get("manifests") or ())
    return [os.path.abspath(path) for path in paths if os.path.isfile(path)]


def forgotten_by(values: Sequence[str]) -> frozenset[str]:
    """Return the names in the values of --forget. Raises UsageError for an unknown one."""
    known = [name for name in SETTINGS if is_remembered(name)]
    names = [
        part.strip().lstrip("-").replace("-", "_") for one in values for part in one.split(",")
    ]
    for name in names:
        if name != ALL and name not in known:
            close = nearest(name, known)
            raise UsageError(
                f"--forget {name!r}: is not a setting that a folder remembers",
                f"did you mean {close}?" if close else "see `tts-cli config show`",
            )
    return frozenset(names)


def shown_flag(name: str, value: Any) -> str:
    if value is True:
        return flag(name)
    return f"{flag(name)} {shlex.quote(str(SETTINGS[name].plain(value)))}"
