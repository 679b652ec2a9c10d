"""`tts-cli align`: when each word of a row is said."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group, settings
from tts_cli.cli.screen import RunScreen, echo, shown_duration
from tts_cli.config import RunConfig
from tts_cli.folder.files import TEXTGRID_SUFFIX, WORDS_SUFFIX, WORDS_VTT_SUFFIX
from tts_cli.named import counted

if TYPE_CHECKING:
    from tts_cli.app.align import Alignment

log = logging.getLogger(__name__)

MAX_NAMED = 5  # rows of a kind, without --json
MAX_WORDS = 8  # that no dictionary has


@click.command("align", cls=SectionedCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@group(
    "Aligner",
    click.option(
        "--with",
        "aligner",
        cls=SectionedOption,
        metavar="NAME",
        default="pocketsphinx",
        show_default=True,
        help="What finds the words: pocketsphinx, for English, on a CPU; or the folder or hub "
        "repository of a Qwen3-ForcedAligner, for ten languages.",
    ),
    settings(
        "device",
        "asr_batch",
        "lexicon",
        asr_batch={
            "help": "Align N passages at once, or in N processes with pocketsphinx.",
            "show_default": "by the device; one process a core",
        },
        lexicon={"help": "Respellings of words that the aligner does not know."},
    ),
)
@group(
    "Output",
    click.option(
        "--subtitles",
        cls=SectionedOption,
        type=click.Choice(["words-vtt"]),
        help="Also <id>.words.vtt: a cue a line, with the moment of each word inside.",
    ),
    click.option(
        "--textgrid",
        cls=SectionedOption,
        is_flag=True,
        help="Also <id>.TextGrid, as Praat reads it.",
    ),
)
@group("Rows", settings("only", "take_over"))
@settings("progress")
@common_options
def command(
    folder: Path, aligner: str, subtitles: str | None, textgrid: bool, **options: Any
) -> int:
    """Find when each word of a row is said.

    \b
    Examples:
      tts-cli align wavs/
      tts-cli align wavs/ --subtitles words-vtt --textgrid
      tts-cli align wavs/ --with Qwen/Qwen3-ForcedAligner-0.6B-hf

    DIR is the output folder of `synth` or `book`. `align` looks for the text of each row in the
    row's file, and writes <id>.words.json beside it: each word as the manifest has it, with its
    start, end, score and place in the text. Run it again after other runs: only new and replaced
    files are aligned.

    Rows that `check` suspects, or whose score is low, are marked unsure, because wrong words find a
    place too. The exit code is 1 if a row cannot be aligned.
    """
    from tts_cli.app.align import align, aligner_of

    config = RunConfig.from_options({**options, "out": folder})
    forms = [WORDS_VTT_SUFFIX] * (subtitles is not None) + [TEXTGRID_SUFFIX] * textgrid
    done = align(folder, config, aligner_of(aligner, config), RunScreen(config), forms)
    show(config, folder, done)
    return int(bool(done.problems))


def facts(done: Alignment) -> dict[str, Any]:
    """The same, for programs."""
    return {
        "aligned": done.aligned,
        "kept": done.kept,
        "audio_s": round(done.audio_s, 3),
        "unsure": [{"id": row_id, "reasons": reasons} for row_id, reasons in done.unsure],
        "left": [{"id": row_id, "reason": reason} for row_id, reason in done.problems],
        "other_language": done.other_language,
        "without_words": done.without_words,
        "without_audio": done.without_audio,
    }


def show(config: RunConfig, folder: Path, done: Alignment) -> None:
    """What was found, and what was not."""
    if config.json:
        echo(json.dumps(facts(done), indent=2))
        return
    for count, why in (
        (done.other_language, "in a language that it does not know"),
        (done.without_words, "without words, or without a text in the journal"),
        (done.without_audio, "without audio"),
    ):
        if count:
            log.warning("%s %s", counted(count, "row"), why)
    for row_id, problem in done.problems[:MAX_NAMED]:
        log.warning("row %s is left out: %s", row_id, problem)
    if len(done.problems) > MAX_NAMED:
        log.warning("%d more are left out; --json has them all", len(done.problems) - MAX_NAMED)
    if done.guessed:
        some = ", ".join(dict.fromkeys(done.guessed[: 4 * MAX_WORDS]))
        words = counted(len(done.guessed), "word is", "words are")
        log.info("%s not in the dictionary, such as %s", words, some)
    if config.verbosity < 0:
        return
    for row_id, reasons in done.unsure[:MAX_NAMED]:
        echo(f"unsure: {row_id}: {'; '.join(reasons)}")
    if len(done.unsure) > MAX_NAMED:
        echo(f"unsure: {len(done.unsure) - MAX_NAMED} more; --json has them all")
    said = f"{counted(done.aligned, 'row')} aligned"
    if done.aligned:
        said += f", {counted(done.words, 'word')} in {shown_duration(done.audio_s)}"
    if done.kept:
        said += f"; {done.kept} had been before"
    if done.unsure:
        said += f"; {len(done.unsure)} unsure"
    echo(f"{said}; <id>{WORDS_SUFFIX} are in {folder}/")
