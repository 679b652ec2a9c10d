"""`tts-cli merge`: output folders into one. No model and no torch come in here."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import (
    REQUIRED_OUT,
    SectionedCommand,
    SectionedOption,
    common_options,
    group,
    settings,
)
from tts_cli.cli.screen import long_step, shown_duration
from tts_cli.config import RunConfig
from tts_cli.setting import Scope

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
        help="Of rows with other speech in several folders take this one's; can be given several "
        "times, the first counts first.  [default: refuse, and name them]",
    ),
    click.option(
        "--copy",
        cls=SectionedOption,
        scope=Scope.ANY,
        is_flag=True,
        help="Copy files, where a hard link would be one file with two names.",
    ),
    settings("take_over"),
)


@click.command("merge", cls=SectionedCommand)
@click.argument(
    "folders",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@_output_options
@settings("progress")
@common_options
def command(
    folders: tuple[Path, ...], prefer: tuple[Path, ...], copy: bool, out: Path, **options: Any
) -> int:
    """Join output folders, of the shards of a manifest or of several machines, into one.

    Each row comes whole from one DIR, with its takes, codes, subtitles and all its lines: from the
    one where it is ok. Rows that are ok in several are the same if request and audio are; other
    audio under one id is refused, with the ids, before anything is written, unless --prefer says
    whose to take. So are other made voices under one name. All runs are kept, and checks.jsonl
    and made voices too; chapters of a book are made anew by `book`.

    The DIRs stay as they are, and may be read only. Files are hard links where the file system has
    them, and take no room; edit them with --copy only. Rows that --out has are never replaced, so a
    further folder can be merged in later, and a merge that was stopped is simply run again. Then
    `synth` with the whole manifest and --out finds nothing to do, or what is missing.

    \b
    Examples:
      tts-cli merge parts/1 parts/2 --out wavs/
      tts-cli merge parts/* redone/ --prefer redone/ --out wavs/
    """
    from tts_cli.app.merge import merge

    config = RunConfig.from_options({**options, "out": out})
    step = partial(long_step, progress=config.progress)
    show(config, out, merge(out, folders, prefer, config, step, has_links=not copy))
    return 0


def show(config: RunConfig, out: Path, merged: Merged) -> None:
    """Tell what came of it."""
    origins, placing, voices, sums = merged
    added = sum(origins.taken.values()) - origins.taken[0]
    if origins.num_odd:
        log.warning("lines whose ids name no file, left out: %d", origins.num_odd)
    if origins.num_gone:
        log.warning("rows whose audio is gone or damaged: %d; synth speaks them", origins.num_gone)
    left = placing.left
    if left.count:
        log.info("files that are no row's, left where they are: %d, such as %s", left.count,
                 ", ".join(left.first))  # fmt: skip
    if config.json:
        found = {
            "out": str(out),
            "folders": [str(folder) for folder in origins.folders[1:]],
            "rows_added": added,
            "rows_same": origins.num_same,
            "files_linked": placing.num_linked,
            "files_copied": placing.num_copied,
            "files_left": left.count,
            "voice_files_copied": voices.num_copied,
            "ok": sums.ok,
            "failed": sums.failed,
            "audio_s": round(sums.audio_s, 4),
            "runs": sums.runs,
        }
        click.echo(json.dumps(found, indent=2))
        return
    if config.verbosity < 0:
        return
    count = len(origins.folders) - 1
    files = f"{placing.num_linked} files linked, {placing.num_copied} copied"
    click.echo(
        f"{out}: {sums.ok} rows ok, {sums.failed} failed, {shown_duration(sums.audio_s)} of "
        f"audio; {added} rows added from {count} folder{'s' * (count != 1)}, {files}"
    )
