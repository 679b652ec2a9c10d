"""Decisions and comments as files: a table, label tracks, and the decisions of a colleague."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from tts_cli.atomic import write_standalone
from tts_cli.audio.labels import labels
from tts_cli.audio.subtitles import TimedText
from tts_cli.checks.reviews import Reviews, State, append_decisions, read_decisions
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError, UsageError, writing
from tts_cli.sources.ids import natural_order
from tts_cli.store.store import Store

COLUMNS = ("id", "take", "state", "comment", "at_s", "reviewer", "time", "character", "text")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # starts of cells that a spreadsheet would run


def review_table(out: Path) -> str:
    """Return the state of every row and all comments as CSV. Raises UsageError, SetupError."""
    reviews = Reviews(out)
    last = {one.id: one for one in reviews.states()}
    by_id = groupby(reviews.comments(), key=attrgetter("id"))
    comments = {row_id: list(found) for row_id, found in by_id}
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    takes = Store.read_only(out).journal.takes()
    for take in sorted(takes, key=lambda take: natural_order(take.id)):
        about, state = last.get(take.id), reviews.state(take).value
        if about is not None and about.sha256 != take.sha256 and state == State.OPEN.value:
            state = "changed"
        by = (about.reviewer, about.time) if about else ("", "")
        lines: list[tuple[object, ...]] = [(take.take, state, "", "", *by)]
        for one in comments.get(take.id, ()):
            facts = one.comment, one.at_s, one.reviewer, one.time
            lines.append((one.take, State.COMMENT.value, *facts))
        for line in lines:
            texts = ("" if one is None else str(one) for one in (*line, take.character, take.text))
            safe = (f"'{text}" if text.startswith(_FORMULA) else text for text in texts)
            writer.writerow((take.id, *safe))
    return table.getvalue()


def write_labels(out: Path, folder: Path) -> int:
    """Write the comments as Audacity label tracks, one file per take. Return their number."""
    tracks: dict[str, list[TimedText]] = defaultdict(list)
    for one in Reviews(out).comments():
        at_s, text = one.at_s or 0.0, f"{one.reviewer}: {one.comment}".removeprefix(": ")
        tracks[f"{one.id}.take{one.take}.txt"].append(TimedText(text, at_s, at_s))
    for name, texts in tracks.items():
        path = folder / name
        with writing(path, SetupError, remedy="choose another folder"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_standalone(path, labels(texts, "audacity").encode("utf-8", "replace"))
    return len(tracks)


def import_decisions(out: Path, file: Path, reviewer: str) -> dict[str, int]:
    """Add the decisions of a saved file. Return how many were new, known, or about audio that the
    folder does not have.

    Args:
        reviewer: name for decisions without one.
    Raises:
        UsageError: the file has no decisions.
        SetupError: it cannot be read.
        FolderLocked, DiskFull, StoppedEarly: none or not all were added.
    """
    given = list(read_decisions(file)) if file.is_file() else []
    if not given:
        raise UsageError(f"{file}: contains no decisions", "give the file that the page saved")
    given = [replace(one, reviewer=one.reviewer or reviewer) for one in given]
    audio = {(one.id, one.sha256) for one in Store.read_only(out).journal.takes(has_extras=True)}
    fitting = [one for one in given if (one.id, one.sha256) in audio]
    before = set(read_decisions(out))
    added = [one for one in fitting if one not in before]
    if added:
        with Store.locked(out, RunConfig()):
            append_decisions(out, added)
    num_known = len(fitting) - len(added)
    return {"added": len(added), "known": num_known, "other_audio": len(given) - len(fitting)}
