"""Names in front of lines: what is one, when they are told, how they are taken off."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases
from manifest_rows import read

from tts_cli.core import Row
from tts_cli.sources.item import SpeakerNames, name_in_front

CASES = cases(__file__)["speaker_names"]


@pytest.mark.parametrize(("text", "name"), CASES["names"])
def test_names(text: str, name: str) -> None:
    found = name_in_front(text)
    assert found is not None
    assert found[0] == name
    assert text.endswith(found[1])
    assert found[1]


@pytest.mark.parametrize("text", CASES["no_names"])
def test_no_names(text: str) -> None:
    assert name_in_front(text) is None


def told(texts: list[str]) -> str | None:
    names = SpeakerNames()
    for text in texts:
        names.add(text)
    return names.warning()


def test_when_they_are_told() -> None:
    talk = ["Anna: One.", "Tom: Two."] * 3
    assert "6 rows start with a name and a colon (Anna, Tom)" in (told(talk) or "")
    assert told(talk + ["No name."] * 24)
    assert told(talk + ["No name."] * 25) is None
    assert told(["Anna: One.", "Tom: Two.", "Anna: Three."])
    assert told(["Anna: One."] * 9) is None
    assert told(["Eggs: two.", "Milk: one.", "Salt: some."]) is None
    assert told([]) is None


def test_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("Anna: Come in.\nNote: it rains.\nTom: Thanks.\n")
    rows = [row for row in read(path, speaker_prefix=True) if isinstance(row, Row)]
    assert [row.text for row in rows] == ["Come in.", "Note: it rains.", "Thanks."]
    assert [row.extra for row in rows] == [{"speaker": "Anna"}, None, {"speaker": "Tom"}]
    cast = tmp_path / "cast.toml"
    cast.write_text("")
    rows = [row for row in read(path, speaker_prefix=True, cast=cast) if isinstance(row, Row)]
    assert [row.character for row in rows] == ["Anna", None, "Tom"]
