"""`--anchor`: one row's speech is the reference of all that nothing else gives a voice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_fish_speech as tiny
from hostile_audio import encoded, tone
from tiny_fish_codec import SMALL
from workbench import ROOT, MakeCheckpoint, Workbench, finish

from tts_cli.output.audio_file import encode_codes

CAP = ("--max-seconds", 0.2, "--accept-truncated", "--device", "cpu")
ANCHOR = ("--anchor", "first")
GOOD = "The boat left the harbor after five, and nobody spoke."  # about 4 s
OWN = "What is said."


@pytest.fixture(scope="session")
def fish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted checkpoint whose speech never ends: a row is as long as its cap. A second has as
    few frames as released.
    """
    endless = replace(tiny.SPECS["small"], end_gain=0.0)
    codec = replace(
        SMALL,
        upsampling_ratios=(2, 2),
        upsample_rates=(8, 8, 4, 2),
        encoder_dim=2,
        encoder_strides=(2, 4, 8, 8),
    )
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), endless, codec=codec)


@pytest.fixture
def refs(bench: Workbench, fish: Path) -> Workbench:
    """The workbench, with a recording beside the manifest and the licence accepted."""
    (bench.folder / "a.wav").write_bytes(encoded(tone(1.1)))
    bench.model = fish
    assert bench.run("voices", "--model", fish, "--accept-licence").code == 0
    return bench


def rows() -> list[dict[str, Any]]:
    return [
        {"id": "title", "text": "One."},
        {"id": "long", "text": GOOD, "max_seconds": 1.1},
        {"id": "own", "text": "Yes.", "ref_audio": "a.wav", "ref_text": OWN},
        {"id": "next", "text": "So it was."},
        {"id": "parts", "text": "So it was. [pause 100ms] So it goes."},
        {"id": "silent", "text": "..."},
    ]


FOLLOWERS = ("title", "next", "parts")


def test_rows_without_a_voice_follow_it(refs: Workbench) -> None:
    result = refs.synth(rows(), *CAP, *ANCHOR)
    assert result.code == 0, result.err
    assert "anchor: row 'long', spoken first; 3 rows follow its voice" in result.err
    assert result.summary == "6 of 6 rows spoken"
    out = refs.out()
    records = out.records
    assert out.lines[0]["id"] == "long"
    digest = records["next"]["anchor_digest"]
    for row_id, record in records.items():
        follows = row_id in FOLLOWERS
        assert (record["anchor"], record["anchor_digest"]) == (
            ("long", digest) if follows else (None, None)
        )
    assert out.report["anchor"] == {"id": "long", "digest": digest}
    assert json.loads((out.path / "anchor.json").read_text())["id"] == "long"
    # The anchor itself, and what has a voice of its own, are what they are without it.
    assert refs.synth(rows(), *CAP, "--save-codes", out="plain").code == 0
    # Its frames and its text stand in the prompts of those that follow, once for every part.
    before = refs.out("plain").records
    frames = records["long"]["frames"]
    for name, times in (("long", 0), ("title", 1), ("next", 1)):
        more = records[name]["prompt_tokens"] - before[name]["prompt_tokens"]
        assert times * (frames + len(GOOD) // 2) <= more <= times * (frames + len(GOOD) + 60), name
    assert records["parts"]["prompt_tokens"] > 2 * (frames + len(GOOD) // 2)
    plain = refs.out("plain").files
    for name in ("long.wav", "long.codes.safetensors", "own.wav", "silent.wav"):
        assert out.files[name] == plain[name], name
    for name in FOLLOWERS:
        assert out.files[f"{name}.wav"] != plain[f"{name}.wav"]
    assert [name for name in out.files if name.endswith(".safetensors")] == [
        "long.codes.safetensors"
    ]


def test_a_rerun_takes_it_as_it_was_spoken(refs: Workbench) -> None:
    given = rows()
    assert refs.synth(given, *CAP, *ANCHOR).code == 0
    files = refs.out().files
    done = "nothing to do: all 6 rows are done already\n"
    assert refs.synth(given, *CAP, *ANCHOR).out == done
    assert refs.synth(given, *CAP, "--anchor", "long").out == done
    shown = refs.synth(given, *CAP, *ANCHOR, "--dry-run").out
    assert "anchor: long, as it was spoken; 0 rows follow its voice\n" in shown
    # A row that fits as well, put in at the top, is not the anchor now.
    top = {"id": "top", "text": GOOD}
    result = refs.synth([top, *given], *CAP, *ANCHOR)
    assert "1 of 7 rows spoken, 6 were done" in result.out
    assert "as it was spoken; 1 rows follow its voice" in result.err
    # Its audio alone gone: on a CPU it comes out as before, and the others stay as they are.
    (refs.out().path / "long.wav").unlink()
    result = refs.synth(given, *CAP, *ANCHOR)
    assert "1 of 6 rows spoken, 5 were done" in result.out
    assert {**refs.out().files, **files} == refs.out().files


def test_a_changed_anchor_speaks_what_follows_it_again_and_nothing_else(refs: Workbench) -> None:
    given = rows()
    assert refs.synth(given, *CAP, *ANCHOR).code == 0
    first = len(refs.out().lines)
    given[1] = {**given[1], "seed": 77}
    assert refs.synth(given, *CAP, *ANCHOR).code == 0
    again = list({line["id"]: 0 for line in refs.out().lines[first:] if line["status"] == "ok"})
    assert again[0] == "long"
    assert sorted(again) == sorted(("long", *FOLLOWERS))
    assert refs.synth(given, *CAP, *ANCHOR, out="new").code == 0
    new = refs.out("new").files
    assert {name: refs.out().files[name] for name in new} == new
    assert set(refs.out().files) - set(new) >= {"takes/long/1.wav", "takes/long/2.wav"}
    # Another row, and none at all.
    count = len(refs.out().lines)
    given[3] = {**given[3], "max_seconds": 1.05}
    assert refs.synth(given, *CAP, "--anchor", "next").code == 0
    spoken = {line["id"] for line in refs.out().lines[count:] if line["status"] == "ok"}
    assert spoken == {"title", "long", "next", "parts"}
    assert refs.out().records["title"]["anchor"] == "next"


def test_a_row_spoken_before_without_codes_can_be_the_anchor(refs: Workbench) -> None:
    """Somebody listened and chose; a folder for all references is no obstacle."""
    given = rows()
    assert refs.synth(given, *CAP).code == 0
    first = refs.out().files["long.wav"]
    (refs.folder / "recordings").mkdir()
    given[2] = {"id": "own", "text": "Yes.", "ref_audio": "recordings/a.wav", "ref_text": OWN}
    (refs.folder / "a.wav").rename(refs.folder / "recordings" / "a.wav")
    flags = (*CAP, "--anchor", "long", "--ref-root", refs.folder / "recordings")
    result = refs.synth(given, *flags)
    assert result.code == 0, result.err
    assert "3 of 6 rows spoken, 3 were done" in result.out
    out = refs.out()
    assert out.files["long.wav"] == first
    assert out.records["next"]["anchor"] == "long"
    assert out.report["totals"]["references"] == 1
    assert refs.synth(given, *flags).out == "nothing to do: all 6 rows are done already\n"


def test_killed_behind_the_anchor(refs: Workbench) -> None:
    assert refs.synth(rows(), *CAP, *ANCHOR, out="whole").code == 0
    args = refs.command(refs.write(rows()), *CAP, *ANCHOR)
    patch = (
        "import os, signal\n"
        "from tts_cli.run.plan import row_plan as plan\n"
        "real = plan.keep_anchor\n"
        "def keep(*args):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "plan.keep_anchor = keep\n"
    )
    assert finish(refs.start(args, patch)).code == -signal.SIGKILL
    assert refs.out().status() == {"long": "ok"}
    result = refs.run(*args)
    assert "5 of 6 rows spoken, 1 were done" in result.out
    assert refs.out().files == refs.out("whole").files


def test_an_anchor_that_fails_stops_the_run(refs: Workbench) -> None:
    given = rows()
    given[1] = {**given[1], "text": f"{GOOD} <|im_end|>"}
    result = refs.synth(given, *CAP, "--anchor", "long")
    assert result.code == 4
    assert "the anchor, row 'long', failed" in result.err
    assert refs.out().status() == {"long": "failed"}
    short = refs.synth(rows(), *CAP, "--anchor", "next", out="short")
    assert short.code == 4
    assert "row 'next': lasts 0.19 s; 1 to 30 s are taken for a reference" in short.err
    assert refs.out("short").status() == {"next": "ok"}
    again = refs.synth(rows(), *CAP, "--anchor", "next", out="short")
    assert again.code == 2
    assert "row 'next': lasts 0.19 s" in again.err
    good = refs.synth(rows(), *CAP, *ANCHOR, out="short")
    assert good.code == 0, good.err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody", "no row has this id"),
        ("own", "a recording of its own"),
        ("silent", "no words"),
        ("endless", "would take about 75 s"),
        ("bad", "line 8 is bad"),
    ],
)
def test_what_cannot_be_the_anchor(refs: Workbench, name: str, reason: str) -> None:
    given = [*rows(), {"id": "endless", "text": "word " * 200}, {"id": "bad", "text": ""}]
    for command in ("synth", "validate"):
        more = ("--out", refs.folder / "out") if command == "synth" else ()
        flags = ("--model", refs.model, "--skip-invalid", "--anchor", name, *more)
        result = refs.run(command, refs.write(given), *flags)
        assert result.code == 2
        assert reason in result.err
    assert not (refs.folder / "out").exists()


def test_its_codes_are_a_strangers_file(refs: Workbench) -> None:
    assert refs.synth(rows(), *CAP, *ANCHOR).code == 0
    path = refs.out().path / "long.codes.safetensors"
    whole = path.read_bytes()
    for content in (b"", whole[:40], encode_codes(np.zeros((30, 3), np.int16))):
        path.write_bytes(content)
        result = refs.synth(rows(), *CAP, *ANCHOR)
        assert result.code == 2
        assert "the anchor, row 'long': has codes" in result.err
    path.write_bytes(encode_codes(np.full((30, 4), 2000, np.int16)))
    result = refs.synth(rows(), *CAP, *ANCHOR)
    assert result.code == 1
    assert "reference codes must lie in" in refs.out().records["next"]["error"]


def test_validate_and_a_dry_run_tell(refs: Workbench) -> None:
    manifest = refs.write(rows())
    found = refs.run("validate", manifest, "--model", refs.model, *ANCHOR)
    assert "anchor: long, spoken first; 3 rows follow its voice\n" in found.out
    assert refs.synth(manifest, *CAP).code == 0
    dry = refs.synth(manifest, *CAP, *ANCHOR, "--dry-run", "--json").json
    assert (dry["anchor"], dry["is_anchor_spoken"], dry["anchored"]) == ("long", True, 3)
    assert (dry["pending"], dry["reasons"]["changed"]) == (3, 3)


def test_shards_and_limits_speak_it_too(refs: Workbench) -> None:
    for part in (1, 2):
        result = refs.synth(rows(), *CAP, *ANCHOR, "--shard", f"{part}/2", out=f"part{part}")
        assert result.code == 0, result.err
    assert refs.synth(rows(), *CAP, *ANCHOR, out="whole").code == 0
    whole = refs.out("whole").files
    parts = [refs.out(f"part{part}").files for part in (1, 2)]
    assert all("long.wav" in files for files in parts)
    assert parts[0] | parts[1] == whole
    assert refs.synth(rows(), *CAP, *ANCHOR, "--limit", 1).code == 0
    assert sorted(refs.out().status()) == ["long", "title"]


def test_where_every_row_has_a_voice(bench: Workbench, make_checkpoint: MakeCheckpoint) -> None:
    row = [{"id": "a", "text": "Good morning.", "instruct": "Old."}]
    result = bench.synth(row, *ANCHOR)
    assert result.code == 2
    assert "--anchor first: every row has a voice already" in result.err
    design = bench.synth(row, *ANCHOR, model=make_checkpoint("voice_design"))
    assert design.code == 2
    assert "voices design" in design.err


def test_overwrite_speaks_it_once(refs: Workbench) -> None:
    assert refs.synth(rows(), *CAP, *ANCHOR).code == 0
    count = len(refs.out().lines)
    result = refs.synth(rows(), *CAP, *ANCHOR, "--overwrite")
    assert result.summary == "6 of 6 rows spoken"
    assert len(refs.out().lines) == count + 6


def test_a_book_has_one_voice(refs: Workbench) -> None:
    (refs.folder / "b.md").write_text(
        f"# One\n\n{GOOD} So it was with all of them, and so it goes as ever.\n"
    )
    args = ("book", refs.folder / "b.md", "--out", refs.folder / "book", "--model", refs.model)
    flags = ("--max-seconds", 1.1, "--accept-truncated", "--device", "cpu", *ANCHOR)
    result = refs.run(*args, *flags)
    assert result.code == 0, result.err
    out = refs.out("book")
    anchor = json.loads((out.path / "anchor.json").read_text())["id"]
    assert out.records[anchor]["text"] == GOOD
    assert sorted(str(record["anchor"]) for record in out.records.values()) == sorted(
        ["None", anchor, anchor]
    )
    assert (out.path / "01-one.wav").is_file()
    assert "nothing to do: all 3 rows are done already" in refs.run(*args, *flags).out


def test_from_a_pipe_and_stopped_while_it_is_spoken(refs: Workbench) -> None:
    assert refs.synth(rows(), *CAP, *ANCHOR, out="whole").code == 0
    args = refs.command(refs.write(rows()), *CAP, *ANCHOR)
    patch = (
        "import os, signal\n"
        "from tts_cli.run.records import Recorder\n"
        "real = Recorder.end_of\n"
        "def end_of(self, row_id):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(self, row_id)\n"
        "Recorder.end_of = end_of\n"
    )
    assert finish(refs.start(args, patch)).code == 130
    assert set(refs.out().status()) <= {"long"}
    piped = subprocess.run(
        [sys.executable, "-m", "tts_cli", *map(str, refs.command(Path("-"), *CAP, *ANCHOR))],
        input=refs.write(rows()).read_bytes(),
        cwd=refs.folder,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert piped.returncode == 0, piped.stderr.decode()
    assert refs.out().files == refs.out("whole").files
