"""`tts-cli encode`: new files for what was spoken, from what the folder keeps."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import SectionedCommand
from tts_cli.cli.options import common_options, config_option, encode_options, group, model_options
from tts_cli.cli.screen import long_step, show_or_warn
from tts_cli.config import DTYPES, PROGRESS, RunConfig
from tts_cli.errors import SetupError, UsageError

if TYPE_CHECKING:
    from models.base import SpeechModel
    from tts_cli.folder.encode import Findings, KeptSpeech
    from tts_cli.folder.folder import Folder
    from tts_cli.folder.recode import Recoded

log = logging.getLogger(__name__)

_device_options = group(
    "Device",
    config_option("device", metavar="DEVICE"),
    config_option("dtype", type=click.Choice(DTYPES, case_sensitive=False)),
)
_progress_option = group(
    "Messages", config_option("progress", type=click.Choice(PROGRESS, case_sensitive=False))
)


@click.command("encode", cls=SectionedCommand)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@encode_options
@model_options
@_device_options
@_progress_option
@common_options
def command(folder: Path, **options: Any) -> int:
    """Make new files of rows that were spoken, without speaking: another format, rate or level.

    FOLDER is one that `synth` has spoken into. A row's file is made of its audio, if that is
    without loss and had no level, filter, trim or padding (files that this command replaces stay as
    NAME.original), else of its codes (`synth --save-codes`), which takes the checkpoint that spoke.
    Of rows with several takes the chosen one is made anew, the others stay as they are.
    Rows of which neither is left are named, and the exit code is 1. Run again, it makes what is
    missing; `synth` with the same format finds the rows done.

    \b
    Examples:
      tts-cli encode wavs/ --format opus --out opus/
      tts-cli encode wavs/ --subtype ULAW --sample-rate 8000 --loudness -19 --out phone/
      tts-cli encode wavs/ --loudness podcast --trim --pad 0.3
    """
    config = RunConfig.from_options(options)
    out = config.out or folder
    return run(folder, out, replace(config, out=out))


def run(folder: Path, out: Path, config: RunConfig) -> int:
    """Find what can be made, and make it. Returns the exit code."""
    from tts_cli.audio.treatment import Treatment
    from tts_cli.folder.encode import Findings, KeptSpeech
    from tts_cli.folder.folder import Folder
    from tts_cli.named import Named
    from tts_cli.voices.merged import MergedVoices

    Treatment.of(config).require_packages()
    out = folder if out.resolve() == folder.resolve() else out
    Folder.look(folder)
    with Folder.at(out, config) as held:
        held.begin()
        spoken = KeptSpeech(folder)
        config = config if config.model is not None else replace(config, model=spoken.model)
        held.speech_is(native_rate_hz(spoken, config), spoken.comment)
        require_own_files(spoken, held)
        if out is not folder:  # `synth` asks for the voices that rows there were spoken with
            voices = MergedVoices([out, folder], lambda index: True, Named())
            voices.require_agreement()
            voices.run()
        findings = Findings()
        with long_step("looking at what the folder keeps", config.progress):
            for order in spoken.find(held, None, findings):
                findings.orders[order.kept.kind] += 1
        decode, identity = None, ""
        if findings.orders["codes"]:
            from tts_cli.engine.vocoder import decoder_of

            model = load(config)
            decode, identity = decoder_of(model), model.info.identity
        final = Findings()
        with long_step("making files", config.progress):
            made = held.remake(spoken.find(held, identity, final), decode, folder)
        return show(config, held, made, final)


def require_own_files(spoken: KeptSpeech, held: Folder) -> None:
    """Raise UsageError if files would be replaced that no run is known to have written."""
    names = (record.id for record in spoken.records() if held.journal.status(record.id) is None)
    foreign = [path for path in map(held.writer.path_of, names) if path.exists()]
    if foreign:
        shown = ", ".join(path.name for path in foreign[:3]) + ", ..." * (len(foreign) > 3)
        raise UsageError(
            f"{shown}: in {held.out} without a line in timings.jsonl, so not of an earlier run",
            remedy="move them, or choose another --out",
        )


def native_rate_hz(spoken: KeptSpeech, config: RunConfig) -> int:
    """The rate of what the model gave, by a file of it or else by the checkpoint."""
    from tts_cli.plan.checkpoint import read_info

    found = spoken.native_rate_hz()
    return read_info(config).sample_rate_hz if found is None else found


def load(config: RunConfig) -> SpeechModel:
    """The checkpoint that spoke. Raises SetupError, UsageError."""
    from tts_cli.engine.load import open_session
    from tts_cli.plan.checkpoint import approved_info

    approved_info(config)
    try:
        with long_step("loading the model, to decode codes", config.progress):
            return open_session(config).model
    except SetupError as error:
        raise SetupError(error.message, "name the checkpoint that spoke by --model") from error


def show(config: RunConfig, held: Folder, made: Recoded, findings: Findings) -> int:
    """Say what came of the rows. Returns the exit code."""
    from tts_cli.folder.encode import MAX_NAMED

    left = findings.left + made.failed
    if config.json:
        facts = {
            "made": made.count,
            "done": findings.done,
            "left": [{"id": row_id, "reason": reason} for row_id, reason in left],
            "audio_s": round(made.audio_s, 3),
            "out": str(held.out),
            "journal": str(held.journal.path),
        }
        text = json.dumps(facts, indent=2)
    else:
        lines = [f"{made.count} files made, {findings.done} were done already, {len(left)} left"]
        lines += [f"left: {row_id}: {reason}" for row_id, reason in left[:MAX_NAMED]]
        if len(left) > MAX_NAMED:
            lines.append(f"left: {len(left) - MAX_NAMED} more; --json has them all")
        lines.append(f"files and timings.jsonl are in {held.out}/")
        text = "\n".join(lines)
    if not config.json and config.verbosity < 0:
        return int(bool(left))
    return show_or_warn(text, int(bool(left)), is_json=config.json)
