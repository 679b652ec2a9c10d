"""Rows that an earlier version was given otherwise: they are spoken again, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models.base import ModelInfo
from tts_cli.cli.summary import again_lines
from tts_cli.config import RunConfig
from tts_cli.core import Status
from tts_cli.events import Event
from tts_cli.plan.diff import Do
from tts_cli.plan.plan import Plan
from tts_cli.sources.open import open_source
from tts_cli.store.entry import JournalEntry
from tts_cli.store.store import Store

SPOKEN = {  # id -> the text of the manifest, what the journal has of it
    "hidden": ("mor\u00adning", "mor\u00adning", None),
    "spaces": ("12\u00a0500 men", "12\u00a0500 men", None),
    "printed": ("It\u2019s five.", "It\u2019s five.", None),
    "both": ("It\u2019s\u200b 5.", "It\u2019s\u200b 5.", "It\u2019s\u200b five."),
    "changed": ("Mor\u00adning.", "Evening.", None),
    "plain": ("Morning.", "Morning.", None),
}


def read_plan(path: Path, info: ModelInfo) -> Plan:
    manifest = path / "rows.jsonl"
    rows = ({"id": row_id, "text": text} for row_id, (text, _, _) in SPOKEN.items())
    manifest.write_text("\n".join(map(json.dumps, rows)))
    config = RunConfig(out=path, language="english")
    with open_source(str(manifest)) as source, Store(path, config, info) as folder:
        folder.open()
        folder.journal.append(
            *(
                JournalEntry(row_id, Status.OK, request_hash="x", text=written, spoken_text=spoken)
                for row_id, (_, written, spoken) in SPOKEN.items()
            )
        )
        plan = Plan(source, config, info, folder)
        plan.read()
        return plan


def test_rows_with_signs_that_nobody_sees_are_counted(tmp_path: Path, make_info: Any) -> None:
    found = read_plan(tmp_path, make_info(languages=("auto", "english")))
    assert found.events.num(Event.PENDING, Do.CHANGED.value) == len(SPOKEN)
    assert found.events.num(Event.REREAD) == 3  # hidden, spaces, both


def test_printed_marks_count_where_the_checkpoint_asks_for_typed_ones(
    tmp_path: Path, make_info: Any
) -> None:
    found = read_plan(tmp_path, make_info(normalizes=True, languages=("auto", "english")))
    assert (
        found.events.num(Event.REREAD) == 3
    )  # hidden, printed, both; 12 500 are said in words besides


def test_it_is_told() -> None:
    assert again_lines(0, 0) == []
    assert again_lines(0, 2)[0].startswith(
        "2 rows were synthesized again because this version removes invisible characters"
    )
