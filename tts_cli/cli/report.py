"""`tts-cli report`: one page to listen to what a folder holds."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.command import SectionedCommand, SectionedOption
from tts_cli.cli.options import common_options, group
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError, is_disk_error
from tts_cli.folder.atomic import write_alone
from tts_cli.folder.lock import is_read_only
from tts_cli.folder.run_file import versions

log = logging.getLogger(__name__)

PAGE_NAME = "report.html"


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
    from tts_cli.folder.files import shown_size

    config = RunConfig.from_options(options)
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


def write_page(out: Path, page: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Write the page of a folder, whole or not at all.

    Args:
        page: None: it goes into the folder.
    Returns:
        Where it is, and the folder's totals.
    Raises:
        UsageError, SetupError: the folder cannot be read, or the page not be written.
        DiskFull: no room; an earlier page stays.
    """
    from tts_cli.folder.journal import JOURNAL_NAME
    from tts_cli.folder.rows import read_folder
    from tts_cli.listen.page.build import build_page
    from tts_cli.listen.page.content import audio_url, content_of

    folder = read_folder(out)
    if page is None and is_read_only(out):
        raise SetupError(f"{out}: is read only", "say by --out PAGE where the page is to go")
    base = "" if page is None else os.path.relpath(out.resolve(), page.parent.resolve())
    address = f"{audio_url(base)}/" if base else ""
    content = content_of(folder, versions()["tts-cli"], address)
    totals: dict[str, Any] = content["totals"]
    if totals["garbage"]:
        garbage = totals["garbage"]
        log.warning("%s: lines that make no sense, left out: %d", out / JOURNAL_NAME, garbage)
    if totals["missing"]:
        log.warning("%s: rows whose audio is gone: %d; the page says which", out, totals["missing"])
    page = out / PAGE_NAME if page is None else page
    try:
        write_alone(page, build_page(content))
    except OSError as error:
        if is_disk_error(error):
            raise
        raise SetupError(
            f"cannot write {page}: {error.strerror or error}", "check the folder's permissions"
        ) from error
    return page, totals
