"""`tts-cli merge`: output folders into one. No model and no torch come in here."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import SectionedCommand, SectionedOption
from tts_cli.cli.options import FolderPath, common_options, config_option, group
from tts_cli.cli.screen import long_step, shown_duration
from tts_cli.config import PROGRESS, RunConfig, Scope
from tts_cli.errors import UsageError
from tts_cli.folder.lock import is_read_only
from tts_cli.folder.run_file import read_report

if TYPE_CHECKING:
    from tts_cli.folder.folder import Folder
    from tts_cli.folder.merge import Origins
    from tts_cli.folder.merge_files import Placing
    from tts_cli.folder.run_file import FolderTotals
    from tts_cli.voices.merged import MergedVoices

log = logging.getLogger(__name__)

_MAX_TOLD = 8  # settings that a warning names

_output_options = group(
    "Output",
    config_option(
        "out", "-o", type=FolderPath(path_type=Path), metavar="DIR", required=True,
        show_default=False,
    ),
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
    config_option("take_over"),
)  # fmt: skip
_progress_option = group(
    "Messages", config_option("progress", type=click.Choice(PROGRESS, case_sensitive=False))
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
@_progress_option
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
    config = RunConfig.from_options({**options, "out": out})
    sources = distinct(folders, prefer, out)
    with ExitStack() as stack:
        return run(config, out, sources, prefer, not copy, stack)


def distinct(folders: tuple[Path, ...], prefer: tuple[Path, ...], out: Path) -> list[Path]:
    """The folders to merge, each once, preferred ones first. Raises UsageError."""
    from tts_cli.folder.folder import Folder

    found = {folder.resolve(): folder for folder in reversed(folders)}
    target = out.resolve()
    for place, folder in found.items():
        if not folder.is_dir():
            raise UsageError(f"{folder}: is no folder", "give the folders of runs, their --out")
        if place == target:
            raise UsageError(f"{folder} is --out too", "leave it out: what it has is kept")
        if place in target.parents or target in place.parents:
            raise UsageError(
                f"--out {out} and {folder} lie in one another", "choose an --out beside the folders"
            )
        Folder.look(folder)
    first = []
    for folder in prefer:
        place = folder.resolve()
        if place != target and place not in found:
            raise UsageError(f"--prefer {folder}: is none of the folders", "name one of them")
        if place in found:
            first.append(found.pop(place))
    return first + [folder for folder in reversed(found.values())]


def run(
    config: RunConfig,
    out: Path,
    sources: list[Path],
    prefer: tuple[Path, ...],
    has_links: bool,
    stack: ExitStack,
) -> int:
    """Merge, once all folders are held and agree. Returns the exit code."""
    from tts_cli.folder.folder import Folder
    from tts_cli.folder.merge import Origins, differences
    from tts_cli.folder.merge_files import Placing
    from tts_cli.voices.merged import MergedVoices

    held = stack.enter_context(Folder.at(out, config))
    held.hold()
    folders = [out, *sources]
    target = out.resolve()
    num_preferred = len({folder.resolve() for folder in prefer} - {target})
    is_target_preferred = any(folder.resolve() == target for folder in prefer)
    origins = Origins(folders, num_preferred, is_target_preferred)
    totals: list[FolderTotals | None] = []
    with long_step("looking at the folders", config.progress):
        totals.append(None if held.is_new else learn(held, 0, origins))
        for index, source in enumerate(sources, 1):
            folder = Folder.look(source)
            if not is_read_only(source):
                folder = stack.enter_context(Folder.at(source, config))
            totals.append(learn(folder, index, origins))
        origins.require_agreement()
        placing = Placing(origins, has_links)
        voices = MergedVoices(folders, origins.is_settled, placing.left)
        voices.require_agreement()
        placing.require_room()
    reports = [read_report(folder) for folder in folders]
    told = list(differences(folders, reports))
    if told:
        more = f"; and {len(told) - _MAX_TOLD} more" if len(told) > _MAX_TOLD else ""
        log.warning("spoken otherwise: %s%s", "; ".join(told[:_MAX_TOLD]), more)
    with long_step("placing files", config.progress):
        voices.run()
        placing.run()
    sums = held.merge(origins, reports, totals)
    show(config, out, origins, placing, voices, sums)
    return 0


def learn(folder: Folder, index: int, origins: Origins) -> FolderTotals:
    """Take in the rows of a folder, which is then held without knowing them."""
    origins.add(index, folder.journal)
    sums = folder.runs.totals(folder.journal.rows())
    folder.rest()
    return sums


def show(
    config: RunConfig,
    out: Path,
    origins: Origins,
    placing: Placing,
    voices: MergedVoices,
    sums: FolderTotals,
) -> None:
    """Tell what came of it."""
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
