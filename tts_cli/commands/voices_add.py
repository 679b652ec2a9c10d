"""`tts-cli voices add`: a recording in, a voice file out."""

from __future__ import annotations

from typing import Any

import click

from tts_cli.commands.options import (
    cloning_model_options,
    common_options,
    config_option,
    voices_option,
)
from tts_cli.commands.sections import SectionedCommand
from tts_cli.config import DTYPES, RunConfig, Scope
from tts_cli.manifest.row import CLONE_MODES


@click.command("add", cls=SectionedCommand)
@click.argument("name")
@click.option("--ref-audio", required=True, metavar="FILE", help="The recording, 1 to 30 s.")
@click.option("--ref-text", metavar="TEXT", help="What is said in it, word for word.")
@click.option(
    "--mode",
    type=click.Choice(CLONE_MODES, case_sensitive=False),
    help="icl clones voice and manner and needs --ref-text; xvec clones the voice alone.",
    show_default="icl with --ref-text, else xvec",
)
@cloning_model_options
@voices_option(Scope.USERS)
@config_option("ref_silence", type=float, metavar="SECONDS")
@click.option("--overwrite", "is_overwriting", is_flag=True, help="Replace a voice of that name.")
@config_option("device", metavar="DEVICE")
@config_option("dtype", type=click.Choice(DTYPES, case_sensitive=False))
@common_options
def command(
    name: str,
    ref_audio: str,
    ref_text: str | None,
    mode: str | None,
    is_overwriting: bool,
    **options: Any,
) -> int:
    """Make a voice file of a recording, for one checkpoint that clones: Base or Fish Speech.

    Writes NAME.voice.safetensors: the speaker's embedding (Qwen3-TTS) and, for icl, the
    recording's codes and its transcript. Rows then name it as their voice, and the recording is
    needed no more. Any format that libsndfile reads will do; 5 to 15 s of one speaker without noise
    are best.

    \b
    Example:
      tts-cli voices add anna --model Qwen/Qwen3-TTS-12Hz-0.6B-Base \\
        --ref-audio anna.wav --ref-text "What she says in it."
    """
    config = RunConfig.from_options(options)
    from tts_cli.commands.voices import show_made
    from tts_cli.run.make_voice import add_voice

    reference = {"ref_audio": ref_audio, "ref_text": ref_text, "clone_mode": mode}
    path, stored, is_new = add_voice(name, reference, config, is_overwriting)
    show_made(str(path), stored.facts(), config.json, is_new)
    return 0
