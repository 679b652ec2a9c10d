"""Whole manifests: duplicates, the checkpoint's abilities, selection and estimates."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from manifest_rows import check_manifest, warnings_of

from models.base import ModelInfo
from models.pace import Pace
from tts_cli.cli.messages import invalid_lines, row_lines
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, UsageError
from tts_cli.events import Event
from tts_cli.plan.checks import CheckedRows, RowValidator
from tts_cli.plan.estimate import estimate_audio_s, estimate_disk_bytes
from tts_cli.plan.plan import Plan
from tts_cli.plan.resolve import build_request
from tts_cli.plan.split_rule import BY_SETTING, NO_CLONING
from tts_cli.sources.item import ManifestFile

CASES = cases(__file__)["plan"]

MakeInfo = Callable[..., ModelInfo]
MakeSource = Callable[..., ManifestFile]
CONFIG = RunConfig()
BASE = {"type": "base", "needs_reference": True, "can_clone": True, "voices": ()}
DUAL_AR = {"type": "dual_ar", "can_clone": True, "voices": (), "clone_modes": ("icl",)}


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps({"text": "hi", **row}) + "\n" for row in rows)


def checked_rows(source: ManifestFile, config: RunConfig, info: ModelInfo) -> list[Row | BadRow]:
    return list(CheckedRows(source, RowValidator(config, info)).read())


def selected(source: ManifestFile, config: RunConfig, info: ModelInfo) -> list[str]:
    """The ids of the rows that a run takes, good and bad."""
    plan = Plan(source, config, info)
    plan.read()
    rows, num_failing = list(plan), plan.events.num(Event.FAILING)
    assert sum(isinstance(row, BadRow) for row in rows) == num_failing
    assert len(rows) == num_failing + plan.num_pending
    return [row.record_id if isinstance(row, BadRow) else row.id for row in rows]


def message(source: ManifestFile, config: RunConfig, info: ModelInfo) -> str:
    """The error about the one invalid row."""
    (line,) = row_lines(check_manifest(source, config, info).events, Event.INVALID, "m")
    return line


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), ("A/x", "a/X"), ("café", "cafe\u0301"), ("000002", None)]
)
def test_ids_that_meet(
    make_source: MakeSource, make_info: MakeInfo, first: str, second: str | None
) -> None:
    rows = list(
        checked_rows(make_source(jsonl({"id": first}, {"id": second})), CONFIG, make_info())
    )
    assert isinstance(rows[0], Row)
    bad = rows[1]
    assert isinstance(bad, BadRow)
    assert "is already used by line 1" in bad.message
    # Recorded apart, or the failure would overwrite the good row's line in the journal.
    assert bad.record_id == "#2"


def test_an_id_of_a_bad_row_is_taken(make_source: MakeSource, make_info: MakeInfo) -> None:
    rows = list(
        checked_rows(make_source(jsonl({"id": "a", "text": ""}, {"id": "a"})), CONFIG, make_info())
    )
    assert [isinstance(row, BadRow) for row in rows] == [True, True]
    assert [row.record_id for row in rows] == ["a", "#2"]


def test_both_looks_see_the_same(make_source: MakeSource, make_info: MakeInfo) -> None:
    source = make_source(jsonl({"id": "a"}, {"id": "A"}, {"voice": "nobody"}, {}) + "x\n")
    rows = CheckedRows(source, RowValidator(CONFIG, make_info()))
    first = list(rows.read())
    assert [isinstance(row, BadRow) for row in first] == [False, True, True, False, True]
    assert list(rows.read()) == first


@pytest.mark.parametrize(
    ("row", "changes", "words"),
    [
        *CASES["rows_the_checkpoint_cannot_speak"],
        ({"voice": "arthur"}, {"voices": (), "type": "voice_design"}, "no named voices"),
        ({}, BASE, "has no ref_audio and no voice, and"),
        (
            {"ref_audio": "REF", "voice": "anna"},
            BASE,
            "has both ref_audio and voice; give only one",
        ),
        ({"voice": "anna"}, BASE, "voice: voice 'anna' is not in "),
        ({"voice": "anna"}, DUAL_AR, "voice: voice 'anna' is not in "),
        (
            {"ref_audio": "REF"},
            DUAL_AR,
            "clones only with icl; give ref_text, the words of the reference",
        ),
        (
            {"ref_audio": "REF", "voice": "anna"},
            DUAL_AR,
            "has both ref_audio and voice; give only one",
        ),
    ],
)
def test_rows_the_checkpoint_cannot_speak(
    make_source: MakeSource,
    make_info: MakeInfo,
    tmp_path: Path,
    row: dict[str, Any],
    changes: dict[str, Any],
    words: str,
) -> None:
    (tmp_path / "REF").write_bytes(b"RIFF")
    source = make_source(jsonl({"id": "x", **row}))
    found = message(source, CONFIG, make_info(**changes))
    assert words in found
    assert found.startswith("m:1: id 'x': ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"voice": "klara"}, "--voice: 'klara' is unknown"),
        ({"language": "x"}, "--language: 'x' is unknown"),
        ({"max_seconds": 0.01}, "--max-seconds 0.01 s is less than one frame"),
    ],
)
def test_flags_are_checked_too(
    make_source: MakeSource, make_info: MakeInfo, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_manifest(make_source(jsonl({})), RunConfig(**settings), make_info())
    assert words in str(caught.value)


def test_bad_rows_are_reported_up_to_twenty(make_source: MakeSource, make_info: MakeInfo) -> None:
    many = jsonl(*({"voice": f"v{number}"} for number in range(30)))
    source = make_source(jsonl({"id": "ok"}) + jsonl({"id": "x", "seed": -1}) + many)
    plan = check_manifest(source, CONFIG, make_info())
    lines = list(invalid_lines(plan.events, source.name, plan.voiceless))
    assert len(lines) == 21
    assert lines[0].startswith(f"{source.name}:2: id 'x': seed: must be")
    assert lines[20] == f"{source.name}: 11 more invalid rows"
    with pytest.raises(ManifestError, match=r"31 invalid rows of 32; .*--skip-invalid"):
        plan.require_valid()


def test_languages_without_rules_are_told(make_source: MakeSource, make_info: MakeInfo) -> None:
    """Rows of a language that nobody can normalize were left as written without a word."""
    info = make_info(languages=("auto", "english", "chinese"))
    rows = [{"language": language} for language in ("chinese", "english", "zh", "auto")]
    config = RunConfig(normalize="auto")
    chinese, unknown = warnings_of(check_manifest(make_source(jsonl(*rows)), config, info))
    assert chinese.endswith(
        "2 rows are in chinese, which has no rules for figures, so they stay as written"
    )
    assert (
        "1 row is of unknown language, so figures stay as written; give --language, or "
        "a language with --normalize"
    ) in unknown


@pytest.mark.parametrize(
    ("text", "languages", "is_told"),
    [
        ("Шёл дождь, и никто не пришёл.", ("auto", "english"), True),
        ("今天下雨了。", ("auto", "english", "french"), True),
        ("It rained in Москва all day.", ("auto", "english"), False),
        ("Über “größere” Straßen — çà", ("auto", "english"), False),
        ("Шёл дождь.", ("auto", "english", "russian"), False),
        ("Шёл дождь.", ("auto",), False),  # a checkpoint that names none may speak any
    ],
)
def test_letters_that_the_checkpoint_does_not_speak_are_told(
    make_source: MakeSource,
    make_info: MakeInfo,
    text: str,
    languages: tuple[str, ...],
    is_told: bool,
) -> None:
    """A Russian list spoken by the English voice ended with 0, and nothing was said."""
    source = make_source(jsonl({"text": text}, {"text": text}))
    warnings = warnings_of(check_manifest(source, CONFIG, make_info(languages=languages)))
    assert len(warnings) == is_told
    if is_told:
        assert (
            "id '000001': is in letters that this checkpoint does not support; it has"
            in warnings[0]
        )


def test_instructions_nobody_reads_are_a_warning(
    make_source: MakeSource, make_info: MakeInfo
) -> None:
    source = make_source(jsonl({"instruct": "x"}, {"instruct": "y"}, {}))
    (warning,) = warnings_of(check_manifest(source, CONFIG, make_info()))
    assert "2 rows give instruct, which this checkpoint ignores" in warning
    assert not warnings_of(check_manifest(source, CONFIG, make_info(takes_instruct=True)))


def test_a_design_without_description_is_a_warning(
    make_source: MakeSource, make_info: MakeInfo
) -> None:
    info = make_info(type="voice_design", needs_instruct=True, voices=(), takes_instruct=True)
    (warning,) = warnings_of(
        check_manifest(make_source(jsonl({}, {"instruct": "y"})), CONFIG, info)
    )
    assert "1 row gives no instruct, so the voice is not described to this checkpoint" in warning


def pieces(plan: Plan) -> tuple[int, float]:
    """How many rows are split, and into how many pieces in all."""
    return plan.events.num(Event.SPLIT), plan.events.total(Event.SPLIT, "pieces")


LONG_ROWS = [
    {"id": "a", "text": "xx xxx. xx xxx. xx xxx. xx xxx."},
    {"id": "b", "text": "xx xxx. xx xxx. xx xxx. xx xxx. xx xxx. xx xxx. xx xxx. xx xxx. xx xxx."},
]
LIMITED = Pace(longest_chars=31, markup=r"\[.*?\]")


def test_long_rows_are_counted_with_their_parts(
    make_source: MakeSource, make_info: MakeInfo
) -> None:
    info = make_info(pace=LIMITED, languages=("auto", "english", "chinese"))
    found = check_manifest(make_source(jsonl(*LONG_ROWS, {"text": "早" * 10})), CONFIG, info)
    assert (found.num_pending, *pieces(found), warnings_of(found)) == (3, 1, 5, [])
    assert found.audio_s == pytest.approx((31 + 4 * 15 + 7 + 30) * 0.075)
    tagged = check_manifest(
        make_source(jsonl({"text": "[slowly, slowly, slowly] x"})), CONFIG, info
    )
    assert (*pieces(tagged), warnings_of(tagged)) == (0, 0, [])
    assert tagged.audio_s == pytest.approx(3 * 0.075)


@pytest.mark.parametrize(
    ("split", "type_", "reason"),
    [
        ("off", "custom_voice", BY_SETTING),
        ("80", "custom_voice", BY_SETTING),
        ("auto", "voice_design", NO_CLONING),
    ],
)
def test_long_rows_that_stay_whole_are_a_warning(
    make_source: MakeSource, make_info: MakeInfo, split: str, type_: str, reason: str
) -> None:
    """Words may be lost in them, and the user is told why they are not split and what helps."""
    info = make_info(pace=LIMITED)
    if type_ == "voice_design":
        info = make_info(
            pace=LIMITED, type=type_, needs_instruct=True, voices=(), takes_instruct=True
        )
    rows = [{"text": "hi", "instruct": "low"}, *LONG_ROWS]
    rows = [{**row, "instruct": "low"} for row in rows] if info.takes_instruct else rows[1:]
    found = check_manifest(make_source(jsonl(*rows)), RunConfig(split=split), info)
    assert pieces(found) == (0, 0)
    (warning,) = warnings_of(found)
    assert warning.endswith(
        ": 1 row is longer than the 31 characters or so that this checkpoint synthesizes well, 'b' "
        f"first, and not split: {reason}; words may be lost"
    )


def test_parts_longer_than_spoken_well_are_a_warning(
    make_source: MakeSource, make_info: MakeInfo
) -> None:
    found = check_manifest(
        make_source(jsonl(*LONG_ROWS)), RunConfig(split="60"), make_info(pace=LIMITED)
    )
    assert pieces(found) == (1, 2)
    (warning,) = warnings_of(found)
    assert "--split 60 allows longer pieces than the 31 characters" in warning


def test_limit_and_shards(make_source: MakeSource, make_info: MakeInfo) -> None:
    source = make_source(jsonl(*[{"id": f"r{n}"} for n in range(40)]) + "bad\n")
    shards = [selected(source, RunConfig(shard=(part, 3)), make_info()) for part in (1, 2, 3)]
    ids = [f"r{n}" for n in range(40)]
    assert sorted(row_id for shard in shards for row_id in shard) == sorted([*ids, "#41"])
    assert min(map(len, shards)) > 5
    assert selected(source, RunConfig(limit=5), make_info()) == ids[:5]
    part = selected(source, RunConfig(limit=5, shard=(2, 3)), make_info())
    assert part == shards[1][:5]
    found = check_manifest(source, RunConfig(limit=5), make_info())
    kinds = (Event.VALID, Event.INVALID, Event.SELECTED, Event.PENDING)
    assert [*map(found.events.num, kinds)] == [40, 1, 5, 5]


def test_estimates(make_info: MakeInfo) -> None:
    info = make_info()

    def audio_s(config: RunConfig = CONFIG, **fields: Any) -> float:
        row = Row(line=1, number=1, id="a", text="é" * 100, **fields)
        return estimate_audio_s(build_request(row, config, info), info)

    assert audio_s() == pytest.approx(15)
    assert audio_s(RunConfig(max_seconds=2)) == pytest.approx(2)
    assert audio_s(max_frames=10) == pytest.approx(0.8)
    assert audio_s(max_seconds=4) == pytest.approx(4)
    wav = estimate_disk_bytes(10, 1, CONFIG, info)
    assert 480_000 < wav < 490_000
    assert estimate_disk_bytes(10, 1, RunConfig(subtype="FLOAT"), info) > 1.9 * wav
    assert estimate_disk_bytes(10, 1, RunConfig(format="flac"), info) < wav
    assert estimate_disk_bytes(10, 1, RunConfig(format="mp3"), info) < wav / 2
    assert estimate_disk_bytes(10, 1, RunConfig(save_codes=True), info) > wav


@pytest.mark.slow
def test_many_rows_need_little_memory(make_source: MakeSource, make_info: MakeInfo) -> None:
    count = 4_000
    check_manifest(make_source(jsonl({"id": "a"}), "one.jsonl"), CONFIG, make_info())  # tables
    source = make_source(jsonl(*[{"id": f"row/{n}"} for n in range(count)]))
    tracemalloc.start()
    assert check_manifest(source, CONFIG, make_info()).events.num(Event.VALID) == count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 130 * count


def test_names_and_cues_are_told(make_source: MakeSource, make_info: MakeInfo) -> None:
    names = ["Anna", "Tom"] * 3
    talk = make_source(jsonl(*({"text": f"{name}: Come in."} for name in names)))
    (told,) = warnings_of(check_manifest(talk, CONFIG, make_info()))
    assert "6 rows start with a name and a colon (Anna, Tom)" in told
    cues = "".join(
        f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\nMind the step, all.\n\n" for n in (1, 2)
    )
    long = "3\n00:00:05,000 --> 00:01:05,000\nMind it.\n"
    (told,) = warnings_of(check_manifest(make_source(cues + long, "a.srt"), CONFIG, make_info()))
    assert "'000001': takes about" in told
    assert "s, but its cue has only 0.9 s; 1 more row alike: '000002'" in told
