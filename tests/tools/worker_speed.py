"""One process against workers on the same rows, and workers of which one is killed: speed, and that
nothing is lost or spoken twice.

    python tests/tools/worker_speed.py FOLDER [--rows 4096] [--workers 2] [--batch 256]
        [--model synthetic:qwen3-tts-0.6b] [--device auto] [--runs warm,one,workers,killed]

speaks the benchmark's rows (`samples/benchmark.py`) four times: a few by one process, so that
kernels are compiled; all by one process; all by workers; and all by workers of which one is killed
once a third is recorded. Prints a line for each run with its times real time and its share of the
first, where its time went, a line for each worker, and what is wrong; ends with 1 if anything is.

Speaking is counted alike with one process and with workers: from when the first row may be planned
(the model is loaded, its first graphs are recorded, Ray's workers wait) until the last line is in
the journal. Loading, and Ray's start, are in the time of the whole process, which is printed too.
Graphs that are recorded while rows are spoken belong to speaking, in both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "support"))

from cpu_watch import CpuWatch  # noqa: E402
from processes import workers_of  # noqa: E402
from scripts import load_script  # noqa: E402

WARM_ROWS = 300  # more than a batch, so that slots are refilled


def lines_of(journal: Path) -> int:
    """Rows recorded so far."""
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


class Runs:
    """Runs over one manifest.

    Args:
        options: what `parse` found.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.problems: list[str] = []
        self.first_xrt = 0.0
        self.workers_s = 0.0  # of the run of which nobody was killed
        self.killed_s = 0.0  # when a worker was killed, in seconds since 1970

    def run(self, name: str, num_rows: int, *flags: str, kill_at: int | None = None) -> None:
        """Speak rows into a folder of a run's own, and say what came of it."""
        options, out = self.options, self.options.folder.absolute() / name
        shutil.rmtree(out, ignore_errors=True)
        manifest = out.parent / f"{num_rows}.jsonl"
        benchmark = load_script(ROOT / "samples" / "benchmark.py")
        manifest.write_text("".join(f"{line}\n" for line in benchmark.rows(num_rows)))
        command = [sys.executable, "-m", "tts_cli", "synth", str(manifest), "--out", str(out)]
        command += ["--model", options.model, "--max-batch", str(options.batch)]
        command += ["--device", options.device, "--progress", "none", *flags]
        started_s = time.monotonic()
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        watch = CpuWatch(process.pid)
        if kill_at is not None:
            args = (process, out / "timings.jsonl", kill_at)
            threading.Thread(target=self.kill_one, args=args, daemon=True).start()
        code = process.wait()
        process_s = time.monotonic() - started_s
        watch.end()
        self.show(name, out, num_rows, code, process_s)
        if (out / "run.json").exists():
            show_times(out, watch)
            self.compare(name, out)
        if kill_at is not None and self.restarts(out) != 1:
            self.problems.append(f"{name}: {self.restarts(out)} restarts instead of 1")
        if not self.problems:
            shutil.rmtree(out)  # gigabytes, in memory perhaps

    def kill_one(self, process: subprocess.Popen[bytes], journal: Path, rows: int) -> None:
        """Kill a worker once so many rows are recorded."""
        while process.poll() is None:
            if lines_of(journal) >= rows:
                victim = workers_of(process.pid)[0]
                os.kill(victim, signal.SIGKILL)
                self.killed_s = time.time()
                print(f"killed worker process {victim} after {rows} rows", flush=True)
                return
            time.sleep(0.05)

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
            f"xRT {xrt:.1f} {ratio}, speaking {totals['wall_s']:.2f} s, "
            f"{totals['ok'] / max(1e-9, totals['wall_s']):.1f} rows/s, load "
            f"{totals['load_s']:.1f} s, capture {totals['capture_s']:.1f} s, process "
            f"{process_s:.1f} s, graph misses {totals['graph_misses']}",
            flush=True,
        )
        for one in report["workers"]:
            shown = ("number", "host", "name", "rows", "audio_s", "load_s", "capture_s")
            more = ("steps", "row_steps", "padded_steps", "restarts", "given_up")
            print("   ", {key: one.get(key) for key in (*shown, *more)}, flush=True)
        self.check(name, out, num_rows, report, code)

    def compare(self, name: str, out: Path) -> None:
        """How much longer a run took than the survivors and the replacement need at best.

        At best the others go on as before, and only the time from the kill to the first row of the
        replacement is lost.
        """
        report = json.loads((out / "run.json").read_text())
        wall_s = report["totals"]["wall_s"]
        if name == "workers":
            self.workers_s = wall_s
        elif name == "killed" and self.workers_s and self.restarts(out) == 1:
            replaced = next(one["number"] for one in report["workers"] if one["restarts"])
            lines = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
            times = [(line["worker"], datetime.fromisoformat(line["started"]).timestamp(),
                      line["latency_ms"] / 1000) for line in lines]  # fmt: skip
            end_s = max(start_s + latency_s for _, start_s, latency_s in times)
            starts = (at_s for worker, at_s, _ in times if worker == replaced)
            lost_s = min((at_s for at_s in starts if at_s > self.killed_s), default=end_s)
            lost_s -= self.killed_s
            best_s = self.workers_s + lost_s / self.options.workers
            print(f"    at best {best_s:.2f} s: {self.workers_s:.2f} s, and {lost_s:.2f} s without "
                  f"a worker; took {wall_s / best_s:.2f} x that", flush=True)  # fmt: skip

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


def show_times(out: Path, watch: CpuWatch) -> None:
    """Where the time of a run went: when rows were recorded, what devices and processes did."""
    report = json.loads((out / "run.json").read_text())
    lines = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
    wall_s = report["totals"]["wall_s"]
    ended_s = [
        (datetime.fromisoformat(line["started"]).timestamp() + line["latency_ms"] / 1000, line)
        for line in lines
        if line["started"] is not None
    ]
    last_s = max(at_s for at_s, _ in ended_s)
    zero_s = last_s - wall_s
    shown = ("first", 0.02), ("5 %", 0.05), ("25 %", 0.25), ("75 %", 0.75), ("95 %", 0.95)
    order = sorted(at_s - zero_s for at_s, _ in ended_s)
    at = {name: order[int(share * (len(order) - 1))] for name, share in shown}
    at["first"] = order[0]
    rate = 0.5 * len(order) / max(1e-9, at["75 %"] - at["25 %"])
    print("    recorded:", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in at.items()),
          f"last {order[-1]:.2f} s; {rate:.1f} rows/s from 25 to 75 %", flush=True)  # fmt: skip
    for number in sorted({line.get("worker") or 0 for line in lines}):
        own = sorted(at_s - zero_s for at_s, line in ended_s if (line.get("worker") or 0) == number)
        print(f"    worker {number}: first row {own[0]:.2f} s, last {own[-1]:.2f} s, idle "
              f"{wall_s - own[-1]:.2f} s at the end", flush=True)  # fmt: skip
    writes = sorted(line["write_ms"] for line in lines)
    queues = sorted(line["queue_ms"] for line in lines)
    print(f"    write_ms median {writes[len(writes) // 2]:.1f}, p95 "
          f"{writes[int(0.95 * len(writes))]:.1f}; queue_ms median {queues[len(queues) // 2]:.0f}",
          flush=True)  # fmt: skip
    for one in report["workers"] or [report["device"]]:
        steps = one.get("steps") or 0
        print(f"    device: {steps} steps, rows "
              f"{one.get('row_steps', 0) / max(1, steps):.0f} and padded "
              f"{one.get('padded_steps', 0) / max(1, steps):.0f} a step, graphs "
              f"{one.get('graphs')}, while speaking {one.get('graphs_while_speaking')} "
              f"in {one.get('graphs_while_speaking_ms')} ms; busy {one.get('busy_share')}",
              flush=True)  # fmt: skip
    for name, (total_s, threads) in watch.spent(zero_s, last_s).items():
        busiest = ", ".join(f"{seconds:.1f}" for seconds in threads)
        print(f"    CPU of {name}: {total_s:.1f} s, its busiest threads {busiest} s of "
              f"{wall_s:.1f} s", flush=True)  # fmt: skip


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
    parser.add_argument("--runs", default="warm,one,workers,killed", help="which, in this order")
    return parser.parse_args()


def main() -> int:
    """Run what is asked for."""
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    workers = ("--workers", str(options.workers))
    runs = Runs(options)
    kill_at = options.rows // 3
    for name in options.runs.split(","):
        if name == "warm":
            runs.run(name, min(WARM_ROWS, options.rows))
        else:
            is_killed = name == "killed"
            flags = () if name == "one" else workers
            runs.run(name, options.rows, *flags, kill_at=kill_at if is_killed else None)
    for problem in runs.problems:
        print(f"WRONG: {problem}")
    if not runs.problems:
        print("nothing lost, nothing twice")
    return int(bool(runs.problems))


if __name__ == "__main__":
    sys.exit(main())
