"""`tts-cli export`: export a folder as a data set. Imports no model and no torch."""

from __future__ import annotations

import logging
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import (
    APPROVED,
    LINK,
    NAME_BY,
    NamedPath,
    SectionedCommand,
    SectionedOption,
    common_options,
    group,
    settings,
)
from tts_cli.cli.progress import long_step
from tts_cli.cli.screen import echo, echo_json, show_table
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.named import counted
from tts_cli.setting import Scope

if TYPE_CHECKING:
    from tts_cli.export.dataset import Exported

log = logging.getLogger(__name__)

FORMATS = ("ljspeech", "audiofolder", "nemo", "webdataset", "parquet", "files")
_MAX_SHOWN = 20  # voices and languages in a table
_FLAGS = {"min_s": "shortest", "max_s": "longest"}  # names of options, if the fields' differ
_seconds = click.FloatRange(min=0)


def _option(*names: str, **settings: Any) -> Any:
    """An option that a settings file may set unless `scope` differs."""
    settings.setdefault("scope", Scope.ANY)
    return click.option(*names, cls=SectionedOption, **settings)


# Their names differ from those of `synth` if a key of a settings file must not set both.
_output_options = group(
    "Output",
    _option(
        "--to",
        required=True,
        type=click.Choice(FORMATS, case_sensitive=False),
        help="Layout: ljspeech (metadata.csv and WAV), audiofolder or parquet (Hugging Face "
        "datasets), nemo (JSON manifests), webdataset (tar files), or files (named by --name-by).",
    ),
    NAME_BY,
    _option(
        "--out",
        "-o",
        scope=Scope.ONE_RUN,
        type=NamedPath(path_type=Path),
        metavar="DIR",
        required=True,
        help="Folder for the data set: new, empty, or an earlier export of the same DIR, which is "
        "replaced.",
    ),
    _option(
        "--split",
        "splits",
        default="train",
        show_default=True,
        metavar="NAME=SHARE,...",
        help="Splits and their shares, such as train=0.95,valid=0.05. A row's text decides its "
        "split: no text is in two splits, and new rows do not move old ones.",
    ),
    settings("sample_rate", sample_rate={"show_default": "unchanged; ljspeech 22050"}),
    _option(
        "--shard-mb",
        type=click.IntRange(1, 100_000),
        default=1000,
        show_default=True,
        metavar="MB",
        help="Size of the files of webdataset and parquet, in MB.",
    ),
    *LINK,
    _option(
        "--overwrite",
        scope=Scope.ONE_RUN,
        is_flag=True,
        help="Replace an earlier export of the same DIR that has other settings.",
    ),
)  # fmt: skip
_filter_options = group(
    "Which rows",
    _option(
        "--voice", "of_voice", multiple=True, metavar="NAME",
        help="Only rows of this voice. Can be given several times.",
    ),
    _option(
        "--language", "of_language", multiple=True, metavar="NAME",
        help="Only rows in this language, by name or code. Can be given several times.",
    ),
    _option(
        "--shortest", type=_seconds, metavar="S", others="--min-s --min-seconds --min-duration",
        help="Only rows of at least S seconds.",
    ),
    _option(
        "--longest", type=_seconds, metavar="S", others="--max-s --max-seconds --max-duration",
        help="Only rows of at most S seconds.",
    ),
    _option(
        "--max-error",
        type=_seconds,
        metavar="SHARE",
        help="Only rows with at most this error rate in `tts-cli check --asr`; 0.1 is one word (or "
        "character) in ten.",
    ),
    APPROVED,
    _option("--no-suspects", is_flag=True, help="Leave out rows that the run or `check` flagged."),
    _option(
        "--all-takes", is_flag=True, help="Also export the other takes, each as a separate row.",
    ),
)  # fmt: skip


@click.command("export", cls=SectionedCommand)
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@_output_options
@_filter_options
@settings("progress")
@common_options
def command(folder: Path, out: Path, **options: Any) -> int:
    """Export a data set for training: audio, texts, splits and a card.

    \b
    Examples:
      tts-cli export wavs/ --to ljspeech --out ljs/
      tts-cli export wavs/ --to parquet --out data/ --split train=0.95,valid=0.05
      tts-cli export wavs/ --to files --name-by "{character}/{n:04}_{id}" --out game/
      tts-cli export wavs/ --to webdataset --out wds/ --shortest 1 --longest 20 --no-suspects

    DIR is the output folder of `synth`, `book` or `merge`. The data set contains the current take
    of each row that is done, if its file is unchanged. Rows that are left out are counted by
    reason. Files are copied; --link makes hard links.
    ljspeech, and any layout with --sample-rate, gets new 16-bit WAV files.

    The data set also gets README.md, a card for the Hugging Face hub which states that the speech
    is synthetic and which model made it, and export.json with all figures. Run the same command
    again to update the data set: it is written to OUT.part and replaces OUT when it is complete. If
    you added or edited files in OUT, the command stops before it writes anything.

    Exit code 1: rows were left out because their files are missing or damaged, or because a command
    stopped while it replaced them.
    """
    from tts_cli.export.dataset import export_folder
    from tts_cli.export.selection import ExportOptions

    is_overwriting, names = options.pop("overwrite"), {one.name for one in fields(ExportOptions)}
    own = {name: options.pop(_FLAGS.get(name, name)) for name in names - {"sample_rate"}}
    own["to"] = own["to"].lower()
    if own["to"] == "files":
        own["name_by"] = own["name_by"] or "{id}"
    elif own["name_by"]:
        raise UsageError(f"--name-by: the names of {own['to']} are fixed", "give --to files")
    config = RunConfig.from_options({**options, "out": out})
    made = export_folder(
        folder,
        out,
        ExportOptions(sample_rate=config.sample_rate, **own),
        is_overwriting=is_overwriting,
        takes_over=config.take_over,
        step=long_step("writing the data set", config.progress),
    )
    show(out, own["to"], config, made)
    return int(bool(made.lost))


def show(out: Path, to: str, config: RunConfig, made: Exported) -> None:
    found = made.statistics
    if config.json:
        echo_json({"out": str(out), "to": to, **made.files, **found})
        return
    for reason, count in found["left_out"].items():
        level = logging.WARNING if reason in made.lost else logging.INFO
        log.log(level, "left out: %d, %s", count, reason)
    length = found["length_s"]
    lasts = f"; 9 of 10 rows last {length['p5']:.1f} to {length['p95']:.1f} s" if length else ""
    echo(f"{out}: {counted(found['rows'], 'row')}, {found['hours']:.2f} hours as {to}{lasts}")
    if made.rate_hz is not None:
        echo(f"all audio at {made.rate_hz} Hz, mono, 16 bits")
    rows = [
        (f"{kind} {name}", str(one["rows"]), f"{one['hours']:.2f}")
        for kind in ("split", "voice", "language")
        for name, one in list(found[f"{kind}s"].items())[:_MAX_SHOWN]
    ]
    show_table("contents", ("", "rows", "hours"), rows)
