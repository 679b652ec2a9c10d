"""LJSpeech: `wavs/NAME.wav` at 22,050 Hz, mono, 16 bits, and `metadata.csv`: name, text and text in
words, parted by `|`, without quotes. With several splits also `metadata_SPLIT.csv` for each.

Source: the README of LJSpeech-1.1. Readers split at `|` and lines, so neither stands in a text: the
bar becomes a comma, white space of any kind one space.
"""

from __future__ import annotations

from collections.abc import Sequence

from tts_cli.export.formats.target import Target
from tts_cli.export.row import ExportRow

RATE_HZ = 22_050
_FOLDER = "wavs"


class LJSpeech(Target):
    """See the module."""

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_FOLDER,)

    def add(self, row: ExportRow, split: str) -> None:
        name = self.plan.place(row, _FOLDER).removesuffix(".wav")
        line = "|".join((name, _cell(row.text), _cell(row.spoken_text))) + "\n"
        self.lines("metadata.csv").write(line.encode())
        if len(self.plan.splits) > 1:
            self.lines(f"metadata_{split}.csv").write(line.encode())


def _cell(text: str) -> str:
    return " ".join(text.replace("|", ", ").replace(" , ", ", ").split())
