"""`tts-cli voices`: what a checkpoint can speak as, and the voice files at hand; one made of a
recording, of a row that was spoken, or of a description.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import (
    UNNAMED,
    NamedPath,
    SectionedCommand,
    SectionedOption,
    common_options,
    group,
    refuse_misplaced,
    settings,
)
from tts_cli.cli.screen import echo, show_table
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.manifest.row import CLONE_MODES
from tts_cli.named import cut
from tts_cli.setting import Scope, Topic

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.voices.made import MadeVoices

_SHOWN_CHARS = 60  # of a text in a table
_overwrite = click.option(
    "--overwrite", "is_overwriting", is_flag=True, help="Replace a voice file of that name."
)
_cloning_model = settings(Topic.MODEL, model={"show_default": "none: name one that clones"})


@click.group("voices", invoke_without_command=True)
@settings(Topic.MODEL)
@group(UNNAMED, settings("voice_dir"))
@group(
    "Output folder",
    click.option(
        "--out",
        "-o",
        "folder",
        cls=SectionedOption,
        type=NamedPath(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
        help="List the voices that runs made for this output folder instead.",
    ),
)
@common_options
@click.pass_context
def command(ctx: click.Context, /, folder: Path | None, **options: Any) -> int:
    """List the speakers, languages and modes of a checkpoint, and your voice files.

    \b
    Examples:
      tts-cli voices
      tts-cli voices --out wavs/
      tts-cli voices --model Qwen/Qwen3-TTS-12Hz-0.6B-Base
      tts-cli voices add anna --model Qwen/Qwen3-TTS-12Hz-0.6B-Base \\
        --ref-audio anna.wav --ref-text "What she says in it."
      tts-cli voices design narrator --model Qwen/Qwen3-TTS-12Hz-1.7B-Base \\
        --design-model Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign \\
        --instruct "A calm, low voice of an elderly man." \\
        --text "It was late in the year when the letter came."

    --model is a folder, a Hugging Face repository such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice (its
    small files must be in the cache), or synthetic:qwen3-tts-0.6b. Without it you see the sample
    voice.

    A voice file holds a cloned voice for one checkpoint that clones (Base, Fish Speech), so its
    recording is read only once. Make one from a recording with `voices add`, or from a description
    with `voices design`. A row of the manifest names it: {"text": "...", "voice": "anna"}. Voice
    files are in --voice-dir, by default tts-cli/voices in $XDG_DATA_HOME or ~/.local/share.

    Voices that runs made for rows without one are in .voices of their output folder.
    """
    if ctx.invoked_subcommand is not None:
        refuse_misplaced(ctx)
        return 0
    config = RunConfig.from_options(options)
    from tts_cli.app.voices import made_in, offered

    if folder is not None:
        show_made_voices(*made_in(folder), config.json)
        return 0
    found = offered(config)
    info, files = found.info, found.files
    if config.json:
        facts = {"source": found.source, **asdict(info)}
        if info.licence is not None:
            facts["licence_accepted"] = found.accepted
        facts |= {"voices_folder": str(found.folder), "voice_files": files}
        echo(json.dumps(facts, indent=2))
        return 0
    for name, value in describe(info, found.source):
        echo(f"{name}: {value}")
    if info.licence is not None:
        echo(f"licence: {found.consent}")
    if files:
        columns = ("name", "mode", "made with", "can be used")
        show_table(
            f"voice files in {found.folder}",
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
        echo(f"voice files: none in {found.folder}")
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


def show_made_voices(voices: MadeVoices, found: Sequence[Mapping[str, Any]], is_json: bool) -> None:
    """List the voices that runs have made for an output folder."""
    if is_json:
        echo(json.dumps({"folder": str(voices.folder), "made_voices": found}, indent=2))
        return
    if not found:
        echo(f"made voices: none in {voices.folder}")
        return

    rows = [
        (
            cut(facts["of"] or "-", _SHOWN_CHARS),
            "-" if facts["audio_s"] is None else f"{facts['audio_s']:.1f}",
            ", ".join(facts["checkpoints"]) or "-",
            voices.wav(facts["voice"]),
            facts["problem"] or cut(facts["says"], _SHOWN_CHARS),
        )
        for facts in found
    ]
    columns = ("whose", "seconds", "made for", "file", "says")
    show_table(f"made voices in {voices.folder}", columns, rows)


def show_made(path: str, facts: dict[str, Any], is_json: bool, is_new: bool = True) -> None:
    """Tell what a subcommand has written, or found."""
    if is_json:
        echo(json.dumps({"path": path, **facts}, indent=2))
        return
    what = f"wrote {path}" if is_new else f"{path} is there already, made of the same"
    echo(f"{what}: {facts['mode']}, {facts['frames']} reference frames")


@command.command(
    "add",
    cls=SectionedCommand,
    short_help="Make a voice file from a recording, or from a row that you like.",
)
@click.argument("name")
@click.option("--ref-audio", metavar="FILE", help="Recording, 1 to 30 s.")
@click.option("--ref-text", metavar="TEXT", help="What is said in the recording, word for word.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Instead of a recording: the output folder that has the row --take.",
)
@click.option(
    "--take",
    metavar="ID[=TAKE]",
    help="Row whose voice is taken, or one of its takes, as in `pick`.",
)
@click.option(
    "--clone-mode",
    cls=SectionedOption,
    others="--mode",
    type=click.Choice(CLONE_MODES, case_sensitive=False),
    help="icl clones voice and manner, and needs --ref-text. xvec clones only the voice.",
    show_default="icl with --ref-text or --from, else xvec",
)
@_cloning_model
@group(UNNAMED, settings("voice_dir", "ref_silence", voice_dir={"scope": Scope.USERS}))
@_overwrite
@group(UNNAMED, settings("device", "dtype"))
@common_options
def add_command(
    name: str,
    ref_audio: str | None,
    ref_text: str | None,
    source: Path | None,
    take: str | None,
    clone_mode: str | None,
    is_overwriting: bool,
    **options: Any,
) -> int:
    """Make a voice file from a recording, or from a row that you like.

    \b
    Examples:
      tts-cli voices add anna --model Qwen/Qwen3-TTS-12Hz-0.6B-Base \\
        --ref-audio anna.wav --ref-text "What she says in it."
      tts-cli voices add teller --model fishaudio/s2-pro --from wavs/ --take intro/003=2

    Writes NAME.voice.safetensors for one checkpoint that clones (Base, Fish Speech). Rows then give
    NAME as their voice, and the recording is no longer needed. Best are 5 to 15 s of one speaker
    without noise, in any format that libsndfile reads.

    With --from and --take the voice is that of a row: of its codes (synth --save-codes) or else its
    audio, and of its text.
    """
    is_row = source is not None
    is_both = is_row and (ref_audio or ref_text) is not None
    if is_row != (take is not None) or is_both or not (is_row or ref_audio):
        raise UsageError(
            "a voice is made of a recording or of a row that was spoken",
            "give either --ref-audio FILE and what it says, or --from DIR and --take ID alone",
        )
    config = RunConfig.from_options(options)
    from tts_cli.app.make_voice import add_voice

    reference = {"ref_audio": ref_audio, "ref_text": ref_text, "clone_mode": clone_mode}
    spoken = None if source is None or take is None else (source, take)
    path, stored, is_new = add_voice(name, reference, config, is_overwriting, spoken)
    show_made(str(path), stored.facts(), config.json, is_new)
    return 0


@command.command(
    "design", cls=SectionedCommand, short_help="Make a voice file from a description in words."
)
@click.argument("name")
@click.option(
    "--instruct", metavar="TEXT", help="Description of the voice.  [default: the model's choice]"
)
@click.option(
    "--text",
    required=True,
    metavar="TEXT",
    help="What the voice says as its reference, 5 to 15 s of plain speech.",
)
@click.option(
    "--design-model",
    metavar="PATH|REPO",
    help="VoiceDesign checkpoint.",
    show_default="none: --model makes the voice up, as Fish Speech does",
)
@_cloning_model
@group(
    UNNAMED,
    settings(
        *("voice_dir", "seed", "language", "ref_silence"),
        voice_dir={"scope": Scope.USERS},
        seed={"help": "Seed of the voice: another seed gives another voice."},
        language={"help": "Language of --text."},
    ),
)
@_overwrite
@group(UNNAMED, settings("device", "dtype", "no_graphs"))
@common_options
def design_command(
    name: str,
    instruct: str | None,
    text: str,
    design_model: str | None,
    is_overwriting: bool,
    **options: Any,
) -> int:
    """Make a voice file from a description, so that a whole book keeps one voice.

    \b
    Examples:
      tts-cli voices design narrator --model Qwen/Qwen3-TTS-12Hz-1.7B-Base \\
        --design-model Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign \\
        --instruct "A calm, low voice of an elderly man." \\
        --text "It was late in the year when the letter came."
      tts-cli voices design narrator --model fishaudio/s2-pro --seed 7 \\
        --text "It was late in the year when the letter came."

    The VoiceDesign checkpoint (--design-model) speaks --text once in the voice that --instruct
    describes. The Base checkpoint (--model) makes the voice file of it. The speech is kept beside
    it as NAME.wav: listen to it, and try another --seed if you do not like it. Fish Speech makes up
    a voice by itself, and takes neither --design-model nor --instruct.
    """
    config = RunConfig.from_options(options)
    from tts_cli.app.make_voice import design_voice

    spoken = {"text": text, "instruct": instruct, "language": config.language}
    design = replace(config, model=design_model, revision=None, max_batch=1)
    path, stored = design_voice(
        name,
        spoken,
        config.seed,
        replace(config, language="auto"),
        None if design_model is None else design,
        is_overwriting,
    )
    show_made(str(path), stored.facts(), config.json)
    return 0
