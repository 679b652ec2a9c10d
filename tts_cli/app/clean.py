"""Show what `clean` would delete from an output folder, and delete it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tts_cli.config import RunConfig
from tts_cli.store.clean import Droppable, droppable
from tts_cli.store.store import Store


def clean(
    out: Path,
    config: RunConfig,
    older_than_s: float | None,
    is_approved: Callable[[Droppable], bool],
) -> tuple[Droppable, bool]:
    """Delete alternative takes and the files of removed rows. Returns them, and whether they were
    deleted.

    Args:
        older_than_s: age of the files in seconds; None: all.
        is_approved: whether to delete them, asked once if there is anything.
    Raises:
        UsageError: nothing was synthesized into the folder.
        Interrupted, DiskFull, StoppedEarly: run again, it goes on.
    """
    before_s = None if older_than_s is None else time.time() - older_than_s
    looked = Store.read_only(out)
    found = droppable(out, looked.journal, before_s)
    if not found.files or not is_approved(found):
        return found, False
    with Store(out, config) as store:
        return store.clean(before_s), True
