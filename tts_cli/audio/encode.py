"""What is done with a row's samples: treatment, levels, encoding, and files under temporary names.
What follows, their names and the row's line, is the folder's, which may be in another process.
"""

from __future__ import annotations

import logging
import time

from tts_cli.audio.tags import Tags
from tts_cli.core import SpeechRow
from tts_cli.errors import RowError
from tts_cli.folder.files import AudioWriter

log = logging.getLogger(__name__)


class RowFiles:
    """Makes the files of rows at their ends; any thread may call it.

    Args:
        comment: in every file, see `tags.synthetic`.
    """

    def __init__(self, writer: AudioWriter, comment: str) -> None:
        self.writer = writer
        self.comment = comment

    def make(self, row: SpeechRow) -> None:
        """Make a row's files, if it has audio: `made`, or why not in `unwritable`.

        Raises:
            DiskFull, StoppedEarly: see `AudioWriter.make`.
        """
        if row.samples is None:
            return
        started_s = time.perf_counter()
        is_truncated = row.error is not None
        take = row.place.file_take(is_truncated)
        tags = Tags.of_row(row.id, row.request.voice, self.comment)
        try:
            row.made = self.writer.make(row.id, row.samples, row.codes, is_truncated, take, tags)
        except RowError as problem:
            log.debug("row %s cannot be written", row.id, exc_info=True)
            row.unwritable = str(problem)
        row.make_ms = 1000 * (time.perf_counter() - started_s)
