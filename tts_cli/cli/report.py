"""`tts-cli report`: make a page to listen to the rows of a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group
from tts_cli.cli.screen import echo, echo_json
from tts_cli.config import RunConfig
from tts_cli.named import counted, shown_size


@click.command("report", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@group(
    "Output",
    click.option(
        "-o",
        "--out",
        "page",
        cls=SectionedOption,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="PAGE",
        help="File of the page. Outside of DIR, it plays the audio from DIR's present location.  "
        "[default: DIR/report.html]",
    ),
)
@common_options
def command(folder: Path, page: Path | None, **options: Any) -> int:
    """Make a web page to listen to the rows of a folder, and to choose rows to redo.

    \b
    Examples:
      tts-cli report wavs/
      tts-cli report wavs/ -o wavs.html

    DIR is the output folder of `synth`, `book` or `merge`. Open DIR/report.html in a browser. It
    shows failed rows first, then suspect ones, then the others, each with its waveform, text, takes
    and the commands to synthesize it again. The page needs no server, and you can move DIR. Run the
    command again after another run.
    """
    config = RunConfig.from_options(options)
    from tts_cli.checks.page.content import write_page

    started_s = time.perf_counter()
    page, totals = write_page(folder, page)
    seconds = time.perf_counter() - started_s
    size = page.stat().st_size
    if config.json:
        echo_json({"page": str(page), "bytes": size, "totals": totals})
        return 0
    found = (
        f"{counted(totals['rows'], 'row')}, {totals['failed']} failed, {totals['suspect']} suspect"
    )
    echo(f"{page}: {found}, {shown_size(size)}, made in {seconds:.1f} s")
    return 0
