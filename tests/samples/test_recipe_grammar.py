"""Recipe: sentences drawn from a grammar, with words from a small WordNet."""

from __future__ import annotations

import random

import pytest


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (19, "nineteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (100, "one hundred"),
        (215, "two hundred and fifteen"),
        (3000, "three thousand"),
        (70_612, "seventy thousand six hundred and twelve"),
    ],
)
def test_number_words(recipe, number, words):
    assert recipe("grammar").number_words(number) == words


@pytest.fixture
def words(recipe, tmp_path):
    """Eight words of WordNet; `xyzzy` is not in the dictionary, `write` is irregular."""
    lines = ["boat%1:06:00:: 1 50", "owl%1:05:00:: 1 3", "xyzzy%1:05:00:: 1 9"]
    lines += ["move%2:38:00:: 1 80", "write%2:36:00:: 1 70"]
    lines += ["old%3:00:01:: 1 9", "grey%5:00:00:pale:00 1 2", "slowly%4:02:00:: 1 4"]
    (tmp_path / "cntlist.rev").write_text("\n".join(lines) + "\n")
    (tmp_path / "verb.exc").write_text("wrote write\nwritten write\n")
    known = (
        "boat owl boats owls move moves moving moved write writes writing writed old grey slowly"
    )
    return recipe("grammar").Words(tmp_path, set(known.split()))


def test_words_come_in_known_forms(words):
    assert words.forms["noun"] == ["boat", "owl"]
    assert words.forms["adj"] == ["old", "grey"]
    assert words.forms["verbed"] == ["moved"]
    assert words.forms["verbing"] == ["moving", "writing"]
    random.seed(0)
    drawn = [words.draw("noun") for _ in range(2000)]
    assert 1000 < drawn.count("boat") < 1100  # the commoner one a little more often


def test_sentences_follow_the_rules(recipe, words, tmp_path):
    path = tmp_path / "g.txt"
    path.write_text(
        "# a comment\n9 S: a {noun} {verbs}. | {initial}. {NAME}\n"
        'S: "{d:3-4} {w:21-21}\nS: {n:5-6}, {digits:2-2}\nNAME: King\n'
    )
    grammar = recipe("grammar").Grammar(path, words)
    assert len(grammar.rules["S"]) == 9 * 2 + 2
    random.seed(1)
    drawn = {grammar.draw() for _ in range(400)}
    assert "A boat moves." in drawn
    assert "An owl writes." in drawn
    assert {text for text in drawn if text[0] == '"'} == {'"3 twenty one', '"4 twenty one'}
    assert any(text.endswith(". King") for text in drawn)
    assert {text.split(",")[0] for text in drawn if "," in text} <= {"5", "6", "Five", "Six"}


def test_the_shipped_grammar_knows_all_its_symbols(recipe, voice_folder):
    module = recipe("grammar")

    class AnyWord:
        def draw(self, form: str) -> str:
            assert form in {"noun", "nouns", "verb", "verbs", "verbing", "verbed", "adj", "adv"}
            return form

    grammar = module.Grammar(voice_folder / "recipe" / "grammar.txt", AnyWord())
    random.seed(0)
    drawn = [grammar.draw() for _ in range(3000)]
    assert not any("{" in text or "}" in text or "|" in text for text in drawn)
    assert len(set(drawn)) > 2000
