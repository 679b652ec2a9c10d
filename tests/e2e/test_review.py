"""`tts-cli review` on folders that were synthesized: decisions, deliveries and retakes."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
import soundfile
from review_server import Review, reviewing
from workbench import Workbench

from tts_cli.cli import messages as msg

pytest.importorskip("starlette", reason="needs the extra review")
pytest.importorskip("uvicorn", reason="needs the extra review")
pytestmark = pytest.mark.slow

ROWS = [
    {"id": "one", "text": "Good morning.", "voice": "dora"},
    {"id": "two", "text": "Good evening, all.", "voice": "emil"},
    {"id": "three", "text": "Good night.", "voice": "dora"},
]


def retake(review: Review, row_id: str, takes: int = 1, **edits: Any) -> dict[str, Any]:
    """Ask for a retake, and wait until it has ended."""
    number = review.post("retake", {"id": row_id, "takes": takes, "edits": edits}).json
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        jobs = review.post("changes", 0).json["jobs"]
        (job,) = (one for one in jobs if one["number"] == number)
        if job["state"] in ("done", "failed"):
            return job
        time.sleep(0.05)
    raise AssertionError("the retake did not end")


def decided(bench: Workbench, states: dict[str, str]) -> None:
    """Decide about rows of the folder."""
    with reviewing(bench.folder / "out", "--reviewer", "Ana") as review:
        rows = review.rows()
        for row_id, state in states.items():
            assert review.decide(rows[row_id], state).status == 200


def test_runs_and_deliveries_follow_decisions(bench: Workbench) -> None:
    bench.synth_once(ROWS)
    out, manifest = bench.folder / "out", bench.folder / "rows.jsonl"
    only = bench.command(manifest, "--only", "rejected", "--takes", 1)
    bench.run(*only).expect(2, "nothing was decided yet; first run: tts-cli review")
    decided(bench, {"one": "approved", "two": "rejected", "three": "retake"})
    assert "1 more take of 1 row" in bench.run(*only).out
    bench.run(*bench.command(manifest, "--only", "retakes", "--takes", 2)).expect(0)
    assert sorted(path.name for path in (out / "takes").iterdir()) == ["three", "two"]
    copy, data = bench.folder / "copy", bench.folder / "data"
    bench.run("encode", out, "--approved", "--format", "flac", "--out", copy).expect(
        0, out="left out: 2, not approved"
    )
    assert [path.name for path in copy.glob("*.flac")] == ["one.flac"]
    bench.run("export", out, "--approved", "--to", "audiofolder", "--out", data).expect(
        0, "left out: 2, not approved"
    )
    assert [path.name for path in data.rglob("*.wav")] == ["one.wav"]
    decided(bench, {"one": "rejected", "two": "approved"})
    bench.run("encode", out, "--approved", "--format", "flac", "--out", copy).expect(0)
    assert [path.name for path in copy.glob("*.flac")] == ["two.flac"]
    assert [path.name for path in (copy / "takes" / "one").iterdir()] == ["1.flac"]


def test_an_approval_is_about_one_file(bench: Workbench) -> None:
    bench.synth_once(ROWS)
    decided(bench, {row["id"]: "approved" for row in ROWS})
    changed = [*ROWS[:2], {**ROWS[2], "text": "Sleep well."}]
    bench.synth(changed).expect(0)
    out, data = bench.folder / "out", bench.folder / "data"
    exported = bench.run("export", out, "--approved", "--to", "audiofolder", "--out", data)
    assert "left out: 1, not approved" in exported.err
    table = bench.run("review", out, "--csv", "-").out
    states = {row["id"]: row["state"] for row in csv.DictReader(io.StringIO(table))}
    assert states == {"one": "approved", "two": "approved", "three": "changed"}


def test_retakes_are_takes_like_others(bench: Workbench) -> None:
    bench.synth_once(ROWS)
    out, before = bench.folder / "out", bench.out().files
    with reviewing(out, "--device", "cpu", "--yes") as review:
        job = retake(review, "one", 2)
        assert (job["state"], job["num_done"]) == ("done", 2)
        assert retake(review, "two", text="Good evening, Sir.")["state"] == "done"
        rows = review.rows()
        assert [take["take"] for take in rows["one"]["takes"]] == [1, 2, 3]
        _, second = rows["two"]["takes"]
        assert (rows["two"]["chosen"], rows["two"]["text"]) == (0, "Good evening, all.")
        assert (second["written"], second["is_other"]) == ("Good evening, Sir.", True)
        duration_s = soundfile.info(out / "takes/two/2.wav").duration
        assert duration_s == pytest.approx(second["audio_s"], abs=0.001)
        assert retake(review, "three", lexicon="night=moon")["state"] == "done"
        assert review.rows()["three"]["takes"][1]["said"] == "Good moon."
        assert retake(review, "two", voice="nobody")["error"].startswith("two: voice: 'nobody'")
        assert retake(review, "two", text=" ")["state"] == "failed"
        assert retake(review, "none")["error"] == f"none: no manifest of {out} has this row"
        assert review.post("pick", ["two", 2]).status == 200
        assert review.rows()["two"]["text"] == "Good evening, Sir."
        assert review.decide(review.rows()["two"], "approved").status == 200
    loads = [run["totals"]["load_s"] > 0 for run in bench.out().runs]
    assert loads == [True, True, False, False], "the model stays loaded"
    assert {name: data for name, data in bench.out().files.items() if name == "one.wav"} == {
        "one.wav": before["one.wav"]
    }
    assert bench.out().status() == dict.fromkeys(("one", "two", "three"), "ok")
    # The manifest still has the old text, so the next run makes the row again.
    assert "1 changed" in bench.synth(bench.folder / "rows.jsonl", "--dry-run").out


def test_a_retake_changes_no_setting_of_the_folder(bench: Workbench) -> None:
    """Also if all runs of the folder had --takes, which a run does not hand on."""
    rows = [{**row, "scene": "1"} for row in ROWS]
    bench.synth(rows, "--extra", "keep", "--takes", 1, "--seed", 5).expect(0)
    out = bench.folder / "out"
    with reviewing(out, "--device", "cpu", "--yes") as review:
        for _ in range(2):
            assert retake(review, "one", text="Good morning, all.")["state"] == "done"
        assert review.post("pick", ["one", 3]).status == 200
        change = review.post("manifest", {"id": "one", "text": "Good morning, all."})
        assert change.status == 200, change.body
    printed = bench.run("again", out, "--print").out
    assert "--extra keep" in printed
    assert "--seed 5" in printed


@pytest.mark.parametrize(
    "num_lines", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 5))]
)
def test_a_kill_during_a_retake_loses_nothing(bench: Workbench, num_lines: int) -> None:
    """Decisions of the server that makes the takes are recorded too."""
    bench.synth_once(ROWS)
    out, journal = bench.folder / "out", bench.folder / "out" / "timings.jsonl"
    before, count = bench.out().files, len(bench.out().lines)
    with reviewing(out, "--device", "cpu", "--yes") as review:
        row = review.rows()["two"]
        assert review.post("retake", {"id": "one", "takes": 20}).status == 200
        deadline_s = time.monotonic() + 60
        while journal.read_bytes().count(b"\n") < count + num_lines:
            assert time.monotonic() < deadline_s
        assert review.decide(row, "approved").status == 200
        review.kill()
    assert '"approved"' in (out / "reviews.jsonl").read_text()
    bench.synth(bench.folder / "rows.jsonl").expect(0, out=msg.NOTHING_TO_DO.format(reason=""))
    assert {name: bench.out().files[name] for name in before} == before
    assert len(list((out / "takes").glob("one/*"))) >= num_lines
    decided(bench, {"one": "rejected"})


def test_an_edited_text_is_written_when_asked(bench: Workbench) -> None:
    bench.synth_once(ROWS)
    out, manifest = bench.folder / "out", bench.folder / "rows.jsonl"
    text = 'Good "evening", Sir\u2026'
    with reviewing(out, "--device", "cpu", "--yes") as review:
        assert retake(review, "two", text=text)["state"] == "done"
        assert review.post("pick", ["two", 2]).status == 200
        written = manifest.read_bytes()
        diff = review.post("manifest", {"id": "two", "text": text}).json
        assert manifest.read_bytes() == written, "it is only shown"
        removed, added = diff.splitlines()[-3:-1]
        assert removed.startswith('-{"id": "two", "text": "Good evening, all."')
        assert added.startswith('+{"id": "two", "text": "Good \\"evening\\", Sir\u2026"')
        stale = {"id": "two", "text": text, "diff": "another"}
        assert "has changed since" in review.post("manifest", stale).json["error"]
        values = {"id": "two", "text": text, "diff": diff}
        assert review.post("manifest", values).status == 200
    found = [json.loads(line)["text"] for line in manifest.read_text().splitlines()]
    assert found == ["Good morning.", text, "Good night."]
    bench.run("again", out, "--yes").expect(0, out=msg.NOTHING_TO_DO.format(reason=""))


def test_a_book_is_reviewed_by_chapters(bench: Workbench) -> None:
    book = bench.write("# One\n\nIt rained.\n\n# Two\n\nIt stopped.\n", "novel.md")
    out = bench.folder / "out"
    flags = ("--model", bench.model, "--device", "cpu", "--voice", "dora")
    bench.run("book", book, "--out", out, *flags).expect(0)
    with reviewing(out, "--device", "cpu", "--yes") as review:
        rows = sorted(review.rows().values(), key=lambda row: row["order"])
        assert [row["chapter"] for row in rows] == ["One", "One", "Two", "Two"]
        assert [row["text"] for row in rows][1] == "It rained."
        assert retake(review, rows[1]["id"], 1)["state"] == "done"
        refused = review.post("manifest", {"id": rows[1]["id"], "text": "It snowed."})
        assert "is changed in the book's own file" in refused.json["error"]
    bench.run("again", out, "--yes").expect(0)


def test_a_folder_that_names_files_elsewhere(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retakes of a folder from a stranger read nothing outside of it without --yes."""
    bench.synth_once(ROWS)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with reviewing(bench.folder / "out", "--device", "cpu") as review:
        error = retake(review, "one")["error"]
        assert "names files elsewhere" in error
        assert "--yes" in error
        assert review.post("manifest", {"id": "one", "text": "x"}).status == 400


def test_a_colleague_sends_decisions(bench: Workbench) -> None:
    bench.synth_once(ROWS)
    out, file = bench.folder / "out", bench.folder / "sent.jsonl"
    hashes = {row_id: line["sha256"] for row_id, line in bench.out().records.items()}
    sent = [
        {"id": "one", "take": 1, "sha256": hashes["one"], "state": "approved", "comment": ""},
        {"id": "two", "take": 1, "sha256": hashes["two"], "state": "comment", "comment": "=1+1"},
        {"id": "three", "take": 1, "sha256": "0" * 64, "state": "rejected", "comment": ""},
        {"id": "../x", "take": 1, "sha256": None, "state": "rejected", "comment": ""},
    ]
    file.write_text("".join(json.dumps({**one, "at_s": 0.5}) + "\n" for one in sent) + "torn")
    words = ("review", out, "--import", file, "--reviewer", "Bo")
    result = bench.run(*words, "--json")
    assert (result.code, result.json) == (0, {"added": 2, "known": 0, "other_audio": 1})
    assert bench.run(*words, "--json").json == {"added": 0, "known": 2, "other_audio": 1}
    table = bench.folder / "t.csv"
    bench.run("review", out, "--csv", table).expect(0)
    lines = list(csv.DictReader(io.StringIO(table.read_text("utf-8"))))
    found = [(one["id"], one["state"], one["comment"], one["reviewer"]) for one in lines]
    assert found == [
        ("one", "approved", "", "Bo"),
        ("three", "open", "", ""),
        ("two", "open", "", ""),
        ("two", "comment", "'=1+1", "Bo"),
    ]
    labels = bench.folder / "labels"
    bench.run("review", out, "--labels", labels).expect(0)
    assert (labels / "two.take1.txt").read_text() == "0.500000\t0.500000\tBo: =1+1\n"
    file.write_text("nothing\n")
    bench.run(*words).expect(2)


def test_clean_deletes_no_approved_take(bench: Workbench) -> None:
    bench.synth_once(ROWS)
    decided(bench, {"one": "approved", "two": "rejected"})
    again = bench.command(bench.folder / "rows.jsonl", "--seed", 9, "--redo", "all")
    bench.run(*again).expect(0)
    bench.run("clean", bench.folder / "out", "--yes").expect(
        0, out="stay, because they are approved: takes of 1 row: one"
    )
    takes = bench.folder / "out" / "takes"
    assert [path.relative_to(takes).as_posix() for path in takes.rglob("*.wav")] == ["one/1.wav"]
