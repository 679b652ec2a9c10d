"""The cloning manifest speaks in the voices of rows of the other one, so the two must agree."""

from __future__ import annotations

import json
from pathlib import Path

from tts_cli.core import Row
from tts_cli.sources.open import open_source, read_rows

SAMPLES = Path(__file__).parents[2] / "samples"


def test_references_are_rows_of_the_demo() -> None:
    lines = (SAMPLES / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    spoken = {row["id"]: row["text"] for row in map(json.loads, lines)}
    with open_source(str(SAMPLES / "cloning.jsonl")) as source:
        rows = list(read_rows(source))
    assert {row.clone_mode for row in rows if isinstance(row, Row)} == {"icl", "xvec"}
    for row in rows:
        assert isinstance(row, Row), row
        assert row.ref_audio is not None
        recording = Path(row.ref_audio).resolve().relative_to(SAMPLES.parent.resolve() / "wavs")
        assert row.ref_text in (None, spoken[recording.with_suffix("").as_posix()])
