"""What a row that was spoken says, for a voice that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from models.base import ModelInfo
from tts_cli.app.encode import Run
from tts_cli.app.liked_voice import Liked
from tts_cli.core import Status
from tts_cli.errors import RowError
from tts_cli.store.entry import JournalEntry

MakeInfo = Callable[..., ModelInfo]
FISH = Run(True, "f", "fish_speech", "4b")
QWEN = Run(True, "q", "qwen3_tts", "0b6")


@pytest.mark.parametrize(
    ("text", "spoken", "run", "said"),
    [
        ("Room 5.", "Room five.", QWEN, "Room five."),
        ("One. [pause 300ms] Two.", None, QWEN, "One. Two."),
        ("<|speaker:0|>[calm] One.\n[laughing] Two.", None, FISH, "One. Two."),
        ("He said [sic] so.", None, QWEN, "He said [sic] so."),
        ("[calm] One.", None, None, "[calm] One."),
        ("[calm] ...", None, FISH, None),
        (None, None, QWEN, None),
    ],
)
def test_only_what_is_heard(
    make_info: MakeInfo, text: str | None, spoken: str | None, run: Run | None, said: str | None
) -> None:
    """By the family that spoke, whichever clones; where nobody knows it, by that."""
    record = JournalEntry("a", Status.OK, text=text, spoken_text=spoken)
    liked = Liked(Path("wavs"), record, True, run)
    if said is None:
        with pytest.raises(RowError, match="its journal entry has no text"):
            liked.text(make_info())
    else:
        assert liked.text(make_info()) == said
    if run is None:
        assert liked.text(make_info(family="fish_speech")) == "One."
