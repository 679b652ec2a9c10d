"""The page to listen to what a folder holds."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from tts_cli.errors import SetupError, is_disk_error
from tts_cli.folder.atomic import write_alone
from tts_cli.folder.journal import JOURNAL_NAME
from tts_cli.folder.lock import is_read_only
from tts_cli.folder.rows import read_folder
from tts_cli.folder.run_file import versions
from tts_cli.listen.page.build import build_page
from tts_cli.listen.page.content import audio_url, content_of

log = logging.getLogger(__name__)

PAGE_NAME = "report.html"


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
