"""`synth --workers` with workers in threads in place of Ray's processes: what becomes of rows when
workers die, fail, or do not see the folder. `test_workers.py` runs them on Ray.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import pytest
from fake_cluster import Actor, FakeCluster, use_fake_cluster
from hostile_audio import encoded, tone
from workbench import MakeCheckpoint, Store, Workbench

from tts_cli.cli import messages as msg
from tts_cli.workers import worker

ROWS = [{"id": f"part{n % 3}/{n:02d}", "text": "Hello there. " * (1 + n % 4)} for n in range(16)]
FLAGS = ("--max-seconds", 0.1, "--accept-truncated", "--save-codes", "--max-batch", 2)
# What a line says of when, how fast and by whom, which no two runs share.
OF_A_RUN = {
    *("run_id", "started", "worker", "bucket", "rtf", "queue_ms", "reference_ms", "prefill_ms"),
    *("decode_ms", "vocoder_ms", "write_ms", "latency_ms"),
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[FakeCluster]:
    """Workers are threads."""
    return use_fake_cluster(monkeypatch)


@pytest.fixture
def one(bench: Workbench) -> Store:
    """What one process makes of ROWS."""
    bench.synth_once(ROWS, *FLAGS, out="one")
    return bench.out("one")


def lines_of(folder: Store) -> dict[tuple[str, int | None], dict[str, Any]]:
    """The last line of each take, without what no two runs share: takes end in any order."""
    return {
        (line["id"], line.get("take")): {
            name: value for name, value in line.items() if name not in OF_A_RUN
        }
        for line in folder.lines
    }


def require_same(many: Store, one: Store) -> None:
    """Both folders hold the same, and each row was recorded ok once."""
    assert many.files == one.files
    assert lines_of(many) == lines_of(one)
    times = Counter(line["id"] for line in many.lines if line["status"] == "ok")
    assert set(times.values()) == {1}


@pytest.mark.usefixtures("cluster")
class TestUndisturbed:
    def test_two_workers_speak_what_one_process_does(self, bench: Workbench, one: Store) -> None:
        result = bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(0)
        assert result.summary == msg.synthesized(16, 16)
        require_same(bench.out("many"), one)
        report = bench.out("many").report
        assert [one["number"] for one in report["workers"]] == [1, 2]
        assert sum(one["rows"] for one in report["workers"]) == 16
        spoken_by = Counter(line["worker"] for line in bench.out("many").lines)
        assert spoken_by == {one["number"]: one["rows"] for one in report["workers"]}
        assert min(spoken_by.values()) >= 4
        audio_s = sum(one["audio_s"] for one in report["workers"])
        assert audio_s == pytest.approx(report["totals"]["audio_s"], abs=1e-3)
        assert report["totals"]["load_s"] > 0
        assert all(one["steps"] > 0 for one in report["workers"])
        assert one.report["workers"] == []
        again = bench.synth(ROWS, *FLAGS, "--workers", 2, out="many")
        assert again.summary == msg.nothing_to_do(16)

    def test_long_rows_takes_formats_and_bad_rows(self, bench: Workbench) -> None:
        rows = [
            {"id": "long", "text": "The rain fell. " * 20, "max_seconds": 30},
            {"id": "silent", "text": "..."},
            {"id": "short", "text": "Hello."},
            {"id": "bad", "text": "Hello.", "voice": "nobody"},
        ]
        flags = (*FLAGS, "--split", 60, "--format", "flac", "--skip-invalid", "--subtitles", "srt")
        for out, more in (("one", ()), ("many", ("--workers", 2))):
            bench.synth(rows, *flags, *more, out=out).expect(1)
            bench.synth(rows, *flags, *more, "--takes", 2, out=out).expect(1)
        assert len(bench.out("one").records["long"]["parts"]) > 3
        assert lines_of(bench.out("many")) == lines_of(bench.out("one"))
        assert bench.out("many").files == bench.out("one").files
        assert {"long.srt", "takes/short/3.flac"} <= set(bench.out("many").files)

    def test_workers_that_do_not_see_the_folder_send_their_files(
        self, bench: Workbench, one: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worker, "sees_folder", lambda _: False)
        result = bench.synth(ROWS, *FLAGS, "--workers", 2, out="many")
        assert (
            "workers 1, 2 cannot see the output folder: their audio is sent through Ray"
            in result.err
        )
        require_same(bench.out("many"), one)


def cloning_rows(bench: Workbench) -> list[dict[str, Any]]:
    """Two recordings in three voices, and one that is none."""
    (bench.folder / "a.wav").write_bytes(encoded(tone(1.2)))
    (bench.folder / "b.wav").write_bytes(encoded(tone(1.1, hz=220)))
    icl = {"ref_audio": "a.wav", "ref_text": "What is said."}
    kinds = [icl, {"ref_audio": "a.wav"}, {"ref_audio": "b.wav"}, {"ref_audio": "none.wav"}]
    return [{"id": f"{n:02d}", "text": "Good morning.", **kinds[n % 4]} for n in range(12)]


def test_each_voice_is_encoded_once_for_all_workers(
    bench: Workbench, make_checkpoint: MakeCheckpoint, cluster: type[FakeCluster]
) -> None:
    """Also where the worker dies that was to do it."""
    encodes: list[int] = []

    def dies(actor: Actor, name: str, args: tuple[Any, ...]) -> bool:
        if name == "encode":
            encodes.append(actor.settings.number)
        return name == "encode" and len(encodes) == 1

    cluster.on_call = staticmethod(dies)
    rows, base = cloning_rows(bench), make_checkpoint("base_wide")
    for out, more in (("one", ()), ("many", ("--workers", 2))):
        bench.synth(rows, *FLAGS, *more, out=out, model=base).expect(1)
    one, many = bench.out("one"), bench.out("many")
    require_same(many, one)
    assert len(encodes) == 4, "three, and the first once more"
    totals = many.report["totals"]
    assert totals["references"] == one.report["totals"]["references"] == 3
    assert totals["reference_ms"] > 0
    spent_ms = sum(line["reference_ms"] for line in many.records.values())
    assert spent_ms == pytest.approx(totals["reference_ms"], abs=0.01)


def ids_of(args: tuple[Any, ...]) -> set[str]:
    """The rows of a call of `speak`."""
    return {order.voiced.task.id for order in args[0]}


class Killer:
    """Has a worker's process die of rows.

    Args:
        times: that it does so.
    """

    def __init__(self, row_ids: set[str], times: int) -> None:
        self.row_ids = row_ids
        self.times = times

    def __call__(self, actor: Actor, name: str, args: tuple[Any, ...]) -> bool:
        """Watch a call."""
        is_deadly = name == "speak" and bool(ids_of(args) & self.row_ids) and self.times > 0
        self.times -= is_deadly
        return is_deadly


class TestDisturbed:
    def test_a_dead_workers_rows_are_spoken_by_others(
        self, bench: Workbench, one: Store, cluster: type[FakeCluster]
    ) -> None:
        cluster.on_call = Killer({"part0/06", "part1/10", "part2/14"}, 3)
        bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(
            0, "its process died; rows moved to other workers:"
        )
        require_same(bench.out("many"), one)
        report = bench.out("many").report
        # Two that die at once are one death to the driver.
        assert 1 <= sum(one["restarts"] for one in report["workers"]) <= 3
        assert sum(one["rows"] for one in report["workers"]) == 16

    def test_no_call_outlives_the_run(
        self, bench: Workbench, cluster: type[FakeCluster], caplog: pytest.LogCaptureFixture
    ) -> None:
        """asyncio logs each pending call of a dead worker when it is garbage."""
        cluster.on_call = Killer({"part0/06", "part1/10", "part2/14"}, 3)
        bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(0)
        cluster.actors = []
        gc.collect()
        assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []

    def test_a_row_that_kills_its_workers_fails_alone(
        self, bench: Workbench, cluster: type[FakeCluster]
    ) -> None:
        cluster.on_call = Killer({"part1/10"}, 100)
        bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(1)
        records = bench.out("many").records
        assert {i for i, line in records.items() if line["status"] == "failed"} == {"part1/10"}
        error = "3 workers died while they synthesized only this row: its process died"
        assert records["part1/10"]["error"] == error
        assert not any(one["given_up"] for one in bench.out("many").report["workers"])

    def test_a_worker_that_keeps_dying_is_given_up(
        self, bench: Workbench, one: Store, cluster: type[FakeCluster]
    ) -> None:
        def dies(actor: Actor, name: str, args: tuple[Any, ...]) -> bool:
            return name == "speak" and actor.settings.number == 2

        cluster.on_call = staticmethod(dies)
        result = bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(0)
        require_same(bench.out("many"), one)
        first, second = bench.out("many").report["workers"]
        assert (first["rows"], first["given_up"]) == (16, None)
        reason = "it died 3 times in a row: its process died"
        assert (second["rows"], second["given_up"], second["restarts"]) == (0, reason, 3)
        assert f"worker 2 will not be restarted: {reason}" in result.err

    def test_with_no_worker_left_the_run_stops_early(
        self, bench: Workbench, one: Store, cluster: type[FakeCluster]
    ) -> None:
        speaks = [0]

        def dies(actor: Actor, name: str, args: tuple[Any, ...]) -> bool:
            speaks[0] += len(args[0]) if name == "speak" else 0
            return name == "speak" and speaks[0] > 12

        cluster.on_call = staticmethod(dies)
        bench.synth(ROWS, *FLAGS, "--workers", 1, out="many").expect(
            4, "no worker is left: worker 1: it died 3 times"
        )
        assert bench.out("many").report["exit_code"] == 4
        cluster.on_call = staticmethod(lambda *_: False)
        bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(0)
        require_same(bench.out("many"), one)

    def test_a_checkpoint_that_one_machine_has_otherwise(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, cluster: type[FakeCluster]
    ) -> None:
        monkeypatch.setattr(worker, "version", lambda: "0.0.1")
        bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(
            3, "has tts-cli 0.0.1, but the driver"
        )
        assert bench.out("many").files == {}

    def test_a_failing_engine_is_a_dead_worker(
        self,
        bench: Workbench,
        one: Store,
        cluster: type[FakeCluster],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from tts_cli.engine.loop import Engine

        real, failures = Engine._collect, [2]

        def collect(engine: Engine, flight: Any) -> None:
            if failures[0]:
                failures[0] -= 1
                raise RuntimeError("CUDA error: unspecified launch failure")
            real(engine, flight)

        monkeypatch.setattr(Engine, "_collect", collect)
        bench.synth(ROWS, *FLAGS, "--workers", 2, out="many").expect(
            0, "the device failed: CUDA error: unspecified launch failure"
        )
        require_same(bench.out("many"), one)
