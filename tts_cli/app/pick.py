"""List the takes of rows, and choose their current takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.core import Status
from tts_cli.errors import UsageError
from tts_cli.seeds import is_derived_from
from tts_cli.sources.ids import natural_order
from tts_cli.store.entry import JournalEntry
from tts_cli.store.journal import Journal
from tts_cli.store.orphans import recorded_ids
from tts_cli.store.store import Store

_CHOICE = re.compile(r"(.+)=(?:(seed:)?([0-9]{1,16}))")
_MAX_SHOWN = 20  # takes that a message lists
_MAX_ATTEMPTS = 10_000  # limit for the number of attempts in an entry


def pick(out: Path, config: RunConfig, choices: Sequence[str]) -> tuple[list[dict[str, Any]], bool]:
    """Choose takes, given as `ID=TAKE` or `ID=seed:N`. Return them as `choose_takes`, and whether a
    book's chapters are now out of date. Raises as `choose_takes`, and UsageError.
    """
    _require_journal(out)
    wanted = [parse_choice(choice) for choice in choices]
    if len({choice.row_id for choice in wanted}) < len(wanted):
        raise UsageError("a row is given twice", remedy="choose one take per row")
    with Store(out, config) as folder:
        picked = choose_takes(folder, wanted)
        return picked, folder.is_book and any(take["is_new"] for take in picked)


def list_takes(out: Path) -> list[dict[str, Any]]:
    """Return every take of rows that have several or a pinned one, in natural order of their ids.

    `chosen` is `held` for a pinned current take, `yes` for another current one, and None for
    alternatives. Raises UsageError if the journal is missing.
    """
    _require_journal(out)
    journal, takes = Store.read_only(out).journal, []
    for row_id in sorted((chosen.id for chosen in journal.chosen()), key=natural_order):
        file = journal.file(row_id)
        for take in takes_of(journal, row_id):
            is_file = file is not None and file.take == take.take and take.is_ok
            how = "held" if file is not None and file.is_held else "yes"
            takes.append({**take_facts(take), "chosen": how if is_file else None})
    return takes


def _require_journal(out: Path) -> None:
    if not Store.exists(out):
        raise UsageError(f"{out}: has no timings.jsonl", remedy="give an output folder of synth")


@dataclass(frozen=True)
class Choice:
    row_id: str
    take: int | None  # None: chosen by its seed
    seed: int | None = None


def parse_choice(choice: str) -> Choice:
    found = _CHOICE.fullmatch(choice)
    if found is None:
        raise UsageError(f"{choice!r} is not of the form ID=TAKE or ID=seed:N, such as line7=2")
    number = int(found[3])
    return Choice(found[1], None, number) if found[2] else Choice(found[1], number)


def choose_takes(folder: Store, wanted: list[Choice]) -> list[dict[str, Any]]:
    """Pin takes. Return what to print about each, and whether it is new.

    Raises UsageError before any change if a take does not exist, and RowError if its file is
    missing.
    """
    found = [find_take(folder.journal, folder.out, choice) for choice in wanted]
    results = []
    try:
        for take in found:
            is_new = folder.pin(take.id, take.take)
            results.append({**take_facts(take), "is_new": is_new})
    finally:
        folder.update_totals()
    return results


def find_take(journal: Journal, out: Path, choice: Choice) -> JournalEntry:
    """Return the chosen take. Raises UsageError, listing the existing takes."""
    takes = takes_of(journal, choice.row_id)
    if not takes:
        from tts_cli.plan.checks import nearest_ids  # takes 20 ms, needed only here

        nearest = nearest_ids(choice.row_id, set(recorded_ids(journal)))
        raise UsageError(f"{out}: has no row '{choice.row_id}'{nearest}")
    spoken = [take for take in takes if take.is_ok]
    if choice.take is not None:
        found = [take for take in spoken if take.take == choice.take]
        asked = f"take {choice.take}"
    else:
        seed = choice.seed or 0
        found = [take for take in spoken if take.seed == seed]
        found = found or [
            take
            for take in spoken
            if is_derived_from(take.seed or 0, seed, take.id, min(take.attempts, _MAX_ATTEMPTS))
        ]
        asked = f"take of seed {seed}"
    if len(found) == 1:
        return found[0]
    listed = "; ".join(describe_take(take_facts(take)) for take in spoken[:_MAX_SHOWN])
    if found:
        problem = f"{choice.row_id} has more than one {asked}"
    else:
        problem = f"{choice.row_id} has no {asked}"
    raise UsageError(f"{problem}; its takes are: {listed or 'none without a failure'}")


def takes_of(journal: Journal, row_id: str) -> list[JournalEntry]:
    found = (journal.take(row_id, number) for number in journal.row(row_id).numbers)
    return [take for take in found if take is not None and take.status is not Status.REMOVED]


def take_facts(take: JournalEntry) -> dict[str, Any]:
    names = ("id", "take", "seed", "audio_s", "voice", "suspect", "path", "error")
    return {name: getattr(take, name) for name in names}


def describe_take(take: dict[str, Any]) -> str:
    seconds = take["audio_s"]
    length = f", {seconds:.2f} s" if isinstance(seconds, (int, float)) else ""
    suspect = f", suspect: {', '.join(map(str, take['suspect']))}" if take["suspect"] else ""
    return f"take {take['take']} (seed {take['seed']}{length}{suspect})"
