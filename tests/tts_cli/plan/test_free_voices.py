"""Which voices the rows of a manifest ask for, and what each is to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_voices import keep

from models.base import ModelInfo, SpeechRequest
from models.pace import Pace
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row, Status
from tts_cli.errors import UsageError
from tts_cli.plan.checks import RowValidator
from tts_cli.plan.free_voices import BUILT_IN, FreeVoices, VoiceDesigner
from tts_cli.plan.plan import Plan
from tts_cli.sources.item import ManifestFile
from tts_cli.store.entry import JournalEntry
from tts_cli.voices.generated import Recipe
from tts_cli.voices.voice_store import VoiceStore

SAYS = "The boat left the harbor after five, and nobody spoke of it again that night."  # 6 s
SHORT, LONG = "Nobody spoke of it again.", f"{SAYS} {SAYS.replace('five', 'six')} {SAYS}"
# As Fish Speech: a speaker's tag stays in force, another one is of no voice that a run makes.
TAG = r"<\|speaker:\d+\|>"
FISH: dict[str, Any] = {
    "family": "fish_speech",
    "voices": (),
    "can_clone": True,
    "clone_modes": ("icl",),
    "pace": Pace(letter=1.0, longest_chars=400, markup=rf"{TAG}|\[[^\]]*\]", tags=(TAG,)),
}

Find = Callable[..., FreeVoices]


@pytest.fixture
def find(make_info: Callable[..., ModelInfo], make_source: Callable[..., ManifestFile]) -> Find:
    """The voices that rows ask for: texts, or whole rows.

    Args of what it gives: rows, then settings.
    """

    def find(
        *rows: str | dict[str, Any], info: dict[str, Any] | None = None, **settings: Any
    ) -> FreeVoices:
        given = [row if isinstance(row, dict) else {"text": row} for row in rows]
        source = make_source("".join(json.dumps(row) + "\n" for row in given))
        config = RunConfig(**{"model": "fish", **settings})
        found = make_info(**{**FISH, **(info or {})})
        maker = VoiceDesigner(
            config, make_info(type="voice_design", voices=(), needs_instruct=True)
        )
        plan = Plan(source, config, found, maker=maker if settings.get("clone_model") else None)
        plan.read()
        return plan.voices

    return find


def said(voices: FreeVoices) -> list[tuple[str, str]]:
    return [ask.sentence(voices.config.voice_text) for ask in voices.asks.values()]


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ((SHORT, SAYS, SAYS + "!"), SAYS),  # the first that fits
        ((SHORT, f"  {SAYS}\n "), SAYS),
        ((f"<|speaker:0|>[sad] {SAYS}", SHORT), SAYS),  # without markup
        ((f"{SAYS} [pause 300ms] Yes.", SHORT), f"{SAYS} Yes."),
        ((SHORT, SHORT, SHORT, SHORT), " ".join([SHORT] * 3)),  # joined, as few as do
        ((LONG, SHORT), SAYS),  # cut where a sentence ends
        ((LONG.replace(".", ","), "Yes."), None),  # no sentence of it is short enough
        ((SHORT, "Yes."), None),
        (("ö" * 40, "Yes."), "ö" * 40),  # bytes take time, not characters
    ],
)
def test_what_it_says(find: Find, texts: tuple[str, ...], text: str | None) -> None:
    assert said(find(*texts)) == [(BUILT_IN, "auto") if text is None else (text, "auto")]
    assert said(find(*texts, voice_text="Mine.")) == [("Mine.", "auto")]


def test_it_says_one_language(find: Find) -> None:
    """That of the first row; what others say is not joined to it."""
    rows = [{"text": SHORT, "language": "fr"}, {"text": SAYS, "language": "en"}]
    assert said(find(*rows)) == [(BUILT_IN, "auto")]
    more = [*rows, {"text": SAYS[:-1] + "?", "language": "fr"}]
    assert said(find(*more)) == [(SAYS[:-1] + "?", "french")]


def test_each_asks_for_its_rows(find: Find) -> None:
    rows: list[str | dict[str, Any]] = [
        {"text": SHORT, "character": "Ann"},
        {"text": SAYS, "character": "ANN"},
        {"text": SHORT},
        {"text": "..."},
    ]
    ann, rest = find(*rows).asks.values()
    assert (ann.shown, ann.rows, ann.due, ann.text) == ("Ann", 2, 2, SAYS)
    assert (rest.shown, rest.rows, rest.text) == ("all rows without a voice", 1, "")
    # Those that are not spoken now count for what it says, and ask for nothing.
    few = find(*rows, limit=1)
    assert [(ask.due, ask.text) for ask in few.asks.values()] == [(1, SAYS), (0, "")]
    assert [ask.shown for ask in few.to_make()] == ["Ann"]
    assert len(find(*rows, limit=1, voices_only=True).to_make()) == 2


def test_a_name_is_what_is_asked_for() -> None:
    names = {
        Recipe(*facts).voice
        for facts in (
            (None, None, "a", 0),
            (None, None, "b", 0),
            (None, None, "a", 1),
            ("Ann", None, "a", 0),
            (None, "Ann", "a", 0),
            ("\u96ea", None, "a", 0),
            ("../../x", None, "a", 0),
        )
    }
    assert len(names) == 7
    assert all(name.count("/") == 1 and name.isascii() for name in names)
    assert Recipe("ANN", None, "a", 0).voice == Recipe("Ann", None, "a", 0).voice
    # Files of folders are called so: it must not change.
    assert Recipe("Ann", None, "a", 0).voice == ".voices/ann-0db61a8b4f9a"


def test_when_there_is_none(find: Find) -> None:
    long = "Nobody spoke. " * 40
    for rows, settings, is_one in [
        ((SHORT,), {}, False),  # a single short text
        ((SHORT,), {"free_voice": "one"}, True),
        ((long,), {}, True),
        ((long,), {"free_voice": "each"}, False),
        (("Yes. [pause 1s] No.",), {}, True),
        (("<|speaker:0|>" + long,), {}, True),
        (("<|speaker:1|>" + long,), {}, False),  # a second speaker: it stays whole
        ((SHORT, SHORT), {}, True),
        ((SHORT, "..."), {}, False),
        ((SHORT, SHORT), {"free_voice": "each"}, False),
        ((SHORT, SHORT), {"model": "synthetic:fish-s2"}, False),  # random weights never end
        ((SHORT, SHORT), {"model": "synthetic:fish-s2", "free_voice": "one"}, True),
    ]:
        found = find(*rows, **settings)
        assert (found.is_one, bool(found.asks)) == (is_one, is_one), (rows, settings)
    for info in ({"voices": ("ann",)}, {"clone_modes": ("xvec",)}, {"can_clone": False}):
        assert not find(SHORT, SHORT, info=info).asks


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A made voice of rows without one, whole. The folder of voices."""
    return keep(tmp_path, Recipe(None, None, "a", 0).voice)


OURS: dict[str, Any] = {"identity": "a", "num_codebooks": 4, "sample_rate_hz": 8000}


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".json", lambda path: path.write_bytes(b"{}")),
        (".wav", Path.unlink),
        (".wav", lambda path: path.write_bytes(b"")),
        (".codes.safetensors", Path.unlink),
        (".voice.safetensors", lambda path: path.write_bytes(b"")),
    ],
)
def test_a_damaged_one_is_told(
    find: Find, kept: Path, suffix: str, damage: Callable[[Path], object]
) -> None:
    """Whatever else of it is whole."""
    damage(next(path for path in kept.iterdir() if path.name.endswith(suffix)))
    with pytest.raises(
        UsageError,
        match=rf"{suffix}.*; copy it back, or remove .* and add --redo all to generate it",
    ):
        find(SHORT, SHORT, info=OURS, out=kept.parent)


def test_a_voice_file_stands_alone(find: Find, kept: Path) -> None:
    for path in set(kept.iterdir()) - set(kept.glob("*.voice.safetensors")):
        path.unlink()
    (ask,) = find(SHORT, SHORT, info=OURS, out=kept.parent).asks.values()
    assert ask.is_there
    assert not ask.is_gone


def test_what_must_be_there(find: Find, kept: Path) -> None:
    """Else a run has another narrator than those beside it, and nobody knows."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"shard": (1, 2)}, "all rows without a voice does not exist yet.*--voices-only"),
        ({"made_voices": kept.parent / "nowhere"}, "contains no .voices, so"),
        ({"made_voices": kept}, "contains no .voices, so"),
    ]
    for settings, said in wrong:
        with pytest.raises(UsageError, match=said):
            find(*[SHORT] * 9, **settings).require_there()
    find(*[SHORT] * 9, shard=(1, 2), voices_only=True).require_there()
    find(*[SHORT] * 9, shard=(1, 2), made_voices=kept.parent, info=OURS).require_there()


def test_rows_that_were_spoken_with_one_that_is_gone(make_info: Callable[..., ModelInfo]) -> None:
    config, info = RunConfig(model="fish"), make_info(**FISH)
    voices = FreeVoices(config, info, VoiceDesigner(config, info), VoiceStore())
    rows = [Row(n, n, name, SHORT) for n, name in enumerate("abcd", 1)]
    ours = Recipe(None, None, info.identity, 0).voice
    voice_of = {"a": ours, "b": "clara", "c": ours, "d": None}
    takes = {key: JournalEntry(key, Status.OK, voice=voice) for key, voice in voice_of.items()}
    for row in rows:
        request = voices.given(row, SpeechRequest(row.text))
        assert request.voice == ours
        voices.count_lost(request, row.id, takes.get)
    assert not voices.settle(bool)
    assert [ask.lost for ask in voices.asks.values()] == [2]
    with pytest.raises(
        UsageError,
        match=f"{ours}: missing; 2 done rows use this voice; copy the file back, or add --redo",
    ):
        voices.require_there()
    voices.config = replace(config, overwrite=True)
    voices.require_there()


def test_who_is_described_otherwise(find: Find, tmp_path: Path) -> None:
    """Than the first row of its character; or than its voice was made, where that is there."""

    def unheard() -> list[bool]:
        rows = [Row(1, 1, "a", SHORT, character="Ben", instruct=text) for text in ("A.", "B.")]
        given = [{"text": SHORT, "character": "Ben", "instruct": row.instruct} for row in rows]
        voices = find(*given, clone_model="base", out=tmp_path)
        (name,) = voices.asks
        keep(tmp_path, name, of={"character": "Ben", "description": "B."})
        rows.append(replace(rows[0], instruct=None))
        return [voices.is_unheard(row, SpeechRequest(SHORT, voice=name)) for row in rows]

    assert unheard() == [False, True, False]
    assert unheard() == [True, False, False]


def test_a_character_without_a_voice(make_info: Callable[..., ModelInfo]) -> None:
    """With a voice for each row there is none for a character; the message has a remedy."""
    row, info = Row(1, 1, "a", SHORT, character="Ben"), make_info(**FISH)
    for settings, said in (
        ({}, None),
        ({"free_voice": "each"}, "--free-voice one generates a voice for it; or"),
    ):
        config = RunConfig(model="fish", **settings)
        validator = RowValidator(config, info, makes_voices=True)
        found = validator.validated(row)
        assert (said in found.message) if isinstance(found, BadRow) and said else found is row


def test_many_descriptions(find: Find) -> None:
    def rows(few: int, more: int) -> list[dict[str, Any]]:
        of = [n for n in range(few)] + [few + n for n in range(more) for _ in range(3)]
        return [{"text": SHORT, "instruct": f"Voice {n}."} for n in of]

    def asked(*given: dict[str, Any], **settings: Any) -> int:
        return len(find(*given, clone_model="base", **settings).asks)

    assert asked(*rows(20, 0)) == 20
    assert asked(*rows(11, 11)) == 22
    assert asked(*rows(21, 0), many_voices=True) == 21
    named = [{**row, "character": f"{n}"} for n, row in enumerate(rows(21, 0))]
    assert asked(*named) == 21
    with pytest.raises(
        UsageError, match=r"22 descriptions would become 22 voices, 12 of.*--many-voices"
    ):
        asked(*rows(12, 10))
