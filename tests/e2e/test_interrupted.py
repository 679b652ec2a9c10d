"""Kills, crashes and signals in the middle of a run, and the run that finishes the rest."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest
from workbench import Workbench, finish, wait_until

from tts_cli.atomic import part_of, token_of
from tts_cli.cli import messages as msg
from tts_cli.store.lock import LOCK_NAME
from tts_cli.store.mark import MARK_NAME

ROWS = [{"id": f"part{n % 3}/{n:02d}", "text": "Hello there."} for n in range(16)]
FLAGS = ("--max-seconds", 1, "--save-codes")
SLOWLY = (*FLAGS, "--max-batch", 2)


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


@pytest.fixture
def wanted(bench: Workbench) -> dict[str, bytes]:
    """What ROWS become in one go."""
    bench.synth_once(ROWS, *FLAGS, out="reference")
    return bench.out("reference").files


def is_whole(bench: Workbench, wanted: dict[str, bytes]) -> int:
    """Check that the folder has only whole files, and those of every recorded row: under their
    names, or staged for them.

    Returns:
        How many rows are recorded.
    """
    files, records = bench.out().files, bench.out().records
    for name, data in files.items():
        if not name.endswith((".part", LOCK_NAME, MARK_NAME)):
            assert wanted[name] == data, f"{name} was downloaded, but is incomplete"
    for row_id, record in records.items():
        assert record["status"] == "ok"
        for name in (f"{row_id}.wav", f"{row_id}.codes.safetensors"):
            token = token_of(hashlib.sha256(wanted[name]).hexdigest())
            staged = os.path.relpath(part_of(name, token))
            assert wanted[name] in (files.get(name), files.get(staged)), name
    return len(records)


def resume(bench: Workbench, manifest: Path, wanted: dict[str, bytes]) -> None:
    """Run again in this process and compare with the run nobody disturbed."""
    rows = len(bench.out().records)
    result = bench.synth(manifest, *FLAGS).expect(0)
    assert result.summary == msg.synthesized(len(ROWS) - rows, len(ROWS), done=rows)
    assert bench.out().files == wanted
    assert bench.out().status() == {row["id"]: "ok" for row in ROWS}


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
class TestKilled:
    def test_kill_9_in_the_middle(self, bench: Workbench, wanted: dict[str, bytes]) -> None:
        manifest = bench.write(ROWS)
        process = bench.start(bench.command(manifest, *SLOWLY))
        bench.wait_for_rows(3, process)
        process.kill()
        finish(process).expect(-signal.SIGKILL)
        assert 3 <= is_whole(bench, wanted) < len(ROWS)
        resume(bench, manifest, wanted)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_stops_and_keeps_what_is_finished(
        self, bench: Workbench, wanted: dict[str, bytes], number: int
    ) -> None:
        manifest = bench.write(ROWS)
        process = bench.start(bench.command(manifest, *SLOWLY))
        bench.wait_for_rows(3, process)
        process.send_signal(number)
        result = finish(process).expect(
            128 + number,
            "stopping: finishing what is decoded (again to stop at once)",
            out="\n" + msg.NEXT_REST.format(command="tts-cli synth "),
        )
        assert "Traceback" not in result.err
        rows = is_whole(bench, wanted)
        assert 3 <= rows < len(ROWS)
        report = bench.out().report
        assert (report["exit_code"], report["totals"]["is_interrupted"]) == (128 + number, True)
        assert [run["exit_code"] for run in bench.out().runs] == [128 + number]
        assert (report["totals"]["ok"], report["totals"]["rows"]) == (rows, len(ROWS))
        # Stopped in an orderly way: every file belongs to a recorded row, and nothing else is left.
        assert len(bench.out().files) == 2 * rows
        resume(bench, manifest, wanted)

    def test_a_second_signal_stops_at_once(self, bench: Workbench) -> None:
        manifest = bench.write(ROWS)
        stuck = (
            "import time\nfrom pathlib import Path\nfrom tts_cli.store import files as output\n"
            f"sign = Path({str(bench.folder / 'stuck')!r})\n"
            "output.AudioWriter.make = lambda *_, **__: (sign.touch(), time.sleep(600))\n"
        )
        process = bench.start(bench.command(manifest, *SLOWLY), stuck)
        wait_until((bench.folder / "stuck").exists, process)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = ""
        while "again to stop at once" not in said:
            line = process.stderr.readline()
            assert line, f"ended too early: {said}"
            said += line
        process.send_signal(signal.SIGINT)
        finish(process).expect(128 + signal.SIGINT, "stopped at once; finished rows are kept")
        # Its lock file is still there, and no obstacle.
        assert (bench.out().path / LOCK_NAME).exists()
        bench.synth(ROWS[:1], *SLOWLY).expect(0, "took over")

    def test_a_signal_before_the_first_row(self, bench: Workbench) -> None:
        """While the weights are read nothing has to be finished."""
        patch = (
            "import os, signal\nfrom tts_cli.engine import load as session\n"
            "session.load_model = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
        )
        result = finish(bench.start(bench.command(bench.write(ROWS), *SLOWLY), patch)).expect(143)
        assert result.err.splitlines()[-1] == "Stopped by SIGTERM"
        assert not (bench.out().path / LOCK_NAME).exists()
