"""The output folder of a command that writes to it: locked, and in order after a crash."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tts_cli.book.book_file import made_names
from tts_cli.config import RunConfig
from tts_cli.errors import (
    FolderLocked,
    RowError,
    StoppedEarly,
    UsageError,
    disk_full,
    is_disk_error,
)
from tts_cli.folder.atomic import remove_stale_parts
from tts_cli.folder.files import AudioWriter, prepare_folder
from tts_cli.folder.journal import JOURNAL_NAME, Journal
from tts_cli.folder.lock import FolderLock
from tts_cli.folder.mend import unrecorded_rows
from tts_cli.folder.removed import Removed
from tts_cli.folder.run_file import REPORT_NAME, RunLog
from tts_cli.folder.takes import LIST_NAME, TakeFolder
from tts_cli.manifest.ids import REMOVED, TAKES

if TYPE_CHECKING:
    from pathlib import Path


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenFolder:
    """An output folder that a run holds, with what it writes there."""

    out: Path
    journal: Journal
    runs: RunLog
    writer: AudioWriter


def open_run(
    config: RunConfig, out: Path, rate_hz: int, stack: ExitStack, is_new: bool = False
) -> OpenFolder:
    """Take the output folder of a run, see `open_folder`; its takes are in order afterwards.

    Args:
        rate_hz: of what the model speaks.
    """
    journal, runs = open_folder(config, stack, is_new)
    stack.callback(close_takes, config, journal)
    return OpenFolder(out, journal, runs, AudioWriter(out, config, rate_hz))


def open_folder(
    config: RunConfig, stack: ExitStack, is_new: bool = False
) -> tuple[Journal, RunLog]:
    """Take the output folder until the stack is closed, and put it in order after a crash.

    Args:
        is_new: it had no journal a moment ago.
    Raises:
        UsageError, SetupError: it cannot be had.
    """
    out = config.out
    assert out is not None
    prepare_folder(out)
    if (out / REPORT_NAME).is_dir():
        raise UsageError(
            f"{out / REPORT_NAME}: is a folder", remedy="move it, or choose another --out"
        )
    lock = stack.enter_context(FolderLock(out, config.take_over))
    if is_new and (out / JOURNAL_NAME).exists():
        raise FolderLocked(
            f"another run has spoken into {out} meanwhile", remedy="run the same command again"
        )
    runs = RunLog(out)
    journal = stack.enter_context(Journal(out, has_sums=config.verify_files))
    put_in_order(out, lock, journal, config.prune)
    return journal, runs


def put_in_order(out: Path, lock: FolderLock, journal: Journal, is_pruning: bool = False) -> None:
    """Mend what a crash has left in a folder that is held. Raises StoppedEarly.

    Args:
        is_pruning: what was taken out of it is looked at without a crash, too.
    """
    remove_stale_parts(out)
    if lock.crashed_ns is not None or is_pruning:
        mend_removed(out, journal)
    if lock.crashed_ns is not None:
        journal.append(*unrecorded_rows(out, lock.crashed_ns, journal, made_names(out)))
    mend_takes(out, journal)


def mend_removed(out: Path, journal: Journal) -> None:
    """Move what a crash has left of the files of rows that are gone. Raises StoppedEarly."""
    try:
        Removed(out, journal).mend()
    except (OSError, RowError) as error:
        if isinstance(error, OSError) and is_disk_error(error):
            raise disk_full(error, out / REMOVED) from error
        raise StoppedEarly(
            f"a file of a row that is gone cannot be moved to {REMOVED}/: {error}",
            remedy="see what is in its way, and run the same command again",
        ) from error


def mend_takes(out: Path, journal: Journal) -> None:
    """Make rows' files the takes that they are to be. Raises StoppedEarly."""
    try:
        mended = TakeFolder(out, journal).repair()
    except OSError as error:
        if is_disk_error(error):
            raise disk_full(error, out / TAKES) from error
        raise StoppedEarly(
            f"a file cannot be made the take that was chosen: {error}",
            remedy="check the permissions of the folder",
        ) from error
    if mended:
        files = "1 file was" if mended == 1 else f"{mended} files were"
        log.warning("%s put back from %s/: gone, cut, or not the chosen take", files, TAKES)


def close_takes(config: RunConfig, journal: Journal) -> None:
    """Write `takes.json`, and remove empty folders of takes. Failures are told: the journal has it
    all.
    """
    assert config.out is not None
    takes = TakeFolder(config.out, journal)
    try:
        takes.prune()
        takes.write_list()
    except (OSError, StoppedEarly) as problem:
        log.warning("%s is out of date: %s", LIST_NAME, problem)
