"""The guide in plain English: short sentences, one order, all flags, and no notebook.

Commands and links of all pages are tried by `test_page_commands.py` and `test_page_links.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import prose
import pytest

from tts_cli.main import cli

GUIDE = Path(__file__).parents[2] / "samples" / "guide"
ROOT = GUIDE.parents[1]
PAGES = sorted(GUIDE.glob("*.md"))
TEXTS = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}
FRONT = {name: (ROOT / f"{name}.md").read_text("utf-8") for name in ("README", "CONTRIBUTING")}
REFERENCE = "fields"  # is looked up, not read
TASKS = sorted(set(TEXTS) - {"adding_a_model", REFERENCE})  # the first is for developers
ORDER = ["What you get", "Options", "What goes wrong", "Figures"]
MEAN_WORDS, MAX_WORDS, MAX_LINES = 15, 35, 120
OTHERS_FLAGS = {"--array", "--help", "--help-all"}  # of sbatch; of every command
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def all_flags(*, has_hidden: bool = True) -> Iterator[str]:
    """Long names of every option of every command.

    Args:
        has_hidden: options of earlier versions too, which no help shows.
    """
    waiting: list[click.Command] = [cli]
    while waiting:
        command = waiting.pop()
        for param in command.params:
            if isinstance(param, click.Option) and (has_hidden or not param.hidden):
                yield from (flag for flag in param.opts if flag.startswith("--"))
        if isinstance(command, click.Group):
            ctx = click.Context(cli, info_name="tts-cli", **cli.context_settings)
            found = (command.get_command(ctx, name) for name in command.list_commands(ctx))
            waiting += [one for one in found if one is not None]


FLAGS = set(all_flags())


@pytest.mark.parametrize("name", [*TEXTS, *FRONT])
def test_sentences_are_short(name: str) -> None:
    text = (TEXTS | FRONT)[name]
    assert prose.mean_words(text) <= MEAN_WORDS
    for sentence in prose.sentences(text):
        assert sentence.words <= MAX_WORDS, sentence.text


@pytest.mark.parametrize("name", [*TEXTS, *FRONT])
def test_a_page_is_short_and_no_notebook(name: str) -> None:
    text = (TEXTS | FRONT)[name]
    most = 150 if name == "README" else MAX_LINES
    assert name == REFERENCE or len(text.splitlines()) <= most
    assert not prose.DATE.findall(text)
    assert not prose.HASH.findall(text)


@pytest.mark.parametrize("name", TASKS)
def test_pages_have_one_order(name: str) -> None:
    """When it is needed, the shortest command, what comes of it, options, troubles, figures."""
    text = TEXTS[name]
    _title, need, command = re.split(r"\n\n", text, maxsplit=3)[:3]
    assert need[0].isalpha(), "when you need it"
    assert command.startswith(("    tts-cli ", "```python"))
    heads = [head for head in re.findall(r"^## (.*)$", text, re.MULTILINE) if head in ORDER]
    assert heads == [head for head in ORDER if head in heads]
    assert {"What you get", "What goes wrong"} <= set(heads)
    links = re.findall(r"\]\(\.\./evidence/", text)
    assert not ("Figures" in heads and not links), "figures have evidence"


@pytest.mark.parametrize("name", [*TEXTS, "README"])
def test_every_flag_named_exists(name: str) -> None:
    text = (TEXTS | FRONT)[name]
    lines = [line for line in text.splitlines() if not line.startswith("    python ")]
    assert set(FLAG.findall("\n".join(lines))) <= FLAGS | OTHERS_FLAGS


def test_every_flag_is_in_the_guide() -> None:
    named = set(FLAG.findall("\n".join(TEXTS.values())))
    assert sorted(set(all_flags(has_hidden=False)) - named) == []
    assert len(FLAGS) > 90


def test_sentences_are_counted() -> None:
    page = (
        "# Title. Ignored\n\nOne `a. B` two. Three\nfour! [Five six](x.md#y) seven, e.g. eight.\n"
        "- Nine. Ten\n  eleven.\n\n    code. Code\n\n| a | Twelve. 13 |\n|---|---|\n\n"
        '<!-- no: words -->\n```\nx. Y\n```\nAt 3.5 s (then. "Quoted." Last) it ends.'
    )
    found = prose.sentences(page)
    assert [sentence.words for sentence in found if not sentence.is_cell] == [
        *(3, 2, 5, 1, 2),
        *(4, 1, 3),
    ]
    assert [sentence.text for sentence in found if sentence.is_cell] == ["a", "Twelve.", "13"]
    assert prose.HASH.findall("de9c595 1234567 decade 2026-11-23") == ["de9c595"]
    assert prose.DATE.findall("on 2026-11-23, not 2026-11") == ["2026-11-23"]
