"""Markup that would be read aloud, and what people write that is none."""

from __future__ import annotations

import time

import pytest
from cases import cases

from models.fish_speech.family import PACE as FISH
from tts_cli.text.words import markup_in, strip_markup

CASES = cases(__file__)


def test_markup() -> None:
    for kind, texts in CASES["markup"].items():
        for text in texts:
            found = markup_in(text)
            assert kind in [markup.kind for markup in found], text
            assert all(str(markup).startswith(f"{markup.kind} (") for markup in found)


def test_no_markup() -> None:
    for text in CASES["no_markup"]:
        assert markup_in(text) == [], text


def test_tags_of_a_checkpoint_are_its_own() -> None:
    assert markup_in("[laughs] Stop. <|speaker:0|>", FISH) == []
    (found,) = markup_in("[laughs] **Stop**.", FISH)
    assert str(found).startswith("Markdown ('**Stop**.') would be read aloud; ")


def test_the_place_is_short_and_one_line() -> None:
    (found,) = markup_in("First\n<b>bold\nand more")
    assert (found.kind, found.place) == ("a tag", "'<b>bold'")
    (found,) = markup_in("<b>" + "x" * 500)
    assert found.place == f"{'<b>' + 'x' * 37!r}..."


def test_each_kind_is_told_with_its_remedy() -> None:
    tag, name = markup_in("{i}Hello{/i}, [player_name]!")
    assert str(tag).endswith("would be read aloud; remove it, or add --strip-markup")
    assert (name.kind, str(name).endswith("read aloud; remove it")) == ("a placeholder", True)


def test_style_is_taken_out_and_no_more() -> None:
    for text, stripped in CASES["stripped"].items():
        assert strip_markup(text) == stripped
        assert not any(markup.is_style for markup in markup_in(stripped)), text


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
    "[a_" * 6000,
    "[" + "a_" * 9000,
    "{a" * 9000,
    "<a b=" * 4000,
    "<aa" * 6000 + "</",
    "<bb>" * 5000,
    "(laughs" * 2500,
    "(ab cd" * 3000,
    "%(a" * 6000,
    "\\n" * 6000,
    "*sighs" * 3000,
    "_a" * 9000,
    "[a b=" * 4000,
    ":ab" * 6000,
    "<@" + "a|" * 9000,
    "$" + "a_" * 9000,
    "\\ab[1" * 4000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:6] for text in HOSTILE])
def test_no_text_takes_long(text: str) -> None:
    """At most some 50 ms; a pattern that backtracks takes seconds, or hours."""
    started_s = time.process_time()
    markup_in(text)
    strip_markup(text)
    assert time.process_time() - started_s < 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("He wrote [12] that.", "'[12]'"),
        ("They [sic] went.", "'[sic]'"),
        ("The tide [see page 4] is high.", "'[see page 4]'"),
        ("Cited [3, 4-6] here.", "'[3, 4-6]'"),
        ("[laugh] Well [in a low voice] then.", None),
    ],
)
def test_notes_in_brackets_that_a_model_takes_for_tags(text: str, shown: str | None) -> None:
    """For Fish Speech brackets are style tags; [12] of a real text was lost without a word."""
    found = [str(markup) for markup in markup_in(text, FISH)]
    assert bool(found) is (shown is not None)
    assert shown is None or (shown in found[0] and "parentheses" in found[0])
