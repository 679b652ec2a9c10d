"""runs.jsonl: one line a run, whatever happened to the file before."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tts_cli.errors import DiskFull, SetupError
from tts_cli.store.index import RowTotals
from tts_cli.store.run_file import FolderTotals, RunLog, read_report

RUN = {"run_id": "r", "totals": {"wall_s": 1.5}}
ROWS = RowTotals(ok=3, failed=1, audio_s=7.0, has_first_lines=False)


def lines(folder: Path) -> list[str]:
    return (folder / "runs.jsonl").read_text().splitlines()


def test_a_line_a_run(tmp_path: Path) -> None:
    for _ in range(3):
        RunLog(tmp_path).append(RUN)
    assert [json.loads(line) for line in lines(tmp_path)] == [RUN] * 3
    assert RunLog(tmp_path).totals(ROWS) == FolderTotals(3, 1, 7.0, runs=3, wall_s=4.5)


def test_runs_from_before_the_file_are_not_known(tmp_path: Path) -> None:
    RunLog(tmp_path).append(RUN)
    older = RowTotals(ok=3, failed=1, audio_s=7.0, has_first_lines=True)
    assert RunLog(tmp_path).totals(older) == FolderTotals(3, 1, 7.0, runs=None, wall_s=None)


@pytest.mark.parametrize("torn", [b"{", b'{"run_id": "x", "totals"', b"\0" * 100, b"x" * (3 << 20)])
@pytest.mark.parametrize("whole", [0, 2])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes, whole: int) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(whole * (json.dumps(RUN).encode() + b"\n") + torn)
    runs = RunLog(tmp_path)
    assert runs.totals(ROWS).runs == whole
    runs.append(RUN)
    assert [json.loads(line) for line in lines(tmp_path)] == [RUN] * (whole + 1)


@pytest.mark.parametrize(
    "garbage",
    ["", "[]", "5", "{}", '{"totals": 5}', '{"totals": {"wall_s": "x"}}', "[" * 100_000],
    ids=lambda text: text[:9],
)
def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path, garbage: str) -> None:
    (tmp_path / "runs.jsonl").write_text(f"{garbage}\n{json.dumps(RUN)}\n")
    assert RunLog(tmp_path).totals(ROWS).wall_s == 1.5


def test_fields_of_another_kind_are_left_out(tmp_path: Path) -> None:
    """A stranger's run.json, and a line of his runs.jsonl: an object is one wherever it is read."""
    wrong = {"run_id": 5, "settings": "no", "model": ["m"], "totals": None, "read_as": {}}
    line = json.dumps({**wrong, "manifests": [7, "a.csv", None], "exit_code": 0, "later": [1]})
    wanted = {"manifests": ["a.csv"], "exit_code": 0, "later": [1]}
    for name in ("runs.jsonl", "run.json"):
        (tmp_path / name).write_text(line + "\n")
    assert list(RunLog(tmp_path).lines()) == [wanted] == [read_report(tmp_path)]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_only_a_plain_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "runs.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path)
    with pytest.raises(SetupError, match=r"runs\.jsonl: is not a regular file"):
        RunLog(tmp_path)


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real_write = os.write
    RunLog(tmp_path).append(RUN)

    def fail(handle: int, *data: bytes) -> int:
        if data:
            real_write(handle, bytes(data[0])[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(DiskFull, match=r"runs\.jsonl"):
        RunLog(tmp_path).append(RUN)
    monkeypatch.undo()
    assert [json.loads(line) for line in lines(tmp_path)] == [RUN]


class TestMoved:
    """A project that was renamed or copied, with its manifest and its output folder."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """The project under its present name; its run was recorded under an earlier one."""
        project, then = tmp_path / "now", tmp_path / "then"
        (project / "wavs").mkdir(parents=True)
        (project / "rows.csv").touch()
        found = {"manifests": [str(then / "rows.csv")], "working_folder": str(then)}
        RunLog(project / "wavs").append({**found, "settings": {"out": "wavs"}})
        return project

    @staticmethod
    def found(project: Path) -> tuple[str, list[str]]:
        (run,) = RunLog(project / "wavs").lines()
        return run["working_folder"], run["manifests"]

    def test_its_manifest_was_another_one(self, project: Path) -> None:
        assert self.found(project) == (str(project), [str(project / "rows.csv")])

    def test_only_the_folder_moved(self, project: Path) -> None:
        then = str(project.parent / "then")
        (project / "rows.csv").unlink()
        assert self.found(project) == (then, [f"{then}/rows.csv"])

    @pytest.mark.parametrize("name", ["", "\0", "/"])
    def test_strange_paths(self, project: Path, name: str) -> None:
        path = project / "wavs" / "runs.jsonl"
        run = json.loads(path.read_text())
        path.write_text(json.dumps({**run, "manifests": [name], "book": name}) + "\n")
        assert self.found(project)[1] == [name]
