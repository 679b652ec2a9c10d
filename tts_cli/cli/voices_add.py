"""`tts-cli voices add`: a recording, or a row that was spoken, in, a voice file out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import SectionedCommand
from tts_cli.cli.options import cloning_model_options, common_options, config_option, voices_option
from tts_cli.config import DTYPES, RunConfig, Scope
from tts_cli.errors import UsageError
from tts_cli.manifest.row import CLONE_MODES

if TYPE_CHECKING:
    from tts_cli.app.liked_voice import Liked


@click.command("add", cls=SectionedCommand)
@click.argument("name")
@click.option("--ref-audio", metavar="FILE", help="The recording, 1 to 30 s.")
@click.option("--ref-text", metavar="TEXT", help="What is said in it, word for word.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Instead of a recording: an output folder, of whose row --take the voice is made.",
)
@click.option("--take", metavar="ID[=TAKE]", help="That row, or a take of it as in pick.")
@click.option(
    "--mode",
    type=click.Choice(CLONE_MODES, case_sensitive=False),
    help="icl clones voice and manner and needs --ref-text; xvec clones the voice alone.",
    show_default="icl with --ref-text or --from, else xvec",
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
    ref_audio: str | None,
    ref_text: str | None,
    source: Path | None,
    take: str | None,
    mode: str | None,
    is_overwriting: bool,
    **options: Any,
) -> int:
    """Make a voice file of a recording or of a row that was spoken, for one checkpoint that clones:
    Base or Fish Speech.

    Writes NAME.voice.safetensors: the speaker's embedding (Qwen3-TTS) and, for icl, the
    recording's codes and its transcript. Rows then name it as their voice, and the recording is
    needed no more. Any format that libsndfile reads will do; 5 to 15 s of one speaker without noise
    are best.

    --from and --take make it of a row that you like: of its codes (synth --save-codes) or else its
    audio, and of the words that it says.

    \b
    Examples:
      tts-cli voices add anna --model Qwen/Qwen3-TTS-12Hz-0.6B-Base \\
        --ref-audio anna.wav --ref-text "What she says in it."
      tts-cli voices add teller --model fishaudio/s2-pro --from wavs/ --take intro/003=2
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
    from tts_cli.cli.voices import show_made

    reference = {"ref_audio": ref_audio, "ref_text": ref_text, "clone_mode": mode}
    liked = None if source is None or take is None else find_liked(source, take)
    path, stored, is_new = add_voice(name, reference, config, is_overwriting, liked)
    show_made(str(path), stored.facts(), config.json, is_new)
    return 0


def find_liked(out: Path, take: str) -> Liked:
    """A row that was spoken, or a take of it. Raises UsageError: there is no such one."""
    from tts_cli.app.liked_voice import Liked
    from tts_cli.cli.pick import Choice, find, parse
    from tts_cli.folder.encode import KeptSpeech

    spoken = KeptSpeech(out)
    journal = spoken.journal
    choice = parse(take) if "=" in take else None
    file = journal.file(choice.row_id if choice else take)
    record = find(journal, out, choice or Choice(take, file.take if file else 1))
    return Liked(out, record, file is not None and file.take == record.take, spoken.run_of(record))
