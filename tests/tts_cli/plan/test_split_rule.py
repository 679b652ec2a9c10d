"""Which rows are spoken in parts, and in which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from engine_harness import request

from models.base import ModelInfo, SpeechRequest
from models.fish_speech.family import PACE
from models.pace import Pace
from tts_cli.audio.join import Pauses
from tts_cli.config import RunConfig
from tts_cli.core import Piece, are_joined
from tts_cli.plan.split_rule import NO_CLONING, NOT_MADE, SECOND_SPEAKER, SplitRule
from tts_cli.seeds import part_seed
from tts_cli.text.normalized_text import Edit, NormalizedText
from tts_cli.text.words import text_cap, usual_s

SENTENCE = "The quick brown fox jumps over the lazy dog near the old bank. "
MakeRule = Callable[..., SplitRule]


@pytest.fixture
def make_rule(make_info: Callable[..., ModelInfo]) -> MakeRule:
    """A rule of parts of 100 bytes, for a checkpoint with speakers, or as the settings say."""

    def make(limit: int | None = 100, **settings: Any) -> SplitRule:
        return SplitRule(make_info(max_frames=2048, **settings), limit, limit or 0, Pauses())

    return make


def asked(text: str, info: ModelInfo, **settings: Any) -> SpeechRequest:
    settings = {"voice": "clara", "max_frames": text_cap(text, info), **settings}
    return replace(request(text, 5), **settings)


def pieces_of(
    rule: SplitRule, request: SpeechRequest, reading: NormalizedText | None = None
) -> tuple[Piece, ...]:
    """What a row is spoken in, as the planner asks for it."""
    if rule.settings(request) is None:
        return (rule.whole(request, reading),)
    return rule.pieces(request, reading)


def parted(rule: SplitRule, request: SpeechRequest) -> tuple[Piece, ...]:
    """The same, if it is put together."""
    found = pieces_of(rule, request)
    return found if are_joined(found) else ()


def test_parts_are_shorter_than_rows_may_be(make_info: Callable[..., ModelInfo]) -> None:
    """The longest row that is spoken in one is near those that lose words."""
    info = make_info(pace=Pace(longest_chars=300))
    auto = SplitRule.of(RunConfig(), info)
    assert (auto.longest, auto.limit) == (300, 180)
    assert not parted(auto, asked("x" * 300, info))
    sizes = [len(part.request.text) for part in parted(auto, asked(SENTENCE * 5, info))]
    assert len(sizes) == 3
    assert max(sizes) <= 180
    given = SplitRule.of(RunConfig(split="200"), info)
    assert (given.longest, given.limit) == (200, 200)
    assert SplitRule.of(RunConfig(split="off"), info).longest is None
    assert SplitRule.of(RunConfig(), make_info(pace=None)).longest is None


def test_parts_are_requests_of_their_own(make_rule: MakeRule) -> None:
    rule = make_rule()
    whole = asked(SENTENCE * 3, rule.info, language="english", instruct="Calmly.")
    parts = parted(rule, whole)
    assert [part.request.text for part in parts] == [SENTENCE.strip()] * 3
    assert [part.request.seed for part in parts] == [5, part_seed(5, 2), part_seed(5, 3)]
    assert len({part.request.seed for part in parts}) == 3
    for part in parts:
        assert whole.text[part.written[0] : part.written[1]] == part.request.text
        assert part.request.max_frames == text_cap(part.request.text, rule.info)
        plain = replace(part.request, text=whole.text, seed=5, max_frames=whole.max_frames)
        assert plain == whole


def test_no_cut_is_made_at_a_space_that_holds_together(make_info: Callable[..., ModelInfo]) -> None:
    """The model is given plain ones, by which the text would be cut anywhere."""
    rule = SplitRule.of(RunConfig(split="34"), make_info())
    spaced = "one two three four five\u00a0six\u00a0seven eight nine ten"
    whole = replace(asked(spaced.replace("\u00a0", " "), rule.info), spaced=spaced)
    assert [part.request.text for part in parted(rule, whole)] == [
        *("one two three four", "five six seven eight nine ten")
    ]
    plain = replace(whole, spaced=None)
    assert [part.request.text for part in parted(rule, plain)] == [
        *("one two three four five", "six seven eight nine ten")
    ]


@pytest.mark.parametrize("normalizes", [False, True])
def test_an_empty_line_within_a_part(make_info: Callable[..., ModelInfo], normalizes: bool) -> None:
    """As it is written, but for the sample voice, which loses words behind it."""
    text = "The first of two sentences stands alone here.\n\nNo.\n\nThe last one goes on and on."
    info = make_info(normalizes=normalizes)
    rule = SplitRule.of(RunConfig(split="60"), info)
    spoken = [part.request.text for part in parted(rule, asked(text, info))]
    between = " " if normalizes else "\n\n"
    assert spoken == [
        "The first of two sentences stands alone here.",
        f"No.{between}The last one goes on and on.",
    ]


def test_tags_go_on_in_the_next_part(make_rule: MakeRule) -> None:
    rule = make_rule(voices=(), can_clone=True, pace=PACE)
    text = "<|speaker:0|>[softly] " + SENTENCE * 3
    parts = parted(rule, asked(text, rule.info, voice="anna"))
    assert len(parts) == 3
    for part in parts:
        assert part.request.text.startswith("<|speaker:0|>[softly]")


def test_a_voice_that_nothing_fixes(make_rule: MakeRule) -> None:
    """VoiceDesign would speak every part as somebody else."""
    rule = make_rule(voices=(), needs_instruct=True)
    whole = asked(SENTENCE * 3, rule.info, voice=None, instruct="An old man.")
    assert rule.problem(whole) == NO_CLONING
    assert not parted(rule, whole)
    clones = make_rule(voices=(), can_clone=True)
    assert clones.problem(asked(SENTENCE * 3, clones.info, voice=None)) == NOT_MADE


def test_a_made_voice_is_that_of_one_speaker(make_rule: MakeRule) -> None:
    rule = make_rule(voices=(), can_clone=True, pace=PACE)
    for text, problem in (
        (SENTENCE * 3, None),
        ("<|speaker:0|>" + SENTENCE * 3, None),
        ("<|speaker:0|>Yes.<|speaker:1|>" + SENTENCE * 3, SECOND_SPEAKER),
        ("<|speaker:1|>" + SENTENCE * 3, SECOND_SPEAKER),
    ):
        whole = asked(text, rule.info, voice=".voices/voice-0")
        assert rule.problem(whole) == problem
        assert len(parted(rule, whole)) == (3 if problem is None else 0)


@pytest.mark.parametrize("given", [{"ref_audio": "a.wav"}, {"voice": "anna"}])
def test_a_reference_fixes_the_voice(make_rule: MakeRule, given: dict[str, str]) -> None:
    rule = make_rule(voices=(), can_clone=True, pace=PACE)
    text = "<|speaker:0|>" + SENTENCE * 2 + "<|speaker:1|>" + SENTENCE
    whole = asked(text, rule.info, **{"voice": None, **given})
    assert rule.problem(whole) is None
    assert len(parted(rule, whole)) == 3


def test_what_makes_split_rows_the_same_speech(make_rule: MakeRule) -> None:
    rule = make_rule()
    long, short = asked(SENTENCE * 3, rule.info), asked("Short.", rule.info)
    of = rule.settings(long, False)
    assert of is not None
    assert of != make_rule(200).settings(asked(SENTENCE * 5, rule.info), False)
    assert of != replace(rule, pauses=Pauses(clause=0.2)).settings(long, False)
    assert rule.settings(short, False) is None
    # Rows with pauses once were spoken with their marks: they are other speech now.
    marked = replace(short, text="Short. [pause 1s] Yes.")
    assert rule.settings(marked, False) == {"marks": 1}
    assert rule.settings(replace(short, text="[pause 1s]"), True) == {"marks": 1}
    assert rule.settings(replace(short, text="..."), True) is None


def pieces(rule: SplitRule, text: str) -> list[tuple[str, float | None, float | None]]:
    parts = parted(rule, asked(text, rule.info))
    return [(part.request.text, part.pause_before_s, part.pause_after_s) for part in parts]


def test_pauses_cut_any_row(make_rule: MakeRule) -> None:
    for rule in (make_rule(None), make_rule()):  # and --split off obeys them too
        text = "[pause 2s] Yes. [pause 500ms][PAUSE 1.5 s]\nNo. [pause 250 ms]"
        assert pieces(rule, text) == [("Yes.", 2.0, 2.0), ("No.", None, 0.25)]
        assert pieces(rule, "Yes [pause] or [pause 5] no.") == []
    part = parted(rule, asked("One. [pause 1s] Two.", rule.info))[1]
    assert part.written == (16, 20)
    assert part.request.max_frames == text_cap("Two.", rule.info)


def test_what_is_long_between_pauses_is_cut_further(make_rule: MakeRule) -> None:
    rule = make_rule()
    found = parted(rule, asked(SENTENCE * 3 + "[pause 1s] Yes.", rule.info))
    ends = [(part.boundary, part.pause_after_s) for part in found]
    assert ends == [("sentence", 0.0), ("sentence", 0.0), ("pause", 1.0), (None, None)]
    assert [part.request.text for part in found] == [SENTENCE.strip()] * 3 + ["Yes."]
    two = SENTENCE + "[pause 1s]" + SENTENCE  # together they would be long
    assert len(parted(rule, asked(two, rule.info))) == 2
    assert not rule.is_long(asked(two, rule.info))


def test_what_has_no_word_between_pauses_is_not_spoken(make_rule: MakeRule) -> None:
    rule = make_rule(voices=(), can_clone=True, pace=PACE)
    assert pieces(rule, "... [pause 1s] Yes. [pause 1s] ?! [pause 2s] No.") == [
        ("Yes.", 1.0, 3.0),
        ("No.", None, None),
    ]
    # Tags stay with what they are for, and those in force with all that comes.
    text = "<|speaker:1|>[softly] Yes. [pause 1s] [laugh] [pause 1s] No."
    assert pieces(rule, text) == [
        ("<|speaker:1|>[softly] Yes.", None, 2.0),
        ("<|speaker:1|>[softly][laugh]No.", None, None),
    ]


def test_tags_without_a_word_have_no_parts(make_rule: MakeRule) -> None:
    rule = make_rule(voices=(), can_clone=True, pace=PACE)
    silent = asked("<|speaker:0|> [pause 1s]", rule.info, voice=None)
    assert rule.without_lost_pauses(silent) is silent


def test_pauses_are_left_out_where_nothing_keeps_the_voice(make_rule: MakeRule) -> None:
    rule = make_rule(voices=())
    marked = asked("One. [pause 1s] Two.", rule.info, voice=None)
    assert rule.problem(marked) == NO_CLONING
    found = rule.without_lost_pauses(marked)
    assert (found.text, found.max_frames) == ("One. Two.", text_cap("One. Two.", rule.info))
    kept = asked("One. [pause 1s] Two.", rule.info, ref_audio="a.wav", voice=None)
    assert rule.without_lost_pauses(kept) is kept


def test_a_piece_knows_what_its_text_takes(make_rule: MakeRule) -> None:
    rule = make_rule(pace=Pace(letter=0.5, longest_chars=999))
    first, *_ = parted(rule, asked(SENTENCE * 3, rule.info))
    assert first.usual_s == pytest.approx(usual_s(first.request.text))
    assert first.least_frames == Pace(letter=0.5).least_frames(first.request.text)
    (short,) = pieces_of(rule, asked(SENTENCE, rule.info, max_frames=5))
    assert short.usual_s == pytest.approx(5 * rule.info.frame_s)
    (unknown,) = pieces_of(make_rule(pace=None), asked("Yes.", rule.info))
    assert (unknown.usual_s, unknown.least_frames) == (0.0, 0)


def test_pieces_are_places_of_the_written_text(make_rule: MakeRule) -> None:
    rule = make_rule(None)
    reading = NormalizedText.of("Dr. X. [pause 1s] No.", [Edit(0, 3, "Doctor")])
    pieces = pieces_of(rule, asked(reading.spoken, rule.info), reading)
    assert [reading.text[slice(*piece.written)] for piece in pieces] == ["Dr. X.", "No."]
