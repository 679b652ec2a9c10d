"""`tts-cli again`: run the commands that filled a folder again."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tts_cli.app.again import Rerun, outside_of, reruns_of
from tts_cli.cli.options import SectionedCommand, common_options
from tts_cli.cli.screen import can_ask, echo, echo_json
from tts_cli.cli.settings_files import use_settings
from tts_cli.errors import UsageError

_COMMON = ("json", "verbose", "quiet", "debug")
log = logging.getLogger(__name__)


@click.command(
    "again",
    cls=SectionedCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("flags", metavar="[FLAG]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--print", "is_printed", is_flag=True, help="Only print the commands.")
@click.option(
    "--yes",
    "is_confirmed",
    is_flag=True,
    allow_from_autoenv=False,
    help="Read files that are neither in DIR nor in the working folder around it, and download "
    "models.",
)
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    folder: Path,
    flags: tuple[str, ...],
    is_printed: bool,
    is_confirmed: bool,
    **options: Any,
) -> int:
    """Run the command that filled a folder again.

    \b
    Examples:
      tts-cli again wavs/
      tts-cli again wavs/ --retry-failed
      tts-cli again wavs/ --seed 8 --redo
      tts-cli again wavs/ --print

    DIR is the output folder of `synth` or `book`. The command has DIR's manifest or book and the
    settings that DIR remembers, and each FLAG in addition. It has none of the flags that were for
    one run or one machine, such as --only, --limit, --takes, --device or --workers. If DIR was
    filled from several manifests, each has its command.
    """
    gone: list[str] = []
    reruns = reruns_of(folder, gone)
    if gone:
        log.warning("left out, and their rows stay: %s: no such file", ", ".join(gone))
    if is_printed:
        commands = [shlex.join(["tts-cli", *one.whole(flags)]) for one in reruns]
        if options["json"]:
            echo_json(commands)
        else:
            echo("\n".join(commands))
        return 0
    flags = (*flags, *(f"--{name}" for name in _COMMON for _ in range(int(options[name]))))
    if not is_confirmed:
        confirm(folder, reruns)
    codes = [call(ctx.find_root(), one.command(flags)) for one in reruns]
    return max(codes)


def confirm(folder: Path, reruns: Sequence[Rerun]) -> None:
    """Ask on a terminal whether to read files elsewhere and download. Raises UsageError for no."""
    message = outside_of(folder, reruns)
    if not message:
        return
    if can_ask():
        log.warning("%s", message)
        if click.confirm("Use them?", err=True):
            return
    raise UsageError(message, "if this folder is yours, add --yes; --print shows the commands")


def call(root: click.Context, words: list[str]) -> int:
    name, *rest = words
    group = root.command
    found = group.get_command(root, name) if isinstance(group, click.Group) else None
    if found is None:
        raise UsageError(f"no such command {name!r}")
    use_settings(root, name, found, rest)
    with found.make_context(name, rest, parent=root) as ctx:
        return int(found.invoke(ctx) or 0)
