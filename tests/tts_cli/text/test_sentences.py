"""Where sentences end, in ten languages, by a table of hard cases."""

from __future__ import annotations

from cases import lines_of

from models.fish_speech.family import PACE
from tts_cli.text.boundaries import Boundary, sentence_cuts
from tts_cli.text.split import Part, sentences

CASES = lines_of(__file__, "hard_sentences.txt")
WITHOUT_SPACES = ("zh", "ja")


def pieces(marked: str) -> list[str]:
    """A case's sentences; the bars of `<|speaker:0|>` are not between sentences."""
    marked = marked.replace("<|", "<\0").replace("|>", "\0>")
    return [piece.replace("\0", "|") for piece in marked.split("|")]


def texts(text: str) -> list[str]:
    return [text[part.start : part.end] for part in sentences(text, markup=PACE.markup)]


def test_hard_cases() -> None:
    for language, marked in CASES:
        wanted = pieces(marked)
        text = ("" if language in WITHOUT_SPACES else " ").join(wanted)
        assert texts(text) == wanted


def test_the_table_covers_the_languages() -> None:
    languages = {language for language, _ in CASES}
    assert languages == {"en", "de", "fr", "es", "pt", "it", "ru", "zh", "ja", "ko"}
    assert len(CASES) > 100


def test_a_blank_line_ends_a_paragraph_whatever_stands_before_it() -> None:
    cuts = list(sentence_cuts("A heading\n \nText goes on\nin the next line.", {}))
    assert [(cut.place, cut.boundary) for cut in cuts] == [(9, Boundary.PARAGRAPH)]


def test_lines_of_a_list_are_sentences() -> None:
    text = "To buy:\n- milk from the shop\n- bread\n2) eggs"
    cuts = [cut for cut in sentence_cuts(text, {}) if cut.boundary is Boundary.SENTENCE]
    assert [text[cut.place :].split()[0] for cut in cuts] == ["-", "-", "2)"]


def test_what_may_be_a_sentence_is_offered_as_a_clause() -> None:
    cuts = list(sentence_cuts("i went home. then i slept", {}))
    assert [(cut.boundary, cut.is_weak) for cut in cuts] == [(Boundary.CLAUSE, True)]


def test_sentences_tell_where_paragraphs_end() -> None:
    assert sentences(" One. Two.\n\nThree. ") == [
        Part(1, 5, Boundary.SENTENCE),
        Part(6, 10, Boundary.PARAGRAPH),
        Part(12, 18, None),
    ]
    assert sentences(" \n ") == []
