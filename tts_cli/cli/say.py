"""`tts-cli say`: synthesize one text into a file, without an output folder or a journal."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tts_cli.atomic import write_standalone
from tts_cli.cli.options import (
    SPEAKING,
    SectionedCommand,
    SectionedOption,
    common_options,
    group,
    settings,
)
from tts_cli.cli.progress import Progress, RunScreen
from tts_cli.cli.screen import echo, echo_json
from tts_cli.config import SUBTYPES, RunConfig
from tts_cli.errors import ManifestError, SetupError, UsageError
from tts_cli.setting import Scope, Topic
from tts_cli.store.files import WORDS_SUFFIX

if TYPE_CHECKING:
    from tts_cli.checks.word_times import WordTimes

log = logging.getLogger(__name__)

STDIO = "-"
MAX_STDIN_BYTES = 1 << 20

_file_options = group(
    "Output",
    click.option(
        "-o",
        "--out",
        "target",
        cls=SectionedOption,
        metavar="FILE",
        help="Audio file; its suffix sets the format. An existing file is replaced. - is stdout, "
        "as WAV unless --format is given.  [default: say.wav]",
    ),
)

_row_options = group(
    "Speech",
    click.option(
        "--instruct",
        cls=SectionedOption,
        scope=Scope.ANY,
        metavar="TEXT",
        help="Description of the style, or, for VoiceDesign, of the voice.",
    ),
    click.option(
        "--ref-audio",
        cls=SectionedOption,
        metavar="FILE",
        help="Recording of the voice to clone, for models that can clone.",
    ),
    click.option(
        "--ref-text",
        cls=SectionedOption,
        metavar="TEXT",
        help="Words of the recording. Without them, only the voice is cloned, not the manner.",
    ),
    click.option(
        "--row-seed",
        cls=SectionedOption,
        scope=Scope.ANY,
        is_common=False,
        type=click.IntRange(0, 2**53 - 1),
        metavar="N",
        help="Seed of this text, like the field seed of a row. With the seed, voice and settings "
        "of a row in timings.jsonl, you get that row's audio.  [default: derived from --seed]",
    ),
)


@click.command("say", cls=SectionedCommand)
@click.argument("text", metavar="TEXT", nargs=-1, required=True)
@_file_options
@settings(
    Topic.OUTPUT,
    without=("out", "save_codes", "subtitles"),
    format={"show_default": "by the suffix of --out; else wav"},
)
@settings(Topic.MODEL, Topic.DEVICE, without=("workers", "ray_address"))
@_row_options
@settings(
    *SPEAKING,
    made_voices={"scope": Scope.USERS},  # `say` also writes generated voices there
)
@settings(Topic.VERIFY, Topic.WORDS)
@settings(Topic.FAILURES, without=("max_failures",))
@common_options
@click.pass_context
def command(ctx: click.Context, /, text: tuple[str, ...], **options: Any) -> int:
    """Synthesize one text into a file.

    \b
    Examples:
      tts-cli say "Hello there."
      tts-cli say "Hello there." -o hello.flac --voice clara
      echo "Hello there." | tts-cli say - -o - | aplay

    TEXT may be several words, or - to read it from stdin. `say` synthesizes it like a row of
    `synth`. Long texts are split and joined, up to 20,000 characters; use `tts-cli book` for more.
    """
    from tts_cli.app.say import row_of, say

    target, fields = options.pop("target"), {}
    for name in ("instruct", "ref_audio", "ref_text"):
        fields[name] = options.pop(name)
    fields["seed"] = options.pop("row_seed")
    has_format = ctx.get_parameter_source("format") == ParameterSource.COMMANDLINE
    has_format = has_format or options["preset"] is not None
    destination = Destination.of(target, options["format"] if has_format else None)
    config = RunConfig.from_options({**options, "format": destination.format})
    if destination.path is None and config.json:
        raise UsageError("--json and -o - both write to stdout", remedy="give only one of them")
    if destination.path is None and config.words is not None:
        raise UsageError(
            "-o -: --words writes a file next to the audio", remedy="give -o a file name"
        )
    row = row_of(text_of(text), fields, config)
    destination.check()
    path = destination.path
    data, facts = say(row, config, TextScreen(config), "" if path is None else path.stem)
    destination.write(data)
    times: WordTimes | None = facts["words"]
    if path is not None and times is not None:
        words_file = Destination(path.with_suffix(WORDS_SUFFIX), "json")
        words_file.write(times.encode())
        facts["words"] = str(words_file.path)
    if config.json:
        facts = {"path": None if path is None else str(path), **facts}
        echo_json(facts)
    elif path is not None and config.verbosity >= 0:
        voice = f", voice {facts['voice']}" if facts["voice"] else ""
        echo(f"{path}: {facts['audio_s']:.2f} s{voice}, seed {facts['seed']}")
    is_suspect = facts["verified"] is not None and facts["verified"]["verdict"] == "suspect"
    return int(is_suspect or (config.words is not None and times is None))


class TextScreen(RunScreen):
    """Shows no progress, because a run of `say` has one row."""

    def progress(self, num_rows: int) -> Progress:
        return Progress(num_rows, "none")


@dataclass(frozen=True)
class Destination:
    path: Path | None  # None: stdout
    format: str

    @classmethod
    def of(cls, target: str | None, format: str | None) -> Destination:
        """Return the destination that -o and --format name. Raises UsageError if they disagree."""
        if target == STDIO:
            return cls(None, format or "wav")
        if target is None:
            return cls(Path(f"say.{format or 'wav'}"), format or "wav")
        suffix = os.path.splitext(target)[1].lower().removeprefix(".")
        if suffix not in SUBTYPES:
            known = ", ".join(f".{name}" for name in SUBTYPES)
            raise UsageError(
                f"-o {target!r}: the suffix is not an audio format", remedy=f"use one of {known}"
            )
        if format not in (None, suffix):
            raise UsageError(
                f"-o {target} and --format {format} name different formats", remedy="leave one out"
            )
        return cls(Path(target), suffix)

    def check(self) -> None:
        if self.path is None:
            if sys.stdout.isatty():
                raise UsageError(
                    "-o -: stdout is a terminal", remedy="pipe it, or write to a file: -o hello.wav"
                )
            return
        if self.path.exists() and not self.path.is_file():
            raise UsageError(f"-o {self.path}: is not a regular file", remedy="choose another name")
        folder = self.path.parent
        if not folder.is_dir():
            raise UsageError(
                f"-o {self.path}: the folder {folder} does not exist", remedy="create it first"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise SetupError(f"-o {self.path}: {folder} is not writable", "choose another folder")

    def write(self, data: bytes) -> None:
        """Write a file completely, replacing an existing one. Raises DiskFull, SetupError."""
        if self.path is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        try:
            write_standalone(self.path.resolve(), data)
        except OSError as error:
            raise SetupError(
                f"-o {self.path}: {error.strerror or error}", "choose another file"
            ) from error


def text_of(words: tuple[str, ...]) -> str:
    """Return the text to synthesize, from the arguments or stdin. Raises ManifestError."""
    if words != (STDIO,):
        text = " ".join(words)
        if len(words) == 1 and os.path.isfile(text):
            log.warning(
                "%s is a file, but say synthesizes its name. For its text, use: tts-cli say - < %s",
                text,
                text,
            )
        return text
    if sys.stdin is None:
        raise ManifestError(
            "<stdin>: is closed", remedy="pipe a text in, or give it as an argument"
        )
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise ManifestError("<stdin>: is longer than 1 MiB", remedy="use tts-cli book")
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"<stdin>: byte {error.start + 1} is not UTF-8", remedy="convert the text to UTF-8"
        ) from None
