"""`tts-cli clean`: delete alternative takes and the files of removed rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from tts_cli.cli import messages as msg
from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group, settings
from tts_cli.cli.screen import can_ask, echo, echo_json
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.named import counted, shown_size
from tts_cli.setting import Scope
from tts_cli.store.clean import Droppable

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"([0-9]{1,6})([mhdw])")


def age_of(text: str | None) -> float | None:
    """Return an age in seconds. Raises UsageError."""
    if text is None:
        return None
    found = _AGE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--older-than: {text!r} is not an age", "give minutes, hours, days or weeks, as in 30d"
        )
    return float(int(found[1]) * _UNITS_S[found[2]])


_what_to_delete = group(
    "What to delete",
    click.option(
        "--older-than",
        cls=SectionedOption,
        scope=Scope.ONE_RUN,
        metavar="AGE",
        help="Only files that are older, such as 30d, 12h or 8w.",
    ),
    click.option(
        "--dry-run", cls=SectionedOption, scope=Scope.ONE_RUN, is_flag=True, help="Delete nothing."
    ),
    click.option(
        "-y", "--yes", cls=SectionedOption, scope=Scope.ONE_RUN, is_flag=True, help="Do not ask."
    ),
    settings("take_over"),
)


@click.command("clean", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@_what_to_delete
@common_options
def command(folder: Path, older_than: str | None, dry_run: bool, yes: bool, **options: Any) -> int:
    """Delete alternative takes and the files of removed rows.

    \b
    Examples:
      tts-cli clean wavs/ --dry-run
      tts-cli clean wavs/ --older-than 30d

    DIR is the output folder of `synth` or `book`. The current take of each row stays, pinned or
    not, and so does the file that it was converted from. Takes that you made by editing a file stay
    too: delete them by hand. `clean` lists what it deletes and asks first.
    """
    config = RunConfig.from_options({**options, "out": folder})
    from tts_cli.app.clean import clean

    def is_approved(found: Droppable) -> bool:
        if not config.json:
            show(folder, found)
        if dry_run or yes:
            return yes and not dry_run
        if not can_ask():
            raise UsageError("clean asks before it deletes anything", "add --yes, or --dry-run")
        return click.confirm("delete them?", err=True)

    found, is_done = clean(folder, config, age_of(older_than), is_approved)
    if config.json:
        echo_json(as_dict(found, is_done=is_done))
    elif not found.files:
        age = "" if older_than is None else f" older than {older_than}"
        echo(msg.NOTHING_TO_CLEAN.format(folder=folder, age=age))
    elif is_done:
        echo(msg.CLEANED.format(files=counted(found.files, "file"), size=shown_size(found.bytes)))
    return 0


def show(folder: Path, found: Droppable) -> None:
    files, size = counted(found.files, "file"), shown_size(found.bytes)
    echo(msg.CLEANABLE.format(files=files, size=size, folder=folder))
    for named, text in (
        (found.alternatives, msg.CLEANABLE_TAKES),
        (found.removed, msg.CLEANABLE_REMOVED),
        (found.edited, msg.CLEAN_EDITED),
        (found.approved, msg.CLEAN_APPROVED),
    ):
        if named.count:
            echo(text.format(rows=counted(named.count, "row"), ids=named))


def as_dict(found: Droppable, *, is_done: bool) -> dict[str, Any]:
    return {
        "files": found.files,
        "bytes": found.bytes,
        "rows_with_alternatives": found.alternatives.count,
        "removed_rows": found.removed.count,
        "rows_with_edited_takes": found.edited.count,
        "rows_with_approved_takes": found.approved.count,
        "is_deleted": is_done,
    }
