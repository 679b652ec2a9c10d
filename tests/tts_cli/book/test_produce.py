"""A book's files, made of rows' files of tones."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import check_format, encode
from tts_cli.book.produce import BookOrder, produce
from tts_cli.book.utterances import BookPauses, segment_book
from tts_cli.config import RunConfig
from tts_cli.sources.chapters import Book, Chapter, Paragraph
from tts_cli.store.store import Store

RATE_HZ = 24_000
TEXT = (
    "When the lamps were lit along the river the old ferryman counted out his coins, "
    "and then, at last, he went home."
)


def spoken() -> np.ndarray:
    """Speech of noise: 3.5 s, a pause, 1.9 s; by letters it would be 4.4 s and 1.4 s."""
    noise = np.random.default_rng(1).uniform(-0.3, 0.3, 6 * RATE_HZ).astype(np.float32)
    noise[: RATE_HZ // 10] = noise[-RATE_HZ // 10 :] = 0
    noise[RATE_HZ * 36 // 10 : RATE_HZ * 4] = 0
    return noise


@pytest.mark.parametrize("format", ["flac", "ogg", "mp3", "opus"])
def test_subtitles_are_those_of_the_rows(
    tmp_path: Path, format: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With opus, whose rows are FLAC, files were looked for that are none: cues went by letters,
    0.4 s beside the pause, and a warning came for every row.
    """
    book = Book((Chapter("One", (Paragraph(TEXT, "b.md:1"),)),))
    script = segment_book(book, BookPauses())
    found = {}
    for one in ("wav", format):
        out = tmp_path / one
        row_format = "flac" if one == "opus" else one
        wanted = BookOrder(Encoder(RunConfig(format=one), RATE_HZ), row_format, ("srt",))
        (out / "sentences").mkdir(parents=True)
        subtype = check_format(row_format, "PCM_16", RATE_HZ)
        content = encode(spoken(), RATE_HZ, row_format, subtype)
        (out / f"{script[0].id}.{row_format}").write_bytes(content)
        with caplog.at_level(logging.WARNING):
            assert not produce(Store(out, RunConfig()), book, script, set(), wanted).incomplete
        lines = (out / "01-one.srt").read_text().splitlines()
        found[one] = [
            float(time[6:].replace(",", "."))
            for line in lines
            if "-->" in line
            for time in line.split(" --> ")
        ]
    assert not caplog.records
    assert found["wav"] == [0.1, 3.6, 4.0, 5.9]
    assert found[format] == pytest.approx(found["wav"], abs=0.03)  # coding blurs the edges
