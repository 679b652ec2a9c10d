"""`tts-cli book`: synthesize a book, one file per chapter, with `synth`'s flow."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tts_cli.cli.options import OUT, SPEAKING, SectionedOption, common_options, group, settings
from tts_cli.cli.remember import RememberingCommand
from tts_cli.cli.screen import echo, echo_json, show_or_warn, show_table, shown_duration
from tts_cli.config import RunConfig
from tts_cli.named import capped, counted, first_few
from tts_cli.plan.remembered import BookFacts
from tts_cli.setting import Topic

if TYPE_CHECKING:
    from tts_cli.app.book import BookRun
    from tts_cli.book.produce import Produced

log = logging.getLogger(__name__)

LONG_S = 3600.0  # length of a chapter that suggests missing headings
FIRST_WORDS = 8  # words of a chapter that a dry run shows
MAX_WARNINGS = 5  # warnings and chapters that messages name

_book_options = group(
    Topic.BOOK.heading,
    settings(Topic.BOOK),
    settings("encoding", encoding={"help": "Encoding of text files, such as cp1252 or utf-16."}),
)

_list_option = click.option(
    "--list",
    "is_list",
    cls=SectionedOption,
    section=Topic.BOOK.heading,
    is_flag=True,
    allow_from_autoenv=False,
    help="List the chapters with their characters and usual minutes, and stop.",
)


@click.command("book", cls=RememberingCommand)
@click.argument("book", type=click.Path(path_type=Path), metavar="BOOK")
@settings(Topic.OUTPUT, out={**OUT, "show_default": "required, but for --list"})
@_book_options
@_list_option
@settings(Topic.MODEL, Topic.DEVICE, *SPEAKING, language={"show_default": "the book's; else auto"})
@settings(Topic.VERIFY, Topic.WORDS, Topic.AGAIN, Topic.FAILURES, "progress")
@common_options
@click.pass_context
def command(ctx: click.Context, /, book: Path, out: Path | None, **options: Any) -> int:
    """Synthesize a book, one file per chapter.

    \b
    Examples:
      tts-cli book novel.epub --out novel/ --voice clara
      tts-cli book novel.epub --list
      tts-cli book novel.epub --out novel/ --chapters 1,3-5
      tts-cli book chapters/ --out course/ --format flac --join m4b --subtitles srt,vtt

    BOOK is an EPUB, .docx, .html, .pdf, Markdown (.md) or plain text (.txt) file, or a folder of
    such files in the order of its SUMMARY.md or of their numbers. Each heading begins a chapter.
    DIR gets the chapters (01-title.wav and so on), the audio of every sentence in sentences/,
    book.json with the position of every sentence in the text and in the audio, book.jsonl with one
    row per sentence, and everything that `synth` writes. In the text, [pause 500ms] makes a pause,
    and {voice=NAME} at the end of a paragraph gives it a voice. Run the same command again to
    synthesize only what is missing or changed.
    """
    from tts_cli.app.book import BookRun
    from tts_cli.cli.synth import run

    is_list = options.pop("is_list")
    if out is None and not is_list:
        (param,) = (one for one in ctx.command.params if one.name == "out")
        raise click.MissingParameter(ctx=ctx, param=param)
    config = RunConfig.from_options({**options, "out": out})
    work = BookRun(book, config, out or Path(), is_m4b=config.join == "m4b" and not is_list)
    for warning in capped(work.book.warnings, MAX_WARNINGS, "... and {} more like these"):
        log.warning("%s", warning)
    if out is None or is_list:
        return list_chapters(work, config)
    show_chapters(work, config)
    has_language = ctx.get_parameter_source("language") != ParameterSource.DEFAULT
    source = work.order(has_language=has_language)
    exit_code = run(source, work.config, out, own=work.own, book=BookFacts(book, config))
    if config.dry_run or config.voices_only:
        return exit_code
    made = work.join()
    show_book(made, config, work.num_chapters)
    return exit_code or int(bool(made.incomplete or made.failing))


def show_chapters(work: BookRun, config: RunConfig) -> None:
    """List the chapters in a dry run. Warn in any run about a long book with one chapter."""
    chapters, outline = work.book.chapters, work.outline()
    if len(outline) == 1 and outline[0][2] > LONG_S:
        log.warning(
            "the book is one chapter of about %s because it has no headings. Put '# ' before each "
            "heading, and save the book as .md",
            shown_duration(outline[0][2]),
        )
    if not config.dry_run or config.json:
        return
    for number, (chapter, (_, _, seconds)) in enumerate(zip(chapters, outline, strict=True), 1):
        texts = [one.text for one in chapter.paragraphs if not one.is_heading] or [""]
        first = " ".join(texts[0].split()[:FIRST_WORDS])
        echo(f"chapter {number}: {chapter.title}, about {shown_duration(seconds)}: {first}")


def list_chapters(work: BookRun, config: RunConfig) -> int:
    outline = work.outline()
    if config.json:
        names = ("title", "characters", "seconds")
        chapters = [dict(zip(names, one, strict=True)) for one in outline]
        echo_json({"title": work.book.title, "language": work.book.language, "chapters": chapters})
        return 0
    rows = [
        (str(number), title, f"{chars:,}", f"{seconds / 60:.1f}")
        for number, (title, chars, seconds) in enumerate(outline, 1)
    ]
    show_table(work.book.title or "chapters", ("", "chapter", "characters", "minutes"), rows)
    total = shown_duration(sum(seconds for _, _, seconds in outline))
    echo(f"{counted(len(outline), 'chapter')}, about {total} with pauses")
    return 0


def show_book(made: Produced, config: RunConfig, num_chapters: int) -> None:
    for reason in capped(made.incomplete, MAX_WARNINGS, "{} more chapters"):
        log.warning("not written: %s", reason)
    for reason in capped(made.failing, MAX_WARNINGS, "{} more limits"):
        log.warning("does not meet --preset %s: %s", config.preset, reason)
    if made.kept:
        log.warning(
            "kept as they are: %s of an earlier run with other flags: %s. "
            "Give those flags again to update them, or delete them",
            counted(len(made.kept), "file"),
            first_few(made.kept),
        )
    if config.json:
        return
    chapters = f"{len(made.made.chapters)} of {counted(num_chapters, 'chapter')}"
    show_or_warn(f"{chapters}, {shown_duration(made.seconds)}, in {config.out}/")
