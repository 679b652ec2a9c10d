"""A manifest that changes while a run goes on: what is spoken is kept, the run ends with 4."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workbench import Workbench, as_jsonl

from tts_cli.engine import load
from tts_cli.engine import local as threads
from tts_cli.folder.folder import Folder

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"row{number:02d}", "text": TEXTS[number % 4]} for number in range(16)]
MORE = [{"id": f"more{number}", "text": TEXTS[number]} for number in range(4)]
OTHERS = [{**row, "text": TEXTS[(number + 1) % 4]} for number, row in enumerate(ROWS)]
# One letter less, and so one letter more.
EDITED = [*ROWS[:-2], {**ROWS[-2], "text": "Ho."}, ROWS[-1]]
FLAGS = ("--max-seconds", 0.03, "--accept-truncated", "--max-batch", 2)  # 12 frames
FINAL = {"cut": ROWS[:5], "grown": ROWS + MORE, "replaced": OTHERS, "edited": EDITED}
AFTER_ROWS = 3


def padded(rows: list[dict[str, Any]]) -> bytes:
    """Lines of 32 KiB, so that these few rows are several blocks."""
    return b"".join(line.encode().ljust(1 << 15) + b"\n" for line in as_jsonl(rows).splitlines())


def change(path: Path, name: str, as_bytes: Callable[[list[dict[str, Any]]], bytes]) -> None:
    """Do to a manifest what `name` says."""
    if name == "removed":
        path.unlink()
    elif name == "emptied":
        os.truncate(path, 0)
    elif name == "replaced":
        other = path.with_name("other.jsonl")
        other.write_bytes(as_bytes(OTHERS))
        other.replace(path)
    else:
        with path.open("r+b") as file:
            file.write(as_bytes(FINAL[name]))
            file.truncate()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Run something at a moment of the next run."""

    def hook(moment: str, act: Callable[[], None]) -> None:
        calls: list[None] = []

        def once() -> None:
            calls.append(None)
            if len(calls) == (AFTER_ROWS if moment == "speaking" else 1):
                act()

        owner, name = {
            "loading": (load, "open_session"),
            "capturing": (load, "prepare"),
            "speaking": (Folder, "keep"),
        }[moment]
        real = getattr(owner, name)

        def hooked(*args: Any) -> Any:
            found = real(*args)
            once()
            return found

        monkeypatch.setattr(owner, name, hooked)

    return hook


@pytest.fixture(scope="module")
def clean() -> dict[str, dict[str, bytes]]:
    """Files of undisturbed runs over the final manifests, by change."""
    return {}


NAMES = ("cut", "grown", "emptied", "replaced", "edited", "removed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment", "is_long"),
    [
        *((name, "loading", False) for name in NAMES),
        *((name, "capturing", True) for name in ("cut", "replaced")),
        *((name, "speaking", is_long) for name in NAMES for is_long in (False, True)),
    ],
)
def test_nothing_is_lost(
    bench: Workbench,
    monkeypatch: pytest.MonkeyPatch,
    at: Callable[[str, Callable[[], None]], None],
    clean: dict[str, dict[str, bytes]],
    name: str,
    moment: str,
    is_long: bool,
) -> None:
    """Once rows vanished with exit code 0, or an internal error took all of them."""
    monkeypatch.setattr(threads, "READY_JOBS", 2)  # the reader is not far ahead of the engine
    as_bytes = padded if is_long else lambda rows: as_jsonl(rows).encode()
    manifest = bench.write(as_bytes(ROWS))
    at(moment, lambda: change(manifest, name, as_bytes))
    result = bench.synth(manifest, *FLAGS)
    assert result.code == 4
    assert f"error: {manifest}: the manifest was changed, or is gone, since it was read" in (
        result.err
    )
    assert "run the same command again" in result.err
    assert bench.out().report["exit_code"] == 4
    records = bench.out().records
    if moment != "speaking":
        assert not records
    elif not is_long:  # all was read, and found to be as before, in time
        assert len(records) == len(ROWS)
    else:
        assert len(records) >= AFTER_ROWS
    assert set(bench.out().status().values()) <= {"ok"}
    assert set(bench.out().files) == {f"{row_id}.wav" for row_id in records}
    for file in bench.out().files:
        assert len(bench.out().samples(file))
    # What was spoken is of the manifest that was checked.
    by_id = {row["id"]: row["text"] for row in ROWS}
    for row_id, record in records.items():
        assert record["text_chars"] == len(by_id[row_id])

    final = FINAL.get(name, ROWS)
    manifest.write_bytes(as_bytes(final))
    assert bench.synth(manifest, *FLAGS).code == 0
    if name not in clean:
        assert bench.synth(manifest, *FLAGS, out="clean").code == 0
        clean[name] = bench.out("clean").files
    found = bench.out().files
    assert {file: found[file] for file in clean[name]} == clean[name]


def test_a_touched_manifest_is_no_changed_one(
    bench: Workbench, at: Callable[[str, Callable[[], None]], None]
) -> None:
    manifest = bench.write(ROWS)
    at("speaking", manifest.touch)
    assert bench.synth(manifest, *FLAGS).code == 0


def test_a_row_longer_than_the_slots_fails_alone(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it came to be longer than the survey said: it was an internal error."""
    real = load.prepare

    def prepare(session: Any, needs: Any) -> None:
        needs.max_frames -= 1
        real(session, needs)

    monkeypatch.setattr(load, "prepare", prepare)
    rows = [{**ROWS[0], "max_frames": 100}, *({**row, "max_frames": 99} for row in ROWS[1:4])]
    result = bench.synth(rows)
    assert result.code == 1
    records = bench.out().records
    assert [row["id"] for row in rows if records[row["id"]]["status"] == "failed"] == ["row00"]
    assert "and 100 frames are more than this run made room for" in records["row00"]["error"]
