"""One row at a time: what is accepted, what is refused, and what the message says."""

from __future__ import annotations

from typing import Any

import pytest
from cases import cases

from tts_cli.core import BadRow, Row
from tts_cli.sources.ids import ContentIds
from tts_cli.sources.row import build_row

CASES = cases(__file__)["row"]


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
        *CASES["bad_rows"],
        ({"text": None}, "has no text"),
        ({"text": "x" * 20_001}, "20001 characters; the maximum is 20000"),
        ({"text": "a\ud800b"}, "U+D800"),
        ({"text": "hi", "voice": "v" * 201}, "the maximum is 200"),
        ({"text": "hi", "seed": 2**53}, "seed: must be"),
        ({"text": "hi", "seed": 2**53}, "jq, pandas and browsers"),
        ({"text": "hi", "seed": 10**50}, "too many digits"),
        ({"text": "hi", "temperature": 10**400}, "too many digits"),
        ({"text": "hi", "temperature": float("inf")}, "not inf"),
        ({"text": "hi", "temperature": float("nan")}, "not nan"),
        ({"text": "hi", "top_k": 2**31}, "top_k"),
        ({"text": "hi", "ref_audio": "x" * 5000}, "the maximum is 4096"),
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


@pytest.mark.parametrize(("values", "mode"), CASES["clone_mode"])
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
        ("cells", "words"), [*CASES["bad_values"], ({"seed": "9" * 31}, "whole number")]
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
