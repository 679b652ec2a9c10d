"""The one decoder of lines: ours as they were written, and those of anybody."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from properties import JSON, holds_for

from tts_cli.atomic import parse_line
from tts_cli.core import Finish, Kind, Remark, Role, Status
from tts_cli.store.entry import (
    FIELDS,
    MAX_PARTS,
    MAX_REMARKS,
    SCHEMA,
    CopiedLine,
    JournalEntry,
    user_entry,
)

PART = {"text_start": 0, "text_end": 3, "start_s": 0.0, "end_s": 1.5, "boundary": "clause"}
TAKE = JournalEntry(
    "sub/日本", Status.OK, 2, Role.HELD, request_hash="r", delivery_hash="d", bytes=9, frames=7,
    path="takes/sub/日本/2.wav", finish_reason=Finish.EOS, text='a "b"\n', extra={"n": [1, None]},
    remarks=[Remark(Kind.SILENCE, "near-silence for 3.1 s"), Remark(Kind.LEVEL, "level", 5.5)],
    parts=[PART], applied={"gain_db": 1.0}, source={"kind": "codes"}, audio_s=1.5, seed=2**53 - 1,
    level_dbfs=-20.0, silence_end_s=0.25, write_ms=1.5,
)  # fmt: skip
OK = {"id": "a", "status": "ok", "schema": SCHEMA, "request_hash": "h", "delivery_hash": "d"}
OLD = {**OK, "schema": 2}


def decoded(**values: Any) -> JournalEntry | None:
    return JournalEntry.decode(json.dumps(values).encode() + b"\n")


def known(**values: Any) -> JournalEntry:
    found = decoded(**{**OK, **values})
    assert found is not None
    return found


def test_a_line_comes_back_as_it_was_written() -> None:
    line = TAKE.to_line()
    assert JournalEntry.decode(line.encode()) == TAKE
    assert JournalEntry.of(json.loads(line)) == TAKE
    values = json.loads(line)
    assert tuple(values) == FIELDS
    assert values["suspect"] == TAKE.suspect == ["near-silence for 3.1 s", "level"]
    assert values["remarks"][0] == ["silence", "near-silence for 3.1 s", 2.0]


def test_ours_are_read_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume reads a million lines, also of the previous schema; the slow way takes ten times
    as long.
    """
    old = {**json.loads(TAKE.to_line()), "schema": 3}
    monkeypatch.setattr("tts_cli.store.entry.parse_line", lambda raw: None)
    assert JournalEntry.decode(TAKE.to_line().encode()) == TAKE
    assert decoded(**old) == TAKE


def test_the_fast_and_the_slow_way_agree() -> None:
    for values in (json.loads(TAKE.to_line()), OK, OLD, {**OK, "parts": [1]}, {**OK, "path": "/a"}):
        assert decoded(**values) == JournalEntry.of(values)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "../a"}, {"id": ""}, {"id": 5}, {"id": None}, {"id": "#7"}, {"id": "a" * 5000},
        {"id": "\ud800"}, {"status": "fine"}, {"status": ["ok"]}, {"status": None},
        {"take": -1}, {"take": None}, {"take": 1.5}, {"take": 2**60}, {"take": 10**400},
        {"role": "best"}, {"role": None}, {"schema": "2"}, {"schema": -1}, {"request_hash": None},
        {"request_hash": 5}, {"delivery_hash": None}, {"delivery_hash": 5},
    ],
    ids=str,
)  # fmt: skip
def test_which_row_and_take_it_is_nobody_guesses(changes: dict[str, Any]) -> None:
    assert decoded(**{**OK, **changes}) is None
    assert decoded(**{**OLD, **changes}) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\n", b"[]\n", b"5\n", b'"a"\n', b"{}\n", b"\xff\n", b"\0" * 99, b"[" * 100_000,
        b'{"id": "a", "status": "ok"', b'{"x": ' * 50_000, b'{"id": "\xff", "status": "ok"}\n',
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_line(raw: bytes) -> None:
    assert JournalEntry.decode(raw) is None


def test_the_last_of_two_fields_counts() -> None:
    line = replace(TAKE, id="a").to_line().encode()[:-2]
    found = JournalEntry.decode(line + b', "take": 5, "status": "failed"}\n')
    assert found is not None
    assert (found.take, found.status) == (5, Status.FAILED)
    assert JournalEntry.decode(line + b', "id": "../a"}\n') is None


@pytest.mark.parametrize("value", [True, -1, 1.5, 2**53, 10**400, "7", [], {}, None])
@pytest.mark.parametrize("name", ["bytes", "frames", "attempts", "seed", "text_chars", "worker"])
def test_whole_numbers_out_of_bounds_are_unknown(name: str, value: Any) -> None:
    assert getattr(known(**{name: value}), name) == getattr(JournalEntry("a", Status.OK), name)
    assert known(**{name: 2**53 - 1, "text": 5}) == replace(known(), **{name: 2**53 - 1})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "true", '"1"'])
@pytest.mark.parametrize("name", ["audio_s", "level_dbfs", "rtf", "write_ms"])
def test_fractions_that_are_none_are_unknown(name: str, text: str) -> None:
    raw = json.dumps({**OK, name: "?"}).replace('"?"', text).encode()
    found = JournalEntry.decode(raw)
    assert found is not None
    assert getattr(found, name) == getattr(JournalEntry("a", Status.OK), name)
    assert json.loads(found.to_line())


def test_fractions_out_of_bounds() -> None:
    assert (known(audio_s=2**32).audio_s, known(audio_s=-0.5).audio_s) == (0.0, 0.0)
    assert (known(audio_s=3).audio_s, known(level_dbfs=-1e300).level_dbfs) == (3.0, None)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.wav", "a.wav"), ("a b/c~2.wav", "a b/c~2.wav"), ("a//b.wav", "a/b.wav"),
        ("../a.wav", None), ("a/../b.wav", None), ("/a.wav", None), ("a\\b.wav", None),
        ("a\0.wav", None), ("", None), (".", None), (5, None), ("日本/é.wav", "日本/é.wav"),
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(path: Any, found: str | None) -> None:
    assert known(path=path).path == known(path=path, seed="x").path == found


def test_texts() -> None:
    """Half a pair of surrogates is no UTF-8, and other tools may write it."""
    assert known(text="\ud800 x").text == "\ud800 x"
    assert json.loads(known(text="\ud800 x").to_line())["text"] == "\ud800 x"
    assert (known(error=5).error, known(voice=["a"]).voice) == (None, None)
    assert known(text="x" * (1 << 20)).text == "x" * (1 << 20)


def test_unknown_words_are_unknown() -> None:
    assert known(finish_reason="tired").finish_reason is None
    assert known(finish_reason="stuck").is_runaway
    assert not known(finish_reason="eos").is_runaway
    assert known(origin="theirs", clone_mode="new").origin == "theirs"


@pytest.mark.parametrize(
    ("parts", "number"),
    [
        ([PART, PART], 2), (None, 0), ("abc", 0), ([PART] * MAX_PARTS, MAX_PARTS),
        ([PART] * (MAX_PARTS + 1), 0), ([PART, {**PART, "start_s": "soon"}], 0), ([1, 2], 0),
        ([PART, {**PART, "text_end": 1.5}], 0), ([PART, {"text_start": 0}], 0),
        ([{**PART, "end_s": -1}], 0),
    ],
    ids=range(10),
)  # fmt: skip
def test_parts_that_make_no_sense_are_none(parts: Any, number: int) -> None:
    found = known(parts=parts).parts
    assert len(found) == number
    assert all(part == PART for part in found)


def test_remarks_of_anybody() -> None:
    """Kinds of later versions are something else; weights and numbers have bounds."""
    told = [
        ["new", "x", 99],
        ["long", "y"],
        3,
        ["cut"],
        ["cut", 4],
        ["slow", "z", "1"],
        [["a"], "q"],
    ]
    found = known(remarks=told, suspect=["passed over"]).remarks
    assert found == [
        Remark(Kind.OTHER, "x", 10.0), Remark(Kind.LONG, "y"), Remark(Kind.SLOW, "z"),
        Remark(Kind.OTHER, "q"),
    ]  # fmt: skip
    assert len(known(remarks=[["long", "x", 2.0]] * 99).remarks) == MAX_REMARKS
    assert known(remarks="all").remarks == known(remarks=[["cut", "x", -1.0]] * 0).remarks == []
    assert known(remarks=[["cut", "x", -1.0]]).remarks == [Remark(Kind.CUT, "x", 1.0)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("12.3 s where about 4.5 s were expected", Kind.LONG),
        ("near-silence for 3.1 s", Kind.SILENCE),
        ("near-silence for 4.2 s at the end", Kind.SILENCE),
        ("part 2: near-silence for 3.1 s", Kind.SILENCE),
        ("one first code for 1.2 s", Kind.REPEATS),
        ("part 3: 1.61 times as fast as the other parts", Kind.FAST),
        ("level -21.4 dB instead of -20", Kind.LEVEL),
        ("noise floor -48 dB, over -60", Kind.NOISE_FLOOR),
        ("sounds like a goose", Kind.OTHER),
    ],
)
def test_sentences_of_schema_2(text: str, kind: Kind) -> None:
    found = decoded(**OLD, suspect=[text, 5])
    assert found == replace(known(), remarks=[Remark(kind, text)])


@pytest.mark.parametrize(
    "values",
    [
        {**OLD, "error": "the run ended while its file was replaced"},
        {**OLD, "error": "its line was torn by a crash"},
        {**OLD, "error": "the run died before this row was recorded"},
        {**OLD, "schema": 3, "error": "x", "unfinished": "replacing"},
        {**OLD, "schema": 3, "error": "x", "unfinished": "a later word"},
    ],
)
def test_rows_whose_run_died_are_tried_again(values: dict[str, Any]) -> None:
    """Earlier versions recorded them; where nothing was drawn, no row is tried again."""
    found = decoded(**{**values, "status": "failed"})
    assert found is not None
    assert (found.status, found.schema, found.attempts) == (Status.FAILED, SCHEMA, 1)
    assert not found.is_unsampled


def test_rows_that_schema_3_called_gone() -> None:
    """Takes of the row that were not its file are alternatives, ok or failed, as they were."""
    gone = {**OLD, "schema": 3, "status": "gone"}
    assert known(**gone).status is Status.REMOVED
    assert known(**gone, error="cut off").status is Status.REMOVED
    assert known(**gone, role="extra", take=2).status is Status.OK
    assert known(**gone, role="extra", take=2, error="cut off").status is Status.FAILED


def test_the_take_of_a_user() -> None:
    base = replace(TAKE, error=None, path="a.wav", sha256="old")
    made = user_entry(base, 7, (12, "new"), "takes/a/7.wav")
    assert (made.take, made.role, made.status, made.origin) == (7, Role.EXTRA, Status.OK, "user")
    assert (made.bytes, made.sha256, made.path) == (12, "new", "takes/a/7.wav")
    assert (made.delivery_hash, made.applied, made.text) == ("d", base.applied, base.text)
    other = user_entry(base, 7, (12, "new"), "takes/a/7.flac")
    assert (other.delivery_hash, other.applied, other.source) == ("", None, None)


def test_versions_that_were_never_published() -> None:
    joint, second = decoded(id="a", status="ok", request_hash="h"), {**OK, "suspect": ["x"]}
    del second["schema"]
    assert joint is not None
    assert (joint.schema, joint.is_early, joint.request_hash) == (0, True, "h")
    first = decoded(**second)
    assert first is not None
    assert (first.schema, first.is_early, first.suspect) == (1, True, ["x"])
    assert not known().is_early
    assert known(schema=9).schema == 9


def test_lines_that_are_copied_keep_what_is_not_ours() -> None:
    raw = json.dumps({"theirs": {"a": 1}, **OLD, "take": 1, "role": "own"}).encode()
    copied = CopiedLine.decode(raw)
    assert copied is not None
    line = copied.changed(role=Role.HELD).to_line()
    values = json.loads(line)
    assert values == {**values, **json.loads(raw), "role": "held", "schema": SCHEMA}
    assert tuple(values) == (*FIELDS, "theirs")
    assert CopiedLine.decode(b'{"id": "a"}') is None
    assert parse_line(b'{"x": NaN, "y": [1e999, 1.5]}') == {"x": None, "y": [None, 1.5]}


def test_numbers_are_rounded() -> None:
    values = json.loads(
        replace(TAKE, rtf=0.1234567, write_ms=1.23456, peak_dbfs=-3.00049).to_line()
    )
    assert (values["rtf"], values["write_ms"], values["peak_dbfs"]) == (0.123457, 1.235, -3.0)


@holds_for(st.dictionaries(st.sampled_from([*FIELDS, "theirs"]), JSON, max_size=6))
def test_any_values_at_all(changes: dict[str, Any]) -> None:
    """What is decoded can be written again, and is the same then."""
    for line in (OK, OLD):
        found = decoded(**{**line, **changes})
        if found is not None:
            again = JournalEntry.decode(found.to_line().encode())
            assert again is not None
            assert asdict(again).keys() == asdict(found).keys()
            assert json.loads(again.to_line()) == json.loads(found.to_line())


@holds_for(st.binary(max_size=300))
def test_any_bytes_at_all(raw: bytes) -> None:
    JournalEntry.decode(raw)
    JournalEntry.decode(TAKE.to_line().encode()[:-20] + raw)


def test_long_lines_take_no_longer_than_others() -> None:
    """By their length, that is."""
    for raw in (b'{"id": "a", "status": "ok", "x": "' + b"\\" * (1 << 20), b"[1," * (1 << 18)):
        started_s = time.perf_counter()
        assert JournalEntry.decode(raw) is None
        assert time.perf_counter() - started_s < 1


def test_what_listeners_ask() -> None:
    take = known(
        voice=".voices/ann-0123456789ab",
        text="Nr. 5 [pause 1 s]",
        audio_s=2.0,
        applied={"pad_start_s": 0.5, "trimmed_end_s": 0.2, "pad_end_s": "x"},
    )
    assert take.voice_name == "ann-0123456789ab"
    assert (take.said, take.letters) == (take.text, 3)
    assert (take.samples_s, take.shift_s) == pytest.approx((1.7, 0.5))
    faster = replace(take, applied={"trimmed_start_s": 0.5, "pad_start_s": 1.0, "speed": 2.0})
    assert (faster.samples_s, faster.shift_s) == pytest.approx((2.5, 0.75))
    assert replace(take, spoken_text="number five").letters == 10
