"""`tts-cli say`: one text, one file, spoken as `synth` speaks a row; no folder, no journal."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tts_cli.cli.options import (
    SPEAKING,
    SectionedCommand,
    SectionedOption,
    common_options,
    group,
    settings,
)
from tts_cli.cli.screen import RunScreen, echo
from tts_cli.config import SUBTYPES, RunConfig
from tts_cli.errors import ManifestError, SetupError, UsageError
from tts_cli.folder.atomic import write_alone
from tts_cli.folder.files import WORDS_SUFFIX
from tts_cli.setting import Scope, Topic

if TYPE_CHECKING:
    from tts_cli.listen.words import WordTimes

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
        help="File for the audio; its suffix is the format. An old file is replaced. - is stdout, "
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
        help="Style of the speech, or for VoiceDesign the voice, in words.  [default: none]",
    ),
    click.option(
        "--ref-audio",
        cls=SectionedOption,
        metavar="FILE",
        help="Recording whose voice is cloned; the checkpoint must be able to.  [default: none]",
    ),
    click.option(
        "--ref-text",
        cls=SectionedOption,
        metavar="TEXT",
        help="What is said in --ref-audio.  [default: none: only the voice is cloned]",
    ),
    click.option(
        "--row-seed",
        cls=SectionedOption,
        scope=Scope.ANY,
        is_common=False,
        type=click.IntRange(0, 2**53 - 1),
        metavar="N",
        help="Seed of the text, like the field seed of a row. With a row's seed in timings.jsonl, "
        "its voice and its settings, you get that row's audio.  [default: made of --seed]",
    ),
)


@click.command("say", cls=SectionedCommand)
@click.argument("text", metavar="TEXT", nargs=-1, required=True)
@_file_options
@settings(Topic.OUTPUT, without=("out", "save_codes", "subtitles"))
@settings(Topic.MODEL, Topic.DEVICE, without=("workers", "ray_address"))
@_row_options
@settings(
    *SPEAKING,
    made_voices={"scope": Scope.USERS},  # it keeps a voice there that it has made
)
@settings(Topic.VERIFY, Topic.WORDS)
@settings(Topic.FAILURES, without=("max_failures",))
@common_options
@click.pass_context
def command(ctx: click.Context, /, text: tuple[str, ...], **options: Any) -> int:
    """Speak one text into a file.

    \b
    Examples:
      tts-cli say "Hello there."
      tts-cli say "Hello there." -o hello.flac --voice clara
      echo "Hello there." | tts-cli say - -o - | aplay

    TEXT may be several words, or - to read it from stdin. It is spoken as `synth` speaks a row.
    Long texts are split and joined, up to 20,000 characters; `tts-cli book` takes more.
    """
    from tts_cli.app.say import row_of, say

    target, fields = options.pop("target"), {}
    for name in ("instruct", "ref_audio", "ref_text"):
        fields[name] = options.pop(name)
    fields["seed"] = options.pop("row_seed")
    has_format = ctx.get_parameter_source("format") == ParameterSource.COMMANDLINE
    destination = Destination.of(target, options["format"] if has_format else None)
    config = RunConfig.from_options({**options, "format": destination.format})
    if destination.path is None and config.json:
        raise UsageError("--json and -o - both write to stdout", remedy="give one")
    if destination.path is None and config.words is not None:
        raise UsageError("-o -: --words writes a file beside the audio", remedy="name a file")
    row = row_of(text_of(text), fields, config)
    destination.check()
    path = destination.path
    data, facts = say(row, config, RunScreen(config), "" if path is None else path.stem)
    destination.write(data)
    times: WordTimes | None = facts["words"]
    if path is not None and times is not None:
        beside = Destination(path.with_suffix(WORDS_SUFFIX), "json")
        beside.write(times.encode())
        facts["words"] = str(beside.path)
    if config.json:
        facts = {"path": None if path is None else str(path), **facts}
        echo(json.dumps(facts, indent=2))
    elif path is not None and config.verbosity >= 0:
        voice = f", voice {facts['voice']}" if facts["voice"] else ""
        echo(f"{path}: {facts['audio_s']:.2f} s{voice}, seed {facts['seed']}")
    is_suspect = facts["verified"] is not None and facts["verified"]["verdict"] == "suspect"
    return int(is_suspect or (config.words is not None and times is None))


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
