"""`synth --workers` on Ray. What becomes of rows in all kinds of trouble is in
`test_worker_threads.py`; here are Ray itself, real kills, signals, and that nothing is left behind.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from processes import are_gone, processes_below, without_agents, workers_of
from workbench import Workbench, as_jsonl, finish

from tts_cli.cli import messages as msg
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.workers.cluster import STORE_BYTES, Cluster

ray = pytest.importorskip("ray", reason="needs the extra ray")

ROWS = [{"id": f"part{n % 3}/{n:02d}", "text": "Hello there. " * (1 + n % 4)} for n in range(24)]
FLAGS = ("--max-seconds", 0.1, "--accept-truncated", "--save-codes", "--max-batch", 2)
SLOWLY = (*FLAGS[2:], "--max-seconds", 3)
PATIENCE_S = 120.0
# A program that finds two cores, however many there are: with one, `--workers 2` is an error.
TWO_CORES = "from tts_cli.workers import cluster; cluster.usable_cores = lambda: 2\n"


@pytest.fixture(scope="module")
def shared_ray() -> Iterator[None]:
    """A Ray that this process has joined before any command; commands use it, and leave it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        logging.getLogger("ray").setLevel(logging.ERROR)
        ray.init(
            address="local",
            num_cpus=2,
            num_gpus=0,
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
        )
        yield
        ray.shutdown()


@pytest.mark.usefixtures("shared_ray")
def test_a_call_is_a_process_of_its_own() -> None:
    """As voices are made. What it raises is raised here, and its share is free again."""
    cluster = Cluster(RunConfig(workers="1"))
    cluster.open()
    with closing(cluster):
        free = cluster._num_free()
        assert cluster.call(lambda: os.getpid()) != os.getpid()
        assert cluster._num_free() == free
        with pytest.raises(UsageError, match="--workers '0': must be all or a number"):
            cluster.call(lambda: RunConfig.from_options({"workers": "0"}))


@pytest.mark.usefixtures("shared_ray")
def test_two_workers_of_which_one_is_killed_speak_what_one_process_does(bench: Workbench) -> None:
    """In one run, because each start of a worker takes seconds. Where none is killed is below."""
    bench.synth_once(ROWS, *FLAGS, out="one")
    journal = bench.folder / "many" / "timings.jsonl"
    killer = threading.Thread(target=kill_one, args=(journal,), daemon=True)
    killer.start()
    result = bench.synth(ROWS, *FLAGS, "--workers", 2, "-v", out="many")
    killer.join(PATIENCE_S)
    assert result.code == 0, result
    assert result.summary == msg.synthesized(24, 24)
    assert "worker 2: loading " in result.err
    assert "its process died; rows moved to other workers" in result.err
    one, many = bench.out("one"), bench.out("many")
    assert many.files == one.files
    times = Counter(line["id"] for line in many.lines if line["status"] == "ok")
    assert times == {row["id"]: 1 for row in ROWS}
    assert {line["worker"] for line in many.lines} == {1, 2}
    assert sum(worker["rows"] for worker in many.report["workers"]) == 24
    assert sum(worker["restarts"] for worker in many.report["workers"]) == 1
    assert many.report["versions"]["ray"] == ray.__version__
    assert ray.is_initialized(), "it was there before the run"


def kill_one(journal: Path) -> None:
    """Kill a worker of this process once both have recorded a row."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        text = journal.read_text() if journal.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # without one that is being written
        if {json.loads(line)["worker"] for line in lines} == {1, 2}:
            os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
            return
        time.sleep(0.01)


def start(bench: Workbench, *flags: object) -> subprocess.Popen[str]:
    """A run of two workers in a process group of its own."""
    manifest = bench.write(as_jsonl(ROWS))
    args = bench.command(manifest, *SLOWLY, "--workers", 2, *flags)
    return bench.start(["--", *args][1:], f"import os; os.setpgid(0, 0)\n{TWO_CORES}")


class TestOwn:
    """A Ray of the run's own."""

    @pytest.mark.long
    def test_a_signal_to_all_of_them_ends_the_run_in_order(self, bench: Workbench) -> None:
        """As Ctrl-C on a terminal, which reaches Ray's processes too."""
        process = start(bench)
        bench.wait_for_rows(2, process)
        below = processes_below(process.pid)
        assert len(workers_of(process.pid)) == 2
        os.killpg(process.pid, signal.SIGINT)
        result = finish(process).expect(
            130, "stopping: finishing what is decoded (again to stop at once)"
        )
        assert "Traceback" not in result.err
        assert "\n" + msg.NEXT_REST.format(command="tts-cli synth ") in result.out
        assert "ray" not in result.out.replace("array", "").lower().split("tts-cli synth")[0]
        assert are_gone(list(below))
        files = bench.out().files
        recorded = {name for name, status in bench.out().status().items() if status == "ok"}
        assert 2 <= len(recorded) < len(ROWS)
        names = {f"{row}{end}" for row in recorded for end in (".wav", ".codes.safetensors")}
        assert set(files) == names
        report = bench.out().report
        assert (report["exit_code"], report["totals"]["ok"]) == (130, len(recorded))
        assert [(one["restarts"], one["given_up"]) for one in report["workers"]] == [(0, None)] * 2

    @pytest.mark.long
    def test_a_killed_driver_leaves_no_process(self, bench: Workbench) -> None:
        process = start(bench)
        bench.wait_for_rows(2, process)
        below = processes_below(process.pid)
        process.kill()
        finish(process)
        assert are_gone(without_agents(below)), below

    @pytest.mark.long
    def test_a_second_signal_stops_at_once_and_leaves_no_process(self, bench: Workbench) -> None:
        process = start(bench, "--max-seconds", 20)
        bench.wait_for_rows(1, process)
        below = processes_below(process.pid)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        result = finish(process)
        assert result.code in (130, 143), result
        assert are_gone(without_agents(below)), below

    @pytest.mark.long
    def test_a_worker_that_stands_still_is_killed(self, bench: Workbench) -> None:
        """Also one that is deaf: SIGSTOP, as a process that waits for a dead device for ever."""
        impatient = "from tts_cli.workers import dispatch; dispatch.STILL_S = 8.0\n"
        args = bench.command(bench.write(as_jsonl(ROWS)), *SLOWLY, "--workers", 2)
        process = bench.start(["--", *args][1:], TWO_CORES + impatient)
        bench.wait_for_rows(2, process)
        victim = workers_of(process.pid)[0]
        os.kill(victim, signal.SIGSTOP)
        finish(process).expect(0, "it has not responded for 8 s; rows moved to other workers:")
        assert set(bench.out().status()) == {row["id"] for row in ROWS}
        assert are_gone([victim])
