"""Merge output folders. All are locked and must agree before anything is written.

Imports no model and no torch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tts_cli.config import RunConfig
from tts_cli.core import Step
from tts_cli.errors import UsageError
from tts_cli.named import capped
from tts_cli.store.lock import is_read_only
from tts_cli.store.merge import Merger, Origins, differences
from tts_cli.store.run_file import FolderTotals, read_report
from tts_cli.store.store import Store
from tts_cli.voices.voice_store import VoiceMerge

log = logging.getLogger(__name__)

_MAX_NAMED = 8  # settings that a warning names


class Merged(NamedTuple):
    origins: Origins
    merger: Merger
    voices: VoiceMerge
    sums: FolderTotals  # of the target


def merge(
    out: Path,
    folders: Sequence[Path],
    prefer: Sequence[Path],
    config: RunConfig,
    step: Step,
    *,
    has_links: bool = False,
) -> Merged:
    """Merge folders into another one.

    Args:
        prefer: folders whose rows and voices win if folders differ, the first one first.
        has_links: hard-link the files instead of copying them, if the file system can.
    Raises:
        UsageError: a folder cannot be merged, or two disagree; no file was written.
        DiskFull, StoppedEarly, Interrupted: a rerun merges the rest.
    """
    all_of_them = [out, *distinct_folders(folders, prefer, out)]
    preferred, target = {folder.resolve() for folder in prefer}, out.resolve()
    origins = Origins(all_of_them, len(preferred - {target}), target in preferred)
    with ExitStack() as stack:
        held = stack.enter_context(Store(out, config))
        held.lock()
        with step("reading the folders"):
            totals = [None if held.is_new else add_rows(held, 0, origins)]
            for index, source in enumerate(all_of_them[1:], 1):
                folder = Store.read_only(source)
                if not is_read_only(source):
                    folder = stack.enter_context(Store.locked(source, config))
                totals.append(add_rows(folder, index, origins))
            origins.require_no_conflicts()
            merger = Merger(origins, has_links=has_links)
            voices = VoiceMerge(all_of_them, origins.is_settled, merger.left)
            voices.require_no_conflicts()
            merger.require_room(None if held.is_new else held.journal)
            held.unload()
        reports = [read_report(folder) for folder in all_of_them]
        if found := list(differences(all_of_them, reports)):
            named = "; ".join(capped(found, _MAX_NAMED, "and {} more"))
            log.warning("different audio: %s", named)
        with step("writing files"):
            voices.run()
            sums = held.merge(merger, origins, reports, totals)
        return Merged(origins, merger, voices, sums)


def distinct_folders(folders: Sequence[Path], prefer: Sequence[Path], out: Path) -> list[Path]:
    """Return the folders to merge without duplicates, preferred ones first. Raises UsageError."""
    found = {folder.resolve(): folder for folder in reversed(folders)}
    target = out.resolve()
    for place, folder in found.items():
        if not folder.is_dir():
            raise UsageError(f"{folder}: is not a folder", "give output folders of runs")
        if place == target:
            raise UsageError(f"{folder} is also --out", "leave it out: its rows stay")
        if place in target.parents or target in place.parents:
            raise UsageError(
                f"--out {out} and {folder} contain one another",
                "choose an --out next to the folders",
            )
        Store.read_only(folder)
    first = []
    for folder in prefer:
        place = folder.resolve()
        if place != target and place not in found:
            raise UsageError(f"--prefer {folder}: is not one of the folders", "give one of them")
        if place in found:
            first.append(found.pop(place))
    return first + [folder for folder in reversed(found.values())]


def add_rows(folder: Store, index: int, origins: Origins) -> FolderTotals:
    """Add the rows of a folder to `origins`, and free its index. Return the folder's totals."""
    origins.add(index, folder.journal)
    sums = folder.runs.totals(folder.journal.totals())
    folder.unload()
    return sums
