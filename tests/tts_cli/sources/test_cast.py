"""Casts: characters to voices, and files that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cases import cases

from tts_cli.core import Row
from tts_cli.errors import UsageError
from tts_cli.sources.cast import TomlFile, read_cast, with_character

CASES = cases(__file__)["cast"]

CAST = """\
# Who is who
[Clara]
voice = "clara"
seed = 7
temperature = 0.5
greedy = true

[characters."Old Tom"]
ref_audio = "tom/voice.wav"
ref_text = "I am old."
language = "en"

[characters]
Zoe.voice = "arthur"
"""
ROW = Row(1, 1, "a", "Hello.")


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "cast.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_characters(tmp_path: Path) -> None:
    cast = read_cast(write(tmp_path, CAST))
    assert list(cast.characters) == ["Clara", "Old Tom", "Zoe"]
    clara, tom = cast.characters["Clara"], cast.find("old TOM")
    assert (clara.voice, clara.seed, clara.sampling) == (
        "clara",
        7,
        {"temperature": 0.5, "greedy": True},
    )
    assert tom is not None
    assert (tom.ref_audio, tom.clone_mode) == (str(tmp_path / "tom/voice.wav"), "icl")
    assert cast.find("Tom") is None
    assert [place.rpartition(":")[2] for place in cast.places.values()] == ["2", "8", "14"]
    facts = cast.facts()
    assert facts is not None
    assert len(facts["sha256"]) == 64


def test_a_voice_alone_needs_no_table(tmp_path: Path) -> None:
    """Anna = "clara" was refused."""
    cast = read_cast(write(tmp_path, 'Anna = "clara"\n[characters]\n"Old Tom" = "arthur"\n'))
    assert {name: row.voice for name, row in cast.characters.items()} == {
        "Anna": "clara",
        "Old Tom": "arthur",
    }


def test_a_group_by_itself_may_be_a_name(tmp_path: Path) -> None:
    cast = read_cast(write(tmp_path, '[characters]\nvoice = "clara"\n'))
    assert list(cast.characters) == ["characters"]


def test_what_a_row_says_counts_first() -> None:
    character = replace(
        ROW,
        voice="clara",
        seed=7,
        language="english",
        instruct="calm",
        max_seconds=5.0,
        sampling={"temperature": 0.5, "subtalker_greedy": True},
    )
    given = with_character(ROW, character)
    assert (given.id, given.text, given.voice, given.seed) == ("a", "Hello.", "clara", 7)
    assert (given.language, given.instruct, given.max_seconds) == ("english", "calm", 5.0)
    own = replace(ROW, voice="emil", seed=0, max_frames=9, sampling={"greedy": False, "top_k": 3})
    given = with_character(own, character)
    assert (given.voice, given.seed, given.max_frames, given.max_seconds) == ("emil", 0, 9, None)
    assert given.sampling == {
        "temperature": 0.5,
        "greedy": False,
        "subtalker_greedy": False,  # a row's greedy holds for all codebooks
        "top_k": 3,
    }


def test_a_rows_voice_and_a_characters_recording_exclude_each_other() -> None:
    cloned = replace(ROW, ref_audio="a.wav", ref_text="b", clone_mode="icl")
    spoken = replace(ROW, voice="clara")
    assert with_character(spoken, cloned).ref_audio is None
    assert with_character(cloned, spoken).voice is None
    assert with_character(ROW, cloned).clone_mode == "icl"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *CASES["casts_that_are_none"],
        (b"[T\xf6m]\n", "is not UTF-8; save it as UTF-8"),
        ("a = " + "[" * 100_000, "cast.toml: "),
        ("a = " + "9" * 100_000, "cast.toml: "),
        ("#" * ((1 << 20) + 1), "has more than 1 MiB"),
    ],
)
def test_casts_that_are_none(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_cast(write(tmp_path, content))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(UsageError, match=r"No such file|not a regular file"):
            read_cast(path)


def test_places_in_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'a = 1\n[b."c d"]\n"e f" = 2\ng.h = 3\n[[i]]\nj = 4\n')
    file = TomlFile(path)
    places = {("a",): 1, ("b",): 2, ("b", "c d"): 2, ("b", "c d", "e f"): 3}
    places |= {("b", "c d", "g", "h"): 4, ("i", "j"): 6}
    for keys, line in places.items():
        assert file.place(*keys) == f"{path}:{line}"
    assert file.place("none") == str(path)
