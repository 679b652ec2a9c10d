"""Which rows of a folder are done; those of older folders too.

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
from tts_cli.audio.file import encode
from tts_cli.config import RunConfig
from tts_cli.core import SpeechRow
from tts_cli.folder.files import AudioWriter
from tts_cli.folder.hashes import Delivery, delivery_hash
from tts_cli.folder.journal import Journal
from tts_cli.folder.recode import Recoder
from tts_cli.folder.record import RowRecord
from tts_cli.manifest.manifest import open_source
from tts_cli.manifest.seeds import first_row_seed, row_seed
from tts_cli.plan import standing
from tts_cli.plan.plan import RowPlan

FIRST_VERSION = Path(__file__).with_name("first_version")
SECOND_VERSION = Path(__file__).with_name("second_version")
KINDS = pytest.mark.parametrize("kind", ["old", "second", "new"])
ROWS = [json.loads(line) for line in (FIRST_VERSION / "rows.jsonl").read_text().splitlines()]
IDS = [row["id"] for row in ROWS]
AUDIO = encode(np.zeros(100, np.float32), 24_000, "wav", "PCM_16")  # as if somebody had cut it


class Folder:
    """An output folder whose rows can be planned again."""

    def __init__(self, path: Path, info: ModelInfo) -> None:
        self.path = path
        self.info = info
        self.rows = ROWS

    def due(self, **settings: Any) -> list[SpeechRow]:
        """The rows that `synth` would speak with those settings."""
        manifest = self.path / "rows.jsonl"
        manifest.write_text("\n".join(map(json.dumps, self.rows)))
        config = RunConfig(out=self.path, **settings)
        with open_source(str(manifest), None) as source, Journal(self.path) as journal:
            writer = AudioWriter(self.path, config, self.info.sample_rate_hz)
            plan = RowPlan(source, config, self.info, journal, writer)
            plan.survey()
            return [row for row in plan if isinstance(row, SpeechRow)]

    def remade(self, **settings: Any) -> list[str]:
        """Make the files that need no speech; their ids."""
        self.path.joinpath("rows.jsonl").write_text("\n".join(map(json.dumps, self.rows)))
        config = RunConfig(out=self.path, **settings)
        manifest = str(self.path / "rows.jsonl")
        with open_source(manifest, None) as source, Journal(self.path) as journal:
            writer = AudioWriter(self.path, config, self.info.sample_rate_hz)
            plan = RowPlan(source, config, self.info, journal, writer)
            plan.survey()
            orders = list(plan.orders())
            assert Recoder(self.path, writer, journal, "").run(orders).failed == []
        return [order.record.id for order in orders]

    def due_ids(self, **settings: Any) -> list[str]:
        return [row.id for row in self.due(**settings)]

    def change(self, row_id: str, **fields: Any) -> None:
        self.rows = [{**row, **fields} if row["id"] == row_id else row for row in self.rows]


def old_folder(version: Path, path: Path, info: ModelInfo) -> Folder:
    shutil.copy(version / "timings.jsonl", path)
    (path / "sub").mkdir()
    for row_id in IDS:
        for suffix in (".wav", ".flac"):
            (path / f"{row_id}{suffix}").write_bytes(AUDIO)
    return Folder(path, info)


@pytest.fixture
def old(tmp_path: Path, make_info: Any) -> Folder:
    """The folder of the first version; `failed` was cut at its cap, the others are done."""
    return old_folder(FIRST_VERSION, tmp_path, make_info())


@pytest.fixture
def second(tmp_path: Path, make_info: Any) -> Folder:
    """The same of the second version."""
    return old_folder(SECOND_VERSION, tmp_path, make_info())


@pytest.fixture
def new(old: Folder) -> Folder:
    """The same rows, all done, as they are recorded now."""
    due = old.due(overwrite=True)
    with Journal(old.path) as journal:
        for row in due:
            delivery = delivery_hash(Delivery("wav", "PCM_16", 24_000))
            journal.append(
                RowRecord(row.id, "ok", request_hash=row.request_hash, delivery_hash=delivery)
            )
    return old


@pytest.mark.parametrize("kind", ["old", "second"])
def test_rows_of_earlier_versions_stay_done(request: pytest.FixtureRequest, kind: str) -> None:
    folder: Folder = request.getfixturevalue(kind)
    assert folder.due_ids() == ["failed"]
    assert folder.due_ids(retry_failed=True) == ["failed"]
    (folder.path / "plain.wav").unlink()
    assert folder.due_ids() == ["plain", "failed"]


def test_only_rows_spoken_anew_get_new_seeds(second: Folder) -> None:
    """A row's derived seed once had 63 bits; jq and pandas rounded it, and it could not be given
    back in a manifest.
    """
    (second.path / "plain.wav").unlink()
    plain, _ = second.due()
    assert plain.seed == row_seed(0, "plain") < 2**53 < first_row_seed(0, "plain")
    with Journal(second.path) as journal:
        assert journal.schema("plain") == 1
        delivery = delivery_hash(Delivery("wav", "PCM_16", 24_000))
        digest = plain.request_hash
        journal.append(RowRecord("plain", "ok", request_hash=digest, delivery_hash=delivery))
        assert journal.schema("plain") == 2
    (second.path / "plain.wav").write_bytes(AUDIO)
    assert second.due_ids() == ["failed"]


@KINDS
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
def test_a_changed_row_is_due(
    request: pytest.FixtureRequest, kind: str, row_id: str, fields: dict[str, Any]
) -> None:
    folder: Folder = request.getfixturevalue(kind)
    folder.change(row_id, **fields)
    assert set(folder.due_ids()) - {"failed"} == {row_id}


@KINDS
@pytest.mark.parametrize(
    ("settings", "not_due"),
    [
        ({"seed": 1}, {"drawn"}),  # it has its own
        ({"voice": "clara"}, {"sub/named"}),
    ],
)
def test_a_changed_run_makes_rows_due(
    request: pytest.FixtureRequest, kind: str, settings: dict[str, Any], not_due: set[str]
) -> None:
    folder: Folder = request.getfixturevalue(kind)
    assert set(folder.due_ids(**settings)) == set(IDS) - not_due


DELIVERIES = pytest.mark.parametrize(
    "settings", [{"format": "flac"}, {"subtype": "PCM_24"}, {"loudness": "ebu", "trim": True}]
)


@DELIVERIES
@pytest.mark.parametrize("kind", ["old", "second"])
def test_a_changed_delivery_costs_rows_of_earlier_versions_no_speech(
    request: pytest.FixtureRequest, kind: str, settings: dict[str, Any]
) -> None:
    folder: Folder = request.getfixturevalue(kind)
    assert folder.due_ids(**settings) == ["failed"]
    assert folder.remade(**settings) == [row_id for row_id in IDS if row_id != "failed"]
    assert folder.due_ids(**settings) == ["failed"]
    assert folder.remade(**settings) == []
    with Journal(folder.path) as journal:
        assert journal.schema("plain") == 1, "its seed is one of those of that version"


@DELIVERIES
def test_a_changed_delivery_of_what_is_not_there(new: Folder, settings: dict[str, Any]) -> None:
    """Its lines name no file."""
    assert new.due_ids(**settings) == IDS
    assert new.remade(**settings) == []


@KINDS
def test_another_checkpoint_makes_all_rows_due(request: pytest.FixtureRequest, kind: str) -> None:
    folder: Folder = request.getfixturevalue(kind)
    folder.info = replace(folder.info, identity="other")
    assert folder.due_ids() == IDS


@KINDS
def test_only_rows_in_parts_are_due_for_it(request: pytest.FixtureRequest, kind: str) -> None:
    """What an earlier version spoke long in one, and may have lost words of, is spoken again."""
    folder: Folder = request.getfixturevalue(kind)
    done = set(IDS) - set(folder.due_ids())
    texts = {row["id"]: row["text"] for row in folder.rows}
    longest = max(len(texts[row_id]) for row_id in done)
    long = {row_id for row_id in done if len(texts[row_id]) == longest}
    folder.info = replace(folder.info, pace=Pace(longest_chars=longest - 1))
    assert long < done
    assert set(folder.due_ids()) & done == long
    assert not set(folder.due_ids(split="off")) & done


def test_a_row_in_parts_stays_done_until_they_change(new: Folder) -> None:
    new.info = replace(new.info, pace=Pace(longest_chars=10))
    delivery = delivery_hash(Delivery("wav", "PCM_16", 24_000))
    with Journal(new.path) as journal:
        for row in new.due(overwrite=True):
            digest = row.request_hash
            journal.append(RowRecord(row.id, "ok", request_hash=digest, delivery_hash=delivery))
    split = {row.id for row in new.due(overwrite=True) if row.parts}
    assert split
    assert new.due_ids() == []
    assert set(new.due_ids(pause_clause=0.2)) == split
    assert set(new.due_ids(split="off")) == split
    new.info = replace(new.info, pace=Pace(longest_chars=9))
    assert set(new.due_ids()) >= split


def test_a_new_line_counts_from_then_on(new: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the joint hash, which only old lines need, is not computed for any row."""

    def fail(*_: Any) -> str:
        raise AssertionError("a joint hash for a row whose line has two")

    monkeypatch.setattr(standing, "joint_hash", fail)
    assert new.due_ids() == []


def test_a_cut_file_of_the_first_version(old: Folder) -> None:
    """Its lines tell no bytes, but frames, and those tell the size of a WAV."""
    row_id = old.due_ids(retry_failed=True)[0]
    done = next(name for name in IDS if name != row_id)
    (old.path / f"{done}.wav").write_bytes(AUDIO[:-10])
    assert done in old.due_ids()
