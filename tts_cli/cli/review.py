"""`tts-cli review`: decide about the rows of a folder in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from functools import partial
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group, settings
from tts_cli.cli.progress import RunScreen
from tts_cli.cli.screen import echo, echo_json
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError, writing
from tts_cli.extras import load
from tts_cli.named import counted
from tts_cli.setting import Scope, Topic

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
_MACHINE = ("device", "dtype", "max_batch")
_OF_RETAKES = (*_MACHINE, "model", "revision")  # settings that are not the folder's


_File = partial(click.Path, path_type=Path)
_HELP = {
    "--port": "Port of the page, on this machine only.  [default: any free one]",
    "--no-browser": "Open no browser.",
    "--reviewer": "Name in your decisions.  [default: your user name]",
    "--yes": "Let retakes read files that are neither in DIR nor in the working folder around it, "
    "and download models.",
    "--csv": "Write the state of every row and all comments as a table; - is stdout.",
    "--labels": "Write the comments as label tracks for Audacity, one file per take.",
    "--import": "Add the decisions that a colleague saved in the page of `report`.",
}


def _option(flag: str, *names: str, **facts: Any) -> Any:
    return click.option(flag, *names, cls=SectionedOption, help=_HELP[flag], **facts)


_page_options = group(
    "Page and retakes",
    _option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", scope=Scope.USERS),
    _option("--no-browser", is_flag=True, scope=Scope.USERS),
    _option("--reviewer", metavar="NAME", scope=Scope.USERS),
    _option("--yes", "is_confirmed", is_flag=True, allow_from_autoenv=False),
)
_file_options = group(
    "Decisions as files",
    _option("--csv", "table", type=_File(dir_okay=False, allow_dash=True), metavar="FILE"),
    _option("--labels", "label_folder", type=_File(file_okay=False), metavar="DIR"),
    _option("--import", "imported", type=_File(), metavar="FILE"),
)


@click.command("review", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_page_options
@_file_options
@settings(Topic.MODEL, *_MACHINE, model={"show_default": "the model of the rows"})
@common_options
def command(
    folder: Path,
    port: int,
    no_browser: bool,
    reviewer: str | None,
    table: Path | None,
    label_folder: Path | None,
    imported: Path | None,
    is_confirmed: bool,
    **options: Any,
) -> int:
    """Decide about the rows of a folder in a browser: approve, reject, comment, retake.

    \b
    Examples:
      tts-cli review wavs/
      tts-cli review wavs/ --csv decisions.csv
      tts-cli review wavs/ --import wavs.reviews.jsonl --reviewer ana
      tts-cli synth lines.jsonl --out wavs/ --only retakes --takes 3
      tts-cli export wavs/ --approved --to audiofolder --out delivery/

    DIR is the output folder of `synth`, `book` or `merge`. The page is for this machine only and
    ends with Ctrl-C. Each decision is stored in DIR/reviews.jsonl before the page confirms it. It
    is about the row's present audio: if the file changes, the row is undecided again. While another
    command writes to DIR, the page is read-only.

    Needs: pip install starlette uvicorn (not for the files of decisions).
    """
    from tts_cli.app.review import exchange

    config = RunConfig.from_options(options)
    if imported is not None:
        found = exchange.import_decisions(folder, imported, reviewer or "")
        added = f"{counted(found['added'], 'decision')} added, {found['known']} known already"
        others = f"{found['other_audio']} about audio that {folder} does not have"
        _show(config, found, f"{imported}: {added}, {others}")
    if label_folder is not None:
        count = exchange.write_labels(folder, label_folder)
        _show(config, {"files": count}, f"{label_folder}: {counted(count, 'label track')}")
    if str(table) == "-":
        echo(exchange.review_table(folder).rstrip("\r\n"))
    elif table is not None:
        text = exchange.review_table(folder)
        with writing(table, SetupError, remedy="choose another file"):
            table.write_bytes(text.encode("utf-8", "replace"))
        _show(config, {"table": str(table)}, f"{table}: written")
    if imported or label_folder or table:
        return 0
    for package in ("starlette", "uvicorn"):
        load("review", package, "review")
    from tts_cli.app.review import folder as reviewed
    from tts_cli.app.review import retakes, server

    def announce(address: str) -> None:
        _show(config, {"address": address}, f"{folder}: review at {address}")
        # A browser in the terminal would block it.
        has_screen = sys.platform != "linux" or any(map(os.environ.get, _SCREENS))
        if has_screen and not no_browser:
            webbrowser.open(address)

    machine = {name: options[name] for name in _OF_RETAKES if options[name] not in (None, "auto")}
    user = os.environ.get("USER", os.environ.get("USERNAME", ""))
    review = reviewed.ReviewFolder(folder, user if reviewer is None else reviewer)
    made = retakes.Retakes(review, machine, RunScreen(config), is_confirmed)
    server.serve(review, made, port, announce)
    return 0


def _show(config: RunConfig, facts: dict[str, Any], text: str) -> None:
    if config.json:
        echo_json(facts)
    else:
        echo(text)
