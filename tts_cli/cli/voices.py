"""`tts-cli voices`: what a checkpoint can speak as, and the voice files at hand."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import SectionedOption
from tts_cli.cli.options import (
    FolderPath,
    common_options,
    group,
    model_options,
    refuse_misplaced,
    voices_option,
)
from tts_cli.cli.screen import show_table
from tts_cli.config import RunConfig
from tts_cli.errors import RowError
from tts_cli.manifest.ids import voice_label

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.voices.made import MadeVoice
    from tts_cli.voices.voice_file import StoredVoice
    from tts_cli.voices.voice_folder import VoiceFolder

_SHOWN_CHARS = 60  # of a text in a table
COMMANDS = {
    "add": "Make a voice file of a recording, or of a row that was spoken.",
    "design": "Make a voice file of a voice described in words.",
}


class VoicesGroup(click.Group):
    """Lists without a subcommand; imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"tts_cli.cli.voices_{cmd_name}").command
        assert isinstance(command, click.Command), cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("voices", cls=VoicesGroup, invoke_without_command=True)
@model_options
@voices_option()
@group(
    "Output folder",
    click.option(
        "--out",
        "-o",
        "folder",
        cls=SectionedOption,
        type=FolderPath(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
        help="List the voices that runs have made for this --out of theirs instead; no checkpoint "
        "is read.",
    ),
)
@common_options
@click.pass_context
def command(ctx: click.Context, /, folder: Path | None, **options: Any) -> int:
    """List what a checkpoint can speak as: speakers, languages, modes, and voice files.

    --model takes a folder, a repository id such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice (its small
    files are enough once they are in the hub's cache), or synthetic:qwen3-tts-0.6b. Left out, it
    is the sample voice.

    Voice files hold a cloned voice for one checkpoint that clones (Base, Fish Speech), so that its
    recording is encoded once and for all: `voices add` makes one of a recording, `voices design` of
    a description. A manifest's row uses it by its name: {"text": "...", "voice": "anna"}. They are
    looked for in --voices, by default tts-cli/voices in $XDG_DATA_HOME or ~/.local/share.

    Voices that runs have made, because rows named none, lie in DIR/.voices of their --out DIR.

    \b
    Examples:
      tts-cli voices --out wavs/
      tts-cli voices --model Qwen/Qwen3-TTS-12Hz-0.6B-Base
      tts-cli voices add anna --model Qwen/Qwen3-TTS-12Hz-0.6B-Base \\
        --ref-audio anna.wav --ref-text "What she says in it."
      tts-cli voices design narrator --model Qwen/Qwen3-TTS-12Hz-1.7B-Base \\
        --design-model Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign \\
        --instruct "A calm, low voice of an elderly man." \\
        --text "It was late in the year when the letter came."
    """
    if ctx.invoked_subcommand is not None:
        refuse_misplaced(ctx)
        return 0
    config = RunConfig.from_options(options)
    if folder is not None:
        show_made_voices(folder, config.json)
        return 0
    from tts_cli.plan.checkpoint import (
        accepted_on,
        describe_consent,
        model_label,
        read_info,
        require_consent,
    )
    from tts_cli.voices.voice_folder import VoiceFolder

    info = read_info(config)
    if config.accept_licence:
        require_consent(info.licence, config)
    own = VoiceFolder(config.voices)
    files = list_voices(own, info)
    if config.json:
        found = {"source": model_label(config.model), **asdict(info)}
        if info.licence is not None:
            found["licence_accepted"] = accepted_on(info.licence)
        found |= {"voices_folder": str(own.path), "voice_files": files}
        click.echo(json.dumps(found, indent=2))
        return 0
    for name, value in describe(info, model_label(config.model)):
        click.echo(f"{name}: {value}")
    if info.licence is not None:
        click.echo(f"licence: {describe_consent(info.licence)}")
    if files:
        columns = ("name", "mode", "made with", "can be used")
        show_table(
            f"voice files in {own.path}",
            columns,
            [
                (
                    file["name"],
                    file.get("mode", "-"),
                    file.get("model", "-"),
                    file["problem"] or "yes",
                )
                for file in files
            ],
        )
    else:
        click.echo(f"voice files: none in {own.path}")
    return 0


def describe(info: ModelInfo, source: str) -> list[tuple[str, str]]:
    """Lines about a checkpoint."""
    instruct = "taken" if info.takes_instruct else "ignored by this checkpoint"
    cloning = "no"
    if info.can_clone:
        modes = ", ".join(info.clone_modes)
        cloning = "its only mode" if info.needs_reference else f"if asked for, by {modes}"
    elif info.needs_reference:
        cloning = f"not with this copy: {info.needs}"
    sampling = ", ".join(f"{name} {value}" for name, value in asdict(info.sampling).items())
    return [
        ("model", f"{source} ({info.family}, {info.size}, {info.identity})"),
        ("mode", info.mode),
        ("voices", ", ".join(info.voices) or "none by name"),
        ("languages", ", ".join(info.languages)),
        ("instruct", instruct),
        ("cloning", cloning),
        ("audio", f"{info.sample_rate_hz} Hz, frames of {1000 * info.frame_s:g} ms"),
        ("longest row", f"{info.max_frames} frames ({info.max_frames * info.frame_s:.0f} s)"),
        ("sampling", sampling),
    ]


def list_voices(folder: VoiceFolder, info: ModelInfo) -> list[dict[str, Any]]:
    """Every voice file, and why this checkpoint cannot speak with it."""
    found: list[dict[str, Any]] = []
    for name in folder.names():
        try:
            stored = folder.load(name)
        except RowError as error:
            found.append({"name": name, "problem": str(error)})
            continue
        problem = stored.problem(info)
        if not info.can_clone:
            problem = f"a {info.type} checkpoint cannot clone"
        found.append({"name": name, "problem": problem, **stored.facts()})
    return found


def show_made_voices(out: Path, is_json: bool) -> None:
    """List the voices that runs have made for an output folder. Raises SetupError."""
    from tts_cli.voices.made import MadeVoices

    voices = MadeVoices(out)
    found = [made_facts(voice, *whole) for voice, whole in voices.voices()]
    if is_json:
        click.echo(json.dumps({"folder": str(voices.folder), "made_voices": found}, indent=2))
        return
    if not found:
        click.echo(f"made voices: none in {voices.folder}")
        return

    rows = [
        (
            _cut(facts["of"] or "-"),
            "-" if facts["audio_s"] is None else f"{facts['audio_s']:.1f}",
            ", ".join(facts["checkpoints"]) or "-",
            voices.wav(facts["voice"]),
            facts["problem"] or _cut(facts["says"]),
        )
        for facts in found
    ]
    columns = ("whose", "seconds", "made for", "file", "says")
    show_table(f"made voices in {voices.folder}", columns, rows)


def made_facts(
    voice: str, made: MadeVoice | None, stored: Mapping[str, StoredVoice], problems: Sequence[str]
) -> dict[str, Any]:
    """What a made voice is, as JSON can hold it; nothing of it need be whole."""
    gone = [] if made or problems else [f"{voice}.json is gone, or was not written yet"]
    return {
        "voice": voice,
        "name": voice_label(voice),
        "of": None if made is None else made.shown,
        "audio_s": None if made is None else made.audio_s,
        "says": None if made is None else made.text,
        "wav": None if made is None else str(made.path),
        "checkpoints": sorted({one.model for one in stored.values()}),
        "problem": "; ".join([*problems, *gone]) or None,
    }


def _cut(text: str) -> str:
    """As much of a text as a table has room for."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def show_made(path: str, facts: dict[str, Any], is_json: bool, is_new: bool = True) -> None:
    """Tell what a subcommand has written, or found."""
    if is_json:
        click.echo(json.dumps({"path": path, **facts}, indent=2))
        return
    what = f"wrote {path}" if is_new else f"{path} is there already, made of the same"
    click.echo(f"{what}: {facts['mode']}, {facts['frames']} reference frames")
