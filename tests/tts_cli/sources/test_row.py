"""One row at a time: what is accepted, what is refused, and what the message says."""

from __future__ import annotations

from typing import Any

import pytest

from tts_cli.core import BadRow, Row
from tts_cli.sources.ids import ContentIds
from tts_cli.sources.row import build_row


def build(values: dict[str, Any], is_text: bool = False) -> Row | BadRow:
    return build_row(values, line=7, number=3, folder="/data", is_text=is_text)


def good(values: dict[str, Any], is_text: bool = False) -> Row:
    row = build({"text": "hi", **values}, is_text)
    assert isinstance(row, Row), row
    return row


def test_a_full_row() -> None:
    values = {
        "id": "a/b",
        "text": "Hello.",
        "voice": "clara",
        "language": "english",
        "instruct": "softly",
        "seed": 2**53 - 1,
        "temperature": 1,
        "top_k": 0,
        "top_p": 1.0,
        "repetition_penalty": 1.05,
        "greedy": False,
        "subtalker_temperature": 0.5,
        "subtalker_top_k": 10,
        "subtalker_top_p": 0.9,
        "subtalker_greedy": True,
        "max_frames": 100,
    }
    row = good(values)
    found = {**vars(row), **row.sampling}
    assert {name: found[name] for name in values} == values
    assert (row.line, row.number) == (7, 3)
    assert isinstance(row.sampling["temperature"], float)


@pytest.mark.parametrize(
    ("alias", "name"), [("speaker", "voice"), ("lang", "language"), ("instructions", "instruct")]
)
def test_aliases(alias: str, name: str) -> None:
    assert getattr(good({alias: "x"}), name) == "x"
    assert getattr(good({alias: "x", name: "x"}), name) == "x"


def test_null_and_empty_optional_fields_are_not_given() -> None:
    row = good({"voice": None, "instruct": "", "seed": None, "id": None, "ref_audio": ""})
    assert row.voice is row.instruct is row.seed is row.ref_audio is None
    assert row.id == "000003"


def test_signs_that_nobody_sees_are_no_part_of_a_text() -> None:
    """They went into the model, parted words for the lexicon, and made another id of the row."""
    row = good({"text": "\ufeffCo\u200bld mor\u00adning,\r\ncafe\u0301 12\u00a0500 می\u200cخ"})
    assert row.text == "Cold morning,\ncafé 12\u00a0500 می\u200cخ"
    row = good({"text": "a", "ref_audio": "a.wav", "ref_text": "o\ufb03ce\u200b"})
    assert row.ref_text == "office"
    assert good({"text": "x" * 20_000 + "\u00ad" * 9}).text == "x" * 20_000
    bad = build_row({"text": "a\u00adb", "seed": -1}, line=1, number=1, folder="")
    assert isinstance(bad, BadRow)
    assert bad.text == "ab"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "has no text"),
        ({"text": None}, "has no text"),
        ({"text": ""}, "blank"),
        ({"text": " \n\t "}, "blank"),
        ({"text": "\u200b\ufeff\u00a0"}, "blank"),
        ({"text": 5}, "must be text"),
        ({"text": ["a"]}, "not a list"),
        ({"text": {"a": 1}}, "not an object"),
        ({"text": True}, "must be text, not True"),
        ({"text": "x" * 20_001}, "20001 characters; the maximum is 20000"),
        ({"text": "a\x1b[2J"}, "U+001B at position 2"),
        ({"text": "a\x0bb"}, "U+000B"),
        ({"text": "a\x85b"}, "U+0085"),
        ({"text": "a\x7f"}, "U+007F"),
        ({"text": "a\ud800b"}, "U+D800"),
        ({"text": "hi", "txt": "x"}, "did you mean 'text'?"),
        ({"text": "hi", "Voice": "x"}, "did you mean 'voice'?"),
        ({"text": "hi", "": "x"}, "unknown field ''"),
        ({"text": "hi", "zzzz": "x"}, "known fields: id, text"),
        ({"text": "hi", "x\x1b[2J": 1}, "unknown field"),
        ({"text": "hi", "input": "ho"}, "'text' and 'input' with different values; give only one"),
        ({"text": "hi", "voice": "a", "speaker": "b"}, "different values"),
        ({"text": "hi", "id": 5.0}, "id: must be text, not 5.0; put it in quotes"),
        ({"text": "hi", "id": True}, "id: must be text, not True; put it in quotes"),
        ({"text": "hi", "id": ""}, "empty"),
        ({"text": "hi", "id": "../x"}, "could leave the output folder"),
        ({"text": "hi", "voice": 3}, "voice: must be text"),
        ({"text": "hi", "voice": "a\nb"}, "one line"),
        ({"text": "hi", "voice": " "}, "voice: is blank"),
        ({"text": "hi", "voice": "v" * 201}, "the maximum is 200"),
        ({"text": "hi", "seed": -1}, "seed: must be 0 to 9007199254740991, not -1"),
        ({"text": "hi", "seed": 2**53}, "seed: must be"),
        ({"text": "hi", "seed": 2**53}, "jq, pandas and browsers"),
        ({"text": "hi", "seed": 10**50}, "too many digits"),
        ({"text": "hi", "seed": 1.0}, "whole number"),
        ({"text": "hi", "seed": True}, "whole number, not True"),
        ({"text": "hi", "seed": "5"}, "whole number, not '5'"),
        ({"text": "hi", "temperature": 0}, "use greedy"),
        ({"text": "hi", "temperature": -0.5}, "temperature: must be"),
        ({"text": "hi", "temperature": 10**400}, "too many digits"),
        ({"text": "hi", "temperature": float("inf")}, "not inf"),
        ({"text": "hi", "temperature": float("nan")}, "not nan"),
        ({"text": "hi", "temperature": "0.5"}, "must be a number"),
        ({"text": "hi", "temperature": False}, "must be a number, not False"),
        ({"text": "hi", "top_p": 0}, "over 0 and at most 1"),
        ({"text": "hi", "top_p": 1.01}, "over 0 and at most 1"),
        ({"text": "hi", "top_k": -1}, "top_k: must be 0 to"),
        ({"text": "hi", "top_k": 2**31}, "top_k"),
        ({"text": "hi", "subtalker_top_p": 2}, "subtalker_top_p"),
        ({"text": "hi", "repetition_penalty": 0}, "repetition_penalty"),
        ({"text": "hi", "greedy": "yes"}, "true or false"),
        ({"text": "hi", "greedy": 1}, "true or false, not 1"),
        ({"text": "hi", "max_frames": 0}, "max_frames: must be 1 to"),
        ({"text": "hi", "max_seconds": 0}, "max_seconds: must be over 0"),
        ({"text": "hi", "max_frames": 5, "max_seconds": 1}, "give only one"),
        ({"text": "hi", "ref_text": "x"}, "ref_text without ref_audio"),
        ({"text": "hi", "clone_mode": "xvec"}, "clone_mode without ref_audio"),
        ({"text": "hi", "x_vector_only_mode": True}, "without ref_audio"),
        ({"text": "hi", "clone_mode": "ICL"}, "icl or xvec"),
        ({"text": "hi", "ref_audio": "a.wav", "clone_mode": "icl"}, "needs ref_text"),
        ({"text": "hi", "ref_audio": "a.wav", "x_vector_only_mode": False}, "needs ref_text"),
        (
            {"text": "hi", "ref_audio": "http://h/a.wav"},
            "is a URL; download the file and give its path",
        ),
        ({"text": "hi", "ref_audio": "file:///a.wav"}, "is a URL"),
        ({"text": "hi", "ref_audio": "data:audio/wav;base64,AA"}, "is a URL"),
        ({"text": "hi", "ref_audio": "x" * 5000}, "the maximum is 4096"),
        ({"text": "hi", "ref_audio": 5}, "must be text"),
        (
            {"text": "hi", "ref_audio": "a", "clone_mode": "xvec", "x_vector_only_mode": False},
            "contradict",
        ),
    ],
)
def test_bad_rows(values: dict[str, Any], words: str) -> None:
    row = build(values)
    assert isinstance(row, BadRow), row
    assert words in row.message
    assert len(row.message) < 500
    assert "\x1b" not in row.message


def test_a_bad_row_keeps_its_own_id() -> None:
    row = build({"zzz": 1, "id": "a", "text": ""})
    assert isinstance(row, BadRow)
    assert (row.id, row.record_id) == ("a", "a")


def test_a_bad_id_is_recorded_by_line() -> None:
    row = build({"id": "../a", "text": "hi"})
    assert isinstance(row, BadRow)
    assert (row.id, row.record_id) == (None, "#7")


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({}, "xvec"),
        ({"ref_text": "said"}, "icl"),
        ({"ref_text": "said", "clone_mode": "xvec"}, "xvec"),
        ({"ref_text": "said", "x_vector_only_mode": True}, "xvec"),
        ({"ref_text": "said", "x_vector_only_mode": False}, "icl"),
        ({"clone_mode": "xvec", "x_vector_only_mode": True}, "xvec"),
    ],
)
def test_clone_mode(values: dict[str, Any], mode: str) -> None:
    assert good({"ref_audio": "a.wav", **values}).clone_mode == mode


@pytest.mark.parametrize(
    ("path", "found"), [("a/b.wav", "/data/a/b.wav"), ("/x/b.wav", "/x/b.wav")]
)
def test_references_start_from_the_manifest(path: str, found: str) -> None:
    assert good({"ref_audio": path}).ref_audio == found


class TestCells:
    """Rows of a table, where everything is text."""

    def test_values(self) -> None:
        cells = {"id": " a ", "seed": " 12 ", "temperature": "5e-1", "greedy": "TRUE", "top_k": ""}
        row = good(cells, is_text=True)
        assert (row.id, row.seed) == ("a", 12)
        assert row.sampling == {"temperature": 0.5, "greedy": True}

    @pytest.mark.parametrize(
        ("cells", "words"),
        [
            ({"seed": "1_000"}, "whole number, not '1_000'"),
            ({"seed": "٣"}, "whole number"),
            ({"seed": "5.0"}, "whole number"),
            ({"seed": "9" * 31}, "whole number"),
            ({"temperature": "warm"}, "must be a number"),
            ({"temperature": "1e999"}, "not inf"),
            ({"temperature": "0x1p3"}, "must be a number"),
            ({"greedy": "maybe"}, "true or false"),
            ({"text": ""}, "has no text"),
            ({"text": "  "}, "blank"),
        ],
    )
    def test_bad_values(self, cells: dict[str, str], words: str) -> None:
        row = build({"text": "hi", **cells}, is_text=True)
        assert isinstance(row, BadRow)
        assert words in row.message


def test_markup_is_taken_out_before_ids_are_made() -> None:
    """An engine's `{i}` was read aloud, and made another row of a line."""

    def stripped(text: str) -> Row | BadRow:
        ids = ContentIds()
        return build_row(
            {"text": text}, line=1, number=1, folder="", content_ids=ids, strips_markup=True
        )

    tagged, plain = stripped("{i}Really?{/i} No, [name]."), stripped("Really? No, [name].")
    assert tagged == plain
    assert isinstance(tagged, Row)
    assert tagged.text == "Really? No, [name]."
    empty = stripped("<i> </i>")
    assert isinstance(empty, BadRow)
    assert empty.message == "text: is blank without its markup"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#NAME?", "text: is '#NAME?', by which programs mean no value; leave the cell empty or"),
        (" nan ", "text: is 'nan', by which"),
        ("NULL", "text: is 'NULL', by which"),
        ('=CONCAT(A1,"x")', "text: is a formula; save the table with its results"),
        ("null", None),
        ("None", None),
        ("= 5 (about)", None),
        ("Nan said so.", None),
    ],
)
def test_cells_that_programs_fill(text: str, problem: str | None) -> None:
    """They were read aloud."""
    row = build_row({"text": text, "voice": "nan"}, line=1, number=1, folder="", is_text=True)
    if problem is None:
        assert isinstance(row, Row)
        assert row.voice is None
    else:
        assert isinstance(row, BadRow)
        assert row.message.startswith(problem)
    assert isinstance(build_row({"text": text}, line=1, number=1, folder=""), Row)
