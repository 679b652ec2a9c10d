"""`tts-cli voices`: list the voices of a checkpoint and the voice files, and make voice files."""

from __future__ import annotations

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
from tts_cli.cli.screen import echo, echo_json, show_table
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.named import cut
from tts_cli.setting import Scope, Topic
from tts_cli.sources.row import CLONE_MODES

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.voices.voice_store import VoiceStore

_SHOWN_CHARS = 60  # characters of a text in a table
_overwrite = click.option(
    "--overwrite",
    "is_overwriting",
    is_flag=True,
    help="Replace an existing voice file of that name.",
)
_cloning_model = settings(Topic.MODEL, model={"show_default": "none; give a model that clones"})


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
        help="List the generated voices of this output folder instead.",
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
        --ref-audio anna.wav --ref-text "The words of the recording."
      tts-cli voices design narrator --model Qwen/Qwen3-TTS-12Hz-1.7B-Base \\
        --design-model Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign \\
        --instruct "A calm, low voice of an elderly man." \\
        --text "It was late in the year when the letter came."

    --model is a folder, a Hugging Face repository such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice (its
    small files must be in the cache), or synthetic:qwen3-tts-0.6b. The default is the sample voice.

    A voice file stores a cloned voice for one model that clones (Base, Fish Speech), so that its
    recording is encoded only once. Make one from a recording with `voices add`, or from a
    description with `voices design`. A row of the manifest uses it by name: {"text": "...",
    "voice": "anna"}. Voice files are in --voice-dir, by default tts-cli/voices in $XDG_DATA_HOME or
    ~/.local/share.

    Voices that a run generated for rows without a voice are in .voices of its output folder.
    """
    if ctx.invoked_subcommand is not None:
        refuse_misplaced(ctx)
        return 0
    config = RunConfig.from_options(options)
    from tts_cli.app.voices import checkpoint_voices, generated_voices_in

    if folder is not None:
        show_made_voices(*generated_voices_in(folder), config.json)
        return 0
    found = checkpoint_voices(config)
    info, files = found.info, found.files
    if config.json:
        facts = {"source": found.source, **asdict(info)}
        if info.licence is not None:
            facts["licence_accepted"] = found.accepted
        facts |= {"voices_folder": str(found.folder), "voice_files": files}
        echo_json(facts)
        return 0
    for name, value in describe(info, found.source):
        echo(f"{name}: {value}")
    if info.licence is not None:
        echo(f"licence: {found.consent}")
    if files:
        rows = [
            (one["name"], one.get("mode", "-"), one.get("model", "-"), one["problem"] or "yes")
            for one in files
        ]
        show_table(f"voice files in {found.folder}", ("name", "mode", "model", "usable"), rows)
    else:
        echo(f"voice files: none in {found.folder}")
    return 0


def describe(info: ModelInfo, source: str) -> list[tuple[str, str]]:
    instruct = "supported" if info.takes_instruct else "ignored by this model"
    cloning = "no"
    if info.can_clone:
        modes = ", ".join(info.clone_modes)
        cloning = "required" if info.needs_reference else f"supported, modes {modes}"
    elif info.needs_reference:
        cloning = f"not possible with this copy: {info.needs}"
    sampling = ", ".join(f"{name} {value}" for name, value in asdict(info.sampling).items())
    return [
        ("model", f"{source} ({info.family}, {info.size}, {info.identity})"),
        ("mode", info.mode),
        ("voices", ", ".join(info.voices) or "no named voices"),
        ("languages", ", ".join(info.languages)),
        ("instruct", instruct),
        ("cloning", cloning),
        ("audio", f"{info.sample_rate_hz} Hz, frames of {1000 * info.frame_s:g} ms"),
        ("longest row", f"{info.max_frames} frames ({info.max_frames * info.frame_s:.0f} s)"),
        ("sampling", sampling),
    ]


def show_made_voices(voices: VoiceStore, found: Sequence[Mapping[str, Any]], is_json: bool) -> None:
    if is_json:
        echo_json({"folder": str(voices.out_folder), "made_voices": found})
        return
    if not found:
        echo(f"generated voices: none in {voices.out_folder}")
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
    columns = ("used by", "seconds", "made for", "file", "text")
    show_table(f"generated voices in {voices.out_folder}", columns, rows)


def show_made(path: str, facts: dict[str, Any], is_json: bool, is_new: bool = True) -> None:
    if is_json:
        echo_json({"path": path, **facts})
        return
    what = f"wrote {path}" if is_new else f"{path} already exists, with the same content"
    echo(f"{what}: {facts['mode']}, {facts['frames']} reference frames")


@command.command(
    "add",
    cls=SectionedCommand,
    short_help="Make a voice file from a recording or from a synthesized row.",
)
@click.argument("name")
@click.option("--ref-audio", metavar="FILE", help="Recording, 1 to 30 s.")
@click.option("--ref-text", metavar="TEXT", help="Words of the recording, exactly as spoken.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Use a row of this output folder instead of a recording; see --take.",
)
@click.option(
    "--take", metavar="ID[=TAKE]", help="Row of --from, or one of its takes, as in `pick`."
)
@click.option(
    "--clone-mode",
    cls=SectionedOption,
    others="--mode",
    type=click.Choice(CLONE_MODES, case_sensitive=False),
    help="icl clones voice and manner, and needs --ref-text. xvec clones only the voice.",
    show_default="icl with --ref-text or --from, otherwise xvec",
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
    """Make a voice file from a recording or from a synthesized row.

    \b
    Examples:
      tts-cli voices add anna --model Qwen/Qwen3-TTS-12Hz-0.6B-Base \\
        --ref-audio anna.wav --ref-text "The words of the recording."
      tts-cli voices add teller --model fishaudio/s2-pro --from wavs/ --take intro/003=2

    Writes NAME.voice.safetensors for one model that clones (Base, Fish Speech). Rows can then use
    NAME as their voice, without the recording. Best are 5 to 15 s of one speaker without noise, in
    any format that libsndfile reads.

    With --from and --take, the reference is a synthesized row: its text, and its codes (synth
    --save-codes) or audio.
    """
    is_row = source is not None
    is_both = is_row and (ref_audio or ref_text) is not None
    if is_row != (take is not None) or is_both or not (is_row or ref_audio):
        raise UsageError(
            "a voice needs either a recording or a synthesized row",
            "give --ref-audio FILE with --ref-text TEXT, or --from DIR with --take ID",
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
    help="Words of the reference recording that is generated; 5 to 15 s are best.",
)
@click.option(
    "--design-model",
    metavar="PATH|REPO",
    help="VoiceDesign checkpoint.",
    show_default="none; --model generates the voice itself, as Fish Speech does",
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

    The VoiceDesign model (--design-model) synthesizes --text once, in the voice that --instruct
    describes. The Base model (--model) makes the voice file from this audio, which stays next to it
    as NAME.wav. Listen to it, and try another --seed if you do not like it. Fish Speech generates
    voices itself, and takes neither --design-model nor --instruct.
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
