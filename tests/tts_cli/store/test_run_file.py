"""run.json and the closing lines."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tts_cli.app.run_report import report_of
from tts_cli.config import RunConfig
from tts_cli.plan.plan import Plan
from tts_cli.store.run_file import FolderTotals, with_folder, write_report
from tts_cli.versions import versions

TOTALS = {"rows": 10, "ok": 6, "failed": 1, "skipped": 3}


def test_run_json(tmp_path: Path, make_source: Any, make_info: Any) -> None:
    report = report_of(
        Plan(make_source("Hm.\n", "m.txt"), RunConfig(seed=3), make_info(identity="abc")),
        None,
        TOTALS,
        run_id="r",
        started=datetime(2026, 1, 1, 12, 30, 5, 250_000, timezone.utc),
        exit_code=1,
    )
    folder = FolderTotals(ok=9, failed=1, audio_s=900.00004, runs=2, wall_s=4.5)
    (tmp_path / "out").mkdir()
    path = write_report(tmp_path / "out", with_folder(report, folder))
    read = json.loads(path.read_text())
    assert path.name == "run.json"
    assert read["settings"]["seed"] == 3
    assert (read["model"]["identity"], read["exit_code"]) == ("abc", 1)
    assert read["totals"] == TOTALS
    assert read["versions"]["numpy"]
    assert (read["run_id"], read["started"]) == ("r", "2026-01-01T12:30:05.250Z")
    assert read["started"] < read["ended"]
    sums = {"ok": 9, "failed": 1, "audio_s": 900.0, "runs": 2, "wall_s": 4.5}
    assert read["folder"] == sums
    assert [path.name for path in path.parent.iterdir()] == ["run.json"]


def test_absent_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tts_cli.versions.PACKAGES", ("numpy", "no-such-package-here"))
    found = versions()
    assert found["numpy"]
    assert found["no-such-package-here"] is None
