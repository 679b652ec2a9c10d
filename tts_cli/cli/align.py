"""`tts-cli align`: find the time of each word of a row."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.messages import log_skipped
from tts_cli.cli.options import SectionedCommand, SectionedOption, common_options, group, settings
from tts_cli.cli.progress import RunScreen
from tts_cli.cli.screen import echo, echo_json, shown_duration
from tts_cli.config import RunConfig
from tts_cli.events import Event
from tts_cli.named import capped, counted
from tts_cli.store.files import TEXTGRID_SUFFIX, WORDS_SUFFIX, WORDS_VTT_SUFFIX

if TYPE_CHECKING:
    from tts_cli.app.align import FolderAlignment

log = logging.getLogger(__name__)

MAX_NAMED = 5  # rows of a kind that are listed without --json


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
        help="Aligner: pocketsphinx (English, on a CPU), or the folder or Hugging Face repository "
        "of a Qwen3-ForcedAligner (ten languages).",
    ),
    settings(
        "device",
        "asr_batch",
        "lexicon",
        asr_batch={
            "help": "Align N passages at a time, or in N processes with pocketsphinx.",
            "show_default": "depends on the device; one process per core",
        },
        lexicon={"help": "Pronunciations of words that the aligner does not know."},
    ),
)
@group(
    "Output",
    click.option(
        "--subtitles",
        cls=SectionedOption,
        type=click.Choice(["words-vtt"]),
        help="Also write <id>.words.vtt: one cue per line, with a time stamp for each word.",
    ),
    click.option(
        "--textgrid", cls=SectionedOption, is_flag=True, help="Also write <id>.TextGrid, for Praat."
    ),
)
@group("Rows", settings("only", "take_over"))
@settings("progress")
@common_options
def command(
    folder: Path, aligner: str, subtitles: str | None, textgrid: bool, **options: Any
) -> int:
    """Find the time of each word of a row.

    \b
    Examples:
      tts-cli align wavs/
      tts-cli align wavs/ --subtitles words-vtt --textgrid
      tts-cli align wavs/ --with Qwen/Qwen3-ForcedAligner-0.6B-hf

    DIR is the output folder of `synth` or `book`. `align` finds the words of each row in its audio,
    and writes <id>.words.json next to it: each word of the manifest, with its start, end, score
    and position in the text. Run it again after other runs: only new and replaced files are
    aligned.

    An aligner also finds a place for words that were never said. Rows that `check` flagged, or
    whose score is low, are therefore marked unsure.

    Exit code 1: a row could not be aligned.
    """
    from tts_cli.app.align import align, aligner_of

    config = RunConfig.from_options({**options, "out": folder})
    forms = [WORDS_VTT_SUFFIX] * (subtitles is not None) + [TEXTGRID_SUFFIX] * textgrid
    done = align(folder, config, aligner_of(aligner, config), RunScreen(config), forms)
    show(config, folder, done)
    return int(bool(done.problems))


def as_dict(done: FolderAlignment) -> dict[str, Any]:
    num = done.events.num
    return {
        "aligned": num(Event.MEASURED),
        "kept": num(Event.MEASURED_BEFORE),
        "audio_s": round(done.events.total(Event.MEASURED, "audio_s"), 3),
        "unsure": [{"id": row_id, "reasons": reasons} for row_id, reasons in done.unsure],
        "left": [{"id": row_id, "reason": reason} for row_id, reason in done.problems],
        "other_language": num(Event.OTHER_LANGUAGE),
        "without_words": num(Event.WITHOUT_WORDS),
        "without_audio": num(Event.WITHOUT_AUDIO),
    }


def show(config: RunConfig, folder: Path, done: FolderAlignment) -> None:
    if config.json:
        echo_json(as_dict(done))
        return
    events = done.events
    log_skipped(events, "row", "aligner")
    skipped = [f"row {row_id} was skipped: {problem}" for row_id, problem in done.problems]
    for line in capped(skipped, MAX_NAMED, "{} more were skipped; --json lists all"):
        log.warning("%s", line)
    guessed = events.of(Event.GUESSED)
    if guessed.count:
        words = counted(guessed.count, "word is", "words are")
        some = ", ".join(dict.fromkeys(guessed.first))
        log.info("%s not in the dictionary, such as %s", words, some)
    unsure = [f"unsure: {row_id}: {'; '.join(reasons)}" for row_id, reasons in done.unsure]
    for line in capped(unsure, MAX_NAMED, "unsure: {} more; --json lists all"):
        echo(line)
    aligned, before = events.of(Event.MEASURED), events.num(Event.MEASURED_BEFORE)
    line = f"{counted(aligned.count, 'row')} aligned"
    if aligned.count:
        words = counted(int(aligned.sums["words"]), "word")
        line += f", {words} in {shown_duration(aligned.sums['audio_s'])}"
    if before:
        line += f"; {before} already aligned"
    if done.unsure:
        line += f"; {len(done.unsure)} unsure"
    echo(f"{line}; word times: {folder}/<id>{WORDS_SUFFIX}")
