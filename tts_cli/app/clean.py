"""Find what `clean` would delete from an output folder, and delete it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tts_cli.checks.reviews import Reviews
from tts_cli.config import RunConfig
from tts_cli.store.clean import Droppable, droppable
from tts_cli.store.store import Store


def clean(
    out: Path,
    config: RunConfig,
    older_than_s: float | None,
    is_approved: Callable[[Droppable], bool],
) -> tuple[Droppable, bool]:
    """Delete alternative takes and files of removed rows. Return them, and whether they are
    deleted.

    Args:
        older_than_s: minimum age of the files in seconds; None: any.
        is_approved: whether to delete them; called if there are any.
    Raises:
        UsageError: no row was synthesized into the folder.
        Interrupted, DiskFull, StoppedEarly: a rerun deletes the rest.
    """
    before_s = None if older_than_s is None else time.time() - older_than_s
    looked = Store.read_only(out)
    reviews = Reviews(out)
    takes = looked.journal.takes(has_extras=True) if reviews.states() else ()
    approved = frozenset((one.id, one.take) for one in takes if reviews.is_approved(one))
    found = droppable(out, looked.journal, before_s, approved)
    if not found.files or not is_approved(found):
        return found, False
    with Store(out, config) as store:
        return store.clean(before_s, approved), True
