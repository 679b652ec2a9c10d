"""Single rows become what the plan of a manifest makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from hostile_audio import encoded, tone

from models.base import ModelInfo
from models.pace import Pace
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row, Task
from tts_cli.errors import SetupError, UsageError
from tts_cli.plan.plan import Plan
from tts_cli.plan.resolve import Resolver
from tts_cli.plan.room import Needs
from tts_cli.sources.item import ManifestFile

CASES = cases(__file__)["row_maker"]

MakeInfo = Callable[..., ModelInfo]
MakeSource = Callable[..., ManifestFile]

PACE = Pace(letter=0.5, longest_chars=60)
SENTENCES = "The boat left after five that day. Nobody of them spoke at all. It rained."
ROWS: list[dict[str, Any]] = [
    {"text": "Hello there."},
    {"id": "own", "text": "Hello.", "seed": 7, "top_k": 3, "max_frames": 9, "language": "fr"},
    {"text": "3 people", "voice": "CLARA"},
    {"text": SENTENCES, "voice": "clara"},
    {"text": SENTENCES, "max_seconds": 5},
    {"text": "One [pause 300ms] two", "instruct": "softly"},
    {"text": "..."},
    {"text": "[pause 2s]"},
    {"input": "By another name", "speaker": "arthur", "greedy": True},
    {"text": "Hello", "character": "Anna"},
    {"text": "Hello", "character": "clara"},
    {"text": "x", "speed": 2},
    {"text": "x", "voice": "clarra"},
    {"text": "x", "character": "Nobody"},
    {"text": "x" * 25_000},
    {"text": "x" * 3000, "max_frames": 4000},
    {"text": "x", "id": "../x"},
    {"text": "x", "temperature": 0},
    {},
]


def shape(task: Task | BadRow) -> object:
    """What a row becomes, but for hashes, which only folders need, and for where it stood."""
    if isinstance(task, BadRow):
        return (task.id, task.message, task.text)
    row = (task.row.text, task.row.character, dict(task.row.extra or {}))
    return (task.id, task.request, task.need, task.pieces, task.most_frames, row)


def config_in(folder: Path, **settings: Any) -> RunConfig:
    (folder / "cast.toml").write_text('[Anna]\nvoice = "arthur"\n')
    return RunConfig(cast=folder / "cast.toml", normalize="english", skip_invalid=True, **settings)


@pytest.mark.parametrize("settings", [{}, {"split": "off"}, {"wordless": "fail", "seed": 3}])
def test_as_the_plan_makes_them(
    make_info: MakeInfo, make_source: MakeSource, tmp_path: Path, settings: dict[str, Any]
) -> None:
    info = make_info(pace=PACE, takes_instruct=True)
    config = config_in(tmp_path, **settings)
    source = make_source("".join(json.dumps(row) + "\n" for row in ROWS))
    plan = Plan(source, config, info)
    plan.read()
    maker, needs = Resolver(config, info), Needs()
    made = [maker.make(row, number) for number, row in enumerate(ROWS, 1)]
    assert [shape(row) for row in made] == [shape(row) for row in plan]
    good = [row for row in made if isinstance(row, Task)]
    assert len(good) >= 8
    for row in good:
        if not row.is_silent:
            needs = needs.joined(Needs.of([row], maker.info))
    assert needs == replace(plan.needs, rows=0)


def test_recordings_as_the_plan_takes_them(
    make_info: MakeInfo, make_source: MakeSource, tmp_path: Path
) -> None:
    info = make_info(type="base", voices=(), needs_reference=True, can_clone=True, pace=PACE)
    audio = tmp_path / "a.wav"
    audio.write_bytes(encoded(tone(1.2)))
    cloned = {"ref_audio": str(audio), "ref_text": "What is said."}
    rows = [
        {"text": "Hello.", **cloned},
        {"text": SENTENCES, **cloned, "clone_mode": "xvec"},
        {"text": "Hello."},
        {"text": "Hello.", "ref_audio": str(tmp_path / "no.wav")},
        {"text": "Hello.", "voice": "nobody"},
    ]
    config = RunConfig(voice_dir=tmp_path / "voices", skip_invalid=True)
    source = make_source("".join(json.dumps(row) + "\n" for row in rows))
    plan = Plan(source, config, info)
    plan.read()
    maker = Resolver(config, info)
    made = [maker.make(row, number) for number, row in enumerate(rows, 1)]
    assert [shape(row) for row in made] == [shape(row) for row in plan]
    assert [isinstance(row, Task) for row in made] == [True, True, False, False, False]
    by_path = maker.make({**rows[0], "ref_audio": audio}, 1)
    assert shape(by_path) == shape(made[0])


def test_forms_of_a_row(make_info: MakeInfo) -> None:
    info = make_info()
    maker = Resolver(RunConfig(), info)
    given: list[Any] = [
        {"id": "a", "text": "Hello.", "voice": "clara", "top_k": 3, "seed": 1},
        Row(5, 6, "a", "Hello.", voice="clara", sampling={"top_k": 3}, seed=1, file="m.jsonl"),
    ]
    first, second = (maker.make(row, 1) for row in given)
    assert shape(first) == shape(second)
    assert shape(maker.make("Hello.", 2)) == shape(maker.make({"text": "Hello."}, 2))
    for strange in (
        None,
        5,
        b"Hello.",
        ["Hello."],
        {"text": 5},
        {b"text": "x"},
        Row(1, 1, "", "x"),
    ):
        assert isinstance(maker.make(strange, 3), BadRow), strange  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({}, 'has no voice; write "Ann".voice = "arthur" into a file for --cast, or leave'),
        (
            {"voices": (), "can_clone": True, "needs_reference": True},
            "make it a voice file, tts-cli voices add Ann --model base --ref-audio FILE, or write "
            '"Ann".ref_audio = "FILE" into a file for --cast',
        ),
        ({"voices": ()}, 'write "Ann".instruct = "DESCRIPTION" into a file for --cast'),
    ],
)
def test_how_a_character_gets_a_voice(
    make_info: MakeInfo, changes: dict[str, Any], remedy: str
) -> None:
    row = {"text": "x", "character": "Ann"}
    found = Resolver(RunConfig(model="base"), make_info(**changes)).make(row, 1)
    assert isinstance(found, BadRow)
    assert remedy in found.message


def test_what_is_told_of_a_character_is_a_cast(make_info: MakeInfo, tmp_path: Path) -> None:
    cast, row = tmp_path / "cast.toml", {"text": "x", "character": 'Old "Tom" \\ Ümit \u202e'}
    found = Resolver(RunConfig(), make_info()).make(row, 1)
    assert isinstance(found, BadRow)
    assert found.message.isprintable()
    cast.write_text(found.message.partition("write ")[2].partition(" into a file")[0], "utf-8")
    task = Resolver(RunConfig(cast=cast), make_info()).make(row, 1)
    assert isinstance(task, Task)
    assert task.request.voice == "arthur"


def test_fields_that_are_none_may_be_kept(make_info: MakeInfo) -> None:
    info, config = make_info(), RunConfig(extra="keep", map="Line=text")
    row = Resolver(config, info).make({"Line": "Hello.", "mood": "glad"}, 1)
    assert isinstance(row, Task)
    assert (row.request.text, row.row.extra) == ("Hello.", {"mood": "glad"})


@pytest.mark.parametrize(
    ("fields", "info", "said"),
    [
        *CASES["warnings"],
        ({"text": "a [pause 1s] b"}, {"voices": ()}, ["its pauses are left out"]),
        ({"text": "Привет, мир"}, {"languages": ("auto", "english")}, ["is in letters that"]),
        (
            {"text": "Part 1/2/3.", "language": "english"},
            {"normalizes": True, "languages": ("auto", "english")},
            ["'1/2/3' is not understood and left as written; add it to a --lexicon"],
        ),
        ({"text": SENTENCES}, {}, []),
        (
            {"text": SENTENCES},
            {"voices": ()},
            ["is longer than the 60 characters or so that this checkpoint synthesizes well"],
        ),
    ],
)
def test_warnings(
    make_info: MakeInfo, fields: dict[str, Any], info: dict[str, Any], said: list[str]
) -> None:
    known = make_info(pace=PACE, **info)
    row = Resolver(RunConfig(), known).make(fields, 1)
    assert isinstance(row, Task)
    found = row.notes
    assert len(found) == len(said), found
    for warning, words in zip(found, said, strict=True):
        assert words in warning


def test_what_cannot_be(make_info: MakeInfo) -> None:
    with pytest.raises(UsageError, match="'nobody' is unknown"):
        Resolver(RunConfig(voice="nobody"), make_info())
    with pytest.raises(
        SetupError, match="a Base checkpoint clones a reference recording, and this copy cannot"
    ):
        Resolver(RunConfig(), make_info(needs_reference=True))
