"""kill -9 of workers, and now and then of the driver, at random moments: nothing is lost, nothing
twice.

    python tests/tools/worker_moments.py [--kills 20] [--rows 400] [--seed 0] [--model DIR]

A manifest is spoken once by one process. Then two workers speak the same rows, and are killed one
after the other while they do; each seventh kill is the driver's, whose run is resumed. At the end
the folder must be the same byte for byte, with each row recorded ok once, and no process of Ray may
be left. Folders are begun anew until so many kills are done.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

from processes import are_gone, is_alive, processes_below, workers_of
from runs import (
    JOURNAL,
    PATIENCE_S,
    Work,
    end_of,
    files_of,
    odd_word,
    parser_of,
    problem_amid,
    problem_at_end,
    write_work,
)

DRIVER_EVERY = 7
FLAGS = ("--workers", "2", "--max-batch", "2", "--max-seconds", "1")
# What Ray was starting when the driver died, and its own agents, look for the driver for a minute.
LATE_S = 120.0
LOADING_SHARE = 0.2  # of kills that may come before a row was spoken since the last one
# What ends a run where so much is killed; it is resumed.
NONE_LEFT = ("no worker is left", "no worker could be started")


class Series:
    """Runs whose workers are killed.

    Args:
        wanted: the files of the undisturbed run.
    """

    def __init__(self, work: Work, wanted: dict[str, str], seed: int) -> None:
        self.work = work
        self.wanted = wanted
        self.kills = 0
        self._random = random.Random(seed)

    def spoil(self, out: Path, most_kills: int) -> str | None:
        """Speak into a folder with kills until it is done; what is wrong, if anything is."""
        while True:
            process = self.work.start(out, *FLAGS)
            said: list[str] = []
            reader = threading.Thread(target=_read, args=(process, said), daemon=True)
            reader.start()
            started, is_killed = self._disturb(process, out / JOURNAL, most_kills)
            code = process.wait(PATIENCE_S)
            reader.join()
            text = "".join(said)
            if not are_gone(started, LATE_S):
                return f"left behind: {[pid for pid in started if is_alive(pid)]}"
            if problem := odd_word(text) or problem_amid(out, self.wanted):
                return problem
            if not is_killed and not any(words in text for words in NONE_LEFT):
                break
        if code:
            return f"exit {code}: {text[-2000:]}"
        return problem_at_end(out, self.wanted, self.work) or problem_in_lines(out)

    def _disturb(
        self, process: subprocess.Popen[str], journal: Path, most_kills: int
    ) -> tuple[list[int], bool]:
        """Kill workers until a run ends or its driver is killed; all processes there were."""
        seen: set[int] = set()
        before = size_of(journal)
        while process.poll() is None:
            wait_s = self._random.uniform(0.5, 5.0)
            try:
                process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                pass
            seen.update(processes_below(process.pid))
            workers = workers_of(process.pid)
            if size_of(journal) == before and self._random.random() > LOADING_SHARE:
                continue
            if self.kills >= most_kills or not workers:
                continue
            before = size_of(journal)
            self.kills += 1
            if self.kills % DRIVER_EVERY == 0:
                print(f"kill {self.kills}: the driver", flush=True)
                process.send_signal(signal.SIGKILL)
                return sorted(seen), True
            victim = self._random.choice(workers)
            print(f"kill {self.kills}: worker process {victim}", flush=True)
            os.kill(victim, signal.SIGKILL)
        return sorted(seen), False


def size_of(path: Path) -> int:
    """Bytes of a file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def _read(process: subprocess.Popen[str], said: list[str]) -> None:
    assert process.stdout is not None
    said.extend(process.stdout)


def problem_in_lines(out: Path) -> str | None:
    """Whether a row was recorded ok more than once."""
    lines = [json.loads(line) for line in (out / JOURNAL).read_text().splitlines()]
    times = Counter(line["id"] for line in lines if line["status"] == "ok")
    twice = sorted(row_id for row_id, count in times.items() if count > 1)
    return f"recorded more than once: {', '.join(twice[:5])}" if twice else None


def main() -> int:
    """Run the series."""
    parser = parser_of(__doc__, 400)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="worker-kills-"))
    work = write_work(folder, options.rows, options.model)
    code, said = end_of(work.start(folder / "undisturbed", *FLAGS[2:]))
    assert code == 0, said
    wanted = files_of(folder / "undisturbed")
    print(f"undisturbed: {len(wanted)} files", flush=True)
    series = Series(work, wanted, options.seed)
    runs = 0
    while series.kills < options.kills:
        runs += 1
        if problem := series.spoil(folder / f"run{runs}", options.kills):
            print(f"WRONG: {problem}\nkept: {folder / f'run{runs}'}")
            return 1
        print(f"run{runs}: as if undisturbed, after {series.kills} kills", flush=True)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
