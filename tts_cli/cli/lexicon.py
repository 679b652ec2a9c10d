"""`tts-cli lexicon`: show how texts will be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.options import SectionedCommand, common_options, help_of_group, settings
from tts_cli.cli.screen import echo_json, show_table
from tts_cli.config import RunConfig
from tts_cli.named import counted
from tts_cli.setting import Topic

if TYPE_CHECKING:
    from tts_cli.text.frontend import TextFrontend


@click.group("lexicon", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Show how words, numbers and abbreviations will be read.

    \b
    Example:
      tts-cli lexicon test --lexicon words.tsv "Dr. Nguyen" '$1,299.50' NASA
    """
    return help_of_group(ctx)


@command.command("test", cls=SectionedCommand)
@click.argument("words", metavar="WORD...", nargs=-1, required=True)
@settings(Topic.TEXT, Topic.MODEL)
@common_options
def test_command(words: tuple[str, ...], **options: Any) -> int:
    """Show how words or whole texts will be read, and why.

    \b
    Example:
      tts-cli lexicon test --lexicon words.tsv "Dr. Nguyen" '$1,299.50' NASA

    Each WORD is treated like the text of a row in `synth` with the same options. If it changes, the
    last column shows which line of the lexicon (words.tsv:12) or which rule changed it.
    """
    config = RunConfig.from_options(options)
    from tts_cli.app.lexicon import explain_words

    care, found = explain_words(words, config)
    if config.json:
        echo_json({"text": care.facts(), "words": found})
        return 0
    rows = [
        [entry["written"], entry["spoken"], ", ".join(entry["by"]) or "unchanged"]
        for entry in found
    ]
    show_table(_title(care), ["written", "read as", "by"], rows)
    return 0


def _title(care: TextFrontend) -> str:
    number = len(care.lexicon.entries)
    lexicon = (
        "no lexicon"
        if care.lexicon.path is None
        else f"lexicon of {counted(number, 'entry', 'entries')}"
    )
    language = "not normalized" if care.language is None else f"treated as {care.language}"
    state = "on" if care.is_normalized else "off"
    return f"{lexicon}; normalization is {state}; texts with language auto are {language}"
