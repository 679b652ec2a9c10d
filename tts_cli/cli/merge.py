"""`tts-cli merge`: join output folders into one. Imports no model and no torch."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import (
    LINK,
    REQUIRED_OUT,
    SectionedCommand,
    SectionedOption,
    common_options,
    group,
    settings,
)
from tts_cli.cli.progress import long_step
from tts_cli.cli.screen import echo, echo_json, shown_duration
from tts_cli.config import RunConfig
from tts_cli.named import counted

if TYPE_CHECKING:
    from tts_cli.app.merge import Merged

log = logging.getLogger(__name__)

_output_options = group(
    "Output",
    settings("out", out=REQUIRED_OUT),
    click.option(
        "--prefer",
        cls=SectionedOption,
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder whose audio wins if folders differ. Can be given several times, the most "
        "important first. Without it, `merge` lists such rows and writes nothing.",
    ),
    *LINK,
    settings("take_over"),
)


@click.command("merge", cls=SectionedCommand)
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@_output_options
@settings("progress")
@common_options
def command(
    folders: tuple[Path, ...],
    prefer: tuple[Path, ...],
    link: bool,
    copy: bool,
    out: Path,
    **options: Any,
) -> int:
    """Join output folders into one, such as those of shards or of several machines.

    \b
    Examples:
      tts-cli merge parts/1 parts/2 --out wavs/
      tts-cli merge parts/* redone/ --prefer redone/ --out wavs/

    Each row comes from the folder in which it is done, with its takes, codes and subtitles. If two
    folders have different audio for one id, `merge` lists the ids and writes nothing: choose one
    with --prefer. The same applies to generated voices. Runs, checks and generated voices are
    merged too; to make the chapters of a book, run `book` again.

    The folders are not changed, and may be read-only. Files are copied, without using space where
    the file system can share it; --link makes hard links. Rows that --out already has are never
    replaced, so you can merge more folders later. Run a stopped merge again to finish it. After
    that, `synth` with the whole manifest and this --out synthesizes only what is missing.
    """
    from tts_cli.app.merge import merge

    config = RunConfig.from_options({**options, "out": out})
    step = partial(long_step, progress=config.progress)
    show(config, out, merge(out, folders, prefer, config, step, has_links=link))
    return 0


def show(config: RunConfig, out: Path, merged: Merged) -> None:
    origins, merger, voices, sums = merged
    added = sum(origins.taken.values()) - origins.taken[0]
    if origins.num_invalid:
        lines = counted(origins.num_invalid, "journal line")
        log.warning("ignored %s, because their ids are not valid file names", lines)
    if origins.num_missing:
        rows = counted(origins.num_missing, "row has", "rows have")
        log.warning("%s missing or damaged audio; synth synthesizes such rows again", rows)
    left = merger.left
    if left.count:
        files = counted(left.count, "file")
        log.info("ignored %s without a row, such as %s", files, ", ".join(left.first))
    if config.json:
        found = {
            "out": str(out),
            "folders": [str(folder) for folder in origins.folders[1:]],
            "rows_added": added,
            "rows_same": origins.num_same,
            "files_linked": merger.num_linked,
            "files_copied": merger.num_copied,
            "files_left": left.count,
            "voice_files_copied": voices.num_copied,
            "ok": sums.ok,
            "failed": sums.failed,
            "audio_s": round(sums.audio_s, 4),
            "runs": sums.runs,
        }
        echo_json(found)
        return
    count = len(origins.folders) - 1
    files = f"{counted(merger.num_linked, 'file')} linked, {merger.num_copied} copied"
    echo(
        f"{out}: {counted(sums.ok, 'row')} ok, {sums.failed} failed, "
        f"{shown_duration(sums.audio_s)} of audio; "
        f"{counted(added, 'row')} added from {counted(count, 'folder')}, {files}"
    )
