"""Speaker and style tags go on in the next part."""

from __future__ import annotations

from cases import cases

from models.fish_speech.family import PACE
from tts_cli.text.split import with_tags_in_force


def test_fish_speech() -> None:
    """Another speaker does not talk in the manner of the last one; a sound is made once."""
    for parts, wanted in cases(__file__)["tags_in_force"]:
        assert list(with_tags_in_force(parts, PACE.tags)) == wanted
