"""`tts-cli encode`: convert the files of a folder without synthesizing."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from tts_cli.cli.options import (
    APPROVED,
    NAME_BY,
    OUT,
    SectionedCommand,
    common_options,
    group,
    origins,
    settings,
)
from tts_cli.cli.progress import long_step
from tts_cli.cli.remember import shown_flag
from tts_cli.cli.screen import show_or_warn
from tts_cli.config import SETTINGS, RunConfig
from tts_cli.errors import UsageError
from tts_cli.events import Event
from tts_cli.named import capped, counted
from tts_cli.plan.remembered import last_run
from tts_cli.setting import Topic

# Settings that encode has, too.
_DELIVERY = {name for name in SETTINGS if SETTINGS[name].topic is Topic.OUTPUT}
_DELIVERY -= {"out", "save_codes", "subtitles"}
MAX_NAMED = 5  # rows not converted that are listed without --json


@click.command("encode", cls=SectionedCommand)
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@settings(
    Topic.OUTPUT,
    without=("save_codes", "subtitles"),
    out={**OUT, "help": "Folder for the new files.", "show_default": "DIR itself"},
    sample_rate={"show_default": "as synthesized"},
)
@group(Topic.OUTPUT.heading, NAME_BY, APPROVED, settings("take_over"))
@settings(
    Topic.MODEL, "device", "dtype", "progress", model={"show_default": "the model of the rows"}
)
@common_options
def command(folder: Path, approved: bool, **options: Any) -> int:
    """Convert files to another format, sample rate or loudness, without synthesizing again.

    \b
    Examples:
      tts-cli encode wavs/ --format opus --out opus/
      tts-cli encode wavs/ --subtype ULAW --sample-rate 8000 --loudness -19 --out phone/
      tts-cli encode wavs/ --loudness podcast --trim --pad 0.3
      tts-cli encode wavs/ --approved --format ogg --out delivery/
      tts-cli encode wavs/ --preset game --name-by "{character}/{n:04}_{id}" --out game/

    DIR is the output folder of `synth`, `book` or `merge`. Each file is converted from the row's
    audio, if that is lossless and not yet processed (loudness, filter, trim or padding). Otherwise
    it is decoded from the row's codes (`synth --save-codes`), with the model that made them. A file
    that is replaced stays in DIR/takes/ as the source of later files. Only the current take of a
    row is converted. Subtitles and word times are copied. Run the same command again to convert
    what is missing. For `synth` with the same format, these rows are done.

    Exit code 1: some rows have neither such audio nor codes. They are listed.
    """
    from tts_cli.app.encode import encode

    name_by = options.pop("name_by")
    config = RunConfig.from_options(options)
    out = config.out or folder
    out = folder if out.resolve() == folder.resolve() else out
    if name_by and out == folder:
        raise UsageError("--name-by renames files", "give another folder with --out")
    step = partial(long_step, progress=config.progress)
    made, found = encode(folder, out, config, step, name_by, is_approved=approved)
    exit_code, events = int(bool(found.left)), found.events
    kinds = Event.REMOVED_FROM_SOURCE, Event.NOT_IN_SOURCE, Event.OLDER_FORMAT
    gone, strays, older = map(events.of, kinds)
    done = events.num(Event.DONE)
    if config.json:
        facts = {
            "made": made.count,
            "done": done,
            "not_approved": events.num(Event.NOT_APPROVED),
            "left": [{"id": row_id, "reason": reason} for row_id, reason in found.left],
            "removed": gone.count,
            "not_in_source": strays.count,
            "older_files": older.count,
            "audio_s": round(made.audio_s, 3),
            "out": str(out),
            "journal": str(out / "timings.jsonl"),
        }
        return show_or_warn(json.dumps(facts, indent=2), exit_code, is_json=True)
    files = counted(made.count, "file")
    lines = [f"{files} written, {done} already done, {len(found.left)} not possible"]
    left = [f"not possible: {row_id}: {reason}" for row_id, reason in found.left]
    lines += capped(left, MAX_NAMED, "not possible: {} more; --json lists all")
    if approved:
        lines.append(f"left out: {events.num(Event.NOT_APPROVED)}, not approved")
    if own := events.of(Event.OWN_PACE).count:
        lines.append(f"{counted(own, 'row')} with `speed` or `duration_s`: as in the manifest")
    if gone.count:
        rows = counted(gone.count, "row is", "rows are")
        why = f"no longer in {folder}/" + " or not approved" * approved
        lines.append(f"{rows} {why}, moved to {out}/takes/: {gone}")
    if strays.count:
        rows = counted(strays.count, "row of another folder", "rows of other folders")
        # The {n} of a row changes when others are removed.
        earlier = " or earlier names" if name_by else ""
        lines.append(f"{out}/ also has {rows}{earlier}, kept: {strays}")
    if older.count:
        files = counted(older.count, "file")
        lines.append(f"{out}/ also has {files} in an earlier format, kept: {older}")
    if found.left:
        lines.append(
            "to get these rows, run their `synth` command again with these flags. It synthesizes "
            "them again. With --save-codes, `encode` can make every later format"
        )
    if made.count or done:
        lines.append(f"audio and timings.jsonl are in {out}/")
    if out == folder and made.count and (flags := _flags_for_synth(out, config)):
        lines.append(f"for later runs into {out}/, also give {flags}")
    return show_or_warn("\n".join(lines), exit_code)


def _flags_for_synth(out: Path, config: RunConfig) -> str:
    """Return the flags with which `synth` makes the same files, given those of its last run."""
    ctx, run = click.get_current_context(), last_run(out, ())
    then, now = {} if run is None else run.remembered(()), config.as_dict()
    given = {"format"} if now["format"] != then.get("format", "wav") else set()
    given |= {name for name in origins(ctx) if name in _DELIVERY and now[name] != then.get(name)}
    stale = [name for name in _DELIVERY & then.keys() - given if now[name] != then[name]]
    flags = [shown_flag(name, ctx.params[name]) for name in SETTINGS if name in given]
    return " ".join([*flags, f"--forget {','.join(sorted(stale))}"] if stale else flags)
