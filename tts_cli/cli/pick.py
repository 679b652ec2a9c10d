"""`tts-cli pick`: which take of a row is its file. No model and no torch come in here."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import SectionedCommand
from tts_cli.cli.options import common_options, config_option, group
from tts_cli.cli.screen import show_table, shown
from tts_cli.config import RunConfig
from tts_cli.core import Status
from tts_cli.errors import UsageError

if TYPE_CHECKING:
    from tts_cli.folder.folder import Folder
    from tts_cli.folder.journal import Journal
    from tts_cli.folder.take import Take

log = logging.getLogger(__name__)

_CHOICE = re.compile(r"(.+)=(?:(seed:)?([0-9]{1,16}))")
_MAX_SHOWN = 20  # takes that a message lists
_MAX_ATTEMPTS = 10_000  # that a line is believed

_folder_options = group("Folder", config_option("take_over"))


@click.command("pick", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("choices", metavar="[ID=TAKE]...", nargs=-1)
@_folder_options
@common_options
def command(folder: Path, choices: tuple[str, ...], **options: Any) -> int:
    """Choose which take of a row is its file; without a choice, list the rows that have takes.

    DIR is an output folder of synth or book. TAKE is a number, or seed:N: the take that was spoken
    with that seed, be it the row's own (as in timings.jsonl) or the run's (as in --seed). The
    choice lasts: no later run replaces it, whatever its seed, until the row's text, voice or other
    settings change. DIR/takes.json tells what is chosen.

    \b
    Examples:
      tts-cli synth lines.jsonl --out wavs/ --only intro/003 --takes 3
      tts-cli pick wavs/ intro/003=2
      tts-cli pick wavs/ intro/003=seed:9 intro/004=1
      tts-cli pick wavs/
    """
    from tts_cli.folder.folder import Folder

    config = RunConfig.from_options({**options, "out": folder})
    if not Folder.is_there(folder):
        raise UsageError(
            f"{folder}: has no timings.jsonl", remedy="name a folder that synth has spoken into"
        )
    wanted = [parse(choice) for choice in choices]
    if not wanted:
        show_takes(Folder.look(folder), config)
        return 0
    if len({choice.row_id for choice in wanted}) < len(wanted):
        raise UsageError("one row is named twice", remedy="choose one take of it")
    with Folder.at(folder, config) as held:
        results = choose_takes(held, wanted)
    show_choices(folder, config, results)
    return 0


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


def choose_takes(folder: Folder, wanted: list[Choice]) -> list[dict[str, Any]]:
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
            is_new = folder.choose(take.id, take.take)
            results.append({**facts(take), "is_new": is_new})
    finally:
        folder.renew_totals()
    return results


def show_choices(out: Path, config: RunConfig, results: list[dict[str, Any]]) -> None:
    """Say which takes are chosen, and what follows for a book."""
    if config.json:
        click.echo(json.dumps(results, indent=2))
    elif config.verbosity >= 0:
        for result in results:
            ending = "" if result["is_new"] else ", as before"
            click.echo(f"{result['id']}: {described(result)}{ending}")
        if (out / "book.json").is_file() and any(result["is_new"] for result in results):
            click.echo("next, for the chapters: the tts-cli book command again")


def find(journal: Journal, out: Path, choice: Choice) -> Take:
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
    raise UsageError(f"{problem}; there are: {listed or 'none that came out well'}")


def _is_made_of(take: Take, run_seed: int) -> bool:
    """Whether a take's seed is made of the one that a run had."""
    from tts_cli.manifest.seeds import is_made_of

    return is_made_of(take.seed or 0, run_seed, take.id, min(take.attempts, _MAX_ATTEMPTS))


def no_row(journal: Journal, row_id: str, out: Path) -> str:
    """What is said of a row that the journal does not know."""
    from tts_cli.folder.mend import recorded_ids
    from tts_cli.plan.checks import nearest_ids

    return f"{out}: no row is called '{row_id}'{nearest_ids(row_id, set(recorded_ids(journal)))}"


def takes_of(journal: Journal, row_id: str) -> list[Take]:
    """A row's takes, those left out that are gone."""
    found = (journal.take(row_id, number) for number in range(1, journal.top(row_id) + 1))
    return [take for take in found if take is not None and take.status is not Status.GONE]


def facts(take: Take) -> dict[str, Any]:
    """What is shown of a take; what makes no sense is not known."""
    names = ("id", "take", "seed", "audio_s", "voice", "suspect", "path", "error")
    return {name: getattr(take, name) for name in names}


def described(take: dict[str, Any]) -> str:
    """A take in a few words."""
    seconds = take["audio_s"]
    length = f", {seconds:.2f} s" if isinstance(seconds, (int, float)) else ""
    suspect = f", suspect: {', '.join(map(str, take['suspect']))}" if take["suspect"] else ""
    return shown(f"take {take['take']} (seed {take['seed']}{length}{suspect})")


def show_takes(folder: Folder, config: RunConfig) -> None:
    """List the rows that have takes."""
    out = folder.out
    found = list(listed(folder.journal))
    if config.json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo(f"no row of {out} has several takes, or a chosen one")
        return
    rows = [
        (
            str(take["id"]),
            str(take["take"]),
            str(take["chosen"] or ""),
            str(take["seed"]),
            f"{take['audio_s'] or 0:.2f}",
            str(take["voice"] or ""),
            str(take["error"] or ", ".join(map(str, take["suspect"] or []))),
        )
        for take in found
    ]
    columns = ("row", "take", "chosen", "seed", "seconds", "voice", "remarks")
    show_table(f"takes in {out}", columns, rows)


def listed(journal: Journal) -> Iterator[dict[str, Any]]:
    """Every take of rows that have several or a chosen one, and whether it is the row's file:
    `held` where somebody chose it, `yes` where it is what the settings give.
    """
    for chosen in journal.chosen():
        file = journal.file(chosen.id)
        for take in takes_of(journal, chosen.id):
            is_file = file is not None and file.take == take.take and take.is_ok
            how = "held" if file is not None and file.is_held else "yes"
            yield {**facts(take), "chosen": how if is_file else None}
