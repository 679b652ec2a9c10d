"""NeMo: `SPLIT_manifest.jsonl`, an object a line with `audio_filepath` (from the manifest's own
folder), `duration`, `text` and `normalized_text`; `speaker` is a number, which `speakers.json` has
by name.

Source: NVIDIA NeMo, docs/source/asr/datasets.rst and docs/source/tts/datasets.rst.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tts_cli.export.formats.target import Plan, Target, json_line
from tts_cli.export.row import ExportRow

_FOLDER = "audio"


class NeMo(Target):
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._numbers = {voice: number for number, voice in enumerate(plan.voices)}

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_FOLDER,)

    def add(self, row: ExportRow, split: str) -> None:
        name = self.plan.place(row, _FOLDER)
        values = {
            "audio_filepath": f"{_FOLDER}/{name}",
            "duration": round(row.duration_s, 6),
            "text": row.text,
            "normalized_text": row.spoken_text,
        }
        if row.voice is not None:
            values |= {"speaker": self._numbers[row.voice], "speaker_name": row.voice}
        if row.language is not None:
            values["lang"] = row.language_code or row.language
        values |= {"id": row.id, "take": row.take}
        self.lines(f"{split}_manifest.jsonl").write(json_line(values))

    def close(self) -> None:
        text = json.dumps(self._numbers, ensure_ascii=False, indent=2) + "\n"
        self.lines("speakers.json").write(text.encode())
        super().close()
