"""`tts-cli report` on folders that were spoken, or never were."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from spoken_folders import record, write_folder
from workbench import ROOT, Workbench

from tts_cli.checks.page import content as page_content

ROWS = [
    {"id": "a/one", "text": "Good morning.", "voice": "dora"},
    {"id": "two", "text": "Good evening </script>.", "voice": "emil"},
    {"text": "Good night."},
]


def data_of(page: Path) -> Any:
    """What a page holds, as a browser finds it."""
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(data)


def test_all_runs_of_a_folder_are_on_the_page(bench: Workbench) -> None:
    bench.synth(ROWS[:1], "--seed", 3)
    bench.synth(ROWS, "--seed", 3, "--max-batch", 4)
    result = bench.run("report", bench.folder / "out")
    page = bench.folder / "out" / "report.html"
    assert result.code == 0
    assert re.fullmatch(
        rf"{re.escape(str(page))}: 3 rows, 0 failed, \d suspect, \d+\.\d kB, made in \d\.\d s\n",
        result.out,
    )
    data = data_of(page)
    rows = {row["id"]: row for row in data["rows"]}
    assert list(rows) == ["000003", "a/one", "two"]
    assert rows["two"]["text"] == ROWS[1]["text"]
    assert rows["a/one"]["takes"][0]["url"] == "a/one.wav"
    assert len(rows["a/one"]["takes"][0]["waveform"]) == 160
    assert data["totals"]["runs"] == 2
    # The command that speaks a row again is that of the run which spoke it.
    first, last = (data["runs"][rows[row_id]["run"]]["command"] for row_id in ("a/one", "two"))
    manifest = str(bench.folder / "rows.jsonl")
    # Which device, and how many rows at once, is for whoever types it.
    assert first == last == ["synth", manifest, "--model", str(bench.model), "--seed", "3"]


def test_a_place_that_cannot_be_written(bench: Workbench, tmp_path: Path) -> None:
    out = write_folder(tmp_path / "out", [record("a")])
    (out / "report.html").mkdir()
    bench.run("report", out).expect(3, f"cannot write {out / 'report.html'}: Is a directory")


_PROGRAM = """
globalThis.location = { protocol: "https:" };
const { load, model } = await import(process.argv[1] + "/model.js");
const { againCommands } = await import(process.argv[1] + "/shell.js");
load(JSON.parse((await import("node:fs")).readFileSync(0, "utf8")));
console.log(JSON.stringify(againCommands(model.rows.slice(1))));
"""


def test_the_copied_command_makes_takes(bench: Workbench) -> None:
    """As it stands, by the page's own code."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    bench.synth(ROWS, "--seed", 3).expect(0)
    page = bench.folder / "out" / "report.html"
    bench.run("report", page.parent).expect(0)
    source = Path(page_content.__file__).parent / "frontend" / "src"
    done = subprocess.run(
        [node, "--input-type=module", "-e", _PROGRAM, source.as_uri()],
        input=json.dumps(data_of(page)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.returncode, done.stderr[-2000:]
    (line,) = json.loads(done.stdout)
    program, *command = shlex.split(line)
    assert program == "tts-cli"
    bench.run(*command, "--device", "cpu").expect(0, out="6 more takes of 2 rows")


def test_speed_is_of_runs_that_ended(bench: Workbench) -> None:
    """A killed run leaves rows and no time; they counted for the runs after it. The recipe of the
    guide gives the same figure.
    """
    out = bench.folder / "out"
    rows = [{"id": f"r{number}", "text": "Good morning."} for number in range(6)]
    bench.synth(rows[:5], "--seed", 3)
    runs = out / "runs.jsonl"
    runs.write_text(runs.read_text().splitlines(keepends=True)[0])  # as if it had been killed
    bench.synth(rows, "--seed", 3)
    totals = bench.out().report["totals"]
    wanted = pytest.approx(totals["audio_s"] / totals["wall_s"], rel=0.01)
    assert bench.run("report", out, "--json").json["totals"]["xrt"] == wanted
    guide = (ROOT / "samples" / "guide" / "fields.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^    (jq .*wall_s.*)$", guide, re.M)
    if shutil.which("jq"):
        done = subprocess.run(shlex.split(recipe), cwd=out, capture_output=True, text=True)
        assert float(done.stdout) == wanted
