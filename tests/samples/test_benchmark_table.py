"""`samples/benchmark.py table`: parts are measured by real commands where a CPU can, one after the
other whatever becomes of each, and figures are put together as they should be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tts_cli.main import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
VOICE = "samples/voice/checkpoint"
MODULES = ("baseline", "manifests", "memory", "parts", "process", "table", "whole_run")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules beside the script, which are in no package."""
    import importlib

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SAMPLES / "benchmarks"))
        found = {name: importlib.import_module(name) for name in MODULES}
        yield SimpleNamespace(**found)
    for name in MODULES:
        del sys.modules[name]


@pytest.fixture
def commands(bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(ROOT)
    log = tmp_path / "commands.log"
    log.write_text("")
    with bench.process.Commands(log) as commands:
        yield commands


def rows_of(manifest: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in manifest.read_text().splitlines()]


def test_commands_share_a_process_that_is_replaced_when_it_dies(
    bench: SimpleNamespace, commands: Any
) -> None:
    answer = commands.run("config", "show", "synth", "--json")
    assert "max_batch" in answer["out"]
    first = commands._process.pid
    with pytest.raises(bench.process.CommandFailed, match=r"code 2.*nowhere"):
        commands.run("validate", "nowhere.jsonl")
    assert commands._process.pid == first
    commands._process.kill()
    commands._process.wait()
    assert commands.run("config", "show", "--json")["code"] == 0
    assert commands._process.pid != first
    with pytest.raises(bench.process.CommandFailed, match="no answer within 0 s"):
        commands.run("voices", timeout_s=0.0)
    assert commands.run("config", "show", "--json")["code"] == 0


def test_whole_runs_are_what_run_json_says(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU counts no memory and records no graphs; all else is there. In this process."""
    monkeypatch.chdir(ROOT)
    commands = SimpleNamespace(run=lambda *args: {"seconds": 0.0, "code": main([*map(str, args)])})
    place = bench.whole_run.Place(tmp_path, commands, ("--device", "cpu"), repeats=2)
    figures = bench.parts.whole(VOICE, 2, 3, "5-9")(place)
    assert len(figures["xrt_of_each"]) == 2
    assert figures["xrt"] == pytest.approx(sum(figures["xrt_of_each"]) / 2)
    manifest = tmp_path / f"{VOICE.replace('/', '_')}-2.jsonl"
    assert figures["frames"] == sum(row["max_frames"] for row in rows_of(manifest))
    assert (figures["failed"], figures["step_downs"], figures["max_batch"]) == (0, 0, 2)
    assert figures["recorded_while_speaking_s"] == 0
    assert figures["xrt_without_recording"] == pytest.approx(figures["xrt"], rel=0.05)
    assert [path.suffix for path in tmp_path.iterdir() if path.is_dir()] == []  # no audio is left
    (cell,) = bench.parts._whole_lines("x")(figures).values()
    assert cell == f"{figures['xrt']:,.0f} xRT"


def report(**device: Any) -> dict[str, Any]:
    totals = {"xrt": 50.0, "audio_s": 100.0, "wall_s": 2.0, "frames": 1250, "load_s": 1.0}
    totals |= {"capture_s": 0.5, "reference_ms": 300.0, "failed": 0, "graph_misses": 0}
    return {"totals": totals, "device": {"max_batch": 64, **device}}


def test_recording_while_speaking_is_told_apart(bench: SimpleNamespace) -> None:
    facts = bench.whole_run.facts(
        report(
            graphs_while_speaking=4,
            graphs_while_speaking_ms=400.0,
            memory_step_downs=1,
            setup_step_downs=2,
            memory={"peak": 3 * 2**30, "reserved": 4 * 2**30},
            busy_share=0.9,
        )
    )
    assert facts["xrt_without_recording"] == pytest.approx(100 / 1.6)
    assert (facts["step_downs"], facts["busy_share"]) == (3, 0.9)
    (cell,) = bench.parts._whole_lines("x")(facts).values()
    assert cell == (
        "50 xRT (62 without 4 graphs recorded meanwhile, 0.40 s), 3.0 of 4.0 GiB; "
        "0 failed, 0 graph misses, 3 step-downs"
    )


def test_the_parts_of_the_wall_time_add_up(bench: SimpleNamespace, tmp_path: Path) -> None:
    lines = [
        {"prefill_ms": 40.0, "decode_ms": 700.0, "vocoder_ms": 500.0},
        {"prefill_ms": 60.0, "decode_ms": 500.0, "vocoder_ms": 400.0},
        {"error": "failed"},
    ]
    (tmp_path / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    stages = bench.whole_run.stage_seconds(tmp_path)
    assert stages == pytest.approx({"prefill_s": 0.1, "frames_s": 1.2, "vocoder_s": 0.9})
    found = bench.whole_run.shares(report(steps=600, sparse_steps=150), stages)
    assert found == pytest.approx({"prefill": 0.1, "frames": 0.9, "sparse": 0.3, "rest": 0.7})
    assert sum(found.values()) == pytest.approx(2.0)


class Answers:
    """Commands that are not run: each wall time by the name of the manifest."""

    def __init__(self, walls: dict[str, float]) -> None:
        self.walls = walls
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def run(self, *args: Any) -> dict[str, Any]:
        name = Path(args[1]).stem
        self.asked.append((name, tuple(map(str, args[2:]))))
        out = Path(args[3])
        out.mkdir(parents=True)
        found = report()
        found["totals"]["wall_s"] = self.walls[name]
        (out / "run.json").write_text(json.dumps(found))
        (out / "timings.jsonl").write_text("")
        return {"seconds": 1.0}


def test_mixed_rows_are_held_against_the_mean_of_both(
    bench: SimpleNamespace, tmp_path: Path
) -> None:
    answers = Answers({"clone-xvec": 3.0, "clone-icl": 5.0, "clone-mixed": 4.4})
    figures = bench.parts.mixed(bench.whole_run.Place(tmp_path, answers, (), repeats=2))
    assert figures["cost"]["wall_s"] == pytest.approx(0.1)
    assert figures["cost"]["prefill_s"] is None
    timed = [name for name, args in answers.asked if "--limit" not in args]
    assert timed == ["clone-xvec", "clone-icl", "clone-mixed"] * 2
    kinds = {kind: rows_of(tmp_path / f"clone-{kind}.jsonl") for kind in ("xvec", "icl", "mixed")}
    own = [[(row["text"], row["max_frames"]) for row in rows] for rows in kinds.values()]
    assert own[0] == own[1] == own[2]
    modes = [row["clone_mode"] for row in kinds["mixed"]]
    assert modes.count("icl") == modes.count("xvec") == len(modes) / 2
    # As many encodings in each: a recording of the mixed rows is cloned in one way only.
    for rows in kinds.values():
        assert len({(row["ref_audio"], row["clone_mode"]) for row in rows}) == 8


def test_recordings_can_be_cloned(bench: SimpleNamespace, tmp_path: Path) -> None:
    from tts_cli.voices.recording import load_reference

    bench.manifests.write_references(tmp_path)
    for number in (0, 7):
        path = str(tmp_path / f"reference-{number}.wav")
        found = load_reference(path, None, mode="xvec", text=None, rate_hz=24_000, silence_s=0.0)
        assert len(found.samples) == pytest.approx(24_000 * (5 + 2 * number / 7), abs=2)


def test_a_part_that_fails_leaves_the_others(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def works(place: Any) -> dict[str, Any]:
        assert place.flags == ("--device", "cpu", "--kernels", place.flags[-1])
        return {"value": 7}

    def fails(place: Any) -> dict[str, Any]:
        raise bench.process.CommandFailed("the process ended amid synth: out of paper")

    def breaks(place: Any) -> dict[str, Any]:
        raise KeyError("busy")

    def lines(figures: dict[str, Any]) -> dict[str, str]:
        return {"works": f"{figures['value']} xRT"}

    part = bench.parts.Part
    parts = (
        part("fails", fails, lines),
        part("breaks", breaks, lines, is_usual=False),
        part("works", works, lines, is_for_portable=True),
    )
    monkeypatch.setattr(bench.table, "PARTS", parts)

    def run(names: list[str] | None, budget_s: float | None = None) -> list[str]:
        code = bench.table.run(
            tmp_path, names, ["auto", "portable"], 1, budget_s, ["--device", "cpu"]
        )
        assert code == 1
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]

    assert run(None) == [
        "| what | `--kernels auto` | `--kernels portable` |",
        "|---|---|---|",
        "| fails | failed, see table.json |  |",
        "| works | 7 xRT | 7 xRT |",
    ]
    written = json.loads((tmp_path / "table.json").read_text())
    errors = {entry["part"]: entry.get("error") for entry in written["parts"]}
    assert errors == {"fails": "the process ended amid synth: out of paper", "works": None}
    assert written["about"]["torch"]
    run(["breaks"])
    written = json.loads((tmp_path / "table.json").read_text())
    assert "KeyError" in written["parts"][0]["error"]
    assert "| works | failed, see table.json | failed, see table.json |" in run(["works"], -1.0)
    written = json.loads((tmp_path / "table.json").read_text())
    assert {entry["error"] for entry in written["parts"]} == {"left out: no time"}


def test_a_slower_part_is_named_and_another_gpu_refused(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from tts_cli.errors import UsageError

    def measure(place: Any) -> dict[str, Any]:
        return {"results": [{"batch": 64, "p50_ms": 3.0}]}

    parts = (
        bench.parts.Part("frames", measure, lambda _: {}),
        bench.parts.Part("whole", lambda _: {"xrt": 1000.0}, lambda _: {}),
    )
    monkeypatch.setattr(bench.table, "PARTS", parts)

    def run(against: Any = None) -> int:
        return bench.table.run(tmp_path, None, ["auto"], 1, None, [], against)  # type: ignore[no-any-return]

    def before(tolerance: str, **about: str) -> Any:
        path = tmp_path / "before.json"
        found = json.loads((tmp_path / "table.json").read_text())
        found["about"] |= about
        found["parts"][0]["figures"]["results"][0]["p50_ms"] = 2.5
        found["parts"][1]["figures"]["xrt"] = 1040.0
        path.write_text(json.dumps(found))
        read = bench.table.conditions_of, bench.table.times_of
        return bench.baseline.Baseline.read(path, tolerance, *read)

    assert run() == 0
    assert run(before("30%")) == 0
    assert run(before("5%")) == 1
    slower = [line for line in capsys.readouterr().out.splitlines() if line.startswith("slower")]
    assert slower == ["slower: frames (auto), batch 64: 3.000 ms, before 2.500 (+20.0 %)"]
    with pytest.raises(UsageError, match="another GPU or driver: other, now"):
        run(before("5%", device="other"))
    with pytest.raises(UsageError, match="'much': must be a percentage such as 5%"):
        before("much")
    earlier = before("5%")
    with pytest.raises(UsageError, match="has no stage in common with this measurement"):
        earlier.slower({"vocoder, batch 64": 1.0})


@pytest.mark.parametrize("found", [[], {"about": 1}, {}, None, {"parts": []}])
def test_other_files_are_refused(found: Any, bench: SimpleNamespace, tmp_path: Path) -> None:
    from tts_cli.errors import UsageError

    path = tmp_path / "before.json"
    path.write_text(json.dumps(found))
    read = bench.table.conditions_of, bench.table.times_of
    with pytest.raises(UsageError, match="is not a table of this script"):
        bench.baseline.Baseline.read(path, "5%", *read)


def test_memory_is_taken_and_each_run_said(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a device of 60 GB: a card of 80 cannot be made of it; one run had to step down."""
    gib = bench.whole_run.GIB

    class Ballast:
        def __init__(self, log: Path) -> None:
            pass

        def leave(self, num_bytes: int) -> int:
            return min(num_bytes, 60 * gib)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    asked: list[tuple[str, ...]] = []

    def run(place: Any, lengths: str, name: str, flags: tuple[str, ...]) -> dict[str, Any]:
        asked.append(flags)
        if name == "24-1.7B":
            raise bench.process.CommandFailed("no room")
        downs = int(name == "24-Fish")
        shown = {"xrt": 500.0, "max_batch": 64, "step_downs": downs, "failed": 0}
        return shown | {"peak_gib": 20.0, "reserved_gib": 21.5}

    monkeypatch.setattr(bench.memory, "Ballast", Ballast)
    monkeypatch.setattr(bench.memory, "_run", run)
    commands = SimpleNamespace(close=lambda: None, log=tmp_path / "log")
    figures = bench.memory.measure(bench.whole_run.Place(tmp_path, commands, ()))
    lines = bench.memory.lines(figures)
    assert lines["24 GB, 0.6B"] == "64 rows at once, 20.0 of 21.5 GiB, 500 xRT"
    assert lines["24 GB, 1.7B"] == "failed: no room"
    assert lines["24 GB, Fish S2 Pro"].startswith("WRONG: stepped down; 64 rows")
    assert lines["80 GB, all"] == "failed: this device is smaller"
    assert len(asked) == 12
    assert all(flags[-2:] == ("--kernels", "portable") for flags in asked)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--only", "frames,nothing"), "is none of"),
        (("--kernels", "fast"), "is none of"),
        (("--baseline", "no/such.json"), "--baseline no/such.json: No such file"),
    ],
)
def test_unknown_names_are_refused(flags: tuple[str, ...], words: str, tmp_path: Path) -> None:
    import subprocess

    command = [sys.executable, str(SAMPLES / "benchmark.py"), "table", str(tmp_path), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert not any(tmp_path.iterdir())
