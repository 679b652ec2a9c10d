"""`synth --dry-run` and `validate` with a folder: what a run would do there. Nothing is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from workbench import Rows, Workbench

from tts_cli.cli import messages as msg

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"part/row{number}", "text": TEXTS[number % 4]} for number in range(8)]
BAD = {"id": "bad", "text": ""}
FLAGS = ("--max-seconds", 1)
REASONS = {"new": 0, "failed": 0, "changed": 0, "damaged": 0, "done": 0}


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder: times, sizes, content."""
    return {
        str(path): (found.st_mtime_ns, found.st_size, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        for found in [path.stat()]
    }


def plan(bench: Workbench, rows: Rows, *flags: object) -> Any:
    """What a dry run tells; the folder must stay as it is, and a real run must agree."""
    before = state(bench.out().path)
    result = bench.synth(rows, *FLAGS, "--dry-run", "--json", *flags).expect(0)
    assert state(bench.out().path) == before
    return result.json


@pytest.fixture
def spoken(bench: Workbench) -> Workbench:
    """ROWS, all done."""
    bench.synth_once(ROWS, *FLAGS)
    return bench


def test_every_reason(spoken: Workbench) -> None:
    out = spoken.out().path
    with (out / "timings.jsonl").open("a") as file:
        file.write(json.dumps({"id": "part/row2", "status": "failed", "request_hash": ""}) + "\n")
    (out / "part/row3.wav").unlink()
    os.truncate(out / "part/row4.wav", 100)
    rows = [{**ROWS[0], "text": "Changed."}, *ROWS[1:], {"id": "new", "text": "Hm."}, BAD]
    found = plan(spoken, rows, "--skip-invalid")
    reasons = {"new": 1, "failed": 1, "changed": 1, "damaged": 2, "done": 0}
    assert found["reasons"] == reasons
    assert (found["pending"], found["skipped"], found["failing"]) == (5, 4, 1)
    assert found["due"] == 5
    assert 0 < found["audio_s"] < 5
    assert found["time_s"] == pytest.approx(found["audio_s"] / found["xrt"], abs=1e-3)
    retried = plan(spoken, rows, "--skip-invalid", "--retry-failed")
    assert retried["reasons"] == {**REASONS, "failed": 1}
    again = plan(spoken, rows, "--skip-invalid", "--overwrite")
    assert again["reasons"] == {**reasons, "done": 4}

    text = spoken.synth(rows, *FLAGS, "--dry-run", "--skip-invalid").out.splitlines()
    assert (
        ": ".join(msg.PLAN_PENDING).format(rows=msg.rows(5))
        + ": 1 new, 1 failed, 1 changed, 2 damaged"
        in text
    )
    assert ": ".join(msg.PLAN_NOT_PENDING).format(skipped=4, invalid=1) in text
    (time,) = [line for line in text if line.startswith("time: about ")]
    assert time.endswith(" times real time)")

    result = spoken.synth(rows, *FLAGS, "--skip-invalid")
    assert result.summary == msg.synthesized(5, 10, done=4, failed=1)


def test_a_changed_delivery(spoken: Workbench) -> None:
    found = plan(spoken, ROWS, "--format", "flac")
    assert found["reasons"] == REASONS
    assert found["remade"] == {"audio": 8}
    assert plan(spoken, ROWS, "--seed", 1, "--redo")["reasons"] == {**REASONS, "changed": 8}


def test_orphans_are_judged_by_the_whole_manifest(spoken: Workbench) -> None:
    out = spoken.out().path
    (out / "mine.wav").write_bytes(b"RIFF")
    (out / "part/row5.wav").unlink()
    with (out / "timings.jsonl").open("a") as file:
        file.write(json.dumps({"id": "#7", "status": "failed", "request_hash": ""}) + "\n")
        file.write(json.dumps({"id": "lost", "status": "ok", "request_hash": ""}) + "\n")
    for flags in ((), ("--limit", 2), ("--shard", "1/3")):
        found = plan(spoken, ROWS[:5], *flags)
        assert found["orphans"] == 5
        names = {"mine", "lost", "part/row5", "part/row6", "part/row7"}
        assert set(found["first_orphans"]) == names
    (line,) = [
        line
        for line in spoken.synth(ROWS[:4], *FLAGS, "--dry-run").out.splitlines()
        if line.startswith(msg.PLAN_ORPHANS[0])
    ]
    assert line.startswith(": ".join(msg.PLAN_ORPHANS).format(count="6 ids", ids=""))
    assert line.endswith(", ...")


def test_the_model_of_the_folder_is_taken(spoken: Workbench) -> None:
    """Without --model the sample voice synthesized rows of a folder of another model."""
    out, rows = spoken.out().path, [{**ROWS[0], "text": "Hm."}, *ROWS[1:]]
    command = ["synth", spoken.write(rows), "--out", out, *FLAGS, "--dry-run"]
    for kept in ("runs.jsonl", "run.json"):
        spoken.run(*command).expect(
            0,
            f"settings from the last run in {out}/: --model {spoken.model}",
            out="to synthesize: 1 row: 1 changed",
        )
        (out / kept).unlink()


def test_other_settings_are_told_where_they_speak_again(spoken: Workbench) -> None:
    told = "was made with other settings"
    changed = (*FLAGS, "--dry-run", "--seed", 5, "--temperature", 0.7)
    again = spoken.synth(ROWS, *changed, "--redo")
    unlike = "(seed: 0, now 5; temperature: none, now 0.7)"
    assert f"{told} {unlike}; 8 rows that were done would be" in again.err
    takes = spoken.synth(ROWS, *FLAGS, "--dry-run", "--seed", 5, "--takes", 1, "--keep-done")
    assert told in takes.err
    for flags in ((), ("--format", "flac"), ("--max-batch", 2)):
        assert told not in spoken.synth(ROWS, *FLAGS, "--dry-run", *flags).err
    more = [*ROWS, {"id": "new", "text": "Hm."}]
    assert told not in spoken.synth(more, *FLAGS, "--dry-run").err


def test_the_same_file_by_another_path_is_no_other_setting(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`again` reported "cast: cast.toml, now /home/ann/cast.toml"."""
    monkeypatch.chdir(bench.folder)
    (bench.folder / "words.tsv").write_text("Hm\thum\n")
    assert bench.synth(ROWS[:2], *FLAGS, "--lexicon", "words.tsv").code == 0
    bench.write([{**ROWS[0], "text": "Hm, hm."}, ROWS[1]])
    again = bench.run("again", bench.out().path, "--yes", "--dry-run")
    again.expect(0, out="to synthesize: 1 row: 1 changed")
    assert "other settings" not in again.err


def test_audio_is_estimated_at_the_pace_of_the_folder(spoken: Workbench) -> None:
    """By the runs of the same model, once they are long enough to tell."""
    more = [*ROWS, *({"id": f"new{number}", "text": TEXTS[1] * 9} for number in range(4))]
    before = plan(spoken, more)
    runs, usual_s = spoken.out().path / "runs.jsonl", before["audio_s"]
    *_, last = runs.read_text().splitlines()
    for expected_s, audio_s, share in ((19.0, 9.0, 1.0), (40.0, 30.0, 0.75)):
        line = json.loads(last)
        line["totals"] |= {"expected_s": expected_s, "audio_s": audio_s}
        runs.write_text(json.dumps(line) + "\n")
        found = plan(spoken, more)
        assert found["audio_s"] == pytest.approx(share * usual_s, abs=0.01)
    assert found["disk_bytes"] < before["disk_bytes"], "it was not that of the audio"
    line["model"]["identity"] = "another"
    runs.write_text(json.dumps(line) + "\n")
    assert plan(spoken, more)["audio_s"] == pytest.approx(usual_s, abs=0.01)
