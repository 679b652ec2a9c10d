"""Markup that would be read aloud, and what people write that is none."""

from __future__ import annotations

import time

import pytest

from models.fish_speech.info import PACE as FISH
from tts_cli.manifest.markup import markup_in

MARKUP = {
    "a tag": [
        'Wait. <break time="500ms"/> Go on.',
        "<speak>Hello.</speak>",
        "Hello.<br>Again.",
        "It is <b>bold</b>.",
        "<PROSODY rate='slow'>Slow.",
        '<say-as interpret-as="date">1/2</say-as>',
        '<mstts:express-as style="sad">Oh.',
        "One <|im_end|> two.",
        "Text <!-- a note -->.",
    ],
    "a stage direction": ["Well [pause] no.", "[Pause 2s] Now.", "[laughs] Stop it!", "[sigh]"],
    "a Markdown link": ["See [the page](page.html)."],
    "a web address": ["Go to https://example.com/x.", "www.example.com has it.", "ftp://a.b"],
    "an e-mail address": ["Write to anna.b@mail.example.org today."],
    "Markdown": [
        "This is **important**.",
        "这是**重点**内容。",
        "Also __this__ one.",
        "Type `ls -l` here.",
        "```\ncode\n```",
    ],
    "a Markdown heading": ["# Chapter one", "First.\n\n## Second"],
    "an HTML entity": ["Tom &amp; Jerry", "It&#39;s late", "a&nbsp;b", "&#x27;"],
}
NONE = [
    "a < b and c > d",
    "if x<s and y>2 then",
    "I <3 you, at <place>.",
    "5 * 3 * 2, 2**8 and 3**2",
    "the password is ab**cd**ef",
    "*** The end ***",
    "** * **",
    "AT&T, R&B; P&L;",
    "snake_case and __",
    "fill in ____ and ____",
    "#1 in line, # 5 of them, C# is",
    "a hash # in a line",
    "[sic] and [1] and [Paused]",
    "He said ``so''.",
    "rock 'n' roll `til dawn",
    "@anna at 5:30, ratio 3:2",
    "user@host and www",
    "e.g. p. 5",
    "- a list",
    "Anything else?",
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in MARKUP.items() for text in texts]
)
def test_markup(kind: str, text: str) -> None:
    found = markup_in(text)
    assert found is not None
    assert found.startswith(f"{kind} (")


@pytest.mark.parametrize("text", NONE)
def test_no_markup(text: str) -> None:
    assert markup_in(text) is None


def test_tags_of_a_checkpoint_are_its_own() -> None:
    assert markup_in("[laughs] Stop. <|speaker:0|>", FISH) is None
    assert markup_in("[laughs] **Stop**.", FISH) == "Markdown ('**Stop**.')"


def test_the_place_is_short_and_one_line() -> None:
    assert markup_in("First\n<b>bold\nand more") == "a tag ('<b>bold')"
    assert markup_in("<b>" + "x" * 500) == f"a tag ({'<b>' + 'x' * 37!r}...)"


HOSTILE = [
    "<b a=" * 4000,
    "<b " + " " * 19_000,
    "<|" * 10_000,
    ("<|" + "a" * 79) * 240,
    "[" * 20_000,
    "[pause" * 3000,
    "[a](" * 5000,
    "*" * 20_000,
    "**a" * 6000,
    "_" * 20_000,
    "__a" * 6000,
    "`a " * 6000,
    "a" * 19_999 + "@",
    "a.b@c-" * 3000,
    "# " * 9000,
    "&#" * 10_000,
    "www." * 5000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:6] for text in HOSTILE])
def test_no_text_takes_long(text: str) -> None:
    """At most some 50 ms; a pattern that backtracks takes seconds, or hours."""
    started_s = time.process_time()
    markup_in(text)
    assert time.process_time() - started_s < 1
