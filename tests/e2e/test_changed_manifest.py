"""A manifest that changes: while it is read, the run ends with 4; later it does not matter."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workbench import Workbench, as_jsonl

from tts_cli.engine import load
from tts_cli.plan.resolve import Resolver
from tts_cli.store.results import ResultCommits

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"row{number:02d}", "text": TEXTS[number % 4]} for number in range(16)]
MORE = [{"id": f"more{number}", "text": TEXTS[number]} for number in range(4)]
OTHERS = [{**row, "text": TEXTS[(number + 1) % 4]} for number, row in enumerate(ROWS)]
# One letter less, and so one letter more.
EDITED = [*ROWS[:-2], {**ROWS[-2], "text": "Ho."}, ROWS[-1]]
FLAGS = ("--max-seconds", 0.03, "--accept-truncated", "--max-batch", 2)  # 12 frames
FINAL = {"cut": ROWS[:5], "grown": ROWS + MORE, "replaced": OTHERS, "edited": EDITED}


def padded(rows: list[dict[str, Any]]) -> bytes:
    """Lines of 32 KiB, so that these few rows are several blocks."""
    return b"".join(line.encode().ljust(1 << 15) + b"\n" for line in as_jsonl(rows).splitlines())


def change(path: Path, name: str) -> None:
    """Do to a manifest what `name` says."""
    if name == "removed":
        path.unlink()
    elif name == "emptied":
        os.truncate(path, 0)
    elif name == "replaced":
        other = path.with_name("other.jsonl")
        other.write_bytes(padded(OTHERS))
        other.replace(path)
    else:
        with path.open("r+b") as file:
            file.write(padded(FINAL[name]))
            file.truncate()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Run something at a moment of the next run."""

    def hook(moment: str, act: Callable[[], None]) -> None:
        owner, name, number = {
            "planning": (Resolver, "resolve", 3),
            "loading": (load, "open_checkpoint", 1),
            "speaking": (ResultCommits, "commit", 3),
        }[moment]
        real, calls = getattr(owner, name), itertools.count(1)

        def hooked(*args: Any) -> Any:
            found = real(*args)
            if next(calls) == number:
                act()
            return found

        monkeypatch.setattr(owner, name, hooked)

    return hook


NAMES = ("cut", "grown", "emptied", "replaced", "edited", "removed")


@pytest.mark.parametrize("name", NAMES)
def test_one_that_changes_while_it_is_read(
    bench: Workbench, at: Callable[[str, Callable[[], None]], None], name: str
) -> None:
    """Nothing is spoken, and no folder is made."""
    manifest = bench.write(padded(ROWS))
    at("planning", lambda: change(manifest, name))
    bench.synth(manifest, *FLAGS).expect(
        4,
        f"Error: {manifest}: the manifest was changed or removed during the run",
        "run the same command again",
    )
    assert not (bench.out().path).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment"), [("removed", "loading"), ("edited", "loading"), ("emptied", "speaking")]
)
def test_what_was_read_is_spoken(
    bench: Workbench, at: Callable[[str, Callable[[], None]], None], name: str, moment: str
) -> None:
    """Whatever becomes of the file; the next run speaks what it has then."""
    manifest = bench.write(padded(ROWS))
    bench.run_once(*bench.command(manifest, *FLAGS, out="clean"), out="clean")
    at(moment, lambda: change(manifest, name))
    bench.synth(manifest, *FLAGS, "--subtitles", "srt").expect(0)
    found = bench.out().files
    assert {file: found[file] for file in bench.out("clean").files} == bench.out("clean").files
    assert len(bench.out().records) == len(ROWS)


def test_a_row_longer_than_the_slots_fails_alone(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it came to be longer than the survey said: it was an internal error."""
    real = load.Loaded.prepare

    def prepare(session: Any, needs: Any) -> None:
        needs.max_frames -= 1
        real(session, needs)

    monkeypatch.setattr(load.Loaded, "prepare", prepare)
    rows = [{**ROWS[0], "max_frames": 100}, *({**row, "max_frames": 99} for row in ROWS[1:4])]
    bench.synth(rows).expect(1)
    records = bench.out().records
    assert [row["id"] for row in rows if records[row["id"]]["status"] == "failed"] == ["row00"]
    assert (
        "and 100 frames are more than this run has capacity for; run the same command again"
        in records["row00"]["error"]
    )
