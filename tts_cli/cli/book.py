"""`tts-cli book`: a book in, chapters out. The speaking is `synth`'s, on a manifest made here."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tts_cli.cli.command import SectionedCommand, SectionedOption
from tts_cli.cli.options import (
    common_options,
    config_option,
    device_options,
    group,
    model_options,
    output_options,
    reference_options,
    reproducible_option,
    run_options,
    sampling_options,
    worker_options,
)
from tts_cli.cli.screen import show_or_warn, shown_duration
from tts_cli.config import RunConfig, Scope
from tts_cli.errors import ManifestError, UsageError
from tts_cli.folder.atomic import write_atomic
from tts_cli.manifest.ids import REMOVED

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.book.chapter import Book
    from tts_cli.book.produce import BookOrder, Produced
    from tts_cli.book.script import Sentence
    from tts_cli.folder.folder import Folder
    from tts_cli.manifest.source import Source
    from tts_cli.plan.free_voices import Maker

log = logging.getLogger(__name__)

LONG_S = 3600.0  # of a chapter
FIRST_WORDS = 8  # of a chapter that a dry run shows
MAX_TOLD = 5  # warnings and chapters that messages name


_book_options = group(
    "Beside a file a chapter",
    click.option(
        "--join",
        cls=SectionedOption,
        scope=Scope.ANY,
        type=click.Choice(("m4b",)),
        help="Also one file of all chapters, with chapter marks.  [default: none]",
    ),
    config_option("encoding", metavar="NAME"),
)


@click.command("book", cls=SectionedCommand)
@click.argument("book", type=click.Path(path_type=Path), metavar="FILE|FOLDER")
@output_options(is_out_required=True)
@_book_options
@model_options
@device_options
@worker_options
@reproducible_option
@sampling_options
@reference_options
@run_options
@common_options
def command(book: Path, join: str | None, out: Path, **options: Any) -> int:
    """Speak a book: a file a chapter. Run again, it speaks what is missing or changed.

    FILE is Markdown (.md), EPUB 2 or 3 (.epub) or plain text (.txt); a FOLDER of .md and .txt files
    is read as its SUMMARY.md tells, or in the order of their numbers. Headings begin chapters. DIR
    gets 01-title.wav and so on, book.json with the place of every sentence in text and audio,
    book.jsonl with a row a sentence, the rows' audio in sentences/, and all that synth writes. In
    the text, [pause 500ms] is a pause and {voice=NAME} at an end of a paragraph a voice.

    \b
    Examples:
      tts-cli book novel.epub --out novel/ --voice clara
      tts-cli book chapters/ --out course/ --format flac --join m4b --subtitles srt,vtt
    """
    from tts_cli.book.m4b import load_av
    from tts_cli.book.produce import require_own_files, target_names
    from tts_cli.book.reader import read_book
    from tts_cli.book.script import BookPauses, script_of, to_manifest
    from tts_cli.manifest.encoding import known_encoding
    from tts_cli.plan.split_rule import pauses_of

    config = RunConfig.from_options({**options, "out": out})
    if join == "m4b":
        load_av()
    encoding = None if config.encoding is None else known_encoding(config.encoding)
    found = read_book(book, encoding)
    if config.strip_markup:
        found = found.without_markup()
    script = script_of(found, BookPauses(**vars(pauses_of(config))))
    tell_what_is_not_read(found)
    show_chapters(found, config)
    wanted = wanted_of(config, config.subtitle_formats, is_m4b=join == "m4b")
    config = config_of_rows(config, wanted)
    if not config.overwrite:
        require_own_files(out, target_names(found, script, wanted))
    require_same_book(script, config, out)
    config = replace(config, prune=True)
    with ExitStack() as stack:
        source = manifest_of(to_manifest(script, language_of(found, config)), config, out, stack)
        require_good(source, script, config)
        return speak_and_join(source, config, out, found, script, wanted)


def wanted_of(config: RunConfig, subtitles: tuple[str, ...], *, is_m4b: bool) -> BookOrder:
    """The files to make. Raises UsageError, SetupError: they cannot be made so."""
    from tts_cli.audio.file import check_format
    from tts_cli.audio.tags import synthetic
    from tts_cli.audio.treatment import Treatment
    from tts_cli.book.produce import BookOrder
    from tts_cli.plan.checkpoint import read_info

    info = read_info(config)
    treatment = Treatment.of(config)
    treatment.require_packages()
    check_format(config.format, config.subtype, config.sample_rate or info.sample_rate_hz)
    return BookOrder(
        config.format,
        config.subtype,
        subtitles,
        is_m4b=is_m4b,
        comment=synthetic(info),
        row_format="flac" if config.format == "opus" else config.format,
        treatment=treatment,
        voice=config.voice or next(iter(info.voices), ""),
    )


def config_of_rows(config: RunConfig, wanted: BookOrder) -> RunConfig:
    """How rows are spoken: as the model gives them, so that another level or format of chapters
    costs no speech. (Rows of mp3 and ogg were always coded twice, and stay as they are in folders.)
    """
    is_telephony = config.subtype in ("ULAW", "ALAW")
    return replace(
        config,
        format=wanted.row_format,
        subtype="PCM_16" if is_telephony else config.subtype,
        loudness=None,
        highpass=None,
        trim=False,
        pad=None,
    )


def tell_what_is_not_read(book: Book) -> None:
    """Log the reader's warnings."""
    for warning in book.warnings[:MAX_TOLD]:
        log.warning("%s", warning)
    if len(book.warnings) > MAX_TOLD:
        log.warning("... and %d more like these", len(book.warnings) - MAX_TOLD)


def show_chapters(book: Book, config: RunConfig) -> None:
    """In a dry run, what became chapters; a long book that is a single one is told in any run."""
    from tts_cli.text.words import usual_s

    lengths_s = [usual_s(" ".join(one.text for one in it.paragraphs)) for it in book.chapters]
    if len(book.chapters) == 1 and lengths_s[0] > LONG_S:
        log.warning(
            "the book is one chapter of about %s: no headings were found in it; put '# ' before "
            "them, and save it as .md",
            shown_duration(lengths_s[0]),
        )
    if not config.dry_run or config.json:
        return
    for number, (chapter, seconds) in enumerate(zip(book.chapters, lengths_s, strict=True), 1):
        texts = [one.text for one in chapter.paragraphs if not one.is_heading] or [""]
        first = " ".join(texts[0].split()[:FIRST_WORDS])
        click.echo(f"chapter {number}: {chapter.title}, about {shown_duration(seconds)}: {first}")


def language_of(book: Book, config: RunConfig) -> str | None:
    """The language that the book says it is in, for rows of a run where nobody gives one; None
    where the checkpoint names none.

    Raises:
        ManifestError: the checkpoint speaks others, so that the book would be read by their rules.
    """
    from tts_cli.book.chapter import is_language, known_language
    from tts_cli.named import shown
    from tts_cli.plan.checkpoint import read_info

    origin = click.get_current_context().get_parameter_source("language")
    if book.language is None or origin != ParameterSource.DEFAULT:
        return None
    known = read_info(config).languages
    name = known_language(book.language, known)
    spoken = [language for language in known if language != "auto"]
    if name is None and spoken and is_language(book.language):
        raise ManifestError(
            f"the book is in {shown(book.language)}, and {config.model or 'the sample voice'} "
            f"speaks {', '.join(spoken)}",
            "name another checkpoint by --model, or a language by --language, auto for none",
        )
    if name is None:
        log.info("the book is in %s, which the checkpoint does not know by name", book.language)
    else:
        log.info("the book is in %s: rows are spoken as %s", book.language, name)
    return name


def require_same_book(script: list[Sentence], config: RunConfig, out: Path) -> None:
    """Raise UsageError if the folder has another book: one that shares fewer than half of the rows
    that it has. Rows that a book no longer has are taken out without being asked for.
    """
    from tts_cli.book.script import FOLDER
    from tts_cli.folder.folder import Folder
    from tts_cli.folder.mend import recorded_ids

    if config.prune or not Folder.is_there(out):
        return
    ids = {row.id for row in script}
    journal = Folder.look(out).journal
    before = [row_id for row_id in recorded_ids(journal) if row_id.startswith(f"{FOLDER}/")]
    common = sum(row_id in ids for row_id in before)
    if 2 * common < len(before):
        raise UsageError(
            f"{out}: holds another book: {common} of its {len(before)} rows are in this one",
            remedy="choose another --out, or add --prune to take the others out, into "
            f"{out / REMOVED}/",
        )


def manifest_of(data: bytes, config: RunConfig, out: Path, stack: ExitStack) -> Source:
    """The rows as `synth` reads them: from `book.jsonl`, or for a dry run from a temporary file."""
    from tts_cli.book.script import MANIFEST_NAME
    from tts_cli.manifest.manifest import open_source

    if config.dry_run:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tts-cli-"))
        path = Path(folder, MANIFEST_NAME)
        path.write_bytes(data)
    else:
        path = out / MANIFEST_NAME
        keep_manifest(data, path, config)
    return stack.enter_context(open_source(str(path)))


def keep_manifest(data: bytes, path: Path, config: RunConfig) -> None:
    """Write `book.jsonl`, while no other run can be reading it.

    A folder with a journal is put in order first, as `synth` would do it: a lock that a dead run
    has left tells which files were its own, and it is gone once this one is given back.
    """
    from tts_cli.folder.folder import Folder

    with Folder.at(path.parent, config) as folder:
        folder.hold()
        write_atomic(path, data)


def require_good(source: Source, script: list[Sentence], config: RunConfig) -> None:
    """Raise ManifestError if a row is bad, which is told by its place in the book."""
    from tts_cli.core import BadRow
    from tts_cli.plan.checkpoint import read_info
    from tts_cli.plan.checks import CheckedRows
    from tts_cli.plan.free_voices import makes_voices, who_speaks

    config, info, maker = who_speaks(config, read_info(config))
    rows = CheckedRows(source, config, info, makes_voices=makes_voices(info, maker)).read()
    bad = [row for row in rows if isinstance(row, BadRow)]
    for row in bad[:MAX_TOLD]:
        log.error("%s: %s", script[row.number - 1].place, row.message)
    if bad:
        raise ManifestError(
            f"{len(bad)} of {len(script)} rows of the book cannot be spoken",
            remedy="mend these places in the book",
        )


def speak_and_join(
    source: Source,
    config: RunConfig,
    out: Path,
    book: Book,
    script: list[Sentence],
    wanted: BookOrder,
) -> int:
    """Speak the rows, then make the book's files. Returns the exit code."""
    from tts_cli.book.produce import produce
    from tts_cli.book.script import FOLDER
    from tts_cli.cli.synth import run
    from tts_cli.folder.folder import Folder
    from tts_cli.plan.checkpoint import read_info
    from tts_cli.plan.free_voices import who_speaks

    # Chapters have subtitles, not rows.
    exit_code = run(source, replace(config, subtitles=None), out, own=f"{FOLDER}/")
    if config.dry_run or config.voices_only:
        return exit_code
    config, info, maker = who_speaks(config, read_info(config))
    with Folder.at(out, config, info) as folder:
        missing = unspoken(source, config, info, maker, folder)
        made = produce(folder, book, script, missing, wanted)
    show_book(made, config, len({row.chapter for row in script}))
    return exit_code or int(bool(made.incomplete))


def unspoken(
    source: Source, config: RunConfig, info: ModelInfo, maker: Maker, folder: Folder
) -> set[str]:
    """Ids of the rows that have no audio as it is wanted now."""
    from tts_cli.core import BadRow
    from tts_cli.plan.plan import Plan

    config = replace(config, overwrite=False, retry_failed=False, only=(), takes=0)
    plan = Plan(source, config, info, folder, maker=maker)
    plan.survey()
    missing = {row.record_id if isinstance(row, BadRow) else row.id for row in plan}
    return missing | {order.record.id for order in plan.orders()}


def show_book(made: Produced, config: RunConfig, num_chapters: int) -> None:
    """Say what became of the chapters."""
    for reason in made.incomplete[:MAX_TOLD]:
        log.warning("not written: %s", reason)
    if len(made.incomplete) > MAX_TOLD:
        log.warning("not written: %d more chapters", len(made.incomplete) - MAX_TOLD)
    if config.json or config.verbosity < 0:
        return
    hours, rest = divmod(round(made.seconds), 3600)
    length = f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    show_or_warn(f"{len(made.made.chapters)} of {num_chapters} chapters, {length}, in {config.out}")
