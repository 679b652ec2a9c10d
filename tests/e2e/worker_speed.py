"""One process against workers on the same rows, and workers of which one is killed: speed, and that
nothing is lost or spoken twice.

    python tests/e2e/worker_speed.py FOLDER [--rows 4096] [--workers 2] [--batch 256]
        [--model synthetic:qwen3-tts-0.6b] [--device auto]

speaks the benchmark's rows (`samples/benchmark.py`) four times: a few by one process, so that
kernels are compiled; all by one process; all by workers; and all by workers of which one is killed
once a third is recorded. Prints a line for each run with its times real time and its share of the
first, a line for each worker, and what is wrong; ends with 1 if anything is. xRT counts from the
first row to the last: loading, and Ray's start, are apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "support"))

from processes import workers_of  # noqa: E402

WARM_ROWS = 300  # more than a batch, so that slots are refilled


def benchmark() -> ModuleType:
    """`samples/benchmark.py`, which is in no package."""
    spec = importlib.util.spec_from_file_location("benchmark", ROOT / "samples" / "benchmark.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines_of(journal: Path) -> int:
    """Rows recorded so far."""
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def kill_one(process: subprocess.Popen[bytes], journal: Path, rows: int) -> None:
    """Kill a worker once so many rows are recorded."""
    while process.poll() is None:
        if lines_of(journal) >= rows:
            victim = workers_of(process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            print(f"killed worker process {victim} after {rows} rows", flush=True)
            return
        time.sleep(0.05)


class Runs:
    """Runs over one manifest.

    Args:
        options: what `parse` found.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.problems: list[str] = []
        self.first_xrt = 0.0

    def run(self, name: str, num_rows: int, *flags: str, kill_at: int | None = None) -> None:
        """Speak rows into a folder of a run's own, and say what came of it."""
        options, out = self.options, self.options.folder / name
        shutil.rmtree(out, ignore_errors=True)
        manifest = options.folder / f"{num_rows}.jsonl"
        manifest.write_text("".join(f"{line}\n" for line in benchmark().rows(num_rows)))
        command = [sys.executable, "-m", "tts_cli", "synth", str(manifest), "--out", str(out)]
        command += ["--model", options.model, "--max-batch", str(options.batch)]
        command += ["--device", options.device, "--progress", "none", *flags]
        started_s = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        if kill_at is not None:
            args = (process, out / "timings.jsonl", kill_at)
            threading.Thread(target=kill_one, args=args, daemon=True).start()
        code = process.wait()
        self.show(name, out, num_rows, code, time.monotonic() - started_s)
        if kill_at is not None and self.restarts(out) != 1:
            self.problems.append(f"{name}: {self.restarts(out)} restarts instead of 1")

    def show(self, name: str, out: Path, num_rows: int, code: int, process_s: float) -> None:
        """A line for a run, and one for each of its workers."""
        if not (out / "run.json").exists():
            self.problems.append(f"{name}: exit {code}, no report")
            return
        report = json.loads((out / "run.json").read_text())
        totals = report["totals"]
        xrt = totals["xrt"] or 0.0
        if name == "one":
            self.first_xrt = xrt
        ratio = f"{xrt / self.first_xrt:.2f} x one" if self.first_xrt else ""
        print(
            f"{name}: exit {code}, {totals['ok']} rows, {totals['audio_s']:.0f} s of audio, "
            f"xRT {xrt:.1f} {ratio}, wall {totals['wall_s']:.2f} s, load {totals['load_s']:.1f} s, "
            f"capture {totals['capture_s']:.1f} s, process {process_s:.1f} s, graph misses "
            f"{totals['graph_misses']}",
            flush=True,
        )
        for one in report["workers"]:
            shown = ("number", "host", "name", "rows", "audio_s", "load_s", "capture_s")
            more = ("steps", "row_steps", "padded_steps", "restarts", "given_up")
            print("   ", {key: one.get(key) for key in (*shown, *more)}, flush=True)
        self.check(name, out, num_rows, report, code)

    def check(self, name: str, out: Path, num_rows: int, report: dict[str, Any], code: int) -> None:
        """Every row is recorded ok once, with its file as it was recorded, and counted so."""
        lines = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
        times = Counter(line["id"] for line in lines if line["status"] == "ok")
        found = {
            "exit code": code == 0,
            f"{len(times)} rows recorded ok of {num_rows}": len(times) == num_rows,
            "a row recorded ok twice": max(times.values(), default=0) == 1,
            "rows in the report": report["totals"]["ok"] == num_rows == report["folder"]["ok"],
            "files": all((out / line["path"]).stat().st_size == line["bytes"] for line in lines),
            "files besides": sum(1 for _ in out.rglob("*.wav")) == num_rows,
            "temporary files": not list(out.rglob("*.part")),
        }
        if report["workers"]:
            spoken = Counter(line["worker"] for line in lines)
            counted = {one["number"]: one["rows"] for one in report["workers"] if one["rows"]}
            found["rows of each worker"] = spoken == counted
        self.problems += [f"{name}: {what}" for what, is_right in found.items() if not is_right]

    @staticmethod
    def restarts(out: Path) -> int:
        """Of all workers of a run."""
        report = json.loads((out / "run.json").read_text())
        return sum(one["restarts"] for one in report["workers"])


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="for manifests and audio")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--model", default="synthetic:qwen3-tts-0.6b")
    parser.add_argument("--device", default="auto")
    return parser.parse_args()


def main() -> int:
    """Run all four."""
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    workers = ("--workers", str(options.workers))
    runs = Runs(options)
    runs.run("warm", min(WARM_ROWS, options.rows))
    runs.run("one", options.rows)
    runs.run("workers", options.rows, *workers)
    runs.run("killed", options.rows, *workers, kill_at=options.rows // 3)
    for problem in runs.problems:
        print(f"WRONG: {problem}")
    if not runs.problems:
        print("nothing lost, nothing twice")
    return int(bool(runs.problems))


if __name__ == "__main__":
    sys.exit(main())
