"""`tts-cli validate`: everything `synth` checks, without a model in memory.

`synth --dry-run` shows the same through `inspect_manifest` and `show_summary`.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from tts_cli.commands.duration import shown_duration
from tts_cli.commands.options import (
    common_options,
    manifest_argument,
    model_options,
    output_options,
    reference_options,
    row_options,
    sampling_options,
)
from tts_cli.commands.sections import SectionedCommand
from tts_cli.config import RunConfig
from tts_cli.manifest.reader import open_source
from tts_cli.output.writer import shown_size
from tts_cli.run.survey import ManifestSummary, check_manifest, require_speakable

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.manifest.reader import Source

log = logging.getLogger(__name__)


@click.command("validate", cls=SectionedCommand)
@manifest_argument
@model_options
@row_options
@sampling_options
@reference_options
@output_options()
@common_options
def command(manifest: str, **options: Any) -> int:
    """Check a manifest without a model in memory.

    Reads every row of MANIFEST (JSONL, CSV, TSV, .txt, or - for JSONL on stdin) and reports bad
    rows, duplicate ids, voices and languages the checkpoint lacks, and estimates of audio and disk.
    The options are those of synth, so its command line can be tried here.
    """
    config = RunConfig.from_options(options)
    with open_source(manifest, config.manifest_format) as source:
        from tts_cli.run.model_source import read_info

        summary = inspect_manifest(source, config, read_info(config))
    show_summary(summary, is_json=config.json)
    return 2 if summary.bad_rows and not config.skip_invalid else 0


def inspect_manifest(source: Source, config: RunConfig, info: ModelInfo) -> ManifestSummary:
    """Check a manifest, the audio format and the disk; warnings and bad rows go to the log.

    Raises:
        ManifestError, UsageError, SetupError: nothing can be spoken as asked.
    """
    from tts_cli.output.audio_file import check_format
    from tts_cli.output.journal import JOURNAL_NAME
    from tts_cli.output.writer import check_space

    require_speakable(info)
    rate_hz = config.sample_rate or info.sample_rate_hz
    check_format(config.format, config.subtype, rate_hz)
    summary = check_manifest(source, config, info)
    level = logging.WARNING if config.skip_invalid else logging.ERROR
    for line in summary.bad_lines():
        log.log(level, "%s", line)
    for line in summary.warnings:
        log.warning("%s", line)
    # In a folder with a journal much may be done already, and the estimate would be too high.
    if config.out is not None and not (config.out / JOURNAL_NAME).exists():
        problem = check_space(config.out, summary.disk_bytes)
        if problem:
            log.warning("%s", problem)
    return summary


def show_summary(summary: ManifestSummary, is_json: bool = False) -> None:
    """Print a summary on stdout: JSON, a table on a terminal, or plain lines."""
    if is_json:
        click.echo(json.dumps(_as_dict(summary), indent=2))
        return
    lines = _lines(summary)
    if not sys.stdout.isatty():
        for name, value in lines:
            click.echo(f"{name}: {value}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, title=Text(summary.manifest))
    for name, value in lines:
        table.add_row(name, Text(value))
    Console().print(table)


def _lines(summary: ManifestSummary) -> list[tuple[str, str]]:
    lines = [
        ("rows", f"{summary.rows:,} good, {summary.bad_rows:,} bad"),
        ("selected", f"{summary.selected:,} rows, {summary.chars:,} characters"),
        ("audio", f"about {shown_duration(summary.audio_s)}"),
        ("disk", f"about {shown_size(summary.disk_bytes)}"),
    ]
    if summary.longest_chars:
        longest = f"{summary.longest_chars:,} characters, id {summary.longest_id}"
        lines.insert(2, ("longest text", longest))
    if summary.wordless:
        lines.append(("without a word", f"{summary.wordless:,} rows"))
    return lines


def _as_dict(summary: ManifestSummary) -> dict[str, Any]:
    bad = [{"line": row.line, "id": row.id, "message": row.message} for row in summary.bad]
    return {**vars(summary), "audio_s": round(summary.audio_s, 3), "bad": bad}
