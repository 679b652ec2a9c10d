"""Takes are suspect by what was measured, compared with their own voice and recognizer."""

from __future__ import annotations

from typing import Any

import pytest
from cases import cases
from spoken_folders import TEXT, record

from tts_cli.checks.baselines import MIN_ROWS, Evidence, VoiceBaselines
from tts_cli.checks.outliers import (
    MAX_WEIGHT,
    outliers,
    rank,
    reasons_now,
    repeated_phrase,
    severity,
    verdict_of,
)
from tts_cli.checks.verdicts import (
    SUSPECT,
    MosScores,
    Segment,
    TakeVerdict,
    Transcript,
    VoiceSimilarity,
)
from tts_cli.core import Kind, Remark
from tts_cli.store.entry import JournalEntry

CASES = cases(__file__)["outliers"]

WORDS = TEXT.split()
HEAD, TAIL = " ".join(WORDS[:6]), " ".join(WORDS[6:])


def take(**changes: Any) -> JournalEntry:
    """A row of a voice with 17 letters per second at -20 dBFS."""
    made = JournalEntry.of(record("a", sha256="aa", **changes))
    assert made is not None
    return made


def usual(count: int = 20, **changes: Any) -> list[JournalEntry]:
    """Rows of a voice."""
    return [
        take(**{"audio_s": 4 + place % 5 / 20, "level_dbfs": -20 - place % 3 / 2, **changes})
        for place in range(count)
    ]


def kinds(row: JournalEntry, others: list[JournalEntry] | None = None) -> list[str]:
    baselines = VoiceBaselines(map(Evidence, usual() if others is None else others))
    return [reason.kind for reason in outliers(Evidence(row), baselines)]


@pytest.mark.parametrize(
    ("changes", "kind", "figures"),
    [*CASES["reasons_have_figures"], ({"level_dbfs": None}, "quiet", "digital silence")],
)
def test_reasons_have_figures(changes: dict[str, Any], kind: str, figures: str) -> None:
    baselines = VoiceBaselines(map(Evidence, usual()))
    (reason,) = outliers(Evidence(take(**changes)), baselines)
    assert reason.kind == kind
    assert reason.text.startswith(figures)
    assert 1 <= reason.weight <= MAX_WEIGHT


CHINESE = "\u5348\u996d\u4ee5\u540e\u56de\u6765\u8d70\u8d70\u5427\u3002" * 3
FEW = usual(MIN_ROWS - 1)
TWO_VOICES = usual() + usual(voice="dora", level_dbfs=-35.0)
TWO_SCRIPTS = usual() + usual(text=CHINESE)
UNEVEN = [take(audio_s=2.0 + 0.4 * place) for place in range(20)]
WITH_PAUSES = [take(silence_inside_s=1.0 + place % 4 / 10) for place in range(20)]
PARTS = [
    {"text_start": 0, "text_end": 9, "start_s": start_s, "end_s": start_s + 2.0}
    for start_s in (0.0, 3.5)
]


@pytest.mark.parametrize(
    ("changes", "others", "wanted"),
    [
        ({}, None, []),
        ({"status": "failed", "audio_s": 0.5, "level_dbfs": -60.0, "frames": 2}, None, []),
        ({"audio_s": 20.0, "level_dbfs": -5.0}, FEW, []),
        ({"level_dbfs": -50.0}, FEW, ["quiet"]),
        ({"voice": "dora", "level_dbfs": -35.0}, TWO_VOICES, []),
        ({"voice": "dora", "level_dbfs": -20.0}, TWO_VOICES, ["loud"]),
        ({"audio_s": 8.5}, UNEVEN, []),
        ({"text": CHINESE}, TWO_SCRIPTS, []),
        ({"text": CHINESE, "audio_s": 15.0}, TWO_SCRIPTS, ["slow"]),
        ({"level_dbfs": None, "clipped_share": 0.0011}, None, ["quiet", "clipped"]),
        # Joints of parts are not silence, but a longer silence elsewhere is.
        ({"parts": PARTS, "audio_s": 5.5, "silence_inside_s": 1.54}, None, []),
        ({"parts": PARTS, "audio_s": 5.5, "silence_inside_s": 1.9}, None, ["silence"]),
        ({"silence_inside_s": 1.3}, WITH_PAUSES, []),
    ],
)
def test_a_take_is_compared_with_its_voice(
    changes: dict[str, Any], others: list[JournalEntry] | None, wanted: list[str]
) -> None:
    assert kinds(take(**changes), others) == wanted


def test_weights_add_up() -> None:
    baselines = VoiceBaselines(map(Evidence, usual()))
    reasons = outliers(Evidence(take(level_dbfs=None, clipped_share=0.0011)), baselines)
    assert severity(reasons) == pytest.approx(MAX_WEIGHT + 1.1)


def transcript(*pairs: tuple[str, str], cer: float = 0.0, wrong: int = 0) -> Transcript:
    segments = tuple(Segment(*pair) for pair in pairs) or (Segment(TEXT, TEXT),)
    return Transcript("ear", "", cer, "words", len(WORDS), 9, cer, wrong, segments)


def transcribed(
    found: Transcript,
    row: JournalEntry | None = None,
    usually: float = 0.0,
    count: int = 20,
    uneven_s: float = 0.05,
) -> list[str]:
    """Kinds of reasons where other rows of the voice usually have this error rate."""
    others = [take(audio_s=4 + place % 5 * uneven_s) for place in range(20)]
    errors = [transcript(cer=usually * (0.5 + place % 3 / 2)) for place in range(count)]
    evidence = [Evidence(*one) for one in zip(others, errors, strict=False)]
    evidence += map(Evidence, others[count:])
    one = Evidence(row or take(), found)
    return [reason.kind for reason in verdict_of(one, "", VoiceBaselines(evidence)).reasons]


TWICE = transcript((HEAD, HEAD), ("", HEAD), (TAIL, TAIL), cer=0.3)
LOST = transcript((HEAD, HEAD), (TAIL, ""), cer=0.3)
PHRASE = transcript((HEAD, HEAD), ("", "the long street"), (TAIL, TAIL), cer=0.1)
LONGER = transcript((TEXT, TEXT), ("", "many words"), cer=0.1)  # by 13 %


@pytest.mark.parametrize(
    ("found", "more", "wanted"),
    [
        (transcript(), {}, []),
        (transcript(cer=0.1, wrong=4), {}, []),
        (transcript(cer=0.8), {}, ["words"]),
        (transcript(cer=0.05, wrong=40), {}, ["garbled"]),
        # The usual errors of a voice are forgiven between bounds.
        (transcript(cer=0.4), {}, ["words"]),
        (transcript(cer=0.4), {"usually": 0.1}, []),
        (transcript(cer=0.9), {"usually": 0.4}, ["words"]),
        (transcript(cer=0.4), {"count": 3}, []),
        (transcript(cer=0.9), {"count": 3}, ["words"]),
        (TWICE, {"usually": 0.2}, ["more"]),
        (LOST, {"usually": 0.2}, ["less"]),
        (PHRASE, {"usually": 0.2}, ["more"]),
        # A small difference counts if the pace agrees, and is rare for the voice.
        (LONGER, {}, []),
        (LONGER, {"row": take(audio_s=4.8)}, ["more"]),
        (LONGER, {"row": take(audio_s=3.5)}, []),
        (LONGER, {"row": take(audio_s=5.2)}, ["more"]),
        (LONGER, {"row": take(audio_s=5.2), "uneven_s": 0.3}, []),
    ],
)
def test_transcripts(found: Transcript, more: dict[str, Any], wanted: list[str]) -> None:
    assert transcribed(found, **more) == wanted


@pytest.mark.parametrize(
    ("name", "good", "bad", "text"),
    [
        ("similarity", (0.8, None), (0.9, 0.5), "similarity of a piece to its voice 0.50"),
        ("similarity", (0.8, None), (0.5, None), "similarity of it to its voice 0.50"),
        ("mos", (3.5,), (2.5,), "2.5 of 5; usual: 3.5"),
    ],
)
def test_similarity_and_scores(name: str, good: Any, bad: Any, text: str) -> None:
    def evidence(values: Any) -> Evidence:
        part = (
            VoiceSimilarity("e", *values) if name == "similarity" else MosScores("m", *values * 4)
        )
        return Evidence(take())._replace(**{name: part})

    baselines = VoiceBaselines([evidence(good)] * MIN_ROWS)
    assert outliers(evidence(good), baselines) == []
    (reason,) = outliers(evidence(bad), baselines)
    assert reason.text.startswith(text)


def test_of_several_takes_the_most_usual_pace_is_the_best() -> None:
    baselines = VoiceBaselines(map(Evidence, usual()))
    takes = [Evidence(take(audio_s=seconds)) for seconds in (3.0, 4.1, 6.0)]
    assert min(takes, key=lambda one: rank(one, baselines)) is takes[1]


def test_one_answer_for_all_commands() -> None:
    """What `check` measured counts for its audio alone, and the rest is compared anew."""
    baselines = VoiceBaselines(map(Evidence, usual()))
    reasons = (Remark(Kind.WORDS, "all", 3.0), Remark(Kind.SLOW, "then", 2.0))
    verdict = TakeVerdict("a", 1, "aa", SUSPECT, reasons)
    assert [reason.kind for reason in reasons_now(take(), baselines, verdict)] == ["words"]
    other = TakeVerdict("a", 1, "bb", SUSPECT, reasons)
    assert reasons_now(take(), baselines, other) == []
    assert reasons_now(take(), baselines, None) == []


BOTH = f"{HEAD} the long street {TAIL}"


@pytest.mark.parametrize(
    ("text", "heard", "phrase"),
    [
        (TEXT, BOTH, "the long street"),
        (TEXT, f"{HEAD} long {TAIL}", None),
        (BOTH, BOTH, None),
        # As pocketsphinx transcribed the sample voice, which said some words twice,
        (
            "thank you for calling the county library all of our lines are busy right now",
            "sent you for calling you for calling the county library all of our lines are busy"
            " right now",
            "you for calling",
        ),
        (
            "a motion to adjourn was made by mr petrov and seconded by ms ramirez",
            "i'm ashamed to adjourn muslim aid by mr peterman second in mr peterman seconded by ms"
            " ran errands",
            "mr peterman second in",
        ),
        # or did not.
        (
            "a motion to adjourn was made by mr petrov and seconded by mr petrov and seconded by ms"
            " ramirez",
            "i'm ashamed to adjourn muslim aid by mr peterman second in mr peterman seconded by ms"
            " ran errands",
            None,
        ),
        (
            "the child was a boy of seven called peter lindqvist gray in the face",
            "the child was a glance and then call the airline kissed grey and the face rather than"
            " the face",
            None,
        ),
        ("and past the nine and past the eight", "and past the nine and past the eight", None),
    ],
)
def test_repeated_phrases(text: str, heard: str, phrase: str | None) -> None:
    assert repeated_phrase(transcript((text, heard))) == phrase
    signs = Transcript("", "", 0.1, "characters", 5, 0, segments=(Segment("abcde", "abcdabcde"),))
    assert repeated_phrase(signs) == "abcd"
