"""`tts-cli say`: one text, one file, spoken as `synth` speaks a row; no folder, no journal."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click
from click.core import ParameterSource

from tts_cli import signals, startup
from tts_cli.cli.command import SectionedCommand, SectionedOption
from tts_cli.cli.options import (
    cloning_options,
    common_options,
    config_option,
    delivery_options,
    device_options,
    group,
    model_options,
    reproducible_option,
    sampling_options,
)
from tts_cli.config import SUBTYPES, RunConfig, Scope
from tts_cli.core import Spoken
from tts_cli.errors import ManifestError, RowError, SetupError, UsageError

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.core import Row, Task
    from tts_cli.plan.free_voices import Maker
    from tts_cli.voices.made import MadeVoices

log = logging.getLogger(__name__)

STDIO = "-"
MAX_STDIN_BYTES = 1 << 20
SEED_HELP = (
    "Seed of the speech, 0 to 2^53-1, as the field seed of a row: with the seed that timings.jsonl "
    "has of a row, its voice and settings, say gives its audio."
)

_file_options = group(
    "Output",
    click.option(
        "-o",
        "--out",
        "target",
        cls=SectionedOption,
        metavar="FILE",
        help="Where the audio goes, in the format that the suffix says; a file that is there is "
        "replaced. - is stdout, as WAV unless --format says otherwise.  [default: say.wav here]",
    ),
)

_row_options = group(
    "Speech",
    click.option(
        "--instruct",
        cls=SectionedOption,
        scope=Scope.ANY,
        metavar="TEXT",
        help="Style, or for VoiceDesign the voice, where the checkpoint takes it.  [default: none]",
    ),
    click.option(
        "--ref-audio",
        cls=SectionedOption,
        metavar="FILE",
        help="Recording to clone, with a checkpoint that clones.  [default: none]",
    ),
    click.option(
        "--ref-text",
        cls=SectionedOption,
        metavar="TEXT",
        help="What is said in --ref-audio.  [default: none; its voice alone is cloned]",
    ),
)

_failure_options = group(
    "Speech that goes wrong",
    config_option("retries", type=int, metavar="N"),
    config_option("accept_truncated"),
)


@click.command("say", cls=SectionedCommand)
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@_file_options
@delivery_options
@model_options
@device_options
@reproducible_option
@_row_options
@sampling_options
@cloning_options(Scope.USERS)  # it keeps a voice there that it has made
@_failure_options
@common_options
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> int:
    """Speak one text into a file.

    TEXT is spoken as synth speaks a row; several words are joined by spaces, - reads the text from
    stdin. Long texts are split as there, up to 20,000 characters; `tts-cli book` takes more.

    \b
    Examples:
      tts-cli say "Hello there."
      tts-cli say "Hello there." -o hello.flac --voice clara
      echo "Hello there." | tts-cli say - -o - | aplay
    """
    target, fields = options.pop("target"), {}
    for name in ("instruct", "ref_audio", "ref_text"):
        fields[name] = options.pop(name)
    has_format = ctx.get_parameter_source("format") == ParameterSource.COMMANDLINE
    destination = Destination.of(target, options["format"] if has_format else None)
    config = RunConfig.from_options({**options, "format": destination.format})
    if destination.path is None and config.json:
        raise UsageError("--json and -o - both write to stdout", remedy="give one")
    row = row_of(text_of(words), fields, config)
    destination.check()
    facts = speak(row, destination, config)
    if config.json:
        click.echo(json.dumps(facts, indent=2))
    elif destination.path is not None and config.verbosity >= 0:
        voice = f", voice {facts['voice']}" if facts["voice"] else ""
        click.echo(f"{destination.path}: {facts['audio_s']:.2f} s{voice}, seed {facts['seed']}")
    return 0


next(param for param in command.params if param.name == "seed").help = SEED_HELP


@dataclass(frozen=True)
class Destination:
    """Where the audio goes."""

    path: Path | None  # None: stdout
    format: str

    @classmethod
    def of(cls, target: str | None, format: str | None) -> Destination:
        """What -o and --format say. Raises UsageError where they do not fit together."""
        if target == STDIO:
            return cls(None, format or "wav")
        if target is None:
            return cls(Path(f"say.{format or 'wav'}"), format or "wav")
        suffix = os.path.splitext(target)[1].lower().removeprefix(".")
        if suffix not in SUBTYPES:
            known = ", ".join(f".{name}" for name in SUBTYPES)
            raise UsageError(
                f"-o {target!r}: the suffix does not tell the format", remedy=f"use one of {known}"
            )
        if format not in (None, suffix):
            raise UsageError(
                f"-o {target} and --format {format} say different things", remedy="leave one out"
            )
        return cls(Path(target), suffix)

    def check(self) -> None:
        """Raise UsageError or SetupError where nothing can be written."""
        if self.path is None:
            if sys.stdout.isatty():
                raise UsageError(
                    "-o -: stdout is a terminal", remedy="pipe it, or name a file: -o hello.wav"
                )
            return
        if self.path.exists() and not self.path.is_file():
            raise UsageError(f"-o {self.path}: is no plain file", remedy="name another one")
        folder = self.path.parent
        if not folder.is_dir():
            raise UsageError(f"-o {self.path}: there is no folder {folder}", remedy="make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise SetupError(f"-o {self.path}: {folder} cannot be written to", "choose another")

    def write(self, data: bytes) -> None:
        """Write a whole file, in place of what was there. Raises DiskFull, OSError."""
        if self.path is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        from tts_cli.folder.atomic import write_alone

        try:
            write_alone(self.path.resolve(), data)
        except OSError as error:
            raise SetupError(
                f"-o {self.path}: {error.strerror or error}", "choose another"
            ) from error


def text_of(words: tuple[str, ...]) -> str:
    """What is to be spoken. Raises ManifestError."""
    if words != (STDIO,):
        text = " ".join(words)
        if len(words) == 1 and os.path.isfile(text):
            log.warning(
                "%s is a file, and its name is spoken; its text is by: tts-cli say - < %s",
                text,
                text,
            )
        return text
    if sys.stdin is None:
        raise ManifestError("<stdin>: is closed", remedy="pipe a text in, or give it as argument")
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise ManifestError("<stdin>: is longer than 1 MiB", remedy="use tts-cli book")
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"<stdin>: byte {error.start + 1} is not UTF-8", remedy="convert it"
        ) from None


def row_of(text: str, fields: dict[str, str | None], config: RunConfig) -> Row:
    """The text as a row of a manifest. Raises ManifestError."""
    from tts_cli.core import BadRow
    from tts_cli.manifest.row import build_row

    given = {name: value for name, value in fields.items() if value is not None}
    values = {"id": "say", "text": text, "seed": config.seed, **given}
    row = build_row(values, line=1, number=1, folder="", strips_markup=config.strip_markup)
    if isinstance(row, BadRow):
        raise ManifestError(
            row.message.replace("split it into several rows", "tts-cli book takes more")
        )
    return row


def speak(row: Row, destination: Destination, config: RunConfig) -> dict[str, Any]:
    """Speak a row into its file; returns what is to be known of it.

    Raises:
        RowError: it cannot be spoken, or did not come out well; nothing was written.
    """
    from tts_cli.plan.checkpoint import approved_info, require_consent
    from tts_cli.plan.checks import require_possible
    from tts_cli.plan.free_voices import who_speaks
    from tts_cli.voices.made import is_made

    config, info, maker = who_speaks(config, approved_info(config))
    require_possible(config, info)
    require_consent(info.licence, config)
    task, spoken = spoken_row(row, config, info, maker)
    if spoken.samples is None:
        raise RowError(str(spoken.error))
    if spoken.error is not None:
        raise RowError(spoken.error, "try another --seed, or keep it by --accept-truncated")
    from tts_cli.audio.file import check_format, encode
    from tts_cli.audio.tags import Tags, synthetic
    from tts_cli.audio.treatment import Treatment
    from tts_cli.folder.files import treat

    rate_hz = config.sample_rate or info.sample_rate_hz
    treatment = Treatment.of(config)
    samples, applied = treat(spoken.samples, info.sample_rate_hz, rate_hz, treatment)
    remarks = [*spoken.remarks, *([] if applied is None else treatment.misses(applied))]
    for remark in remarks:
        log.warning("listen to it: %s", remark.text)
    subtype = check_format(config.format, config.subtype, rate_hz)
    voice = None if is_made(task.request.voice) else task.request.voice
    tags = Tags(artist=voice or "", comment=synthetic(info))
    data = encode(samples, rate_hz, config.format, subtype, tags)
    added_s = 0.0 if applied is None else applied.added_s
    signals.check()
    destination.write(data)
    return {
        "path": None if destination.path is None else str(destination.path),
        "audio_s": round(len(spoken.samples) / info.sample_rate_hz + added_s, 6),
        "bytes": len(data),
        "sample_rate_hz": rate_hz,
        "voice": voice,
        "language": task.request.language,
        "seed": spoken.seed,
        "attempts": spoken.attempts,
        "finish_reason": spoken.finish,
        "parts": len(spoken.parts),
        "text": row.text,
        "spoken_text": task.request.text,
        "suspect": [remark.text for remark in remarks],
        "applied": None if applied is None else applied.as_dict(),
    }


def spoken_row(row: Row, config: RunConfig, info: ModelInfo, maker: Maker) -> tuple[Task, Spoken]:
    """The row at its end. Raises RowError: it is certain to fail."""
    from tts_cli.voices.made import MadeVoices

    with ExitStack() as stack:
        folder = config.made_voices
        if folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="tts-cli-")
            folder = Path(stack.enter_context(temporary))
        return _spoken_row(row, config, info, maker, MadeVoices(folder))


def _spoken_row(
    row: Row, config: RunConfig, info: ModelInfo, maker: Maker, made: MadeVoices
) -> tuple[Task, Spoken]:
    from tts_cli.app.run import make_missing_voices
    from tts_cli.audio.treatment import Treatment
    from tts_cli.cli.screen import RunScreen
    from tts_cli.core import BadRow
    from tts_cli.folder.files import is_int16_enough
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.planner import silence_of

    with source_of(row) as file:
        from tts_cli.manifest.source import Source

        source = Source("<text>", "jsonl", "", file)
        plan = Plan(source, config, info, maker=maker, made=made)
        survey = plan.survey()
        screen = RunScreen(config)
        screen.problems(survey)
        if survey.summary.bad_rows:
            raise ManifestError("the text cannot be spoken so", remedy="see above")
        model = None
        if plan.voices.to_make():
            startup.use_device(config.device)
            model = make_missing_voices(plan, screen.step)
            survey = plan.survey()
        task = next(iter(plan))
    if isinstance(task, BadRow):
        raise RowError(task.message)
    if task.is_silent:
        return task, silence_of(task, info)
    startup.use_device(config.device)
    with startup.importing():
        from tts_cli.engine.local import WarmModel

    rate_hz = config.sample_rate or info.sample_rate_hz
    signals.check()
    is_int16 = is_int16_enough(config.subtype, rate_hz, info.sample_rate_hz)
    is_int16 = is_int16 and Treatment.of(config).is_none
    with screen.step("loading the model"):
        model = model or WarmModel(config, info)
        model.make_room(survey.needs)
    signals.check()
    spoken: dict[Task, Spoken] = {}
    speech = model.new_run(spoken.__setitem__, cloning=plan.planner.cloning, is_int16=is_int16)
    with signals.stopping(speech.stop):
        speech.run([task])
    return task, spoken.get(task, Spoken())


def source_of(row: Row) -> BinaryIO:
    """A manifest of one row, in a file that has no name."""
    names = ("id", "text", "seed", "instruct", "ref_audio", "ref_text", "clone_mode")
    values = {name: getattr(row, name) for name in names}
    file = cast(BinaryIO, tempfile.TemporaryFile(prefix="tts-cli-"))  # noqa: SIM115
    file.write(json.dumps(values).encode() + b"\n")
    file.flush()
    return file
