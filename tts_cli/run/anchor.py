"""Which row is the anchor: `--anchor first|ID`. What its speech is to the others is in
`voices/anchor.py`.

`first` is the first row that is about as long as a good reference. Which one it was is kept in
`anchor.json`, and stays so as long as the manifest has that row: one put in at the top must not
give all others another voice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.errors import UsageError
from tts_cli.manifest.ids import fold_id
from tts_cli.manifest.request import usual_s
from tts_cli.manifest.row import BadRow, Row
from tts_cli.output.atomic import write_atomic
from tts_cli.voices.recording import MAX_SECONDS

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.config import RunConfig

ANCHOR_NAME = "anchor.json"
FIRST = "first"
GOOD_S = (3.0, 20.0)  # usual seconds of a text whose speech makes a good reference
_MAX_BYTES = 1 << 16


def require_free_voices(config: RunConfig, info: ModelInfo) -> None:
    """Raise UsageError where no row needs an anchor, or none can be one."""
    flag = f"--anchor {config.anchor}"
    if info.voices or info.needs_reference or config.voice is not None:
        raise UsageError(
            f"{flag}: every row has a voice already",
            remedy="leave it out; it is for checkpoints that make up a voice for every row",
        )
    if not info.can_clone or "icl" not in info.clone_modes:
        reason = info.needs or f"a {info.type} checkpoint cannot clone the anchor"
        raise UsageError(
            f"{flag}: {reason}",
            remedy="make a voice with `tts-cli voices design`, and speak with a Base checkpoint",
        )


def choose_anchor(
    config: RunConfig,
    read: Callable[[], Iterator[Row | BadRow]],
    is_free: Callable[[Row], bool],
) -> Row | None:
    """The anchor's row; None for `first` where no row needs one.

    Args:
        read: reads the manifest from its start.
        is_free: whether nothing fixes a row's voice.
    Raises:
        UsageError: there is no such row, or it cannot be the anchor.
    """
    assert config.anchor is not None
    if config.anchor != FIRST:
        return _named(config.anchor, read(), is_free)
    kept = _kept_id(config.out)
    fitting: Row | None = None
    free: Row | None = None
    for row in read():
        if isinstance(row, BadRow) or not is_free(row):
            continue
        if row.id == kept:
            return row
        free = free or row
        if fitting is None and GOOD_S[0] <= usual_s(row.text) <= GOOD_S[1]:
            fitting = row
            if kept is None:
                break
    return fitting or free


def _named(row_id: str, rows: Iterator[Row | BadRow], is_free: Callable[[Row], bool]) -> Row:
    for row in rows:
        if row.id is None or fold_id(row.id) != fold_id(row_id):
            continue
        if isinstance(row, BadRow):
            raise UsageError(f"--anchor {row_id}: line {row.line} is bad: {row.message}")
        if not is_free(row):
            raise UsageError(
                f"--anchor {row_id}: the row has a voice or a recording of its own, or no words",
                remedy="name a row whose voice the checkpoint makes up, or give that voice to all",
            )
        return row
    raise UsageError(f"--anchor {row_id}: no row has this id", remedy="name a row of the manifest")


def too_long(row: Row, text: str, is_split: bool) -> UsageError | None:
    """The error of an anchor whose speech would be longer than a reference may be.

    Args:
        text: what is spoken.
        is_split: it is longer than the checkpoint speaks well.
    """
    seconds = usual_s(text)
    if seconds <= MAX_SECONDS and not is_split:
        return None
    return UsageError(
        f"--anchor: row '{row.id}' would take about {seconds:.0f} s, and a reference lasts at most "
        f"{MAX_SECONDS:g} s",
        remedy="name a shorter row, of 5 to 15 s",
    )


def _kept_id(out: Path | None) -> str | None:
    """The anchor that the folder was spoken with before."""
    if out is None:
        return None
    try:
        with open(out / ANCHOR_NAME, "rb") as file:
            found = json.loads(file.read(_MAX_BYTES))["id"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return found if isinstance(found, str) else None


def keep_anchor(out: Path, row_id: str, digest: str) -> None:
    """Note which row the others follow. Raises DiskFull."""
    data = (json.dumps({"id": row_id, "digest": digest}, indent=2) + "\n").encode()
    path = out / ANCHOR_NAME
    if not path.is_file() or path.read_bytes() != data:
        write_atomic(path, data)
