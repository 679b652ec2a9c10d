"""Which rows of a folder are done; those of folders older than any version that was published.

`first_version/timings.jsonl` was written by the code of that version for `rows.jsonl` beside it:
its lines have one hash for request and delivery, and derived seeds of 63 bits.
`second_version/timings.jsonl` was written for the same rows by the code of commit cf8cb9b: two
hashes, and such seeds still. (The seed of `drawn` was above 2^53 in the first folder; both its
lines and the row were made anew, by the same code, when such seeds came to be refused.)
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.base import ModelInfo
from models.pace import Pace
from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import encode
from tts_cli.config import RunConfig
from tts_cli.core import Role, Status, TakeRef, Task
from tts_cli.events import Event
from tts_cli.plan.plan import Plan
from tts_cli.seeds import row_seed
from tts_cli.sources.open import open_source
from tts_cli.store.entry import JournalEntry
from tts_cli.store.journal import Journal
from tts_cli.store.store import Store

FIRST_VERSION = Path(__file__).with_name("first_version")
SECOND_VERSION = Path(__file__).with_name("second_version")
ROWS = [json.loads(line) for line in (FIRST_VERSION / "rows.jsonl").read_text().splitlines()]
IDS = [row["id"] for row in ROWS]
AUDIO = encode(np.zeros(100, np.float32), 24_000, "wav", "PCM_16")  # as if somebody had cut it


class Spoken:
    """An output folder whose rows can be planned again."""

    def __init__(self, path: Path, info: ModelInfo) -> None:
        self.path = path
        self.info = info
        self.rows = ROWS
        self.early = 0  # rows that the last plan told of

    def due(self, **settings: Any) -> list[Task]:
        """The rows that `synth` would speak with those settings."""
        manifest = self.path / "rows.jsonl"
        manifest.write_text("\n".join(map(json.dumps, self.rows)))
        config = RunConfig(out=self.path, **settings)
        with open_source(str(manifest)) as source, Store(self.path, config, self.info) as folder:
            plan = Plan(source, config, self.info, folder)
            plan.read()
            self.early = plan.events.num(Event.EARLY)
            return [row for row in plan if isinstance(row, Task)]

    def remade(self, **settings: Any) -> list[str]:
        """Make the files that need no speech; their ids."""
        self.path.joinpath("rows.jsonl").write_text("\n".join(map(json.dumps, self.rows)))
        config = RunConfig(out=self.path, **settings)
        manifest = str(self.path / "rows.jsonl")
        with open_source(manifest) as source, Store(self.path, config, self.info) as folder:
            plan = Plan(source, config, self.info, folder)
            plan.read()
            orders = list(plan.orders())
            assert folder.reencode(orders).failed == []
        return [order.record.id for order in orders]

    def due_ids(self, **settings: Any) -> list[str]:
        return [row.id for row in self.due(**settings)]

    def change(self, row_id: str, **fields: Any) -> None:
        self.rows = [{**row, **fields} if row["id"] == row_id else row for row in self.rows]


def old_folder(version: Path, path: Path, info: ModelInfo) -> Spoken:
    shutil.copy(version / "timings.jsonl", path)
    (path / "sub").mkdir()
    for row_id in IDS:
        for suffix in (".wav", ".flac"):
            (path / f"{row_id}{suffix}").write_bytes(AUDIO)
    return Spoken(path, info)


@pytest.fixture
def old(tmp_path: Path, make_info: Any) -> Spoken:
    """The folder of the first version; `failed` was cut at its cap, the others are done."""
    return old_folder(FIRST_VERSION, tmp_path, make_info())


@pytest.fixture
def second(tmp_path: Path, make_info: Any) -> Spoken:
    """The same of the second version."""
    return old_folder(SECOND_VERSION, tmp_path, make_info())


@pytest.fixture
def new(old: Spoken) -> Spoken:
    """The same rows, all done, as they are recorded now."""
    due = old.due(overwrite=True)
    with Journal(old.path) as journal:
        for row in due:
            delivery = Encoder(RunConfig(), 24_000).delivery_hash_of()
            journal.append(
                JournalEntry(
                    row.id, Status.OK, request_hash=row.request_hash, delivery_hash=delivery
                )
            )
    return old


@pytest.mark.parametrize("kind", ["old", "second"])
def test_rows_of_versions_never_published_are_spoken_anew(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """With seeds that jq and pandas can read; what there was stays, as a take. No other delivery is
    made of it.
    """
    folder: Spoken = request.getfixturevalue(kind)
    due = {row.id: row for row in folder.due()}
    assert list(due) == IDS
    assert folder.early == len(IDS) - 1  # all but the failed one
    assert due["plain"].request.seed == row_seed(0, "plain")
    assert due["plain"].place == TakeRef(2, Role.OWN)
    assert due["failed"].place == TakeRef(1, Role.OWN)
    assert folder.due_ids(retry_failed=True) == ["failed"]
    assert folder.due_ids(format="flac") == IDS
    assert folder.remade(format="flac") == []


@pytest.mark.parametrize(
    ("row_id", "fields"),
    [
        ("plain", {"text": "Good evening!"}),
        ("plain", {"voice": "clara"}),
        ("plain", {"seed": 1}),
        ("sub/named", {"instruct": "loudly"}),
        ("drawn", {"top_p": 0.26}),
        ("drawn", {"subtalker_top_k": 8}),
        ("greedy", {"subtalker_greedy": True}),
        ("short", {"max_seconds": 2.6}),
    ],
)
def test_a_changed_row_is_due(new: Spoken, row_id: str, fields: dict[str, Any]) -> None:
    new.change(row_id, **fields)
    assert set(new.due_ids()) - {"failed"} == {row_id}


@pytest.mark.parametrize(
    ("settings", "not_due"),
    [
        ({"seed": 1}, {"drawn"}),  # it has its own
        ({"voice": "clara"}, {"sub/named"}),
    ],
)
def test_a_changed_run_makes_rows_due(
    new: Spoken, settings: dict[str, Any], not_due: set[str]
) -> None:
    assert set(new.due_ids(**settings)) == set(IDS) - not_due


@pytest.mark.parametrize(
    "settings", [{"format": "flac"}, {"subtype": "PCM_24"}, {"loudness": "ebu", "trim": True}]
)
def test_a_changed_delivery_of_what_is_not_there(new: Spoken, settings: dict[str, Any]) -> None:
    """Its lines name no file."""
    assert new.due_ids(**settings) == IDS
    assert new.remade(**settings) == []


def test_only_rows_in_parts_are_due_for_it(new: Spoken) -> None:
    """What an earlier version spoke long in one, and may have lost words of, is spoken again."""
    done = set(IDS) - set(new.due_ids())
    texts = {row["id"]: row["text"] for row in new.rows}
    longest = max(len(texts[row_id]) for row_id in done)
    long = {row_id for row_id in done if len(texts[row_id]) == longest}
    new.info = replace(new.info, pace=Pace(longest_chars=longest - 1))
    assert long < done
    assert set(new.due_ids()) & done == long
    assert not set(new.due_ids(split="off")) & done


def test_a_row_in_parts_stays_done_until_they_change(new: Spoken) -> None:
    new.info = replace(new.info, pace=Pace(longest_chars=10))
    delivery = Encoder(RunConfig(), 24_000).delivery_hash_of()
    with Journal(new.path) as journal:
        for row in new.due(overwrite=True):
            digest = row.request_hash
            journal.append(
                JournalEntry(row.id, Status.OK, request_hash=digest, delivery_hash=delivery)
            )
    split = {row.id for row in new.due(overwrite=True) if row.is_joined}
    assert split
    assert new.due_ids() == []
    assert set(new.due_ids(pause_clause=0.2)) == split
    assert set(new.due_ids(split="off")) == split
    new.info = replace(new.info, pace=Pace(longest_chars=9))
    assert set(new.due_ids()) >= split
