"""Make the files of a task's samples: treatment, levels, encoding, temporary names. Their final
names and the task's line are the folder's work, which may be in another process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from tts_cli.audio.tags import Tags
from tts_cli.core import Encoded, Spoken, Task
from tts_cli.errors import RowError

log = logging.getLogger(__name__)


def encoded(task: Task, spoken: Spoken, make: Callable[..., Encoded], comment: str) -> Spoken:
    """The same with files in place of its samples and codes, or with why there can be none. Any
    thread may call it.

    Args:
        make: see `AudioWriter.make`.
        comment: in every file, see `tags.synthetic`.
    Raises:
        DiskFull, StoppedEarly: see `AudioWriter.make`.
    """
    if spoken.samples is None:
        return spoken
    started_s = time.perf_counter()
    is_truncated = spoken.error is not None
    take = task.place.file_take
    tags = Tags.of_row(task.id, task.request.voice, comment)
    files, problem = None, None
    try:
        files = make(task.id, spoken.samples, spoken.codes, is_truncated, take, tags)
    except RowError as error:
        log.debug("row %s cannot be written", task.id, exc_info=True)
        problem = str(error)
    return replace(
        spoken,
        samples=None,
        codes=None,
        encoded=files,
        unwritable=problem,
        encode_ms=1000 * (time.perf_counter() - started_s),
    )
