"""The settings of a book's rows: its chapters are processed, and their rows are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tts_cli.app.book import book_order, row_config
from tts_cli.config import RunConfig

PROCESSED: dict[str, Any] = {
    "highpass": 80.0,
    "trim": True,
    "pad": (0.5, 1.0),
    "loudness": "ebu",
    "mark": "c2pa",
    "subtitles": "srt",
}
KEPT: dict[str, Any] = {
    "out": Path("novel"),
    "speed": 1.5,
    "save_codes": True,
    "mark_key": Path("key.pem"),
    "seed": 7,
    "labels": "cue",
}


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"format": "flac", "subtype": "PCM_24"}, {}),
        ({"format": "mp3", "bitrate": 128}, {}),
        ({"format": "opus", "bitrate": 64}, {"format": "flac", "bitrate": None}),
        ({"subtype": "ULAW", "sample_rate": 8000}, {"subtype": "PCM_16"}),
        (
            {"preset": "acx", "format": "mp3", "sample_rate": 44_100, "bitrate": 192},
            {"preset": None, "format": "wav", "sample_rate": None, "bitrate": None},
        ),
    ],
)
def test_rows_are_not_processed(
    given: dict[str, Any], rows: dict[str, Any], make_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tts_cli.audio.encode.signer_of", lambda config: None)
    config = RunConfig(**PROCESSED, **KEPT, **given)
    made = row_config(config, book_order(config, make_info(), is_m4b=False))
    unprocessed = {name: getattr(RunConfig(), name) for name in PROCESSED}
    assert made == replace(config, **unprocessed, **rows, prune=True)
