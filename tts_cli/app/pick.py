"""List the takes of rows, and choose which of them is its row's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.core import Status
from tts_cli.errors import UsageError
from tts_cli.seeds import is_made_of
from tts_cli.sources.ids import natural_order
from tts_cli.store.entry import JournalEntry
from tts_cli.store.journal import Journal
from tts_cli.store.orphans import recorded_ids
from tts_cli.store.store import Store

_CHOICE = re.compile(r"(.+)=(?:(seed:)?([0-9]{1,16}))")
_MAX_SHOWN = 20  # takes that a message lists
_MAX_ATTEMPTS = 10_000  # that a line is believed


def pick(out: Path, config: RunConfig, choices: Sequence[str]) -> tuple[list[dict[str, Any]], bool]:
    """Choose takes, each as `ID=TAKE` or `ID=seed:N`.

    Returns:
        As `choose_takes`; and whether a book's chapters are to be joined anew.
    Raises:
        As `choose_takes`; UsageError also where a choice makes no sense, or there is no journal.
    """
    _require_journal(out)
    wanted = [parse(choice) for choice in choices]
    if len({choice.row_id for choice in wanted}) < len(wanted):
        raise UsageError("a row is given twice", remedy="choose one take per row")
    with Store(out, config) as folder:
        picked = choose_takes(folder, wanted)
        return picked, folder.is_book and any(take["is_new"] for take in picked)


def takes_in(out: Path) -> list[dict[str, Any]]:
    """Every take of rows that have several or a chosen one, see `listed`. Raises UsageError."""
    _require_journal(out)
    return list(listed(Store.read_only(out).journal))


def _require_journal(out: Path) -> None:
    if not Store.exists(out):
        raise UsageError(f"{out}: has no timings.jsonl", remedy="give an output folder of synth")


@dataclass(frozen=True)
class Choice:
    """What a user asks for."""

    row_id: str
    take: int | None  # None: the one of the seed
    seed: int | None = None


def parse(choice: str) -> Choice:
    """`ID=TAKE` or `ID=seed:N`. Raises UsageError."""
    found = _CHOICE.fullmatch(choice)
    if found is None:
        raise UsageError(f"{choice!r} is not of the form ID=TAKE or ID=seed:N, such as line7=2")
    number = int(found[3])
    return Choice(found[1], None, number) if found[2] else Choice(found[1], number)


def choose_takes(folder: Store, wanted: list[Choice]) -> list[dict[str, Any]]:
    """Choose takes, once all are known to be there.

    Returns:
        What is to be shown of each, and whether it is new.
    Raises:
        UsageError: a row or a take is not there; nothing has changed.
        RowError: the file of one is gone.
    """
    found = [find(folder.journal, folder.out, choice) for choice in wanted]
    results = []
    try:
        for take in found:
            is_new = folder.pin(take.id, take.take)
            results.append({**facts(take), "is_new": is_new})
    finally:
        folder.update_totals()
    return results


def find(journal: Journal, out: Path, choice: Choice) -> JournalEntry:
    """A take. Raises UsageError, with the takes there are."""
    takes = takes_of(journal, choice.row_id)
    if not takes:
        raise UsageError(no_row(journal, choice.row_id, out))
    spoken = [take for take in takes if take.is_ok]
    if choice.take is not None:
        found = [take for take in spoken if take.take == choice.take]
        asked = f"take {choice.take}"
    else:
        seed = choice.seed or 0
        found = [take for take in spoken if take.seed == seed]
        found = found or [take for take in spoken if _is_made_of(take, seed)]
        asked = f"take of seed {seed}"
    if len(found) == 1:
        return found[0]
    listed = "; ".join(described(facts(take)) for take in spoken[:_MAX_SHOWN])
    if found:
        problem = f"{choice.row_id} has more than one {asked}"
    else:
        problem = f"{choice.row_id} has no {asked}"
    raise UsageError(f"{problem}; its takes are: {listed or 'none without a failure'}")


def _is_made_of(take: JournalEntry, run_seed: int) -> bool:
    """Whether a take's seed is made of the one that a run had."""
    return is_made_of(take.seed or 0, run_seed, take.id, min(take.attempts, _MAX_ATTEMPTS))


def no_row(journal: Journal, row_id: str, out: Path) -> str:
    """What is said of a row that the journal does not know."""
    from tts_cli.plan.checks import nearest_ids  # 20 ms that only this needs

    return f"{out}: has no row '{row_id}'{nearest_ids(row_id, set(recorded_ids(journal)))}"


def takes_of(journal: Journal, row_id: str) -> list[JournalEntry]:
    """A row's takes, those left out that are gone."""
    found = (journal.take(row_id, number) for number in journal.row(row_id).numbers)
    return [take for take in found if take is not None and take.status is not Status.REMOVED]


def facts(take: JournalEntry) -> dict[str, Any]:
    """What is shown of a take; what makes no sense is not known."""
    names = ("id", "take", "seed", "audio_s", "voice", "suspect", "path", "error")
    return {name: getattr(take, name) for name in names}


def described(take: dict[str, Any]) -> str:
    """A take in a few words."""
    seconds = take["audio_s"]
    length = f", {seconds:.2f} s" if isinstance(seconds, (int, float)) else ""
    suspect = f", suspect: {', '.join(map(str, take['suspect']))}" if take["suspect"] else ""
    return f"take {take['take']} (seed {take['seed']}{length}{suspect})"


def listed(journal: Journal) -> Iterator[dict[str, Any]]:
    """Every take of rows that have several or a chosen one, and whether it is the row's file:
    `held` where somebody chose it, `yes` where it is what the settings give. In natural order of
    ids: lines come in the order in which threads wrote them.
    """
    for row_id in sorted((chosen.id for chosen in journal.chosen()), key=natural_order):
        file = journal.file(row_id)
        for take in takes_of(journal, row_id):
            is_file = file is not None and file.take == take.take and take.is_ok
            how = "held" if file is not None and file.is_held else "yes"
            yield {**facts(take), "chosen": how if is_file else None}
