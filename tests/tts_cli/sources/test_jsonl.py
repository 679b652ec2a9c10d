"""Arrays of JSON: read object by object, judged like lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from cases import cases

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError
from tts_cli.sources import jsonl
from tts_cli.sources.item import ManifestFile
from tts_cli.sources.mapping import ColumnMapping
from tts_cli.sources.open import read_rows

CASES = cases(__file__)["jsonl"]

MakeSource = Callable[..., ManifestFile]
ROWS = [{"id": f"r{number}", "text": f"Zeile {number}, größer"} for number in range(5000)]


@pytest.mark.parametrize("name", ["m.json", "m.jsonl"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii", [True, False])
def test_arrays(make_source: MakeSource, name: str, indent: int | None, ascii: bool) -> None:
    content = json.dumps(ROWS, indent=indent, ensure_ascii=ascii)
    rows = list(read_rows(make_source("\ufeff \n" + content + "\n", name)))
    assert [(row.id, row.number) for row in rows] == [(f"r{n}", n + 1) for n in range(5000)]
    assert all(isinstance(row, Row) for row in rows)
    per_row = 4 if indent else 0
    assert [row.line for row in rows[:3]] == [
        2 + (n * per_row + 1 if indent else 0) for n in range(3)
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        *CASES["a_bad_row_does_not_stop_the_rest"],
        ('{"text": "a", "seed": ' + "9" * 100 + "}", "too many digits"),
    ],
)
def test_a_bad_row_does_not_stop_the_rest(make_source: MakeSource, row: str, words: str) -> None:
    content = '[{"text": "before"},\n' + row + ',\n{"text": "after"}]'
    before, bad, after = read_rows(make_source(content, "m.json"))
    assert isinstance(bad, BadRow)
    assert (bad.line, after.line) == (2, 3)
    assert words in bad.message
    assert isinstance(before, Row)
    assert isinstance(after, Row)


@pytest.mark.parametrize(
    ("content", "words"), [*CASES["what_is_no_array"], ("[" * 100_000, "nested too deep")]
)
def test_what_is_no_array(make_source: MakeSource, content: str, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        list(read_rows(make_source(content, "m.json")))
    assert words in str(caught.value)


def test_bytes_that_are_not_utf8(make_source: MakeSource) -> None:
    with pytest.raises(ManifestError, match=r"m\.json:2: not JSON: byte 0xe9 is not UTF-8"):
        list(read_rows(make_source(b'[{"text": "a"},\n{"text": "caf\xe9"}]', "m.json")))


def test_a_document_is_bounded(make_source: MakeSource, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_source(json.dumps([{"text": "x" * 1000}] * 10), "m.json")
    assert sum(isinstance(row, Row) for row in read_rows(source)) == 10
    monkeypatch.setattr(jsonl, "MAX_DOCUMENT_CHARS", 5000)
    with pytest.raises(ManifestError, match="Mi characters; write one object per line"):
        list(read_rows(source))


TABLE = {"lamp/lit": "It is lit.", "menu": {"quit": "Quit?", "a b": "Save."}, "@lamp": {"x": "y"}}
TABLE_ROWS = [("lamp/lit", "It is lit.", 2), ("menu/quit", "Quit?", 4), ("menu/a_b", "Save.", 5)]
TWO = [("a", "One.", 3), ("b", "Two.", 7)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps(TABLE, indent=1), TABLE_ROWS),
        (
            '{\n "lines": [\n  {"id": "a", "text": "One."},\n\n\n\n  {"id": "b", "text": "Two."}]}',
            TWO,
        ),
        ('{"rows": [{"text": "One."}]}', [("000001", "One.", 1)]),
        ('{\n "id": "a",\n "text": "One."\n}\n', [("a", "One.", 1)]),
        (
            '{\n "text": "One."\n}\n{\n "text": "Two."\n}',
            [("000001", "One.", 1), ("000002", "Two.", 4)],
        ),
        (
            '{\n "a": {"text": "One."},\n "b": {"id": "c", "text": "Two."}\n}',
            [("a", "One.", 2), ("c", "Two.", 3)],
        ),
        # A table whose keys may be names of fields, and lists in it
        (
            '{\n "language": "L.",\n "ok": "O.",\n "days": ["M.", "T."]\n}',
            [("language", "L.", 2), ("ok", "O.", 3), ("days/1", "M.", 4), ("days/2", "T.", 4)],
        ),
        (
            '{\n "data": {"lines": [{"text": "One."}, {"text": "Two."}]}\n}',
            [("data/lines/1", "One.", 2), ("data/lines/2", "Two.", 2)],
        ),
        # Of several lists, all with texts; the null of RPG Maker
        (
            '{\n "meta": [{"k": 1}],\n "a": [null, {"text": "A."}],\n "b": [{"text": "B."}]\n}',
            [("000001", "A.", 3), ("000002", "B.", 4)],
        ),
        ('["One.", "Two."]', [("000001", "One.", 1), ("000002", "Two.", 1)]),
        # Ids that are numbers; of several lists, the one that may have texts
        ('[{"id": 1, "text": "One."}]', [("1", "One.", 1)]),
        # A transcript: the whole text, and its segments
        (
            '{\n "text": "One. Two.",\n "segments": [{"text": "One."}, {"text": "Two."}]\n}',
            [("000001", "One.", 3), ("000002", "Two.", 3)],
        ),
    ],
)
def test_objects_over_several_lines(
    make_source: MakeSource, content: str, expected: list[tuple[str, str, int]]
) -> None:
    rows = list(read_rows(make_source(content, "m.json")))
    assert [(row.id, row.text, row.line) for row in rows if isinstance(row, Row)] == expected
    assert len(rows) == len(expected)


def test_a_line_that_is_cut_off_is_one_bad_row(make_source: MakeSource) -> None:
    bad, good = read_rows(make_source('{"id": "a",\n{"id": "b", "text": "Two."}\n'))
    assert isinstance(bad, BadRow)
    assert isinstance(good, Row)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{\n "a": "One.",\n "a": "Two."\n}', "m.json: has 'a' twice"),
        ("{\n 'a': 'One.'\n}", "m.json:2: not JSON: Expecting property name"),
        ('{\n "a": "Gr\udcfc\udcdfe"\n}', "m.json:2: not JSON: byte 0xfc is not UTF-8"),
    ],
)
def test_a_broken_object_over_lines_is_one_error(
    make_source: MakeSource, content: str, words: str
) -> None:
    with pytest.raises(ManifestError, match=re.escape(words)):
        list(read_rows(make_source(content.encode(errors="surrogateescape"), "m.json")))


def test_strings_with_comments_are_rows_with_unknown_fields(make_source: MakeSource) -> None:
    entry = {"message": "Hello.", "description": "greeting"}
    rows = list(read_rows(make_source(json.dumps({"a": entry, "b": entry}, indent=1), "m.json")))
    assert [row.id for row in rows] == ["a", "b"]
    assert all(isinstance(row, BadRow) and '--map "message=text"' in row.message for row in rows)


def test_a_comma_after_an_object(make_source: MakeSource) -> None:
    bad, _ = read_rows(make_source('{"text": "One."},\n{"text": "Two."}\n'))
    assert isinstance(bad, BadRow)
    assert bad.message.endswith("remove the comma after the object")


def test_a_row_without_a_text_names_what_may_be_one(make_source: MakeSource) -> None:
    """The messages of a chat, not its participants; and rows of RPG Maker."""
    chat = {"participants": [{"name": "Anna"}], "messages": [{"sender": "A", "content": "Hi."}]}
    for content, words in (
        (chat, 'name its text with --map "content=text"'),
        ([{"name": "Key", "effects": []}], 'name its text with --map "KEY=text"'),
    ):
        source = make_source(json.dumps(content), "m.json")
        object.__setattr__(source, "columns", ColumnMapping({}, "keep"))
        (bad,) = read_rows(source)
        assert isinstance(bad, BadRow)
        assert bad.message == f"has no text; {words}"
    answer = {
        "status": "COMPLETED",
        "results": {"items": [{"id": 0}], "lines": [{"transcript": "Hi."}]},
    }
    (bad,) = read_rows(make_source(json.dumps(answer), "m.json"))
    assert isinstance(bad, BadRow), "the status of a service's answer was a row"
    assert "transcript=text" in bad.message
    events = [None, {"id": 1, "pages": [{"list": [{"code": 401, "parameters": ["Hi."]}]}]}]
    (bad,) = read_rows(make_source(json.dumps({"events": events}), "Map001.json"))
    assert isinstance(bad, BadRow)
    assert "RPG Maker has its texts deeper inside: jq -c" in bad.message


def test_a_list_is_not_offered_as_the_text(make_source: MakeSource) -> None:
    (bad,) = read_rows(make_source('[{"title": "One", "lines": [{"text": "Hi."}]}]', "m.json"))
    assert isinstance(bad, BadRow)
    assert "lines=text" not in bad.message


def test_two_objects_in_a_line(make_source: MakeSource) -> None:
    (bad,) = read_rows(make_source('{"text": "One."} {"text": "Two."}\n'))
    assert isinstance(bad, BadRow)
    assert bad.message.endswith("write one object per line")


def test_the_words_of_a_transcript_are_not_read_besides_its_sentences(
    make_source: MakeSource,
) -> None:
    # All of it was read twice, the first time word by word.
    words = [{"text": word} for word in ("Mind", "the", "step.", "No.")]
    parts = {"utterances": [{"text": "Mind the step."}, {"text": "No."}], "notes": [{"text": "A."}]}
    rows = list(read_rows(make_source(json.dumps({"words": words, **parts}), "m.json")))
    assert [row.text for row in rows] == ["Mind the step.", "No.", "A."]
