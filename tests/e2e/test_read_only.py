"""Folders that nobody can write to: an archive, a snapshot, somebody else's. What only reads one
needs no lock there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from exports import digest_of
from spoken_folders import record, tone, with_file, write_folder
from workbench import Workbench

from tts_cli.store.lock import LOCK_NAME


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Path]:
    """A folder of a dead run, read only: by its modes, or for root by a mount."""
    out = tmp_path / "the archive"
    rows = [record(name, text=name, **with_file(tone(0.1))) for name in ("a", "b/c", "d")]
    rows[2]["level_dbfs"] = -3.0
    write_folder(out, rows, audio={line["path"]: tone(0.1) for line in rows})
    with open(out / "timings.jsonl", "a") as file:
        file.write('{"id": "torn", "sta')
    owner = {"pid": 999_999_999, "host": os.uname().nodename, "started": "long ago"}
    (out / LOCK_NAME).write_text(json.dumps(owner))
    (out / ".a.wav.7.tts-cli.part").write_bytes(b"half")
    if os.geteuid():
        folders = [out, *(path for path in out.rglob("*") if path.is_dir())]
        for path in folders:
            path.chmod(0o555)
        yield out
        for path in folders:
            path.chmod(0o755)
        return
    bind = ["mount", "--bind", str(out), str(out)]
    if subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(out)], check=True)
        yield out
    finally:
        subprocess.run(["umount", str(out)], check=True)


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Workbench:
    return Workbench(tmp_path, tmp_path, capsys)


def test_merge(bench: Workbench, archive: Path) -> None:
    before = digest_of(archive)
    result = bench.run("merge", archive, "--out", bench.folder / "all", "--json").expect(0)
    assert (result.json["ok"], result.json["rows_added"]) == (3, 3)
    found = digest_of(bench.folder / "all")
    assert {name: found[name] for name in ("a.wav", "b/c.wav", "d.wav")} == {
        name: before[name] for name in ("a.wav", "b/c.wav", "d.wav")
    }
    assert digest_of(archive) == before
    bench.run("merge", bench.folder / "all", "--out", archive).expect(3)


def test_check(bench: Workbench, archive: Path) -> None:
    result = bench.run("check", archive)
    assert f"{archive} is read-only: the results are shown, but not stored" in result.err
    assert "3 rows checked" in result.out
    assert "not stored: the folder is read-only" in result.out
    assert bench.run("check", archive, "--json").json["checks"] is None
    bench.run("check", archive, "--pick", "best").expect(2, "--pick: ")


def test_report(bench: Workbench, archive: Path) -> None:
    result = bench.run("report", archive).expect(3)
    assert result.err.endswith("is read-only; choose a file for the page with --out PAGE\n")
    page = bench.folder / "pages" / "archive.html"
    page.parent.mkdir()
    bench.run("report", archive, "--out", page).expect(0, out=str(page))
    urls = re.findall(r'"url":"([^"]*)"', page.read_text())
    assert len(urls) == 3
    assert urls[0] == "../the%20archive/a.wav"
    assert all((page.parent / unquote(url)).is_file() for url in urls)


@pytest.mark.parametrize("to", ["nemo", "webdataset"])
def test_export(bench: Workbench, archive: Path, to: str) -> None:
    result = bench.run("export", archive, "--to", to, "--out", bench.folder / "set", "--json")
    assert (result.code, result.json["rows"]) == (0, 3), result.err


def test_encode(bench: Workbench, archive: Path) -> None:
    flags = ["--format", "flac", "--out", bench.folder / "flac", "--json"]
    result = bench.run("encode", archive, *flags)
    assert (result.code, result.json["made"]) == (0, 3), result.err
