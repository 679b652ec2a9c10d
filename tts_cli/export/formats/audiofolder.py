"""Audiofolder of the Hugging Face library `datasets`: a folder a split, with audio and a
`metadata.jsonl` whose `file_name` says whose columns a line has.

Source: https://huggingface.co/docs/datasets/audio_dataset
"""

from __future__ import annotations

from collections.abc import Sequence

from tts_cli.export.formats.target import Target, json_line
from tts_cli.export.row import ExportRow


class AudioFolder(Target):
    """See the module."""

    hub_files = "{split}/**"

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return tuple(splits)

    def add(self, row: ExportRow, split: str) -> None:
        name = self.plan.place(row, split)
        values = {"file_name": name, **row.columns(self.plan.audio.rate_hz)}
        self.lines(f"{split}/metadata.jsonl").write(json_line(values))
