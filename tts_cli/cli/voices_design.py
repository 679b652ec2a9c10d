"""`tts-cli voices design`: a description in, a voice file out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from tts_cli.cli.command import SectionedCommand
from tts_cli.cli.options import cloning_model_options, common_options, config_option, voices_option
from tts_cli.config import DTYPES, RunConfig, Scope


@click.command("design", cls=SectionedCommand)
@click.argument("name")
@click.option(
    "--instruct", metavar="TEXT", help="What the voice is like.  [default: the model's choice]"
)
@click.option(
    "--text",
    required=True,
    metavar="TEXT",
    help="What it says as its reference; 5 to 15 s of plain speech.",
)
@click.option(
    "--design-model",
    metavar="PATH|REPO",
    help="The VoiceDesign checkpoint.",
    show_default="none: --model makes the voice up, as Fish Speech does",
)
@cloning_model_options
@voices_option(Scope.USERS)
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    help="Another seed, another take.",
    show_default=True,
)
@click.option(
    "--language",
    default="auto",
    metavar="NAME",
    help="Language of --text.",
    show_default=True,
)
@config_option("ref_silence", type=float, metavar="SECONDS")
@click.option("--overwrite", "is_overwriting", is_flag=True, help="Replace a voice of that name.")
@config_option("device", metavar="DEVICE")
@config_option("dtype", type=click.Choice(DTYPES, case_sensitive=False))
@config_option("no_graphs")
@common_options
def command(
    name: str,
    instruct: str | None,
    text: str,
    design_model: str | None,
    is_overwriting: bool,
    **options: Any,
) -> int:
    """Make a voice file of a voice described in words, so that a whole book keeps one voice.

    The VoiceDesign checkpoint (--design-model) speaks --text once in the voice of --instruct; the
    Base checkpoint (--model) encodes that with its transcript. The speech is kept beside the voice
    file as NAME.wav: listen to it, and try another --seed if it is not what you meant. Fish Speech
    makes a voice up itself, and takes neither --design-model nor --instruct.

    \b
    Examples:
      tts-cli voices design narrator --model Qwen/Qwen3-TTS-12Hz-1.7B-Base \\
        --design-model Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign \\
        --instruct "A calm, low voice of an elderly man." \\
        --text "It was late in the year when the letter came."
      tts-cli voices design narrator --model fishaudio/s2-pro --seed 7 \\
        --text "It was late in the year when the letter came."
    """
    config = RunConfig.from_options(options)
    from tts_cli.app.make_voice import design_voice
    from tts_cli.cli.voices import show_made

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
