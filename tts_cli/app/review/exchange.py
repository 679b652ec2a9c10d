"""Decisions and comments as files: a table, label tracks, and the decisions of a colleague."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from tts_cli.atomic import write_standalone
from tts_cli.checks.reviews import Decision, Reviews, State, append_decisions, read_decisions
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError, UsageError, writing
from tts_cli.sources.ids import id_problem, natural_order
from tts_cli.store.entry import JournalEntry
from tts_cli.store.store import Store

COLUMNS = ("id", "take", "state", "comment", "at_s", "reviewer", "time", "character", "text")
CHANGED = "changed"  # state of a row whose file is not the one that was decided about
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # starts of cells that a spreadsheet would run


def review_table(out: Path) -> str:
    """Return the state of every row and all comments as CSV. Raises UsageError, SetupError."""
    takes = sorted(Store.read_only(out).journal.takes(), key=lambda take: natural_order(take.id))
    reviews = Reviews.read(out)
    decided = {one.id: one for one in reviews.decisions() if one.state is not State.COMMENT}
    by_id: dict[str, list[Decision]] = {}
    for one in reviews.comments():
        by_id.setdefault(one.id, []).append(one)
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    for take in takes:
        state, last = reviews.state(take), decided.get(take.id)
        is_changed = last is not None and last.sha256 != take.sha256
        shown = CHANGED if state is State.OPEN and is_changed else state.value
        about = (last.reviewer, last.time) if last is not None else ("", "")
        writer.writerow(_cells(take, take.take, shown, "", None, *about))
        for one in by_id.get(take.id, []):
            cells = one.comment, one.at_s, one.reviewer, one.time
            writer.writerow(_cells(take, one.take, State.COMMENT.value, *cells))
    return table.getvalue()


def _cells(take: JournalEntry, number: int, *cells: object) -> list[str]:
    values = (take.id, number, *cells, take.character, take.text)
    texts = ("" if one is None else str(one) for one in values)
    return [f"'{text}" if text.startswith(_FORMULA) else text for text in texts]


def write_labels(out: Path, folder: Path) -> int:
    """Write the comments as label tracks of Audacity, one file per take. Return their number.

    Raises:
        SetupError: a file cannot be written.
    """
    tracks: dict[str, list[str]] = {}
    for one in Reviews.read(out).comments():
        if id_problem(one.id) is None:
            text = " ".join(f"{one.reviewer}: {one.comment}".removeprefix(": ").split())
            at_s = f"{one.at_s or 0.0:.6f}"
            tracks.setdefault(f"{one.id}.take{one.take}.txt", []).append(
                f"{at_s}\t{at_s}\t{text}\n"
            )
    for name, lines in tracks.items():
        path = folder / name
        with writing(path, SetupError, remedy="choose another folder"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_standalone(path, "".join(lines).encode("utf-8", "replace"))
    return len(tracks)


def import_decisions(
    out: Path, file: Path, reviewer: str | None, config: RunConfig
) -> dict[str, int]:
    """Add the decisions of a file that a page saved. Return the numbers of those that were
    added, were known already, and are about audio that the folder does not have.

    Args:
        reviewer: name for decisions without one.
    Raises:
        UsageError: the file has no decisions.
        SetupError: it cannot be read.
        FolderLocked, DiskFull, StoppedEarly: nothing or not all was added.
    """
    if not file.is_file():
        raise UsageError(f"{file}: is not a file", "give the file that the page saved")
    given = list(read_decisions(file))
    if not given:
        raise UsageError(f"{file}: contains no decisions", "give the file that the page saved")
    known = {(one.id, one.sha256) for one in Store.read_only(out).journal.takes(has_extras=True)}
    before = {_facts(one) for one in read_decisions(out)}
    found: Counter[str] = Counter()
    added = []
    for one in given:
        one = replace(one, reviewer=one.reviewer or reviewer or "")
        if (one.id, one.sha256) not in known:
            found["other_audio"] += 1
        elif _facts(one) in before:
            found["known"] += 1
        else:
            found["added"] += 1
            added.append(one)
    if added:
        with Store.locked(out, config):
            append_decisions(out, added)
    return {name: found[name] for name in ("added", "known", "other_audio")}


def _facts(one: Decision) -> tuple[object, ...]:
    return one.id, one.sha256, one.state, one.comment, one.at_s, one.reviewer, one.time
