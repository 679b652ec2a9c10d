"""`tts-cli report`: one page to listen to what a folder holds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group
from tts_cli.config import RunConfig
from tts_cli.folder.files import shown_size


@click.command("report", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@group(
    "Output",
    click.option(
        "--out",
        "-o",
        "page",
        cls=SectionedOption,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="PAGE",
        help="File of the page; it plays the audio from where DIR is now.  "
        "[default: report.html in DIR]",
    ),
)
@common_options
def command(folder: Path, page: Path | None, **options: Any) -> int:
    """Make a page to listen to a folder, search it and choose what to speak again.

    DIR is the --out of `synth` or `book`. DIR/report.html holds all rows of all runs: failures
    first, then rows that are suspect by what was measured, then the others, each with its waveform,
    text, takes and the commands to speak it again. It opens from disk, asks no server for anything,
    and plays the audio beside it, also after DIR was moved. Make it again after another run.

    \b
    Examples:
      tts-cli report wavs/
      tts-cli report wavs/ --out wavs.html
    """
    config = RunConfig.from_options(options)
    from tts_cli.listen.page.content import write_page

    started_s = time.perf_counter()
    page, totals = write_page(folder, page)
    seconds = time.perf_counter() - started_s
    size = page.stat().st_size
    if config.json:
        click.echo(json.dumps({"page": str(page), "bytes": size, "totals": totals}, indent=2))
        return 0
    found = f"{totals['rows']} rows, {totals['failed']} failed, {totals['suspect']} suspect"
    click.echo(f"{page}: {found}, {shown_size(size)}, made in {seconds:.1f} s")
    return 0
